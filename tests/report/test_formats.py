"""Formats for other tools: golden files, and what must hold of each whatever names, messages and paths say."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from kvtool.report.formats.github import step_summary
from kvtool.report.markdown.text import code, prose
from kvtool.report.places import fingerprints, relative
from kvtool.report.registry import FORMATS
from kvtool.report.write_options import WriteOptions
from kvtool.results.check import CheckResult
from kvtool.results.finding import Snippet
from tests.golden import GoldenFiles
from tests.made_results import (
    CASES,
    check,
    failing,
    finding,
    group,
    hostile,
    lint_only,
    partial,
    quoting,
    report,
    result,
    warn,
)

EXTENSIONS = {"markdown": "md", "github": "txt", "junit": "xml", "sarif": "sarif", "gitlab": "json"}
UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufffe\uffff\ud800-\udfff]")
"""Control characters but tabs and line feeds, directions, what XML has no character for, half surrogate pairs."""


def render(name: str, result: CheckResult, **options: object) -> str:
    return FORMATS[name].write(result, WriteOptions(**options))  # type: ignore[arg-type]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", EXTENSIONS)
def test_golden(name: str, case: str, golden: GoldenFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    golden(f"{name}/{case}.{EXTENSIONS[name]}", render(name, CASES[case]()))


@pytest.mark.parametrize("name", EXTENSIONS)
@given(text=st.text(st.characters(codec=None), max_size=30))
def test_nothing_unsafe_is_left_of_any_text(name: str, text: str) -> None:
    bad = finding(path=f"a/{text}.md", group=text, message=text, fix=text, warnings=[text])
    shown = finding(path="b.md", snippet=Snippet(text=text, start=0, stop=len(text)), patch=text)
    unmet = check(id=text, message=text, workload=text, group=text)
    odd = report(group(text), workload=text, notes=[text], findings=[bad, shown])
    written = render(name, result("fail", text, odd, checks=(unmet,), notices=[text]))
    assert not UNSAFE.search(written)
    written.encode()  # there is no half of a surrogate pair in it
    if name == "junit":
        ET.fromstring(written)
    if name in ("sarif", "gitlab"):
        json.loads(written)


def test_no_line_is_a_command_of_somebody_else() -> None:
    for name in [*EXTENSIONS, "summary"]:
        for make in [hostile, failing]:
            made = hostile() if make is hostile else failing()
            text = step_summary(made, WriteOptions()) if name == "summary" else render(name, made)
            commands = [line for line in text.splitlines() if line.lstrip().startswith("::")]
            assert all(re.match(r"::(error|warning|notice) ", line) for line in commands)
            assert bool(commands) == (name == "github")
            assert "##[" not in text
            assert "##vso[" not in text


# GitHub's annotations


def annotations(text: str) -> Iterator[tuple[str, dict[str, str], str]]:
    """Level, properties and message of each, as the runner reads them."""
    for line in text.splitlines():
        match = re.fullmatch(r"::(\w+) ([^:]*)::(.*)", line)
        assert match is not None, line
        properties = dict(pair.split("=", 1) for pair in match[2].split(","))
        yield match[1], {key: unquote(value) for key, value in properties.items()}, unquote(match[3])


def test_the_ten_costliest_are_annotated_and_the_others_counted() -> None:
    found = [finding("KV104", tokens_lost=cost, path=f"p{cost}.md", rerun=None) for cost in range(13)]
    made = result("fail", "FAIL 1 check", report(findings=found), checks=(check(),))
    told = list(annotations(render("github", made)))
    assert [told[0][1]["file"], told[0][1]["line"], told[0][1]["col"]] == ["support.yaml", "12", "22"]
    assert [properties["file"] for _, properties, _ in told[1:11]] == [f"p{cost}.md" for cost in range(12, 2, -1)]
    assert told[11:] == [
        ("notice", {"title": "kvtool"}, "3 findings more in the other reports"),
        ("error", {"title": "kvtool"}, "FAIL 1 check"),
    ]


def test_annotations_are_escaped_as_the_runner_unescapes_them() -> None:
    odd = finding(path="a,b:c%0A.md", message="100% of it, and :: more", group="g")
    level, properties, message = next(annotations(render("github", result("none", "", report(findings=[odd])))))
    assert (level, properties["file"], properties["line"], properties["col"]) == ("warning", "a,b:c%0A.md", "3", "6")
    assert message.startswith("g: 100% of it, and :: more (500 tokens lost")


def test_fixes_that_build_on_each_other_stay_in_their_order() -> None:
    first, second = finding(tokens_lost=10, path="1.md"), finding(tokens_lost=90, path="2.md")
    between = finding(tokens_lost=50, path="3.md", rerun=None)
    made = result("none", "", report(findings=[first, second, between]))
    files = [properties.get("file") for _, properties, _ in annotations(render("github", made))]
    assert files == ["1.md", "2.md", "3.md", None]


# Markdown


def tokens(text: str) -> list[Token]:
    """What a reader of Markdown makes of it, without the HTML that is ours."""
    flat: list[Token] = []
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text):
        flat += [token, *(token.children or [])]
    ours = re.compile(r"(<!-- kvtool -->|</?details>|<summary>[^<]*</summary>|</?sub>|<br>|\s)*")
    return [one for one in flat if not (one.type.startswith("html") and ours.fullmatch(one.content))]


def test_markdown_holds_no_markup_of_users() -> None:
    for case in CASES:
        kinds = {one.type for one in tokens(render("markdown", CASES[case]()))}
        assert not kinds & {"html_block", "html_inline", "link_open", "image", "em_open", "s_open"}


@given(text=st.text(st.sampled_from("`|\\*_[]()<>!@#~:/.a1 \n-&;=\u202e")))
def test_text_of_users_is_shown_as_code_and_ends_no_cell(text: str) -> None:
    made = report(group(text), workload=text)
    page = render("markdown", result("none", "", made, checks=(check("fail", message=text, id=text, path=text),)))
    kinds = [one.type for one in tokens(page)]
    assert not {"html_block", "html_inline", "link_open", "image", "em_open", "s_open"} & {*kinds}
    assert kinds.count("td_open") == 4 + 6 + 8 + 3 * 3


@given(text=st.text(st.sampled_from("`|\\*_[]()<>!@#~:/.a1 -&;=Gh"), max_size=40))
def test_prose_keeps_every_word_and_makes_no_reference(text: str) -> None:
    plain = "".join(one.content for one in tokens(f"x {prose(text)} x") if one.type == "text")
    assert not re.search(r"[@#\[\]*_~|]|://|www\.|GH-\d", plain)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("a `name`](b) here", "a `name](b`) here"),
        ("`a``b` `c`", "`ab` `c`"),
        ("`a`_b ![i](c) `d`", "`a_b ![i](c`) `d`"),
    ],
)
def test_names_and_odd_words_side_by_side_are_one_piece_of_code(said: str, shown: str) -> None:
    """Else the fences of the two would be one, and what stands behind them would be markup."""
    assert prose(said) == shown
    found = [one.type for one in tokens(f"{shown} and ![i](c) `x` y")]
    assert found.count("image") == 1, "the one behind it, which is no text of ours"


def test_prose_leaves_words_alone() -> None:
    said = "raise --capacity; see a_b (x.md), it was 40.0% -> 90.0%, user's own/other 1,200"
    assert prose(said) == "raise `--capacity`; see `a_b` (`x.md`), it was 40.0% → 90.0%, user's own/other 1,200"
    assert (
        prose("by @octocat in #12, GH-7 and 0a1b2c3 or deadbeef")
        == "by `@octocat` in `#12`, `GH-7` and `0a1b2c3` or `deadbeef`"
    )
    assert code("a`b``c") == "```a`b``c```"
    assert code("\\|", cell=True) == "`\\¦`"


def test_a_comment_stays_below_githubs_limit_and_says_what_was_cut() -> None:
    groups = [group(f"group-{number} {'x' * 200}") for number in range(100)]
    found = [finding(path=f"{number}-{'y' * 250}.md", message="z " * 500) for number in range(60)]
    reports = [report(*groups, workload=f"{number}.yaml", findings=found) for number in range(5)]
    checks = tuple(check(id=f"{number} {'c' * 250}", message="m " * 300) for number in range(80))
    made = result("fail", "FAIL 80 checks", *reports, checks=checks)
    page = render("markdown", made)
    assert 50_000 < len(page) <= 60_000
    assert page.startswith("<!-- kvtool -->\n### FAIL 80 checks\n")
    assert re.search(r"\*\*Cut:\*\* (\d+ \w+(, )?)+ left out here", page)
    assert page.count("<details>") == page.count("</details>")
    assert len(step_summary(made, WriteOptions()).encode()) <= 1 << 20


# JUnit


def test_junit_says_what_the_exit_code_says() -> None:
    for case, (failures, errors) in {"passing": (0, 0), "failing": (1, 0), "warn": (0, 0), "partial": (0, 1)}.items():
        root = ET.fromstring(render("junit", CASES[case]()))
        assert (root.get("failures"), root.get("errors")) == (str(failures), str(errors)), case


def test_junit_of_a_warning_is_a_skipped_test() -> None:
    root = ET.fromstring(render("junit", warn()))
    skipped = root.find("testsuite/testcase/skipped")
    assert skipped is not None
    assert (skipped.get("message") or "").startswith("warning: KV401: support hits 40.0%")
    assert root.get("skipped") == "1"


def test_junit_interrupted_judges_nothing() -> None:
    root = ET.fromstring(render("junit", partial()))
    assert [case.get("name") for case in root.iter("testcase") if case.find("error") is not None] == ["profiled"]
    assert [case.get("name") for case in root.iter("testcase") if case.find("skipped") is not None] == [
        "support/hit_rate"
    ]


def test_junit_fails_with_a_verdict_that_no_test_shows() -> None:
    made = result("fail", "FAIL 2 warnings", findings=[finding("KV104", severity="warning")])
    root = ET.fromstring(render("junit", made))
    assert [case.get("name") for case in root.iter("testcase") if case.find("failure") is not None] == ["verdict"]


def test_junit_beside_gates_findings_of_files_fail_nothing() -> None:
    made = result("pass", "PASS 1 check", report(), checks=(check("pass"),), findings=lint_only().findings)
    root = ET.fromstring(render("junit", made))
    assert (root.get("failures"), root.get("skipped"), root.get("tests")) == ("0", "0", "5")


# GitLab


def test_gitlab_has_what_it_asks_for() -> None:
    for make in CASES.values():
        issues = json.loads(render("gitlab", make()))
        for issue in issues:
            assert {"description", "check_name", "fingerprint", "severity", "location"} <= issue.keys()
            assert issue["severity"] in ("info", "minor", "major", "critical", "blocker")
            assert issue["location"]["lines"]["begin"] >= 1
            assert not issue["location"]["path"].startswith(("/", ".."))
        assert len({issue["fingerprint"] for issue in issues}) == len(issues)


# Places


def test_paths_are_relative_to_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "repo" / "app").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "repo" / "app")
    root = str(tmp_path / "repo")
    assert relative("p.md", root) == "app/p.md"
    assert relative("../other/p.md", root) == "other/p.md"
    assert relative(str(tmp_path / "repo" / "a.md"), root) == "a.md"
    assert relative("..a.md", root) == "app/..a.md"
    for path in (
        "../../p.md", "../../\ud800.md", "/etc/passwd", "-", "stdin", "", "a\0b", root,
        "kvtool/templates/chatml.jinja",
    ):  # fmt: skip
        assert relative(path, root) is None, path


def test_a_root_behind_a_link_is_the_same_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert relative(str(tmp_path / "link" / "a.md"), str(tmp_path / "real")) == "a.md"


def test_what_is_outside_is_shown_at_its_workload_and_named_without_its_folder() -> None:
    made = result("none", "", report(findings=[finding(path="/srv/secret/p.md", line=9)]))
    spot = json.loads(render("gitlab", made))[0]
    assert spot["location"] == {"path": "support.yaml", "lines": {"begin": 1}}
    assert "It is in p.md:9, in no file below the root" in spot["description"]
    assert not any("/srv" in render(name, made) for name in ("github", "junit", "sarif", "gitlab"))


def test_fingerprints_outlive_moved_lines_and_other_figures_and_are_unique() -> None:
    def prints(*found: object) -> list[str]:
        return fingerprints(list(found), os.curdir)  # type: ignore[arg-type]

    one = finding(message="variable `now` (timestamp) stops reuse of the text after it: 10 values", line=3)
    moved = finding(
        message="variable `now` (timestamp) stops reuse of the text after it. It has 99 values",
        line=7,
        tokens_lost=1,
    )
    other = finding(message="variable `user` (name) stops reuse of the text after it: 10 values", line=3)
    assert prints(one) == prints(moved)
    assert prints(one) != prints(other)
    twice = prints(one, moved, other)
    assert len(set(twice)) == 3
    assert prints(moved, one, other) == [twice[1], twice[0], twice[2]]


def test_text_is_in_a_file_only_where_the_result_has_it() -> None:
    for name in EXTENSIONS:
        assert "Quillmark" not in render(name, failing())
    assert "3 | Now: {{ now }}. You answer for Quillmark.\n    |      ^^^^^^^^^\n" in render("markdown", quoting())
