"""The gates and comments that `kvtool init` writes into a configuration, and that `kvtool check --tighten` brings up to date."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from kvtool.text.terminal.numbers import percent

MOST_GROUPS = 20
"""Groups with a gate of their own, in a configuration that a person reads."""
_OFF = "  # This limit is off: it cannot fail at 0%."
_ZERO = 'hit_rate = ">=0%"'
_UNGATED = "# No gate, since they reuse less than 0.1% today: "
_UNGATED_LINE = re.compile(r"# No gate, since they reuse less than [0-9.]+% today: .*")
_RATE = re.compile(r"(# hit rate )[0-9.]+%")
_LOSS = re.compile(r"# KV[0-9]{3} .* loses most: .*")


def group_gate(name: str, share: Decimal, prefix: str) -> list[str]:
    """Return the table of a group whose hit rate must be at least `share` percent; `prefix` is that of all tables."""
    return [f"[{prefix}gate.groups.{toml_key(name)}]", f'hit_rate = ">={share}%"']


def gate_of_all(share: Decimal) -> str:
    """Return the line of the hit rate that each workload must reach, which says so where it cannot fail."""
    return f'hit_rate = ">={share}%"{"" if share else _OFF}'


def ungated_groups(names: Sequence[str]) -> str:
    """Return the comment on groups without a gate; empty without one."""
    return f"{_UNGATED}{one_line(', '.join(names[:MOST_GROUPS]))}" if names else ""


def refreshed(text: str, *, rates: Mapping[int, float], losses: Iterable[str], ungated: Sequence[str]) -> str:
    """Return a configuration whose comments tell what is so today; comments in the words of `kvtool init` alone change.

    `rates` are hit rates by the number of the line, from 0, that names the workload. `losses` name the lines that lose most,
    `ungated` the groups that reuse less than 0.1 %.
    """
    end = "\r\n" if "\r\n" in text else "\n"
    kept: list[str] = []
    said = [f"# {one_line(each)}" for each in losses]
    for number, line in enumerate(text.split(end)):
        if _LOSS.fullmatch(line):
            kept += said
            said = []
        elif _UNGATED_LINE.fullmatch(line):
            if ungated:
                kept.append(ungated_groups(ungated))
            elif kept and not kept[-1]:
                kept.pop()
        elif line.endswith(_OFF) and not line.startswith(_ZERO):
            kept.append(line.removesuffix(_OFF))
        elif number in rates:
            kept.append(_RATE.sub(rf"\g<1>{percent(rates[number])}", line, count=1))
        else:
            kept.append(line)
    return end.join(kept)


def one_line(text: str) -> str:
    """Return a text that a comment can contain."""
    return "".join(character if character.isprintable() else " " for character in text)


def toml_key(name: str) -> str:
    """Return a name as a part of a key."""
    bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if bare else json.dumps(name, ensure_ascii=False)
