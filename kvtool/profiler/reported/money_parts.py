"""Parts of a report on money and reported reads, before they are put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvtool.results.money import Money, Predicted, Reported
from kvtool.results.report import GroupRead


@dataclass(frozen=True, slots=True)
class MoneySections:
    """Parts of a report; all None if the log has no model with a price, and no reported reads."""

    reported: Reported | None = None
    predicted: Predicted | None = None
    difference: dict[str, int] | None = None
    money: Money | None = None
    groups: Mapping[str, GroupRead] = field(default_factory=dict)
    """The same by group, for groups with a server's reports."""
