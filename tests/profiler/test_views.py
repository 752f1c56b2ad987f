"""What reports draw, from the workload file to the document and the terminal."""

from __future__ import annotations

import json
from collections import Counter
from io import StringIO
from pathlib import Path

import pytest

from kvtool.config.option import made
from kvtool.config.run import RunOptions
from kvtool.profiler.document import document, report_of
from kvtool.profiler.opening import open_workload
from kvtool.profiler.profile import Demands, Profile
from kvtool.report.terminal.profile import print_profile
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


def profiled(path: str, tokenizer: str, *, views: bool = True, **how: object) -> Profile:
    options = made(RunOptions, inputs=[path], tokenizer=tokenizer, **how)
    opened = open_workload(options, Tokenizers(offline=True))
    profile = opened.profiler(Demands(views=views), Progress(None)).run()
    profile.config = opened.setup.describe(opened.name, opened.renderer)
    return profile


@pytest.mark.parametrize("how", [{}, {"concurrency": 4}, {"capacity": "100", "block_size": 8}])
def test_the_document_is_the_same_but_for_the_views(workload: str, bytes_json: str, how: dict[str, object]) -> None:
    without, with_views = (document(profiled(workload, bytes_json, views=views, **how)) for views in (False, True))
    assert without.pop("views") is None
    assert with_views.pop("views") is not None
    assert json.dumps(without, sort_keys=True) == json.dumps(with_views, sort_keys=True)


def test_the_views_agree_with_the_totals(workload: str, bytes_json: str) -> None:
    profile = profiled(workload, bytes_json)
    views = profile.views
    assert views is not None
    total, (everything, *groups) = profile.total, views.timelines
    assert views.timelines == profile.timelines
    assert [line.group for line in groups] == [group.name for group in profile.groups]
    assert sum(each.hit_tokens for each in everything.bins) == total.hit_tokens
    for line, group in zip(groups, profile.groups, strict=True):
        assert sum(each.requests for each in line.bins) == group.requests
        assert sum(each.prompt_tokens for each in line.bins) == group.prompt_tokens
    assert views.prefix_tree is not None
    assert views.prefix_tree.prompt_tokens == total.prompt_tokens
    assert views.reuse is not None
    assert views.reuse.curve[-1].hit_rate == total.reachable_rate == total.hit_rate
    assert [worst.group for worst in views.worst].count("one") == 4
    assert len(views.worst) == 12
    report = report_of(profile)
    assert report.views == views
    assert SECRET not in report_of(profile).to_json()


def test_where_shared_text_was_written(workload: str, bytes_json: str) -> None:
    """The rules are shared by two groups, from the first line of their file; what varies was written in the workload."""
    views = profiled(workload, bytes_json).views
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
    first, second = (profiled(workload, bytes_json, concurrency=3).views for _ in range(2))
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
    profile = profiled(workload, bytes_json, concurrency=4)
    views = profile.views
    assert profile.partial
    assert views is not None
    assert sum(each.requests for each in views.timelines[0].bins) == profile.total.requests == 9
    assert len(views.worst) == 9
    fates: Counter[str] = Counter()
    for worst in views.worst:
        for run in worst.runs:
            fates[run.fate] += run.stop - run.start
    assert +fates == +Counter(profile.fates)


def printed(profile: Profile, width: int, *, encoding: str = "utf-8") -> list[str]:
    class Out(StringIO):
        @property
        def encoding(self) -> str:  # type: ignore[override]
            return encoding

    out = Out()
    console = make_console(width=width, file=out)
    print_profile(console, profile)
    return out.getvalue().splitlines()


def test_the_groups_gain_a_row_of_bars_where_there_is_room(workload: str, bytes_json: str) -> None:
    profile = profiled(workload, bytes_json, views=False)
    assert profile.views is None
    lines = printed(profile, 120)
    at = next(number for number, line in enumerate(lines) if line.lstrip().startswith("Group"))
    column = lines[at].index("over time")
    bars = {line.split()[0]: line[column : column + 12] for line in lines[at + 1 : at + 4]}
    assert bars["one"] == "▄" + 11 * "▇"  # the first of its two requests found nothing
    assert bars["two"].rstrip() == "▁" * 6  # little stands before what varies
    plain = printed(profile, 120, encoding="ascii")
    assert plain[at][column:].startswith("over time")
    assert set(plain[at + 1][column : column + 12]) <= set(".:-=+*%# ")
    for width in (60, 80):
        narrow = printed(profile, width)
        assert "over time" not in "\n".join(narrow)
        assert max(cell_width(line) for line in narrow) <= width
