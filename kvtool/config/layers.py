"""Layers of options: flag, variable, workload file, configuration file, default."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvtool.workload.yaml.schema import EngineOptions

EXCLUDES = {
    "capacity": frozenset({"num_gpu_blocks", "gpu_memory", "gpu_memory_utilization", "provider"}),
    "num_gpu_blocks": frozenset({"capacity", "gpu_memory", "gpu_memory_utilization", "provider"}),
    "gpu_memory": frozenset({"capacity", "num_gpu_blocks", "provider"}),
    "provider": frozenset(
        {
            "capacity",
            "num_gpu_blocks",
            "gpu_memory",
            "gpu_memory_utilization",
            "replicas",
            "routing",
            "block_size",
            "concurrency",
        }
    ),
    "block_size": frozenset({"provider"}),
    "replicas": frozenset({"provider", "concurrency"}),
    "ttl": frozenset({"concurrency"}),
    "concurrency": frozenset({"provider", "replicas", "routing", "ttl"}),
    "calibration": frozenset({"accelerator"}),
}
"""Options of lower layers that an option makes void."""


def hidden_by(said: Collection[str]) -> frozenset[str]:
    """Return the options that do not count in a lower place, where these are said above it."""
    return frozenset(said).union(*(EXCLUDES.get(name, frozenset()) for name in said))


def merged(asked: EngineOptions, defaults: EngineOptions | None, flags: Collection[str] = ()) -> EngineOptions:
    """Return the options of the workload, with the defaults for those that neither it nor `flags` gives."""
    if defaults is None:
        return asked
    hidden = hidden_by({*(name for name, value in asked if value is not None), *flags})
    return asked.model_copy(
        update={name: value for name, value in defaults if value is not None and name not in hidden}
    )
