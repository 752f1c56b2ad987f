"""The pytest plugin, run as other projects run it."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import kvtool

pytest_plugins = ["pytester"]

PROMPTS = """
import pytest

SHARED = "You are the support agent of a shop. Be short, be kind, and never promise what the terms do not say. " * 4
TOKENIZER = {tokenizer!r}

def good(count=8):
    return [[{{"role": "system", "content": SHARED}}, {{"role": "user", "content": f"question {{n}}"}}] for n in range(count)]

def bad(count=8):
    return [
        [{{"role": "system", "content": f"Now: 2026-01-01T10:00:{{n:02d}}Z. {{SHARED}}"}}, {{"role": "user", "content": "hi"}}]
        for n in range(count)
    ]
"""


INSTALLED = any(entry.value == "kvtool.pytest_plugin" for entry in entry_points(group="pytest11"))
"""An editable install that is older than the entry point does not have it."""
IN_PROCESS = [
    *("-W", "ignore:Module already imported"),  # by these tests
    *([] if INSTALLED else ["-p", "kvtool.pytest_plugin"]),
]


@pytest.fixture(scope="module", autouse=True)
def imported(bytes_json: str) -> None:
    """pytester forgets what a run has imported; what was there before it stays, and need not be imported for each test."""
    kvtool.profile(["a", "b"], tokenizer=bytes_json)


@pytest.fixture
def project(pytester: pytest.Pytester, bytes_json: str, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project of its own, whose warnings are errors."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makeini("[pytest]\naddopts = --strict-markers -W error -p no:cacheprovider\n")
    pytester.makepyfile(prompts=PROMPTS.format(tokenizer=bytes_json))
    return pytester


def outcome(project: pytest.Pytester, body: str, **counts: int) -> str:
    """Run one test module; what it printed."""
    project.makepyfile(test_it="from prompts import *\n\n" + body)
    done = project.runpytest_inprocess(*IN_PROCESS)
    done.assert_outcomes(**counts)
    return done.stdout.str()


def test_a_rate_that_is_high_enough(project: pytest.Pytester) -> None:
    outcome(
        project,
        """
@pytest.mark.kv_hit_rate(min=0.7)
def test_shared(kv_profile):
    report = kv_profile(good(), tokenizer=TOKENIZER)
    assert report.totals.requests == 8
""",
        passed=1,
    )


def test_a_rate_that_is_too_low(project: pytest.Pytester) -> None:
    said = outcome(
        project,
        """
@pytest.mark.kv_hit_rate(min=0.8)
def test_clock(kv_profile):
    kv_profile(good(), tokenizer=TOKENIZER)
    kv_profile(bad(), tokenizer=TOKENIZER)
    print("both are checked")
""",
        failed=1,
    )
    assert "below the 80.0% of kv_hit_rate(min=0.8)" in said
    assert "prompts of this test: 8 requests" in said
    assert "prompt 2: KV101 error: " in said
    assert "help: " in said
    assert "verified by a run" in said
    assert "never promise" not in said  # no prompt text
    assert "pytest_plugin.py" not in said  # no traceback of ours


def test_without_the_marker_nothing_is_demanded(project: pytest.Pytester) -> None:
    outcome(
        project,
        """
def test_clock(kv_profile):
    assert kv_profile(bad(), tokenizer=TOKENIZER, advice=False).totals.hit_rate < 0.2
""",
        passed=1,
    )


def test_files_and_groups(project: pytest.Pytester) -> None:
    project.makefile(
        ".yaml",
        w="""
version: 1
groups:
  - {name: warm, requests: 9, segments: [{text: "0123456789012345678901234567890123456789"}]}
  - name: cold
    requests: 9
    segments: [{text: "{{ n }} 0123456789012345678901234567890123456789"}]
vars: {n: {counter: 1}}
""",
    )
    said = outcome(
        project,
        """
@pytest.mark.kv_hit_rate(0.7, group="warm")
def test_warm(kv_profile):
    kv_profile("w.yaml", tokenizer=TOKENIZER)

@pytest.mark.kv_hit_rate(0.7, group="cold")
def test_cold(kv_profile):
    kv_profile("w.yaml", tokenizer=TOKENIZER)

@pytest.mark.kv_hit_rate(0.7, group="hot")
def test_unknown(kv_profile):
    kv_profile("w.yaml", tokenizer=TOKENIZER, advice=False)
""",
        passed=1,
        failed=2,
    )
    assert "hit rate of group cold is" in said
    assert "no group 'hot'; there are warm, cold" in said


def test_recorded_prompts(project: pytest.Pytester) -> None:
    said = outcome(
        project,
        """
pytestmark = pytest.mark.kv_hit_rate(min=0.5)

def test_a_growing_history(kv_record):
    messages = [{"role": "system", "content": SHARED}]
    for turn in range(5):
        messages.append({"role": "user", "content": f"question {turn}"})
        kv_record(messages)
        messages.append({"role": "assistant", "content": f"answer {turn}"})
    assert [len(prompt) for prompt in kv_record.prompts] == [2, 4, 6, 8, 10]
    report = kv_record.profile(tokenizer=TOKENIZER)
    assert report.totals.requests == 5

def test_calls(kv_record):
    for messages in bad():
        kv_record(model="a-model", messages=messages, tools=[])
    kv_record(bad()[0], tools=[])
    kv_record({"messages": bad()[1]}, temperature=0)
    kv_record("a text", cache_salt="a")
    assert len(kv_record) == 11
    kv_record.profile(tokenizer=TOKENIZER)

