"""The options of looking at a server again and again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from kvtool.config import bounds
from kvtool.config.option import Option


@dataclass(frozen=True, kw_only=True)
class WatchOptions:
    """Interval of requests to a server, and the window of its rates."""

    interval: Annotated[str, Option("Time between two looks: 2s, 500ms, 1m.", "TIME", check=bounds.a_while)] = "2s"
    window: Annotated[str, Option("Over what time the rates of now are.", "TIME", check=bounds.a_while)] = "30s"
    count: Annotated[
        int | None,
        Option("Looks, and then the sums. [default: until Ctrl-C; of a file one]", "N", check=bounds.at_least_one),
    ] = None
