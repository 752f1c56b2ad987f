"""Words of which one is chosen, by options and in documents alike; light to import, as the command line needs them at its start."""

from __future__ import annotations

from typing import Literal

Severity = Literal["error", "warning", "info"]
Rules = Literal["vllm", "block-lru"]
"""The engine's accounting, or the LRU list of blocks of trace studies."""
Routing = Literal["round-robin", "random", "sticky", "prefix-aware"]
"""How requests are given to replicas."""
By = Literal["session", "tenant", "line"]
"""What sums go by, beside groups."""
OnBadLine = Literal["error", "skip"]
"""A record that cannot be read stops the run, or is left out and counted."""

SIZES = ("capacity", "num_gpu_blocks", "gpu_memory")
"""The options that say how large the cache is, each in its own way."""
