"""`kvtool compare`: what moved between two saved results, and what makes them incomparable."""

from __future__ import annotations

import json
import re
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run
from kvtool.gate.compare_results import compare_results
from kvtool.report.terminal.comparison import print_comparison
from kvtool.report.views.comparison import points
from kvtool.results.check import CheckResult
from kvtool.results.comparison import Comparison
from kvtool.results.files import load_result
from kvtool.results.report import Report
from kvtool.results.wrap import check_of, lint_check
from kvtool.text.terminal.console import cell_width, make_console
from kvtool.text.terminal.numbers import percent
from tests.files import write
from tests.golden import GoldenFiles

RULES = "\n".join(f"Rule {number} of the handbook: answer in one sentence, and be kind." for number in range(5))
OLD = """\
version: 1
vars:
  now: {datetime: 1m}
  rid: {uuid: 4}
groups:
  - name: support
    tenant: acme
    requests: 8
    segments:
      - {id: clock, text: "Now: {{ now }}\\n"}
      - {id: rules, file: rules.md}
  - name: "sales [/INST]"
    tenant: globex
    requests: 6
    segments:
      - {id: rules, file: rules.md}
      - {id: request, text: "\\nRequest {{ rid }}"}
"""
NEW = """\
version: 1
vars:
  now: {datetime: 1m}
  rid: {uuid: 4}
groups:
  - name: "sales [/INST]"
    tenant: globex
    requests: 9
    segments:
      - {id: request, text: "Request {{ rid }}\\n"}
      - {id: rules, file: rules.md}

  - name: support
    tenant: acme
    requests: 8
    segments:
      - {id: rules, file: rules.md}
      - {id: clock, text: "\\nNow: {{ now }}"}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, bytes_json: str) -> Path:
    """A folder with `old.json` and `new.json`, the profiles of `w.yaml` before and after an edit, which is there still."""
    folder = tmp_path_factory.mktemp("compare")
    (folder / "tokenizer.json").symlink_to(bytes_json)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write("rules.md", RULES)
        for name, workload in (("old", OLD), ("new", NEW)):
            write("w.yaml", workload)
            flags = ["--dry-run", "-q", "-t", "tokenizer.json", "-o", f"{name}.json", "-o", "md=report"]
            assert run(["profile", "w.yaml", *flags]) == 0
    return folder


@pytest.fixture
def in_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def report(folder: Path) -> Report:
    """The old one's."""
    return load_result(str(folder / "old.json")).reports[0]


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    capsys.readouterr()
    assert run(["compare", *arguments]) == code
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


def compared(old: Report | CheckResult, new: Report | CheckResult) -> Comparison:
    one, other = (check_of(each) if isinstance(each, Report) else each for each in (old, new))
    return compare_results(one, other, old_name="old.json", new_name="new.json")


def changed(report: Report, **config: Any) -> Report:
    """The same with another configuration."""
    return report.model_copy(update={"config": report.config | config})


def named(report: Report, name: str, hit: int | None = None) -> Report:
    """The same under another name, and with so many tokens hit."""
    totals = report.totals if hit is None else report.totals.model_copy(update={"hit_tokens": hit})
    return changed(report, input=name).model_copy(update={"totals": totals})


