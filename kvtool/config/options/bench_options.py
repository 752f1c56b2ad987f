"""The options of `kvtool bench` that the next command changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from kvtool.config import bounds
from kvtool.config.option import Option


@dataclass(frozen=True, kw_only=True)
class Benching:
    """Time for measurements."""

    budget: Annotated[float, Option("For all measurements together.", "SECONDS", check=bounds.some_seconds)] = 30.0
