"""The entry of a diagnostic code, as data from which the terminal, the JSON and the documentation are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Tier = Literal["P0", "P1", "P2", "P3"]

TIERS: dict[Tier, str] = {
    "P0": "token ids unchanged",
    "P1": "same content in one canonical form",
    "P2": "same segments, moved (needs your review)",
    "P3": "content changed (needs your decision)",
}

Varies = Literal["value", "order", "session", ""]
"""What it is that varies: a value, the order of what is there, or what a session has with it."""


@dataclass(frozen=True, slots=True)
class CodeRemedy:
    """One way out, and the proof that it carries; None: kvtool cannot make the change, it is outside of prompts."""

    what: str
    tier: Tier | None = None


@dataclass(frozen=True, slots=True)
class CodeEntry:
    """One code. Texts are prose in ASCII; `before` and `after` are literal lines, without a line end at the end.

    `wins` are the fates of the ledger that its fix takes tokens from, `between_two` the advice for two prompts that differ so.
    """

    code: str
    name: str
    what: str
    why: str
    before: str
    after: str
    remedies: tuple[CodeRemedy, ...]
    ignore: str
    wins: tuple[str, ...] = ()
    varies: Varies = ""
    between_two: str = ""

    @property
    def can_be_ignored(self) -> bool:
        """Return whether a comment silences it; none silences what is wrong with comments, or a verdict."""
        return not self.code.startswith(("KV0", "KV4"))

    @property
    def tier(self) -> Tier | None:
        """Return the proof that every way out carries; None where they differ, or carry none."""
        first, *others = {remedy.tier for remedy in self.remedies}
        return None if others else first

    @property
    def proof(self) -> Tier:
        """Return the tier of a fix that this code alone decides: every way out carries it."""
        assert self.tier is not None, self.code
        return self.tier


@dataclass(frozen=True, slots=True)
class DifferenceKind:
    """A kind of changing value: a stable `key`, a `name` for people, and its diagnostic `code`."""

    key: str
    name: str
    code: str
