"""Steps name lines of the user's files as they are on disk, whatever earlier steps did to them; what was not made is said."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from kvtool.profiler.optimize.disk_lines import disk_line
from tests.conftest import Command, some

VALUES = {"now": "{datetime: 1m}", "rid": "{uuid: 4}", "user": "{choice: [Ada, Grace, Linus]}", "n": "{counter: 1}"}
LINES = ("Time: {{ now }}", "Request {{ rid }}", "User: {{ user }}", "Ticket {{ n }} of the shop.")


def test_lines_are_found_after_moves_and_new_lines() -> None:
    for seed in some(range(40), 12):
        rng = random.Random(seed)
        disk = [rng.choice(("", f"line {at}", f"line {at}")) for at in range(rng.randint(2, 30))]
        edited: list[tuple[str, int]] = [(text, at + 1) for at, text in enumerate(disk)]
        for _ in range(rng.randint(0, 3)):
            edited.insert(rng.randrange(len(edited) + 1), edited.pop(rng.randrange(len(edited))))
        for new in range(rng.randint(0, 2)):
            edited.insert(rng.randrange(len(edited) + 1), (f"new {new}", 0))
        texts = "\n".join(disk), "\n".join(text for text, _ in edited)
        for at, (text, line) in enumerate(edited, 1):
            if text:
                assert disk_line(*texts, at) == line


def made(seed: int) -> str:
    """Return a template of rules with values in between, so that one edit opens the way for another."""
    rng = random.Random(seed)
    lines = [
        rng.choice(LINES) if rng.random() < 0.3 else f"Rule {at}: be kind to {rng.random():.9f}." for at in range(24)
    ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("seed", [2])
def test_steps_name_lines_on_disk(seed: int, in_folder: Command) -> None:
    Path("p.j2").write_text(made(seed))
    names = "\n".join(f"  {name}: {values}" for name, values in VALUES.items())
    Path("w.yaml").write_text(
        f"version: 1\nvars:\n{names}\n  q: {{counter: 7}}\ngroups:\n  - name: g\n    requests: 6\n    messages:\n"
        "      - {role: system, file: p.j2}\n      - {role: user, text: 'Question {{ q }} of mine?'}\n"
    )
    code, out, err = in_folder("optimize", "w.yaml", "--allow", "P2,P3", "--json")
    assert code == 0, err
    steps = json.loads(out)["steps"]
    assert steps
    for step in steps:
        line = made(seed).split("\n")[step["line"] - 1]
        assert line[step["column"] - 1 :].startswith("{{")
    code, out, err = in_folder("optimize", "w.yaml", "--allow", "P2,P3", "--no-diff", "--width", "300")
    assert code == 0, err
    rows = re.findall(r"^  \d+ +P\d .*", out, re.MULTILINE)
    assert len(rows) == len(steps)
    for number, (row, step) in enumerate(zip(rows, steps, strict=True), 1):
        assert ("not made" in row) == (not step["edited"])
        if not step["edited"]:
            told = re.search(rf"Not made, steps? [^(]*\b{number}\b[^(]*\(([^)]*)\): (.*)\.\n", out)
            assert told is not None
            assert f"p.j2:{step['line']}" in told[1]
            assert told[2] == step["reason"]
