"""Describe the requests that a pass left out."""

from __future__ import annotations

from kvtool.profiler.run.run_result import RunResult, UnservedRequests
from kvtool.text.terminal.numbers import plural

_MOST = 5
"""Items that a sentence names; the rest is counted."""


def left_out(found: UnservedRequests) -> list[str]:
    """Describe failed requests by status, and requests of models without cache rules; the commonest first."""
    told = []
    if found.failed:
        total = sum(found.failed.values())
        told.append(f"{plural(total, 'failed request')} left out: {_counted(found.failed, 'status ')}")
    if found.unpredicted:
        total = sum(found.unpredicted.values())
        told.append(
            f"{plural(total, 'request')} not predicted, because kvtool knows no cache rules for: {_counted(found.unpredicted, '')}"
        )
    return told


def _counted(counts: dict[int, int] | dict[str, int], before: str) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
    shown = [f"{before}{name} ({count:,})" for name, count in ordered[:_MOST]]
    return ", ".join([*shown, *([f"{len(ordered) - _MOST:,} more"] if len(ordered) > _MOST else [])])


def refused_marks(result: RunResult) -> list[str]:
    """Return notes on requests with more marks than their provider takes."""
    hosted = result.counts.hosted
    if hosted is None or not hosted.too_many_marks:
        return []
    most = max(one.rules.most for one in hosted.trees.values())
    count, marks = sum(hosted.too_many_marks.values()), max(hosted.too_many_marks)
    return [
        f"{plural(count, 'request')} with {marks} marks (cache_control), {most} are allowed: the provider refuses them"
    ]
