"""What init, profile, lint, check and optimize say of one repository: the same line first, and of edits what is done."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from kvtool.profiler.optimize.optimizer import Optimizer
from tests.conftest import Command, some
from tests.files import write

RULE = "- {} the order before you {} the parcel of the customer.\n"
VERBS = ("check", "close", "refuse", "record", "update", "cancel")
VALUES = (
    "Now: {{ now }}",
    "Ticket {{ ticket }}",
    "You serve {{ name }} ({{ tier }}).",
    "{% if vip %}VIP customer.{% endif %}",
    "{% for label in labels %}{{ label }}, {% endfor %}",
)


def some_prompt(draw: random.Random) -> str:
    rules = ["".join(RULE.format(draw.choice(VERBS), draw.choice(VERBS)) for _ in range(6)) for _ in range(3)]
    head = "{% include 'head.j2' %}\n" if draw.random() < 0.5 else f"You help.\n{draw.choice(VALUES)}\n"
    return f"{head}{rules[0]}{draw.choice(VALUES)}\n{rules[1]}{draw.choice(VALUES)}\n{rules[2]}{{{{ question }}}}\n"


@pytest.fixture(params=some([10, 8], 1))
def made_up(in_folder: Command, request: pytest.FixtureRequest) -> str:
    """A folder of two prompts, and the workload that `kvtool init` makes of it."""
    draw = random.Random(int(request.param))
    write("prompts/head.j2", f"You work at Acme.\n{draw.choice(VALUES)}\n{RULE.format('sell', 'buy')}")
    for number in range(2):
        write(f"prompts/p{number}.j2", some_prompt(draw))
    assert in_folder("init")[0] == 0
    path = Path("kvtool-workload.yaml")
    path.write_text(path.read_text().replace("requests: 40", "requests: 12"))
    return path.name


def test_every_command_speaks_of_the_same_lines_and_edits(
    made_up: str, in_folder: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And `check` plans no edits, but names the command that does."""
    code, out, _ = in_folder("init", "--force", "--width", "200")
    assert code == 0
    (named,) = re.findall(r"KV\d+ (\S+):\d+ .*loses most: ([\d,]+) tokens", out)
    profiled: dict[str, Any] = json.loads(in_folder("profile", made_up, "--dry-run", "--json")[1])
    worst = next(one for one in profiled["findings"] if one["group"] and one["tokens_lost"])
    assert named == (f"{worst['path']}:{worst['line']}", f"{worst['tokens_lost']:,}")
    found: dict[str, Any] = json.loads(in_folder("lint", made_up, "--json")[1])
    made: dict[str, Any] = json.loads(in_folder("optimize", made_up, "--allow", "P2,P3", "--json")[1])
    steps = {(each["group"], each["path"], each["line"], each["fix"]): each["edited"] for each in made["steps"]}
    fixes = [(each, (each["group"], each["path"], each["line"])) for each in found["findings"]]
    assert any(each["fixable"] for each, _ in fixes)
    for each, place in fixes:
        by_hand = each["fix"].startswith("by hand: ")
        assert not (by_hand and each["fixable"])
        if by_hand:
            assert not steps.get((*place, each["fix"].removeprefix("by hand: ").partition("; ")[0]))
        if each["fixable"]:
            assert any(edited for step, edited in steps.items() if step[:3] == place)

    def planned(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(Optimizer, "_carried_out", planned)
    Path("kvtool.toml").unlink()  # its gates are those of more requests
    for limit, fails in (("1%", False), ("99%", True)):
        code, out, err = in_folder("check", made_up, "--min-hit-rate", limit)
        assert (code, err) == (int(fails), "")
        assert ("kvtool optimize kvtool-workload.yaml" in " ".join(out.split())) == fails
