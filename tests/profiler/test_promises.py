"""The figure beside a command is the figure that this command reaches: each is run as it is printed, until none is left."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kvtool.cli.app import run
from kvtool.profiler.profiler import Profiler
from kvtool.results.report import Report
from tests.conftest import some
from tests.files import write
from tests.fuzz.promises import Run, check_promises, workload_of
from tests.tokenizers_made import byte_tokenizer_json

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.name for path in (ROOT / "workloads").glob("*.yaml"))


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


@pytest.mark.parametrize("seed", some([3, 1], 1))
def test_random_workloads_and_planted_causes(printed: Run, seed: int) -> None:
    tokenizer = write("tokenizer.json", byte_tokenizer_json())
    assert check_promises(printed, ["profile", workload_of(seed), "-t", tokenizer])


def test_what_is_left_to_do_by_hand(printed: Run) -> None:
    """A line that a macro writes, which no edit moves, is told with what moving it wins, beside what the command reaches."""
    rules = "".join(f"{number}. Quote the clause that you rely on.\n" for number in range(20))
    block = "{% macro answer(plan) %}Answer {{ plan }} customers within one day.\n{% endmacro %}{{ answer(plan) }}\n"
    write("system.j2", f"You decide on claims.\nNow: {{{{ now }}}}\n{block}{rules}")
    parts = "messages: [{role: system, file: system.j2}, {role: user, text: '{{ n }}?'}]"
    variables = "now: {datetime: 61s}, n: {counter: 1}, plan: {choice: [pro, free], pick: cycle}"
    write("w.yaml", f"version: 1\nvars: {{{variables}}}\ngroups: [{{name: g, requests: 8, {parts}}}]\n")
    profile = ["profile", "w.yaml", "-t", write("tokenizer.json", byte_tokenizer_json())]
    assert " with all changes below" in " ".join(printed(profile)[1].split())
    assert check_promises(printed, profile) == 1
