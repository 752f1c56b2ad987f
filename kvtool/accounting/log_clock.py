"""Days and moments of requests, from the times of a log."""

from __future__ import annotations

from datetime import UTC, date, datetime

CLOCK = 1e9
"""Seconds since 1970 below which a log's times are no clock's."""


def moment_of(epoch: float | None, now: float) -> datetime | None:
    """Return the UTC moment `now` seconds after `epoch`; None without a known clock."""
    if epoch is None or epoch + now < CLOCK:
        return None
    try:
        return datetime.fromtimestamp(epoch + now, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def day_of(epoch: float | None, now: float) -> date | None:
    """Return the day of the same, by UTC."""
    moment = moment_of(epoch, now)
    return None if moment is None else moment.date()
