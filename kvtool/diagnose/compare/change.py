"""Changes between two requests: which part of the later one differs from the earlier one, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from kvtool.diagnose.codes.entry import DifferenceKind

PartKind = Literal["tools", "message", "text", "history"]


@dataclass(frozen=True, slots=True)
class RequestPart:
    """A part of a request: its tools, one message, the whole text of a request without messages, or the list of messages.

    `index` and `role` are those of a message (of the first message concerned, for the history) in the later request.
    """

    kind: PartKind
    index: int = 0
    role: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. `[start, stop)` are the characters of the part's text in the later request that the change is about.

    `before` and `after` are what differs, at most 4,096 characters of each; either is empty where the other was inserted or left
    out. `cosmetic` says that the part is equal after the canonicalizer that `kind` names: nothing but order of tools or keys,
    white space or a Unicode form differs.
    """

    kind: DifferenceKind
    part: RequestPart
    start: int = 0
    stop: int = 0
    before: str = ""
    after: str = ""
    cosmetic: bool = False
    in_full: Callable[[], list[Change]] | None = field(default=None, compare=False, repr=False)
    """What it is for, where it is all the values that differ in a text and nobody has asked yet which they are."""


def in_full(changes: Iterable[Change]) -> list[Change]:
    """Return the changes, those of values one by one."""
    return [one for change in changes for one in ([change] if change.in_full is None else change.in_full())]
