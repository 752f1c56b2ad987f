"""What a command loads: nothing of logs' formats, providers' rules and prices where there are none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
        "formats.known_formats",
        "records.chat_records",
        "records.records",
        "files.log_file",
        "files.input_files",
        "groups.grouping",
        "groups.detected_grouping",
        "survey",
    )
}
_OF_MONEY = (
    "kvtool.accounting.prices",
    "kvtool.accounting.hosted_models",
    "kvtool.accounting.caches.provider",
    "kvtool.accounting.caches.dated_rules",
    "kvtool.accounting.servers.rules_server",
    "kvtool.profiler.reported.hosted_log",
    "kvtool.profiler.reported.money_report",
    "kvtool.profiler.reported.isolation_cost",
    "kvtool.report.views.money",
    "kvtool.report.views.isolation",
)
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


def _loaded(tmp_path: Path, *arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments, "--dry-run", "--no-config"],
        env=clean_environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    code, *modules = done.stderr.splitlines()[-1].split()
    assert code == "0", done.stderr
    return set(modules)


@pytest.mark.parametrize("advice", ["--advice", "--no-advice"])
def test_a_workload_without_logs_and_prices_loads_neither(tmp_path: Path, advice: str) -> None:
    (tmp_path / "w.yaml").write_text(_WORKLOAD)
    loaded = _loaded(tmp_path, "profile", "w.yaml", advice)
    assert "kvtool.profiler.profiler" in loaded
    assert not {name for name in loaded if name.startswith(_OF_MONEY)}
    assert not loaded & _OF_LOGS
    assert not {name for name in loaded if name.startswith("kvtool.workload.logs.formats.")}


@pytest.mark.parametrize("name", ["w.yaml", "log.jsonl"])
def test_a_run_without_advice_loads_no_fixes(tmp_path: Path, name: str) -> None:
    (tmp_path / "w.yaml").write_text(_WORKLOAD)
    (tmp_path / "log.jsonl").write_text(_CHAT * 3)
    loaded = _loaded(tmp_path, "profile", name, "--no-advice")
    assert {each for each in loaded if each.startswith(_OF_ADVICE)} == _WITHOUT_ADVICE


def test_a_log_that_names_no_hosted_model_loads_no_prices(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(_CHAT * 3)
    loaded = _loaded(tmp_path, "profile", "log.jsonl")
    assert loaded >= _OF_LOGS
    assert not {name for name in loaded if name.startswith(("kvtool.accounting.prices", "kvtool.report.views.money"))}


@pytest.mark.parametrize("advice", ["--advice", "--no-advice"])
def test_a_log_loads_nothing_of_workload_files(tmp_path: Path, advice: str) -> None:
    (tmp_path / "log.jsonl").write_text(_CHAT * 3)
    loaded = _loaded(tmp_path, "profile", "log.jsonl", advice)
    assert not {name for name in loaded if name.startswith(_OF_WORKLOADS)}


def test_a_trace_loads_no_templates(tmp_path: Path) -> None:
    """There is no text in it to render."""
    (tmp_path / "trace.jsonl").write_text(
        '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}\n'
    )
    loaded = _loaded(tmp_path, "profile", "trace.jsonl", "--no-advice")
    assert not {name for name in loaded if name.startswith((*_OF_WORKLOADS, "kvtool.text.templates.template"))}
