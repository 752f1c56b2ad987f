"""Workloads with gates, and `kvtool check` in an empty folder."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from kvtool.cli.app import run
from kvtool.results.check import CheckResult
from tests.conftest import Command

RULES = "You are the agent of a shop; be short, be kind, be right. Answer from the document, and quote its line. "
SUPPORT = f"""\
version: 1
vars:
  now: {{datetime: 1m}}
  n: {{counter: 1}}
groups:
  - name: support
    requests: 8
    segments:
      - {{id: clock, text: "Now: {{{{ now }}}}. "}}
      - {{id: rules, text: "{RULES}"}}
      - {{id: ask, text: "Question {{{{ n }}}}?"}}
    gate: {{hit_rate: ">=80%"}}
  - name: rag
    requests: 4
    segments:
      - {{id: rules, text: "{RULES}"}}
      - {{id: ask, text: "Question {{{{ n }}}}?"}}
"""
CALM = f"""\
version: 1
vars:
  n: {{counter: 1}}
groups:
  - name: faq
    requests: 6
    segments:
      - {{id: rules, text: "{RULES}"}}
      - {{id: ask, text: "Question {{{{ n }}}}?"}}
"""
CONFIG = """\
workloads = ["*.yaml"]

[gate]
hit_rate = "50%"

[gate.groups.rag]
hit_rate = 0.5
reachable_gap = "1%"
ttft_p90 = "1s"
"""


@pytest.fixture
def check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> Command:
    """Runs `kvtool check` in an empty folder with a tokenizer of one token for each byte, `tokenizer.json`."""
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    shutil.copy(bytes_json, "tokenizer.json")

    def start(*arguments: str) -> tuple[int, str, str]:
        code = run(["check", *arguments, *([] if "-t" in arguments else ["-t", "tokenizer.json"])])
        said = capsys.readouterr()
        return code, said.out, said.err

    return start


def result_of(check: Command, *arguments: str) -> CheckResult:
    """The result as its JSON has it."""
    code, out, _ = check("--json", *arguments)
    result = CheckResult.model_validate_json(out)
    assert result.verdict.exit_code == code
    return result


def last_line(out: str) -> str:
    return next(line for line in out.splitlines() if re.match("PASS|FAIL|WARN|NO GATE|PARTIAL", line))
