"""Fates of prompt tokens in words: the hits first, then the largest loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvtool.accounting.ledger.fates import FATES, OF_TOKENS
from kvtool.text.terminal.numbers import shares

_ORDER = {fate: place for place, fate in enumerate(FATES)}


def fate_name(fate: str) -> str:
    """Return a fate in words, one that this version does not know as well."""
    return FATES.get(fate, fate.replace("_", " "))


def fate_shares(fates: Mapping[str, int]) -> list[tuple[str, int, str]]:
    """Return fate, tokens and share; between equal losses the ledger's order decides, and shares sum to exactly 100.0 %."""
    lost = sorted(
        (fate for fate in fates if fate != "hit"), key=lambda fate: (-fates[fate], _ORDER.get(fate, 99), fate)
    )
    order = ["hit", *lost]
    counts = [fates.get(fate, 0) for fate in order]
    return list(zip(order, counts, shares(counts), strict=True))


def has_blocks_only(absent: Sequence[str]) -> bool:
    """Return whether the input was block hashes, which show neither tokens nor text."""
    return set(OF_TOKENS) <= set(absent)


def absent_fates_note(absent: Sequence[str]) -> str:
    """Say which fates an input without text cannot show."""
    if has_blocks_only(absent):
        return "Block hashes have no text: blocked or moved text counts as unique or first use."
    return "Token ids have no text: differences of format count as blocked or unique."
