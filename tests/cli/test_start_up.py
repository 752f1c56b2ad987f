"""What a command loads: nothing of logs' formats, providers' rules and prices where there are none."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.cli.command_line.conftest import clean_environment

_PROGRAM = """
import sys
from kvtool.cli.app import run
code = run(sys.argv[1:])
print(code, *sorted(name for name in sys.modules if name.startswith("kvtool.")), file=sys.stderr)
"""
_OF_LOGS = {
    f"kvtool.workload.logs.{name}"
    for name in (
        "formats.known_formats", "records.chat_records", "records.records", "files.log_file", "files.input_files",
        "groups.grouping", "groups.detected_grouping", "survey",
    )
}  # fmt: skip
_OF_MONEY = (
    "kvtool.accounting.prices", "kvtool.accounting.hosted_models", "kvtool.accounting.caches.provider",
    "kvtool.accounting.caches.dated_rules", "kvtool.accounting.servers.rules_server",
    "kvtool.profiler.reported.hosted_log", "kvtool.profiler.reported.money_report",
    "kvtool.profiler.reported.isolation_cost", "kvtool.report.views.money", "kvtool.report.views.isolation",
)  # fmt: skip
_OF_ADVICE = ("kvtool.fixes.", "kvtool.profiler.advice.")
_WITHOUT_ADVICE = {"kvtool.fixes.fix", "kvtool.profiler.advice.trials"}
"""What says how a run with fixes is asked for; it is small."""
_OF_WORKLOADS = (
    "kvtool.workload.yaml.yaml_source",
    "kvtool.workload.yaml.groups",
    "kvtool.text.files.yaml_composer",
    "kvtool.lint.formats",
    "kvtool.lint.formats.jinja_prompts",
)
"""With PyYAML, and what finds prompts in files of frameworks."""
_WORKLOAD = """\
version: 1
name: w
groups:
  - name: g
    requests: 3
    segments:
      - {id: text, text: "Say what is on the menu today, and until when it is served."}
"""
_CHAT = '{"messages": [{"role": "user", "content": "What is on the menu today, and until when is it served?"}]}\n'


_FILES = {
    "w.yaml": _WORKLOAD,
    "log.jsonl": _CHAT * 3,
    "trace.jsonl": '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}\n',
}


@cache
def _loaded(name: str, advice: str) -> set[str]:
    """The modules that a profile of a file loads."""
    with TemporaryDirectory() as folder:
        (Path(folder) / name).write_text(_FILES[name])
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, "profile", name, advice, "--dry-run", "--no-config"],
            env=clean_environment(),
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
    code, *modules = done.stderr.splitlines()[-1].split()
    assert code == "0", done.stderr
    return set(modules)


def _begin(loaded: set[str], names: str | tuple[str, ...]) -> set[str]:
    return {name for name in loaded if name.startswith(names)}


@pytest.mark.parametrize("advice", ["--advice", "--no-advice"])
def test_a_workload_without_logs_and_prices_loads_neither(advice: str) -> None:
    loaded = _loaded("w.yaml", advice)
    assert "kvtool.profiler.profiler" in loaded
    assert not _begin(loaded, _OF_MONEY)
    assert not loaded & _OF_LOGS
    assert not _begin(loaded, "kvtool.workload.logs.formats.")


@pytest.mark.parametrize("name", ["w.yaml", "log.jsonl"])
def test_a_run_without_advice_loads_no_fixes(name: str) -> None:
    assert _begin(_loaded(name, "--no-advice"), _OF_ADVICE) == _WITHOUT_ADVICE


@pytest.mark.parametrize("advice", ["--advice", "--no-advice"])
def test_a_log_that_names_no_hosted_model_loads_no_prices_and_nothing_of_workload_files(advice: str) -> None:
    loaded = _loaded("log.jsonl", advice)
    assert loaded >= _OF_LOGS
    assert not _begin(loaded, ("kvtool.accounting.prices", "kvtool.report.views.money", *_OF_WORKLOADS))


def test_a_trace_loads_no_templates() -> None:
    """There is no text in it to render."""
    assert not _begin(_loaded("trace.jsonl", "--no-advice"), (*_OF_WORKLOADS, "kvtool.text.templates.template"))
