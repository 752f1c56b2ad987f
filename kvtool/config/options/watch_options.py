"""The options of repeated readings of a server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from kvtool.config import bounds
from kvtool.config.option import Option, Panel


@dataclass(frozen=True, kw_only=True)
class WatchOptions:
    """Interval of requests to a server, and the window of its rates."""

    PANEL: ClassVar = Panel.COMMON
    interval: Annotated[str, Option("Time between two readings: 2s, 500ms, 1m.", "TIME", check=bounds.a_while)] = "2s"
    window: Annotated[str, Option("Time span of the current rates.", "TIME", check=bounds.a_while)] = "30s"
    count: Annotated[
        int | None,
        Option(
            "Number of readings; the totals follow.", "N", check=bounds.at_least_one, words="until Ctrl-C, 1 for a file"
        ),
    ] = None
