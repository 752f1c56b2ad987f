"""The options of tiers below the GPU, and of the link between prefill and decode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from kvtool.config.option import Option
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

    host_memory: Annotated[
        str | None,
        Option(
            "Sizes of a tier in host memory: 256GiB, 100000 (blocks), 2x (what the GPU has). "
            "[default: as the engine has it, else 1x,2x,4x]",
            "SIZE,...",
        ),
    ] = None
    host_bandwidth: Annotated[
        str | None,
        Option("From there to the GPU, shared by all loads: 14GB/s. [default: {default}]", "RATE,...", default=_HOST),
    ] = None
    disk_memory: Annotated[
        str | None, Option("Sizes of a tier on disk, for what falls out of host memory.", "SIZE,...")
    ] = None
    disk_bandwidth: Annotated[
        str | None, Option("From there to the GPU, shared by all loads. [default: {default}]", "RATE", default=_DISK)
    ] = None
    tier_latency: Annotated[str | None, Option("Before the first byte of a load: 1ms. [default: none]", "TIME")] = None
    tier_rules: Annotated[
        TierRulesAsked | None,
        Option("Whose tiers they are: what is written below, and when. [default: {default}]", default="vllm"),
    ] = None
    tier_loads: Annotated[
        TierLoadAsked | None,
        Option(
            "Load what lies below always, as engines do, or where it is faster than computing. [default: {default}]",
            default="always",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Splitting:
    """The link between prefill and decode replicas, for `--sweep pd`."""

    link_bandwidth: Annotated[
        str | None,
        Option(
            "Between prefill and decode replicas, shared by all transfers: 50GB/s. [default: the accelerator's own link]",
            "RATE",
        ),
    ] = None
    link_latency: Annotated[str | None, Option("Before the first byte of a transfer: 1ms. [default: none]", "TIME")] = (
        None
    )


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
