"""A few mutated inputs of every kind, hostile texts and signals, run as they are by hand; and the judges of what comes of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from tests.conftest import NIGHTLY
from tests.fuzz import growth
from tests.fuzz.forked import MEMORY_BYTES, Job, Ran
from tests.fuzz.harmless import harm
from tests.fuzz.judge import faults, without_place

ROOT = Path(__file__).resolve().parents[2]


def by_hand(*arguments: str) -> str:
    """What a program of this folder prints; its exit code must be 0."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


def test_no_input_does_harm() -> None:
    """Mutated ones, hostile numbers, and unchanged ones: those are right, else mutators would only change what is refused."""
    mutated, numbers, unchanged = (248, 160, 100) if NIGHTLY else (20, 12, 12)
    said = by_hand(
        *("tests.fuzz", "--budget", "600", "--most", str(mutated), "--seed", "13"),
        *("--and", "--numbers", "--budget", "600", "--most", str(numbers), "--seed", "5"),
        *("--and", "--unchanged", "--budget", "600", "--most", str(unchanged), "--seed", "1"),
    )
    for most, seed in ((mutated, 13), (numbers, 5), (unchanged, 1)):
        assert f"{most} inputs, seed {seed}: 0 wrong" in said
    assert "refused too often: none" in said


def test_no_hostile_text_comes_out_raw() -> None:
    most = 60 if NIGHTLY else 5
    assert f"{most} command lines, 0 wrong" in by_hand("tests.fuzz.injection", str(most))


def test_signals_tear_no_file() -> None:
    count = 15 if NIGHTLY else 2
    assert f"{count} signals, 0 wrong" in by_hand("tests.fuzz.interrupts", "--count", str(count), "--seed", "5")


# The judges


def ran(*arguments: str, **fields: object) -> Ran:
    made = Ran(Job("made", 0, arguments or ("profile", "w.yaml"), {"w.yaml": b"a"}, ("w.yaml",), ("o.json",)), code=0)
    return replace(made, **fields)  # type: ignore[arg-type]


def test_what_is_wrong_is_found() -> None:
    for outcome, reason in [
        (ran(code=3, err="error: a bug in kvtool: x"), "exit code 3"),
        (ran(code=1, err="Traceback (most recent call last)"), "a bug is told of"),
        (ran(code=None, signal=24), "hang: CPU time"),
        (ran(code=None, signal=9), "hang or memory: killed"),
        (ran(peak_bytes=MEMORY_BYTES + 1), "memory: 1024 MB"),
        (ran(code=2), "exit code 2 without an error"),
        (ran(code=2, err="error: x", out="some"), "exit code 2 with an output"),
        (ran(out="a\x1b[31mb"), "stdout has '\\x1b'"),
        (ran(out="a\u202eb"), "stdout has '\\u202e'"),
        (ran(err="  ::error::x"), "stderr has a command for a runner"),
        (ran("profile", "--json", out='{"a": NaN}'), "stdout is not JSON"),
        (ran("profile", "--json", out='{"schema": "kvtool.report/1"}'), "stdout is not kvtool.report/1"),
        (ran(written={"o.json": b'{"a": '}), "o.json is not JSON"),
        (ran(written={"o.json": b"\xff"}), "o.json is not UTF-8"),
        (ran(left=(".o.json.kvtool-1.part",)), "left behind"),
        (ran(changed={"w.yaml": b"b"}), "changed: w.yaml"),
    ]:
        assert [said for said in faults(outcome) if reason in said], list(faults(outcome))


def test_what_is_right_is_left_alone() -> None:
    for outcome in [
        ran(out="all is well\n"),
        ran(code=2, err="error: w.yaml:1:2: unknown key\n"),
        ran("profile", "--color", "always", out="\x1b[1mbold\x1b[0m"),
        ran("check", "w.yaml", code=2, out="ERROR: there is no baseline\n"),
        ran("explain", "--json", out=json.dumps({"a": "\x1b"})),
        ran("lint", "--fix", changed={"w.yaml": b"b"}),
        ran(code=2, err="error: x", out="some", job=Job("config", 0, ("lint",), {"kvtool.toml": b""}, (), ())),
    ]:
        assert list(faults(outcome)) == []


def test_a_patch_that_does_not_undo_is_found() -> None:
    good = b"--- w.yaml\n+++ w.yaml\n@@ -1 +1 @@\n-b\n\\ No newline at end of file\n+a\n\\ No newline at end of file\n"
    edited = {"w.yaml": b"b"}
    assert list(faults(ran("lint", "--fix", changed=edited, written={"u.patch": good}))) == []
    for patch in (good.replace(b"+a", b"+c"), good.replace(b"-b", b"-x")):
        assert list(faults(ran("lint", "--fix", changed=edited, written={"u.patch": patch})))


def test_errors_without_a_line_are_noted() -> None:
    assert without_place(ran(code=2, err="error: w.yaml: wrong\nmore")) == "error: w.yaml: wrong"
    assert without_place(ran(code=2, err="error: w.yaml:3:1: wrong")) is None


def test_what_a_reader_would_obey_is_found() -> None:
    for name, text in [
        ("o.html", "<p onclick=x>"),
        ("o.html", "<script>"),
        ("o.html", "<a href='http://evil.example'>"),
        ("o.csv", 'a,"  =1+1"'),
        ("o.svg", "<svg><script/></svg>"),
        ("o.svg", "<svg onload='x'/>"),
        ("o.md", "a ![i](x) b"),
        ("o.md", "[x](http://evil.example)"),
        ("o.md", "<img src=x>"),
        ("stdout", "::add-mask::x"),
        ("stdout", "::error file=a::boom"),
        ("stdout", "::error x::boom"),
    ]:
        assert list(harm(name, text, ("report", "github")))


def test_markup_that_was_obeyed_is_found() -> None:
    assert list(harm("stdout", "bold red x", ("report",)))
    assert not list(harm("stdout", "[bold red]x", ("report",)))


def test_shapes_are_as_long_as_they_are_asked_to_be() -> None:
    lengths = {name: len(shape(9_000)) for name, shape in growth.SHAPES.items()}
    assert {name: length for name, length in lengths.items() if not 8_000 <= length <= 9_000} == {}
    text = growth.de_bruijn("ab", 5)
    assert len(text) == 32
    assert len({(text + text)[at : at + 5] for at in range(32)}) == 32
