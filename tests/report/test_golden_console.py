"""The terminal report of three examples, character by character: at three widths, in UTF-8 and in ASCII."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvtool.cli.app import run
from kvtool.config.asked_run import RunOptions
from kvtool.profiler import opening
from kvtool.profiler.opening import Opened, open_workload
from kvtool.profiler.profiler import Profiler
from kvtool.results.report import Report
from kvtool.results.views import Timeline
from kvtool.text.terminal.console import cell_width
from kvtool.text.tokens.tokenizer import Tokenizers
from tests.golden import GoldenFiles

WORKLOADS = Path(__file__).parents[2] / "workloads"
EXAMPLES = {
    "support-bot": ("-n", "20", "--min-hit-rate", "0.8"),
    "multi-turn-chat": ("-n", "18", "--capacity", "400", "--details"),
    "volatile-first": ("-n", "16", "--by", "line", "--boundaries"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, bytes_json: str) -> Path:
    """The examples beside a tokenizer that has one token for each byte."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "workloads").symlink_to(WORKLOADS)
    (folder / "tokenizer.json").symlink_to(bytes_json)
    return folder


@pytest.fixture(scope="module", autouse=True)
def profiled_once() -> Iterator[None]:
    """The six reports of an example are made of one run of it."""
    opened: dict[str, Opened] = {}
    profiles: dict[str, tuple[Report, list[Timeline]]] = {}
    run_profiler = Profiler.run

    def open_once(options: RunOptions, load: Tokenizers, *, keep_going: bool) -> Opened:
        (path,) = options.inputs
        if path not in opened:
            opened[path] = open_workload(options, load, keep_going=keep_going)
        return opened[path]

    def run_once(self: Profiler) -> Report:
        if self.path not in profiles:
            profiles[self.path] = run_profiler(self), self.timelines
        report, self.timelines = profiles[self.path]
        return report

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "open_workload", open_once)
        patch.setattr(Profiler, "run", run_once)
        yield


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", list(EXAMPLES))
def test_the_report_of_an_example(
    name: str, width: int, encoding: str, folder: Path, golden: GoldenFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    for variable in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("COLUMNS", str(width))
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
    code = run(["profile", f"workloads/{name}.yaml", "--dry-run", "-t", "tokenizer.json", *EXAMPLES[name]])
    assert code == (name == "support-bot")
    text = raw.getvalue().decode(encoding)
    assert max(cell_width(line) for line in text.splitlines()) <= width
    golden(f"console/{name}-{width}-{encoding}.txt", text)
