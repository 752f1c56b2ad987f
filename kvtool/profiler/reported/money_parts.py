"""What a report holds of money and of what was reported, before it is put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvtool.results.money import Money, Predicted, Reported
from kvtool.results.report import GroupRead


@dataclass(frozen=True, slots=True)
class MoneyTold:
    """Parts of a report; all None where the log tells of no model that has a price, and of nothing that was read."""

    reported: Reported | None = None
    predicted: Predicted | None = None
    difference: dict[str, int] | None = None
    money: Money | None = None
    groups: Mapping[str, GroupRead] = field(default_factory=dict)
    """The same by group, of those of which a server told anything."""
