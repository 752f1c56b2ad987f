"""What reports draw, from the workload file to the document and the terminal."""

from __future__ import annotations

from collections import Counter
from io import StringIO
from pathlib import Path

import pytest

from kvtool.config.asked_run import RunOptions
from kvtool.config.option import made
from kvtool.profiler.document import saved_report
from kvtool.profiler.opening import open_workload
from kvtool.profiler.profiler import ReportOptions
from kvtool.report.terminal.profile import ShownProfile, print_profile
from kvtool.results.report import Report
from kvtool.results.show_text import ShowText
from kvtool.results.views import Timeline
from kvtool.text.terminal.console import cell_width, make_console
from kvtool.text.terminal.progress import Progress
from kvtool.text.tokens.tokenizer import Tokenizers
from tests.files import write

SECRET = "Xyzzyplugh"
RULES = "".join(f"Rule {number}: do as rule {number} of the {SECRET} says.\n" for number in range(8))
WORKLOAD = f"""\
version: 1
vars:
  rid: {{uuid: 4}}
groups:
  - name: one
    requests: 20
    messages:
      - {{role: system, file: rules.md}}
      - {{role: user, text: "Hello {{{{ rid }}}}"}}
  - name: two
    requests: 6
    messages:
      - role: system
        text: |
          You are a {SECRET}.
          Now {{{{ rid }}}}.
      - {{role: system, file: rules.md}}
      - {{role: user, text: "Bye"}}
  - name: three
    sessions: {{count: 2, turns: 3, output_tokens: 20}}
    messages:
      - {{role: system, file: rules.md}}
      - {{role: user, text: "Hello {{{{ rid }}}}"}}
"""


