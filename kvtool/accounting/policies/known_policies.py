"""The eviction policies that there are, by name."""

from __future__ import annotations

from collections.abc import Callable

from kvtool.accounting.policies.eviction_policy import EvictionPolicy
from kvtool.accounting.policies.lfu import Lfu
from kvtool.accounting.policies.recency import Fifo, Lru
from kvtool.results.choices import Policy

POLICIES: dict[Policy, Callable[[int], EvictionPolicy]] = {
    "lru": Lru,
    "fifo": Fifo,
    "lfu": Lfu,
}
"""Policies that can run, created with a capacity in blocks."""
