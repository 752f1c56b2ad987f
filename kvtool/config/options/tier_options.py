"""The options of tiers below the GPU, and of the link between prefill and decode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from kvtool.config.option import Option, Panel
from kvtool.engine.fleet.tier_rules import DISK_BANDWIDTH, HOST_BANDWIDTH
from kvtool.errors import KvtoolError
from kvtool.text.comma_list import comma_list

if TYPE_CHECKING:
    from collections.abc import Callable

TierRulesAsked = Literal["vllm", "sglang", "dynamo"]
TierLoadAsked = Literal["always", "cheaper"]
_HOST, _DISK = f"{HOST_BANDWIDTH / 1e9:g}GB/s", f"{DISK_BANDWIDTH / 1e9:g}GB/s"


@dataclass(frozen=True, kw_only=True)
class Tiering:
    """Host memory and disk of each replica, for `--sweep tier`."""

    PANEL: ClassVar = Panel.ADVANCED
    host_memory: Annotated[
        str | None,
        Option(
            "Host memory sizes to try: 256GiB, 100000 (blocks) or 2x (of the GPU's cache).",
            "SIZE,...",
            words="the engine's, else 1x,2x,4x",
        ),
    ] = None
    host_bandwidth: Annotated[
        str | None,
        Option("Bandwidth from host memory to the GPU, shared by all loads.", "RATE,...", default=_HOST),
    ] = None
    disk_memory: Annotated[str | None, Option("Disk sizes to try, for blocks that leave host memory.", "SIZE,...")] = (
        None
    )
    disk_bandwidth: Annotated[
        str | None, Option("Bandwidth from disk to the GPU, shared by all loads.", "RATE", default=_DISK)
    ] = None
    tier_latency: Annotated[str | None, Option("Latency before the first byte of a load: 1ms.", "TIME")] = None
    tier_rules: Annotated[
        TierRulesAsked | None,
        Option("Engine with the tier rules: which blocks a tier gets, and when.", default="vllm"),
    ] = None
    tier_loads: Annotated[
        TierLoadAsked | None,
        Option(
            "Loads from a tier: always, or only if faster than computing.",
            default="always",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Splitting:
    """The link between prefill and decode replicas, for `--sweep pd`."""

    PANEL: ClassVar = Panel.ADVANCED
    link_bandwidth: Annotated[
        str | None,
        Option(
            "Bandwidth from prefill to decode replicas, shared by all transfers: 50GB/s.",
            "RATE",
            words="the accelerator's link",
        ),
    ] = None
    link_latency: Annotated[str | None, Option("Latency before the first byte of a transfer: 1ms.", "TIME")] = None


def amounts(flag: str, text: str | None, parse: Callable[[str], float]) -> list[float]:
    """Parse amounts between commas. Raises KvtoolError for anything else."""
    try:
        return [parse(part) for part in comma_list(text)]
    except ValueError as error:
        raise KvtoolError(f"{flag}: {error}") from error


def single_amount(flag: str, text: str | None, parse: Callable[[str], float], default: float) -> float:
    """Parse one amount; empty is the default. Raises KvtoolError for several."""
    found = amounts(flag, text, parse)
    if len(found) > 1:
        raise KvtoolError(f"{flag} is one amount, not {len(found)}")
    return found[0] if found else default
