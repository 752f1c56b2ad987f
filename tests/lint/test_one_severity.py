"""One rule of severity: a place is as severe in a template that is only read as in a run of it, in lint, profile and check."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvtool.diagnose.codes import entries
from kvtool.diagnose.diagnosis_thresholds import THRESHOLDS
from kvtool.diagnose.severity import (
    EXCEPTIONS,
    RULE,
    UNSURE_BLOCKS,
    UNSURE_MOST,
    severity_in_run,
    severity_of,
    severity_text,
)
from tests.conftest import some
from tests.files import write

Command = Callable[..., tuple[int, str, str]]
Places = dict[tuple[str, int, str], dict[str, Any]]

EXAMPLES = Path(__file__).parents[2] / "workloads"
REQUESTS = 24
ERROR_SHARE, ERROR_TOKENS = THRESHOLDS.error_share, THRESHOLDS.error_tokens
WARNING_SHARE, WARNING_TOKENS = THRESHOLDS.warning_share, THRESHOLDS.warning_tokens
VARIABLES = {
    "now": ("{datetime: 1m}", "KV101"),
    "request_id": ("{uuid: 4}", "KV102"),
    "user_name": (f"{{choice: [{', '.join(f'person{n}' for n in range(40))}]}}", "KV104"),
}


def test_the_rule() -> None:
    for lost, prompt, severity in [
        (ERROR_TOKENS, ERROR_TOKENS / ERROR_SHARE, "error"),
        (ERROR_TOKENS - 1, 100, "warning"),
        (ERROR_TOKENS, ERROR_TOKENS / ERROR_SHARE + 1, "warning"),
        (WARNING_TOKENS, WARNING_TOKENS / WARNING_SHARE, "warning"),
        (WARNING_TOKENS, WARNING_TOKENS / WARNING_SHARE + 1, "info"),
        (WARNING_TOKENS - 1, 20, "info"),
        (243, 300, "error"),
        (0, 0, "info"),
    ]:
        assert severity_of(lost, prompt) == severity
        assert severity_in_run(round(lost * 9), 10, round(prompt * 10)) == severity
        assert list(RULE) == ["error", "warning", "info"]


def test_every_code_says_what_decides() -> None:
    for entry in entries():
        assert bool(severity_text(entry.code)) == (not entry.code.startswith("KV4"))
    assert set(EXCEPTIONS) < {entry.code for entry in entries()}


@pytest.mark.parametrize("blocks", [UNSURE_BLOCKS // 2, UNSURE_BLOCKS + 1, 40])
def test_explain_says_of_kv201_what_a_template_gets(blocks: int, in_folder: Command) -> None:
    """A question is never an error without a run, however much follows; in a run it is one by its cost."""
    text = severity_text("KV201")
    assert f"only read, without a run, it is at most a {UNSURE_MOST}." in text
    assert f"fewer than {UNSURE_BLOCKS} blocks" in text
    rules = "Be kind to them. " * blocks  # a block each: 17 tokens of one byte
    write("prompts/t.j2", f"{{{{ question }}}}\n{rules}\n")
    write(
        "w.yaml",
        f"version: 1\nvars: {{question: {{choice: {list(map(str, range(40)))}}}}}\n"
        f"groups:\n  - {{name: g, requests: {REQUESTS}, file: prompts/t.j2}}\n",
    )
    read, run = lint(in_folder, "prompts/t.j2"), lint(in_folder, "w.yaml")
    few = blocks < UNSURE_BLOCKS
    place = ("t.j2", 1, "KV201")
    assert {one["severity"] for one in read.values()} <= {"info" if few else UNSURE_MOST}
    assert few or place in read
    assert few or run[place]["severity"] == "error"


def places(findings: list[dict[str, Any]]) -> Places:
    return {(Path(one["path"]).name, one["line"], one["code"]): one for one in findings if one["line"]}


def lint(kvtool: Command, *arguments: str) -> Places:
    code, out, err = kvtool("lint", "--json", *arguments)
    assert code in (0, 1), err
    return places(json.loads(out)["findings"])


def of_report(kvtool: Command, command: str, path: str, *more: str) -> Places:
    Path("r.json").unlink(missing_ok=True)
    code, _, err = kvtool(command, path, "-q", "-o", "r.json", *more)
    assert code in (0, 1), err
    return places(json.loads(Path("r.json").read_text())["findings"])


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_are_as_severe_everywhere(path: Path, in_folder: Command) -> None:
    shutil.copytree(EXAMPLES, "w")
    name = f"w/{path.name}"
    runs = [
        lint(in_folder, name, "-n", "24"),
        of_report(in_folder, "profile", name, "--dry-run", "-n", "24"),
        of_report(in_folder, "check", name, "-n", "24"),
    ]
    assert runs[0].keys() == runs[1].keys() == runs[2].keys()
    for place in runs[0]:
        assert len({run[place]["severity"] for run in runs}) == 1, place
    for prompt in sorted(Path("w/prompts").glob("*.md")):
        if prompt.name in path.read_text(encoding="utf-8"):
            read = lint(in_folder, str(prompt))
            for place in read.keys() & runs[0].keys():
                assert read[place]["severity"] == runs[0][place]["severity"], place


@pytest.mark.parametrize("seed", some(range(8), 3))
def test_a_template_that_is_read_is_as_severe_as_one_that_is_run(seed: int, in_folder: Command) -> None:
    chance = random.Random(seed)
    names = chance.sample(sorted(VARIABLES), chance.choice([1, 1, 2]))
    lines: list[str] = []
    for name in names:
        lines += [f"Rule {len(lines)}: be kind." for _ in range(chance.choice([0, 1, 30, 200]))]
        lines.append(f"Here: {{{{ {name} }}}}.")
    lines += [f"Rule {n}: be kind." for n in range(chance.choice([1, 3, 8, 14, 60]))]
    write("prompts/t.j2", "\n".join(lines) + "\n")
    write(
        "w.yaml",
        "version: 1\nvars:\n"
        + "".join(f"  {name}: {VARIABLES[name][0]}\n" for name in names)
        + f"groups:\n  - {{name: g, requests: {REQUESTS}, file: prompts/t.j2}}\n",
    )
    read, run = lint(in_folder, "prompts/t.j2"), lint(in_folder, "w.yaml")
    constant = sum(len(line) + 1 for line in lines if "{{" not in line)
    for place, one in read.items():
        if place not in run:  # nothing that could be won, or too little to tell
            continue
        share, tokens = one["tokens_lost"] / constant, one["tokens_lost"]
        near = any(abs(share / edge - 1) < 0.5 for edge in (ERROR_SHARE, WARNING_SHARE))
        if not near and abs(tokens / ERROR_TOKENS - 1) > 0.5:
            assert one["severity"] == run[place]["severity"], (place, share, tokens)
    assert read
    if any(one["tokens_lost"] > 400 for one in read.values()):
        assert read.keys() & run.keys(), "the run finds what costs much, too"
