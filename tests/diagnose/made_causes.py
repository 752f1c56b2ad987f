"""Causes of workloads and logs that a test makes."""

from __future__ import annotations

import json
from pathlib import Path

from kvtool.accounting.ledger.alignment import DonorAlignment, EarlierPrompt, Gap
from kvtool.accounting.plan import Plan
from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.engine.config import EngineConfig
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.prediction.latency import LatencyModel, find_accelerator
from kvtool.profiler.profiler import Profiler, ReportOptions
from kvtool.profiler.run.purposes import explained_run
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run.run_setup import RunSetup
from kvtool.results.finding import Finding
from kvtool.text.terminal.progress import Progress
from kvtool.text.tokens.prompt import Prompt
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.text.traced import Origin, Traced
from kvtool.workload.jobs import JobMaker
from kvtool.workload.logs.files.locations import locate
from kvtool.workload.logs.logs import LogOptions, LogSource
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Source, Turn
from kvtool.workload.yaml.yaml_source import load_yaml_workload

PLAN = Plan(EngineConfig(block_size=4), LatencyModel(find_geometry("llama-3.1-8b"), find_accelerator("h100")))
RULES = "Always be kind and brief; never promise what you cannot do."


def account(source: Source, renderer: Renderer) -> RunResult:
    return explained_run(RunSetup(PLAN, JobMaker(renderer, seed=0), Progress(None))).run(source)


def findings(source: Source, renderer: Renderer) -> list[Finding]:
    demands = ReportOptions()
    profiler = Profiler(source, renderer, PLAN, demands, progress=Progress(None), locate=locate, path="w")
    return [
        finding for finding in profiler.run().findings if finding.code != "KV204"
    ]  # where blocks end is not the point


def causes_of(source: Source, renderer: Renderer, *, group: str = "bot") -> list[SlotCause]:
    return account(source, renderer).causes.of_group(group)


def workload(tmp_path: Path, system: str, *, variables: str = "  now: {datetime: 1m}", requests: int = 4) -> Source:
    """A system message as a block, and the same question each time."""
    block = "\n".join(f"          {line}" for line in system.split("\n"))
    path = tmp_path / "w.yaml"
    path.write_text(
        f"version: 1\nvars:\n{variables}\ngroups:\n  - name: bot\n    requests: {requests}\n    messages:\n"
        f"      - role: system\n        text: |\n{block}\n      - {{role: user, text: 'What is new?'}}\n"
    )
    return load_yaml_workload(str(path))


def log_of(tmp_path: Path, contents: list[object]) -> Source:
    path = tmp_path / "log.jsonl"
    rows = [
        {"messages": [{"role": "system", "content": content}, {"role": "user", "content": "What is new?"}]}
        for content in contents
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return LogSource([str(path)], LogOptions())


def stamp(number: int) -> str:
    return f"2025-01-02T10:{number:02d}:05Z"


def prompt_of(text: str, tokenizer: Tokenizer) -> Prompt:
    return tokenizer.encode(Traced.of(text, Origin("t.md", part="prompt", text=text)), add_special_tokens=False)


def compared(
    tokenizer: Tokenizer, before: str, after: str, gaps: list[Gap], *, sessions: tuple[str, str] | None = None
) -> tuple[Turn, Prompt, DonorAlignment]:
    """Two prompts of one token for each character, aligned by hand."""
    old, new = prompt_of(before, tokenizer), prompt_of(after, tokenizer)
    first, second = sessions or (None, None)
    donor = EarlierPrompt(Turn("g", text=old.text, session=first), old, old.ids)
    return Turn("g", text=new.text, session=second), new, DonorAlignment(gaps[0].start, tuple(gaps), old.ids, donor)


def rows_to(tmp_path: Path, rows: list[dict[str, object]]) -> Source:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return LogSource([str(path)], LogOptions())
