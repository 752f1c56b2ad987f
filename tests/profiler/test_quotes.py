"""`--show-text` in machine output: none, the line with secrets blacked out, or all of it with the edit that makes the fix."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kvtool.profiler.quotes import snippet_of
from kvtool.results.finding import Finding, Snippet
from tests.conftest import Command
from tests.files import write

KEY = "sk-" + "aB3" * 10
WORKLOAD = """\
version: 1
vars:
  now: {datetime: 1m}
groups:
  - name: support
    requests: 12
    messages:
      - {role: system, file: support.md}
      - {role: user, text: "Hello"}
"""
PROMPT = f"Mail jane@acme.io or use {KEY}. Now: {{{{ now }}}}\nYou answer for Quillmark." + " Be kind." * 60 + "\n"


@pytest.fixture
def workload(in_folder: Command) -> Command:
    """A workload whose prompt begins with a line that has a clock, a key and an address in it."""
    write("w.yaml", WORKLOAD)
    write("support.md", PROMPT)
    return in_folder


def blamed(workload: Command, *flags: str) -> dict[str, Any]:
    _, out, err = workload("profile", "w.yaml", "--dry-run", "--json", *flags)
    assert not err
    found = json.loads(out)["findings"]
    return next(one for one in found if one["code"] == "KV101" and one["path"] == "support.md")


def test_nothing_is_quoted_unless_it_is_asked_for(workload: Command) -> None:
    for flags in ([], ["--show-text", "none"]):
        found = blamed(workload, *flags)
        assert (found["snippet"], found["patch"]) == (None, None)


def test_a_snippet_is_the_line_without_secrets_and_with_what_is_meant(workload: Command) -> None:
    found = blamed(workload, "--show-text", "snippet")
    snippet = found["snippet"]
    assert snippet["text"] == "Mail [redacted email] or use [redacted key]. Now: {{ now }}"
    assert snippet["text"][snippet["start"] : snippet["stop"]] == "{{ now }}"
    assert found["patch"] is None


def test_all_text_brings_the_line_as_it_is_and_a_patch_that_applies(workload: Command) -> None:
    found = blamed(workload, "--show-text", "full")
    assert found["snippet"]["text"] == PROMPT.split("\n")[0]
    write("fix.patch", found["patch"])
    subprocess.run(["git", "apply", "-p0", "fix.patch"], check=True)
    left = Path("support.md").read_text(encoding="utf-8")
    assert left == PROMPT.replace(" Now: {{ now }}", "")
    again = json.loads(workload("profile", "w.yaml", "--dry-run", "--json")[1])
    assert again["totals"]["hit_rate"] == pytest.approx(found["rerun"]["total_after"])


def test_outputs_quote_as_much_as_the_result_has(workload: Command) -> None:
    for show, shown in (("none", False), ("snippet", True)):
        workload("profile", "w.yaml", "--dry-run", "-q", "-o", "out.md", "-o", "out.sarif", "--show-text", show)
        for name in ("out.md", "out.sarif"):
            text = Path(name).read_text(encoding="utf-8")
            assert ("[redacted key]" in text) == shown
            assert KEY not in text
            assert "jane@acme.io" not in text


def finding(excerpt: str, start: int, stop: int) -> Finding:
    """One of a log, whose line is quoted from the prompt."""
    snippet = Snippet.of(excerpt, start, stop)
    return Finding.of("KV105", "info", "g", "gone.jsonl", 3, 1, "m", 10, "f", snippet=snippet)


def test_of_a_line_that_was_cut_no_half_of_a_word_is_quoted() -> None:
    text = "x" * 70 + " the value " + "y" * 100
    assert snippet_of(finding(text, 75, 80), "snippet") == Snippet(text="… the value …", start=6, stop=11)
    whole = snippet_of(finding(text, 75, 80), "full")
    assert whole is not None
    assert whole.text == text


def test_a_value_within_a_word_that_was_cut_goes_with_it() -> None:
    key = "ab/cd+" * 27
    assert snippet_of(finding(key, 80, 90), "snippet") == Snippet(text="…", start=0, stop=0)


def test_short_lines_and_text_without_spaces_stay() -> None:
    assert snippet_of(finding("a b c", 2, 3), "snippet") == Snippet(text="a b c", start=2, stop=3)
    letters = "字" * 160
    assert snippet_of(finding(letters, 80, 82), "snippet") == Snippet(text=f"…{letters}…", start=81, stop=83)


def test_of_a_long_line_a_part_is_quoted() -> None:
    text = "word " * 100 + "VALUE" + " word" * 100
    snippet = snippet_of(finding(text, 500, 505), "full")
    assert snippet is not None
    assert (len(snippet.text), snippet.text[snippet.start : snippet.stop]) == (405, "VALUE")


def test_without_a_line_there_is_no_snippet() -> None:
    assert snippet_of(finding("a", 0, 1).model_copy(update={"line": 0}), "full") is None
    assert snippet_of(finding("", 0, 0), "full") is None
