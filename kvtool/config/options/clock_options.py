"""The options of rows with a clock: latency targets and speed of arrival."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from kvtool.config import bounds
from kvtool.config.option import Option, Panel
from kvtool.errors import KvtoolError

if TYPE_CHECKING:
    from kvtool.engine.fleet.fleet_figures import Slo

_EXAMPLE = "write it like ttft=2s,tpot=50ms or ttft=2s,share=99%"


def parse_objectives(flag: str, value: str) -> Slo:
    """Parse `ttft=2s,tpot=50ms`, with `share=99%` for that share of the requests. Raises KvtoolError."""
    from kvtool.engine.fleet.fleet_figures import Slo
    from kvtool.text.quantities import parse_duration, parse_share

    found: dict[str, float] = {}
    for part in value.split(","):
        name, _, amount = (each.strip() for each in part.partition("="))
        name = name.lower()
        if name not in ("ttft", "tpot", "share"):
            raise KvtoolError(f"{flag}: {name[:40]!a} is no objective", hint=_EXAMPLE)
        if name in found:
            raise KvtoolError(f"{flag} says {name} twice", hint=_EXAMPLE)
        try:
            found[name] = parse_share(amount) if name == "share" else parse_duration(amount)
        except ValueError as error:
            raise KvtoolError(f"{flag}: {name}: {error}", hint=_EXAMPLE) from error
        if not found[name] > 0:
            raise KvtoolError(f"{flag}: {name} is above 0, not {amount[:40]}", hint=_EXAMPLE)
    if "ttft" not in found and "tpot" not in found:
        raise KvtoolError(f"{flag} has neither ttft nor tpot", hint=_EXAMPLE)
    return Slo(**found)


def objectives(flag: str, value: str) -> None:
    """Raise the errors of `parse_objectives`."""
    parse_objectives(flag, value)


@dataclass(frozen=True, kw_only=True)
class Clocking:
    """Latency targets and speed of arrival."""

    PANEL: ClassVar = Panel.COMMON
    slo: Annotated[
        str | None,
        Option(
            "Latency targets; with share=90%, for that share of the requests.",
            "ttft=2s,tpot=50ms",
            check=objectives,
        ),
    ] = None
    speedup: Annotated[
        float, Option("Factor by which requests arrive faster than in the log.", "X", check=bounds.some_times)
    ] = 1.0

    def objectives(self) -> Slo | None:
        """Return the objectives as numbers; None without any."""
        return None if self.slo is None else parse_objectives("--slo", self.slo)