def test_nothing_to_record(kv_record):
    with pytest.raises(TypeError):
        kv_record()
    kv_record("x")
    kv_record.profile(tokenizer=TOKENIZER)
""",
        passed=1,
        failed=2,
    )
    assert "11 requests" in said


def test_what_was_recorded_is_profiled_at_the_end(
    project: pytest.Pytester, bytes_json: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kvtool import api

    profile = api.profile
    monkeypatch.setattr("kvtool.profile", lambda inputs, **options: profile(inputs, tokenizer=bytes_json, **options))
    outcome(
        project,
        """
@pytest.mark.kv_hit_rate(min=0.7)
def test_good(kv_record):
    for messages in good():
        kv_record(messages)

@pytest.mark.kv_hit_rate(min=0.8)
def test_bad(kv_record):
    for messages in bad():
        kv_record(messages)
""",
        passed=1,
        failed=1,
    )


MARKERS = {
    "": "needs a minimum: @pytest.mark.kv_hit_rate(min=0.8)",
    "min=80": "min is a ratio from 0 to 1, not 80",
    "min=True": "not True",
    "min='80%'": "not '80%'",
    "min=float('nan')": "not nan",
    "0.8, min=0.7": "takes only min and group",
    "minimum=0.7": "takes only min and group",
    "0.8, group=3": "group is a name, not 3",
}


def test_a_marker_that_says_nothing_of_use(project: pytest.Pytester) -> None:
    tests = [
        f"@pytest.mark.kv_hit_rate({marker})\ndef test_{number}(kv_profile):\n    raise AssertionError('it does not run')\n"
        for number, marker in enumerate(MARKERS)
    ]
    said = outcome(project, "\n".join(tests), errors=len(MARKERS))
    errors = re.split(r"_+ ERROR at setup of test_\d+ _+", said)[1:]
    assert [message in error for message, error in zip(MARKERS.values(), errors, strict=True)] == [True] * len(MARKERS)
    assert "it does not run" not in said


def test_a_marker_that_checks_nothing(project: pytest.Pytester) -> None:
    said = outcome(
        project,
        """
@pytest.mark.kv_hit_rate(min=0.5)
def test_no_fixture():
    pass

@pytest.mark.kv_hit_rate(min=0.5)
def test_no_profile(kv_profile):
    pass

@pytest.mark.kv_hit_rate(min=0.5)
def test_skipped(kv_profile):
    pytest.skip("says nothing")

@pytest.mark.kv_hit_rate(min=0.5)
def test_failed(kv_profile):
    raise ValueError("its own failure")
""",
        errors=1,
        failed=2,
        skipped=1,
    )
    assert "this test uses neither" in said
    assert "the test made no profile, so there is nothing to check" in said
    assert "its own failure" in said


def test_a_mistake_shows_its_place(project: pytest.Pytester) -> None:
    said = outcome(
        project,
        """
@pytest.mark.kv_hit_rate(min=0.5)
def test_it(kv_profile):
    kv_profile([{"question": 1}], tokenizer=TOKENIZER)
""",
        failed=1,
    )
    assert "no prompt found in this record" in said
    assert "at prompts[0]" in said


def test_hostile_names_are_shown_escaped(project: pytest.Pytester) -> None:
    project.makepyfile(
        make=r"""
import json
from pathlib import Path
from prompts import bad
lines = [json.dumps({"messages": messages}) for messages in bad()]
Path("a\x1b[31m.jsonl").write_text("\n".join(lines))
"""
    )
    subprocess.run([sys.executable, "make.py"], cwd=project.path, check=True)
    said = outcome(
        project,
        r"""
import pathlib
@pytest.mark.kv_hit_rate(min=0.5)
def test_it(kv_profile):
    kv_profile(pathlib.Path("a\x1b[31m.jsonl"), tokenizer=TOKENIZER)
""",
        failed=1,
    )
    report = said[said.index("prefix-cache hit rate") :]
    assert "\x1b[31m.jsonl" not in report
    assert r"a\x1b[31m.jsonl" in report


def test_the_marker_is_registered(project: pytest.Pytester) -> None:
    done = project.runpytest_inprocess("--markers", *IN_PROCESS)
    done.stdout.fnmatch_lines(["@pytest.mark.kv_hit_rate(min, group=None): *"])


def test_no_warning_of_a_library_gets_out(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_it="""
from prompts import *

@pytest.mark.kv_hit_rate(min=0.7)
def test_shared(kv_profile):
    kv_profile(good(), tokenizer=TOKENIZER)
"""
    )
    project.runpytest_subprocess(*IN_PROCESS[2:]).assert_outcomes(passed=1)


@pytest.mark.skipif(not INSTALLED, reason="the package was installed before it had the entry point")
def test_projects_that_do_not_use_it_do_not_pay(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text(
        """\
import sys

def test_nothing_heavy():
    assert "kvtool.pytest_plugin" in sys.modules
    heavy = {"torch", "numpy", "pydantic", "rich", "yaml", "transformers", "typer", "tokenizers", "orjson"}
    assert not heavy & set(sys.modules)
    ours = {name for name in sys.modules if name.startswith("kvtool")}
    assert ours == {"kvtool", "kvtool.pytest_plugin", "kvtool.version"}
""",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:hypothesispytest", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
