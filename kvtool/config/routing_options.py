"""The options of fleets: how many replicas there are, and who gives them the requests."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from kvtool.config.option import Option
from kvtool.errors import KvtoolError

MOST_REPLICAS = 1024


def parse_replicas(flag: str, value: str) -> list[int]:
    """`4`, `2,4` or `2..8`; KvtoolError for else."""
    found: list[int] = []
    for part in value.split(","):
        match = re.fullmatch(r"([0-9]{1,5})(?:\.\.([0-9]{1,5}))?", part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last <= MOST_REPLICAS:
            raise KvtoolError(
                f"{flag}: {part.strip()[:40]!a} is no number of replicas from 1 to {MOST_REPLICAS:,}",
                hint=f"{flag} 4, or 2..8",
            )
        found += range(first, last + 1)
    return found


def replica_counts(flag: str, value: str) -> None:
    """Refuse what `parse_replicas` refuses."""
    parse_replicas(flag, value)


@dataclass(frozen=True, kw_only=True)
class Routed:
    """Replicas behind a router."""

    replicas: Annotated[
        str | None,
        Option("Engines behind a router, each with a cache of its own: 4, or 2..8.", "N,...", check=replica_counts),
    ] = None
    routing: Annotated[str | None, Option("Who gives them the requests: a router's name.", "NAME,...")] = None

    def counts(self) -> list[int]:
        """Of replicas; empty where none is said."""
        return [] if self.replicas is None else parse_replicas("--replicas", self.replicas)
