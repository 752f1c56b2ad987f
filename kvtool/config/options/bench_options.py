"""The options of `kvtool bench` that the next command changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from kvtool.config import bounds
from kvtool.config.option import Option, Panel


@dataclass(frozen=True, kw_only=True)
class Benching:
    """Time for measurements."""

    PANEL: ClassVar = Panel.COMMON
    budget: Annotated[float, Option("Time for all measurements.", "SECONDS", check=bounds.some_seconds)] = 30.0
