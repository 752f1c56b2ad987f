"""The figure beside a command is the figure that this command reaches: each is run as it is printed, until none is left."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kvtool.cli.app import run
from kvtool.profiler.profiler import Profiler
from kvtool.results.report import Report
from tests.files import write
from tests.fuzz.promises import Run, check_promises, workload_of
from tests.tokenizers_made import byte_tokenizer_json

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.name for path in (ROOT / "workloads").glob("*.yaml"))
NEWCOMER = ROOT.parent / "shared" / "data" / "newcomer" / "s1"


@pytest.fixture
def printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in an empty folder; real runs are left out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def unmeasured(_: Profiler, report: Report) -> Report:
        return report

    monkeypatch.setattr(Profiler, "measured", unmeasured)

    def start(words: list[str]) -> tuple[int, str, str]:
        code = run(words)
        said = capsys.readouterr()
        return code, said.out, said.err

    return start


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples(printed: Run, name: str) -> None:
    shutil.copytree(ROOT / "workloads", "workloads")
    tokenizer = write("tokenizer.json", byte_tokenizer_json())
    edited = check_promises(printed, ["profile", f"workloads/{name}", "--requests", "4", "-t", tokenizer])
    assert edited == (name in ("support-bot.yaml", "volatile-first.yaml"))


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_random_workloads_and_planted_causes(printed: Run, seed: int) -> None:
    tokenizer = write("tokenizer.json", byte_tokenizer_json())
    assert check_promises(printed, ["profile", workload_of(seed), "-t", tokenizer])


def test_a_newcomer_s_template(printed: Run) -> None:
    """A block of a template that no edit moves is told with what moving it by hand wins, beside what the command reaches."""
    if not NEWCOMER.is_dir():
        pytest.skip("../shared/data is not here")
    shutil.copytree(NEWCOMER, "s1", copy_function=shutil.copyfile)
    profile = ["profile", "s1/triage.yaml", "--requests", "24"]
    assert " with what is left to do by hand" in " ".join(printed(profile)[1].split())
    assert check_promises(printed, profile) == 1
