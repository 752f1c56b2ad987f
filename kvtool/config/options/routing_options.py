"""The options of fleets: replicas and routers, for rows with a clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from kvtool.config.bounds import MOST_REPLICAS
from kvtool.config.option import Option, Panel
from kvtool.engine.fleet.fleet_router import RouterView
from kvtool.errors import KvtoolError
from kvtool.text.comma_list import comma_list
from kvtool.text.quantities import parse_digits


def replica_counts(flag: str, text: str) -> list[int]:
    """Parse `4`, `2,4,8` or `2..8`: in order, each once. Raises KvtoolError for anything else."""
    counts: set[int] = set()
    for part in comma_list(text):
        first, dots, last = part.partition("..")
        low, high = _count(flag, first, part), _count(flag, last if dots else first, part)
        if low > high:
            raise KvtoolError(f"{flag}: {part[:40]!a} goes down", hint=f"{flag} {high}..{low}")
        counts.update(range(low, high + 1))
    if not counts:
        raise KvtoolError(f"{flag}: no number is given", hint=f"{flag} 4, 2,4,8 or 2..8")
    return sorted(counts)


def _count(flag: str, text: str, part: str) -> int:
    count = parse_digits(text.strip(), 1, MOST_REPLICAS)
    if count is None:
        raise KvtoolError(
            f"{flag}: {part[:40]!a} is no number of replicas, which is from 1 to {MOST_REPLICAS:,}",
            hint=f"{flag} 4, 2,4,8 or 2..8",
        )
    return count


def replicas(flag: str, value: str) -> None:
    """Raise the errors of `replica_counts`."""
    replica_counts(flag, value)


@dataclass(frozen=True, kw_only=True)
class Routed:
    """Replicas and routers."""

    PANEL: ClassVar = Panel.CACHE
    routing: Annotated[
        str | None,
        Option(
            "Routers to try, each NAME or NAME:SETTING=VALUE; a single one applies to the table.",
            "NAME,...",
            words="those that fit",
        ),
    ] = None
    replicas: Annotated[
        str | None,
        Option(
            "Number of replicas; several for --sweep replicas: 2,4 or 2..8.",
            "N,...",
            check=replicas,
            words="1 in the table, else 4",
        ),
    ] = None
    router_view: Annotated[
        RouterView | None,
        Option(
            "Knowledge of the routers: all cache events, or only what they sent.",
            words="as the router works",
            panel=Panel.ADVANCED,
        ),
    ] = None

    def names(self) -> list[str]:
        """Return the names of routers with their settings; empty without any."""
        return comma_list((self.routing or "").lower())

    def counts(self) -> list[int]:
        """Return the numbers of replicas in order; empty without any."""
        return [] if self.replicas is None else replica_counts("--replicas", self.replicas)
