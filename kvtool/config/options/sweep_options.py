"""The options of one sweep, and a check of options that need another sweep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, get_args

from kvtool.config import bounds
from kvtool.config.option import Option, Panel, walk
from kvtool.errors import KvtoolError
from kvtool.results.choices import Axis, Policy
from kvtool.text.comma_list import comma_list
from kvtool.text.quantities import parse_digits

if TYPE_CHECKING:
    from kvtool.config.options.clock_options import Clocking
    from kvtool.config.options.routing_options import Routed
    from kvtool.config.options.tier_options import Splitting, Tiering

_MOST = 10**12
_FLEETS: tuple[Axis, ...] = ("tier", "routing", "replicas", "pd")
_AXES: dict[str, tuple[Axis, ...]] = {
    "policies": ("policy",),
    "ttls": ("ttl",),
    "block_sizes": ("block-size",),
    "capacities": ("capacity", "policy", "block-size"),
}
"""The axes of a list of values."""


@dataclass(frozen=True, kw_only=True)
class Sweeping:
    """Axis of a sweep, and the values that are tried."""

    PANEL: ClassVar = Panel.COMMON
    sweep: Annotated[Axis | None, Option("Setting to vary alone, as a curve.")] = None
    capacities: Annotated[str | None, Option("Cache sizes to try, in blocks.", "N,...", words="a spread")] = None
    policies: Annotated[
        str | None,
        Option(
            "Eviction policies to try: lru, fifo, lfu, opt (upper bound); SGLang: lru, lfu, slru, priority.",
            "NAME,...",
            words="all",
            panel=Panel.ADVANCED,
        ),
    ] = None
    ttls: Annotated[str | None, Option("Times to live to try: 30s,5m,1h.", "TIME,...", panel=Panel.ADVANCED)] = None
    block_sizes: Annotated[
        str | None, Option("Block sizes to try, multiples of today's.", "N,...", panel=Panel.ADVANCED)
    ] = None
    sample: Annotated[
        float,
        Option("Share of the blocks that the capacity curve counts.", "X", check=bounds.sample, panel=Panel.ADVANCED),
    ] = 1.0

    @property
    def axis(self) -> Axis | None:
        """Return the axis, which capacities or a sample imply; None: the table."""
        return self.sweep or ("capacity" if self.capacities is not None or self.sample < 1 else None)

    def found_policies(self) -> list[Policy]:
        """Return the named policies. Raises KvtoolError for an unknown one."""
        policies: list[Policy] = []
        for name in comma_list((self.policies or "").lower()):
            found = next((each for each in get_args(Policy) if each == name.replace("-", "")), None)
            if found is None:
                raise KvtoolError(
                    f"--policies: no policy {name[:40]!a} is known", hint=f"one of {', '.join(get_args(Policy))}"
                )
            policies.append(found)
        return policies

    def found_ttls(self) -> list[float]:
        """Return times to live in seconds. Raises KvtoolError for anything else."""
        from kvtool.text.quantities import parse_duration

        try:
            return [parse_duration(text) for text in comma_list((self.ttls or "").lower())]
        except ValueError as error:
            raise KvtoolError(f"--ttls: {error}") from error

    def found_capacities(self) -> list[int]:
        """Return capacities in blocks. Raises KvtoolError for anything else."""
        return _numbers("--capacities", self.capacities, 0)

    def found_block_sizes(self) -> list[int]:
        """Return block sizes in tokens. Raises KvtoolError for anything else."""
        return _numbers("--block-sizes", self.block_sizes, 1)


@dataclass(frozen=True, kw_only=True)
class Fixing:
    """Fixes of the prompts for the table."""

    PANEL: ClassVar = Panel.COMMON
    advice: Annotated[bool, Option("Try fixes of the prompts in the table.", flag="--advice/--no-advice")] = True
    fixed: Annotated[
        str | None,
        Option("Fixes to make in all rows: codes, names from the table, or all.", "NAME,..."),
    ] = None


def check_together(
    sweeping: Sweeping,
    *,
    tiering: Tiering,
    splitting: Splitting,
    routed: Routed,
    clocking: Clocking,
    fixed: str | None,
) -> None:
    """Raise KvtoolError for an option of another axis than the swept one, or of a sweep where there is none."""
    axis = sweeping.axis
    concerns: list[tuple[object, tuple[Axis | None, ...]]] = [
        (tiering, ("tier",)),
        (splitting, ("pd",)),
        (routed, (*_FLEETS, None)),
        (clocking, (*_FLEETS, None)),
    ]
    said: list[tuple[str, bool, tuple[Axis | None, ...]]] = [
        (name, getattr(sweeping, name) is not None, axes) for name, axes in _AXES.items()
    ]
    for concern, axes in concerns:
        said += [(each.name, getattr(concern, each.name) != each.default, axes) for each in walk(type(concern))]
    for name, given, axes in said:
        if given and axis not in axes:
            flag = f"--{name.replace('_', '-')}"
            named = " or ".join(each for each in axes if each is not None)
            raise KvtoolError(
                f"{flag} is for {'the table and ' if None in axes else ''}--sweep {named}, not {axis or 'the table'}",
                hint=f"leave {flag} out" if axis is not None else f"--sweep {axes[0]}",
            )
    if sweeping.sample < 1 and axis != "capacity":
        raise KvtoolError("--sample is for --sweep capacity", hint="leave --sample out")
    if fixed is not None and axis is not None:
        raise KvtoolError("--fixed is for the table", hint="leave --sweep out")


def _numbers(flag: str, text: str | None, least: int) -> list[int]:
    found = []
    for part in comma_list((text or "").lower()):
        number = parse_digits(part.replace("_", ""), least, _MOST)
        if number is None:
            raise KvtoolError(f"{flag}: {part[:40]!a} is not a number of at least {least}", hint=f"{flag} 1000,10000")
        found.append(number)
    return found
