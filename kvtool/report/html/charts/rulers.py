"""Block rulers of the prompts that lost most: what became of each stretch of them."""

from __future__ import annotations

from markupsafe import Markup

from kvtool.report.html.charts.drawing import axis, drawing, line, rectangle
from kvtool.report.html.charts.scales import round_step, round_ticks
from kvtool.report.html.fates import fate_class, fate_fill, legend
from kvtool.report.html.page_parts import Drawing, DrawnSection
from kvtool.report.views.facts import log_name, request_name
from kvtool.report.views.fates import fate_name
from kvtool.report.views.section import Cell, Section, Table, TableColumn
from kvtool.results.report import Report
from kvtool.results.views import Run, WorstPrompt
from kvtool.text.terminal.numbers import percent, plural

_TITLE = "Prompts with the largest losses"
_MOST_PROMPTS = 8
_BOUND_TO = ("unique", "first_use", "partial_block", "last_token")
"""Fates that no edit avoids."""
_MOST_ROWS = 60
_MOST_TICKS = 64
_BAR = 22


def rulers_section(report: Report, prefix: str) -> Section | None:
    """Return prompts on one scale, so that their lengths can be compared; one for those that are alike.

    Only those in which there is a hit or a loss that something could be done about; None where there is no such prompt, or only
    single bars.
    """
    identity = f"{prefix}-worst"
    alike: dict[object, list[WorstPrompt]] = {}
    for prompt in report.views.worst if report.views is not None else ():
        alike.setdefault((prompt.group, *((run.fate, run.path) for run in prompt.runs)), []).append(prompt)
    shown = [prompts for prompts in alike.values() if _tells(prompts[0])][:_MOST_PROMPTS]
    if not shown:
        return None
    worst = [prompts[0] for prompts in shown]
    log = log_name(report)
    block = max(report.kv_cache.block_size, 1)
    longest = max(max(prompt.prompt_tokens for prompt in worst), 1)
    fates = {run.fate: "" for prompt in worst for run in prompt.runs}
    step = round_step(-(-longest // block), _MOST_TICKS)
    return DrawnSection(
        identity,
        _TITLE,
        (f"Each prompt from its first token to its last. A mark below it: one per {_blocks(step, block)}.",),
        drawings=[
            _drawing(f"{identity}-{number}", prompts, longest, block, step, log, labels=number == len(shown) - 1)
            for number, prompts in enumerate(shown)
        ],
        keys=legend(fates),
        tables=[_table(worst, block, log)],
    )


def _tells(prompt: WorstPrompt) -> bool:
    return len(prompt.runs) > 1 and any(run.fate not in _BOUND_TO for run in prompt.runs)


def _blocks(step: int, block: int) -> str:
    return f"block of {plural(block, 'token')}" if step == 1 else f"{step} blocks of {plural(block, 'token')}"


def _drawing(
    identity: str, alike: list[WorstPrompt], longest: int, block: int, step: int, log: str, *, labels: bool
) -> Drawing:
    prompt = alike[0]
    shapes: list[Markup] = []
    for run in prompt.runs:
        tip = f"{fate_name(run.fate)}: tokens {run.start:,} to {run.stop:,}, {_where(run)}"
        width = max(run.stop - run.start, 0) / longest
        shapes.append(
            rectangle(
                run.start / longest, 1, width, _BAR, f"least {fate_class(run.fate)}", tip=tip, fill=fate_fill(run.fate)
            )
        )
    last = -(-prompt.prompt_tokens // block)
    for number in range(0, last + 1, step):
        at = min(number * block, prompt.prompt_tokens) / longest
        shapes.append(line(at, _BAR + 3, at, _BAR + (10 if not number % (5 * step) else 7), "ruler"))
    if labels:
        shapes.append(axis(_BAR + 12, [(at / longest, f"{at:,}") for at in round_ticks(longest, 4)], top=_BAR + 8))
    told = "; ".join(f"tokens {run.start:,} to {run.stop:,} {fate_name(run.fate)}" for run in prompt.runs[:_MOST_ROWS])
    rate = prompt.hit_tokens / prompt.prompt_tokens if prompt.prompt_tokens else 0.0
    figures = [percent(rate), f"{prompt.hit_tokens:,} of {plural(prompt.prompt_tokens, 'token')} hit"]
    if not prompt.id.startswith(f"{prompt.group}/"):
        figures.append(prompt.group)
    if prompt.turn > 1:
        figures.append(f"turn {prompt.turn:,}")
    if len(alike) > 1:
        figures.append(f"{len(alike) - 1:,} similar")
    svg = drawing(
        identity,
        f"Token breakdown of {request_name(prompt.id, log)}",
        f"{told}.",
        _BAR + (30 if labels else 11),
        shapes,
    )
    return Drawing(svg, request_name(prompt.id, log), tuple(figures))


def _where(run: Run) -> str:
    if not run.path:
        return "unknown place"
    return f"{run.path}:{run.line}" if run.line else run.path


def _table(worst: list[WorstPrompt], block: int, log: str) -> Table:
    cells = [(prompt, run) for prompt in worst for run in prompt.runs]
    rows: list[tuple[Cell, ...]] = [
        (
            request_name(prompt.id, log),
            f"{run.start:,}",
            f"{run.stop:,}",
            f"{run.stop - run.start:,}",
            f"{run.start // block:,}",
            fate_name(run.fate),
            _where(run),
        )
        for prompt, run in cells[:_MOST_ROWS]
    ]
    columns = (
        TableColumn("Prompt"),
        TableColumn("From token", "number"),
        TableColumn("To token", "number"),
        TableColumn("Tokens", "number"),
        TableColumn("First block", "number"),
        TableColumn("Breakdown"),
        TableColumn("Start", "code"),
    )
    return Table("Prompt parts", columns, rows, more=max(len(cells) - _MOST_ROWS, 0), folded=True)