@pytest.mark.parametrize("width", [60, 80, 120])
def test_what_moved_in_the_terminal(
    width: int, in_it: Path, golden: GoldenFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(capsys, "old.json", "new.json", "--width", str(width))
    assert max(cell_width(line) for line in text.splitlines()) <= width
    golden(f"compare/terminal-{width}.txt", text)


def test_what_moved_as_markdown(in_it: Path, golden: GoldenFiles, capsys: pytest.CaptureFixture[str]) -> None:
    golden("compare/comment.md", shown(capsys, "old.json", "new.json", "-o", "md"))


def test_one_record_a_line(in_it: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "old.json", "new.json", "--plain").splitlines()
    assert any(
        re.match(r"Group support: .*hit rate old [\d.]+%; hit rate new [\d.]+%; points \+", line) for line in lines
    )


def test_what_moved_for_a_program(in_it: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "old.json", "new.json", "--json")
    assert text == shown(capsys, "old.json", "new.json", "-o", "json")
    document = json.loads(text)
    assert document["schema"] == "kvtool.compare/1"
    assert Comparison.model_validate(document).model_dump(mode="json", by_alias=True) == document
    [workload] = document["workloads"]
    old, new = (json.loads(Path(name).read_text()) for name in ("old.json", "new.json"))
    assert workload["total"]["hit"]["old"] == pytest.approx(old["totals"]["hit_rate"])
    assert workload["total"]["hit"]["new"] == pytest.approx(new["totals"]["hit_rate"])
    assert sum(move["new_tokens"] for move in workload["total"]["fates"].values()) == new["totals"]["prompt_tokens"]
    groups = {group["name"]: group for group in workload["groups"]}
    assert list(groups) == ["sales [/INST]", "support"]
    assert groups["support"]["hit"]["new"] > groups["support"]["hit"]["old"]
    assert groups["sales [/INST]"]["hit"]["new"] < groups["sales [/INST]"]["hit"]["old"]
    causes = {(cause["group"], cause["variable"]): cause for cause in workload["causes"]}
    assert causes["support", "now"]["change"] == "gone"
    assert causes["sales [/INST]", "rid"]["change"] == "new"
    assert causes["sales [/INST]", "rid"]["line"] == 10


def test_the_line_of_a_new_cause_is_shown(in_it: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "old.json", "new.json")
    assert '   10 |       - {id: request, text: "Request {{ rid }}\\n"}' in text
    assert "Request {{" not in shown(capsys, "old.json", "new.json", "--show-text", "none")
    assert "Request {{" not in shown(capsys, "old.json", "new.json", "-o", "text")


def test_a_cause_that_only_moved_is_the_same(report: Report) -> None:
    moved = [cause.model_copy(update={"line": cause.line + 7}) for cause in report.causes]
    comparison = compared(report, report.model_copy(update={"causes": moved}))
    causes = comparison.workloads[0].causes
    assert causes
    assert {cause.change for cause in causes} == {"same"}
    assert all(cause.line == cause.old_line + 7 for cause in causes if cause.path == "w.yaml" and cause.variable)


def test_the_variable_names_a_cause_wherever_it_is_written(report: Report) -> None:
    renamed = [cause.model_copy(update={"part": f"new {cause.part}"}) for cause in report.causes]
    causes = compared(report, report.model_copy(update={"causes": renamed, "findings": []})).workloads[0].causes
    assert {cause.change for cause in causes if cause.variable is not None} == {"same"}


def test_a_result_and_itself(report: Report) -> None:
    comparison = compared(report, report)
    (workload,) = comparison.workloads
    assert (comparison.outcome, comparison.comparable, workload.config) == ("same", True, [])
    assert all(group.hit.difference == 0 for group in (workload.total, *workload.groups))
    assert {cause.change for cause in workload.causes} == {"same"}


def test_the_other_way_round_everything_is_the_other_way_round(report: Report, folder: Path) -> None:
    newer = load_result(str(folder / "new.json")).reports[0]
    (one,), (other,) = compared(report, newer).workloads, compared(newer, report).workloads
    assert (one.outcome, other.outcome) in (("rose", "fell"), ("fell", "rose"))
    back = {group.name: group for group in (other.total, *other.groups)}
    for group in (one.total, *one.groups):
        again = back[group.name]
        assert group.hit.difference == -again.hit.difference
        for fate, move in group.fates.items():
            assert (move.old_tokens, move.new_tokens) == (again.fates[fate].new_tokens, again.fates[fate].old_tokens)
        moved = sum(move.new_tokens - move.old_tokens for move in group.fates.values())
        assert moved == group.new_prompt_tokens - group.old_prompt_tokens
    turned = {"new": "gone", "gone": "new", "more": "less", "less": "more", "same": "same"}
    assert sorted((move.code, move.change, move.old_tokens, move.new_tokens) for move in one.causes) == sorted(
        (move.code, turned[move.change], move.new_tokens, move.old_tokens) for move in other.causes
    )


def test_a_cause_that_costs_more_or_less(report: Report) -> None:
    first = next(cause for cause in report.causes if cause.blame_tokens > 100)
    less = first.model_copy(update={"blame_tokens": first.blame_tokens // 2})
    others = [cause for cause in report.causes if cause is not first]
    changes = {
        direction: compared(old, new).workloads[0].causes[0]
        for direction, old, new in (
            ("less", report, report.model_copy(update={"causes": [less, *others]})),
            ("more", report.model_copy(update={"causes": [less, *others]}), report),
        )
    }
    for direction, move in changes.items():
        assert (move.change, move.group, move.code) == (direction, first.group, first.code)
        assert {move.old_tokens, move.new_tokens} == {first.blame_tokens, first.blame_tokens // 2}


def test_two_causes_of_one_kind_are_told_apart_by_their_order(report: Report) -> None:
    cause = next(cause for cause in report.causes if cause.blame_tokens > 100)
    pair = [cause.model_copy(update={"line": line, "blame_tokens": tokens}) for line, tokens in ((3, 100), (9, 200))]
    later = [each.model_copy(update={"line": each.line + 1}) for each in reversed(pair)]
    for before in (pair, pair[::-1]):
        moves = (
            compared(
                report.model_copy(update={"causes": before, "findings": []}),
                report.model_copy(update={"causes": later, "findings": []}),
            )
            .workloads[0]
            .causes
        )
        assert {(move.old_line, move.line, move.change) for move in moves} == {(3, 4, "same"), (9, 10, "same")}


@pytest.mark.parametrize(
    ("config", "effect", "told"),
    [
        ({"block_size": 32}, "rates", "block size 16 -> 32"),
        ({"capacity_blocks": 512}, "rates", "capacity (blocks) none -> 512"),
        ({"seed": 7}, "rates", "seed 0 -> 7"),
        ({"tokenizer": "x\x1b", "tokenizer_fingerprint": "ff"}, "rates", "-> x\\x1b (ff)"),
        ({"enable_prefix_caching": False}, "rates", "enable prefix caching on -> off"),
        ({"accelerator": "a100"}, "times", "accelerator h100 -> a100"),
        ({"version": "9.9"}, "none", ""),
        ({"tokenizer": "elsewhere/tokenizer.json"}, "none", ""),
    ],
)
def test_what_makes_two_results_incomparable_is_told_first(
    config: dict[str, Any],
    effect: str,
    told: str,
    report: Report,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = changed(report, **config)
    [workload] = compared(report, other).workloads
    assert (workload.comparable, workload.times_comparable) == (effect != "rates", effect == "none")
    old, new = (
        write(str(tmp_path / name), each.model_dump_json(by_alias=True)) for name, each in (("o", report), ("n", other))
    )
    lines = shown(capsys, old, new, "--width", "200").splitlines()
    warned = [line for line in lines if "NOT COMPARABLE" in line or "not comparable" in line]
    assert len(warned) == {"rates": 2, "times": 1, "none": 0}[effect]
    if told:
        assert told in warned[0]
        assert lines.index(warned[0]) < min(at for at, line in enumerate(lines) if "Hit rate" in line)


def test_a_partial_result_is_told(report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    partial = report.model_copy(update={"partial": True})
    old, new = (
        write(str(tmp_path / name), each.model_dump_json(by_alias=True))
        for name, each in (("o", partial), ("n", report))
    )
    assert "PARTIAL: the old run was interrupted" in shown(capsys, old, new)


def test_the_exit_code_says_whether_a_hit_rate_fell(in_it: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rates = [load_result(name).reports[0].totals.hit_rate for name in ("old.json", "new.json")]
    worse, better = ("new.json", "old.json") if rates[1] < rates[0] else ("old.json", "new.json")
    assert "Hit rate rose: " in shown(capsys, worse, better, "--exit-code")
    assert "Hit rate fell: " in shown(capsys, better, worse, "--exit-code", code=1)
    assert "Hit rate fell: " in shown(capsys, better, worse)
    assert "Hit rate is unchanged: " in shown(capsys, worse, worse, "--exit-code")


def test_one_token_in_many_is_a_fall(report: Report) -> None:
    totals = {"prompt_tokens": 10**15, "hit_tokens": 10**15 - 1}
    huge = report.model_copy(update={"totals": report.totals.model_copy(update=totals)})
    assert compared(named(huge, "w", 10**15), huge).outcome == "fell"
    assert compared(huge, named(huge, "w", 10**15)).outcome == "rose"
    assert compared(huge, huge).outcome == "same"


def test_several_workloads_go_together_by_name(report: Report) -> None:
    def result(*reports: Report) -> CheckResult:
        return check_of(report).model_copy(update={"command": "check", "reports": list(reports)})

    old = result(named(report, "x/../a.yaml", 10), named(report, "b.yaml", 10), named(report, "gone.yaml"))
    new = result(named(report, "new.yaml"), named(report, "./b.yaml", 11), named(report, "a.yaml", 9))
    comparison = compared(old, new)
    assert [(each.name, each.outcome) for each in comparison.workloads] == [("./b.yaml", "rose"), ("a.yaml", "fell")]
    assert (comparison.only_old, comparison.only_new) == (["gone.yaml"], ["new.yaml"])
    assert comparison.outcome == "fell"


def test_a_workload_that_did_not_move_is_one_line(report: Report) -> None:
    def result(other: Report) -> CheckResult:
        return check_of(report).model_copy(update={"command": "check", "reports": [named(report, "a.yaml"), other]})

    file = StringIO()
    comparison = compared(result(named(report, "b.yaml", 10)), result(named(report, "b.yaml", 9)))
    print_comparison(make_console(file=file, width=80), comparison, show_text="none")
    before, moved = file.getvalue().split("b.yaml\n")[:2]
    rate = percent(report.totals.hit_rate)
    assert before.split("a.yaml\n")[1].strip() == f"Unchanged: hit rate {rate}, {report.totals.requests} requests"
    assert "Token breakdown" in moved


def test_a_group_that_only_one_has(report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = report.groups
    [workload] = compared(
        report.model_copy(update={"groups": [first]}), report.model_copy(update={"groups": [second]})
    ).workloads
    found = {group.name: (bool(group.old_requests), bool(group.new_requests)) for group in workload.groups}
    assert found == {first.name: (True, False), second.name: (False, True)}


def test_lint_results_are_compared_by_their_findings(report: Report) -> None:
    one, *rest = report.findings
    static = one.model_copy(update={"group": "", "path": "t.j2", "tokens_lost": 5})
    comparison = compared(lint_check([one, *rest]), lint_check([static, *rest]))
    assert comparison.workloads == []
    assert comparison.outcome == "same"
    changes = {(move.change, move.path, move.group) for move in comparison.findings if move.change != "same"}
    assert changes == {("gone", one.path, one.group), ("new", "t.j2", "")}


def test_one_of_the_two_may_be_standard_input(
    in_it: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (("-", "new.json"), ("new.json", "-")):
        monkeypatch.setattr(sys, "stdin", StringIO(Path("old.json").read_text()))
        assert "hit rate" in shown(capsys, *arguments)
    assert run(["compare", "-", "-"]) == 2
    assert "only one input can be standard input" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["old.json", "none.json"], "none.json: no such file"),
        (["w.yaml", "new.json"], "w.yaml: this is not JSON"),
        (["old.json", "new.json", "-o", "x.html"], "html is not available here"),
        (["old.json", "new.json", "-o", "old.json"], "is an input, too"),
        (["old.json", "new.json", "--json", "-o", "md"], "both go to standard output"),
    ],
)
def test_what_cannot_be_compared(
    arguments: list[str], said: str, in_it: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_names_of_files_and_groups_cannot_do_harm(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "a\x1b[2J|<img src=x>\n::error::\u202e [x](http://e) @you"
    groups = [group.model_copy(update={"name": f"{evil}{at}"}) for at, group in enumerate(report.groups)]
    causes = [
        cause.model_copy(update={"group": f"{evil}0", "path": evil, "variable": evil, "in_source": True})
        for cause in report.causes
    ]
    other = named(report.model_copy(update={"groups": groups, "causes": causes, "findings": []}), evil)
    monkeypatch.chdir(tmp_path)
    write("o", report.model_dump_json(by_alias=True))
    write("n", other.model_dump_json(by_alias=True))
    for flags in ([], ["--plain"], ["-o", "md"], ["-o", "text"], ["-o", "svg"]):
        text = shown(capsys, "o", "n", *flags)
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert not any(line.lstrip().startswith("::") for line in text.splitlines())
        if flags == ["-o", "md"]:
            outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
            assert not re.search(r"<img|\]\(|@you", outside)


def test_points_are_only_nothing_where_nothing_moved() -> None:
    for difference, text in [
        (0.0, "0.0"),
        (0.2721, "+27.2"),
        (-0.3, "-30.0"),
        (1e-6, "<+0.1"),
        (-1e-6, ">-0.1"),
        (0.0005, "+0.1"),
    ]:
        assert points(difference) == text
