"""One change of how requests are served, or of what they say, as a row of the table is counted for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kvtool.accounting.curves.engine_hits import BlockHits, best_hits, engine_hits, policy_hits
from kvtool.accounting.plan import Plan
from kvtool.accounting.policies.known_policies import POLICIES
from kvtool.engine.fleet.tier_plan import TierPlan
from kvtool.engine.impossible_requests import all_fitting
from kvtool.errors import KvtoolError
from kvtool.fixes.fix import Fix
from kvtool.results.choices import ChangeKind, Policy, Sure
from kvtool.workload.block_trace import BlockTrace

Flags = Mapping[str, object]
"""Values of options by name, in place of those of a command line; None takes an option away."""


@dataclass(frozen=True)
class PlannedChange:
    """Requests in blocks of their size, and the plan of the engine that serves them. `flags` is what gives the row again."""

    kind: ChangeKind
    name: str
    """For a table: a few words, no text of a prompt."""
    does: str
    """What to do, as a sentence goes on after a colon."""
    trace: BlockTrace
    plan: Plan
    flags: Flags | None = field(default_factory=dict)
    """None: no command line says it."""
    sure: Sure = "exact"
    policy: Policy = "lru"
    more_hardware: bool = False
    """Whether somebody has to buy something for it."""
    replicas: int | None = None
    """None: as many as today."""
    routing: str | None = None
    """None: today's router."""
    tiers: TierPlan | None = None
    """What lies below each replica's GPU; None: nothing."""
    prefill: int | None = None
    """Of the replicas, those that compute prompts only; None: all do both."""

    @property
    def capacity(self) -> int | None:
        """Return usable blocks; None: unlimited."""
        blocks = self.plan.engine.num_blocks
        return None if blocks is None else blocks - 1

    @property
    def accelerators(self) -> int:
        """Return the number of accelerators of one replica."""
        return self.plan.latency.tensor_parallel

    @cached_property
    def hits(self) -> BlockHits:
        """Return the hits of requests that are served whole, one after the other."""
        trace, studied = self.trace, self.plan.by_trace_study
        most = self.capacity if self.capacity is not None else holding_all(trace)
        if self.policy == "opt":
            return best_hits(trace, trace.of_studies() if studied else trace.of_engine(), most)
        if studied:
            return policy_hits(trace, POLICIES[self.policy](most))
        return engine_hits(trace, self.plan.engine)


@dataclass(frozen=True, slots=True)
class RunChange:
    """The same of requests that are run again: `fixes` are those of the run."""

    kind: ChangeKind
    name: str
    does: str
    fixes: Sequence[Fix]
    flags: Flags | tuple[str, ...] | None = None
    sure: Sure = "exact"
    more_hardware: bool = False


def nothing_fits() -> KvtoolError:
    """Return the error of a workload of which today's cache serves no request."""
    return KvtoolError("every request is longer than the cache or the context of the model", hint="a larger --capacity")


def with_blocks(plan: Plan, blocks: int | None, block_size: int | None = None) -> Plan:
    """Return the plan with so many usable blocks, of another size where one is said."""
    size = plan.engine.block_size if block_size is None else block_size
    num_blocks = None if blocks is None else blocks + 1  # vLLM's null block is one of them
    return replace(plan, engine=replace(plan.engine, num_blocks=num_blocks, block_size=size))


def holding_all(trace: BlockTrace) -> int:
    """Return blocks in which nothing ever has to make room: those of all prompts and answers."""
    size = trace.block_size
    return int((-(-(trace.prompt_tokens + np.maximum(trace.output_tokens, 1)) // size)).sum()) + 1


def fitting(trace: BlockTrace, plan: Plan) -> npt.NDArray[np.bool_]:
    """Return which requests the engine would ever run, by its scheduler's rule; block lists of studies take all."""
    if plan.by_trace_study:
        return np.ones(len(trace), dtype=np.bool_)
    return all_fitting(trace.prompt_tokens, np.maximum(trace.output_tokens, 1), plan.engine)