@pytest.fixture
def workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Its path; the working directory holds it."""
    monkeypatch.chdir(tmp_path)
    write("rules.md", RULES)
    return write("w.yaml", WORKLOAD)


def profiled(
    path: str, tokenizer: str, *, demands: ReportOptions | None = None, **how: object
) -> tuple[Report, list[Timeline]]:
    options = made(RunOptions, inputs=[path], tokenizer=tokenizer, **how)
    opened = open_workload(options, Tokenizers(offline=True))
    profiler = opened.profiler(demands or ReportOptions(views=True), Progress(None))
    return opened.run(profiler), profiler.timelines


@pytest.mark.parametrize("how", [{}, {"concurrency": 4}, {"capacity": "100", "block_size": 8}])
def test_the_document_is_the_same_but_for_the_views(workload: str, bytes_json: str, how: dict[str, object]) -> None:
    without, with_views = (
        profiled(workload, bytes_json, demands=ReportOptions(views=views), **how)[0] for views in (False, True)
    )
    assert without.views is None
    assert with_views.views is not None
    assert without.to_json() == with_views.model_copy(update={"views": None}).to_json()


@pytest.mark.parametrize("show_text", ["none", "full"])
def test_a_fresh_report_is_what_is_read_again(workload: str, bytes_json: str, show_text: ShowText) -> None:
    """One type, field by field: what a run puts into its report without a check is what a file holds."""
    report, _ = profiled(workload, bytes_json, demands=ReportOptions(views=True, by="line", per_request=True))
    assert any(finding.rerun is not None for finding in report.findings)
    assert any(cause.unlock is not None for cause in report.causes)
    saved = saved_report(report, show_text=show_text)
    assert any(finding.snippet is not None for finding in saved.findings) == (show_text == "full")
    assert Report.model_validate_json(saved.to_json()) == saved


def test_the_views_agree_with_the_totals(workload: str, bytes_json: str) -> None:
    report, timelines = profiled(workload, bytes_json)
    views = report.views
    assert views is not None
    total, (everything, *groups) = report.totals, views.timelines
    assert views.timelines == timelines
    assert [line.group for line in groups] == [group.name for group in report.groups]
    assert sum(each.hit_tokens for each in everything.bins) == total.hit_tokens
    for line, group in zip(groups, report.groups, strict=True):
        assert sum(each.requests for each in line.bins) == group.requests
        assert sum(each.prompt_tokens for each in line.bins) == group.prompt_tokens
    assert views.prefix_tree is not None
    assert views.prefix_tree.prompt_tokens == total.prompt_tokens
    assert views.reuse is not None
    assert views.reuse.curve[-1].hit_rate == total.reachable_hit_rate == total.hit_rate
    assert [worst.group for worst in views.worst].count("one") == 4
    assert len(views.worst) == 12
    saved = saved_report(report)
    assert saved.views == views
    assert SECRET not in saved.to_json()


def test_where_shared_text_was_written(workload: str, bytes_json: str) -> None:
    """The rules are shared by two groups, from the first line of their file; what varies was written in the workload."""
    views = profiled(workload, bytes_json)[0].views
    assert views is not None
    assert views.prefix_tree is not None
    nodes = views.prefix_tree.nodes
    rules = next(node for node in nodes if node.path == "rules.md")
    assert (rules.line, rules.requests, rules.groups) == (1, 26, ["one", "three"])
    hello = next(node for node in nodes if nodes.index(rules) == node.parent and node.requests == 1)
    assert (hello.path, hello.line) == ("w.yaml", 9)
    volatile = [node for node in nodes if node.path == "w.yaml" and node.line == 16]
    assert {tuple(node.groups) for node in volatile} == {("two",)}
    two = next(worst for worst in views.worst if worst.group == "two")
    assert ("rules.md", 1, "blocked") in {(run.path, run.line, run.fate) for run in two.runs}
    assert ("w.yaml", 16, "unique") in {(run.path, run.line, run.fate) for run in two.runs}
    template = "kvtool/templates/chatml.jinja"
    assert {run.path for worst in views.worst for run in worst.runs} <= {template, "rules.md", "w.yaml"}


def test_twice_the_same(workload: str, bytes_json: str) -> None:
    first, second = (profiled(workload, bytes_json, concurrency=3)[0].views for _ in range(2))
    assert first is not None
    assert first == second


def test_an_interrupted_run_shows_what_is_done(workload: str, bytes_json: str, monkeypatch: pytest.MonkeyPatch) -> None:
    advance, done = Progress.advance, Counter[str]()

    def advance_and_interrupt(self: Progress, count: int = 1) -> None:
        done["requests"] += count
        advance(self, count)
        if done["requests"] == 9:
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "advance", advance_and_interrupt)
    report, _ = profiled(workload, bytes_json, concurrency=4)
    views = report.views
    assert report.partial
    assert views is not None
    assert sum(each.requests for each in views.timelines[0].bins) == report.totals.requests == 9
    assert len(views.worst) == 9
    fates: Counter[str] = Counter()
    for worst in views.worst:
        for run in worst.runs:
            fates[run.fate] += run.stop - run.start
    assert +fates == +Counter(report.fates)


def printed(report: Report, timelines: list[Timeline], width: int, *, encoding: str = "utf-8") -> list[str]:
    class Out(StringIO):
        @property
        def encoding(self) -> str:  # type: ignore[override]
            return encoding

    out = Out()
    console = make_console(width=width, file=out)
    print_profile(console, report, ShownProfile(timelines=timelines))
    return out.getvalue().splitlines()


def test_the_groups_gain_a_row_of_bars_where_there_is_room(workload: str, bytes_json: str) -> None:
    report, timelines = profiled(workload, bytes_json, demands=ReportOptions())
    assert report.views is None
    lines = printed(report, timelines, 120)
    at = next(number for number, line in enumerate(lines) if line.lstrip().startswith("Group"))
    column = lines[at].index("over time")
    bars = {line.split()[0]: line[column : column + 12] for line in lines[at + 1 : at + 4]}
    assert bars["one"] == "▄" + 11 * "▇"  # the first of its two requests found nothing
    assert bars["two"].strip() == ""  # little stands before what varies: it never changes, which the rate says
    plain = printed(report, timelines, 120, encoding="ascii")
    assert plain[at][column:].startswith("over time")
    assert set(plain[at + 1][column : column + 12]) <= set(".:-=+*%# ")
    for width in (60, 80):
        narrow = printed(report, timelines, width)
        assert "over time" not in "\n".join(narrow)
        assert max(cell_width(line) for line in narrow) <= width
