"""vLLM's one policy in a sweep: what its own pool runs of the requests."""

from __future__ import annotations

from dataclasses import replace

from kvtool.errors import KvtoolError
from kvtool.profiler.opening import Opened
from kvtool.profiler.what_if.planned_change import fitting
from kvtool.profiler.what_if.sweeps import SweepOptions
from kvtool.text.terminal.numbers import plural
from kvtool.workload.block_trace import BlockTrace

_ONE_POLICY = "vLLM has only LRU: the LRU row is its own pool, one request at a time"


def of_pool(
    opened: Opened, trace: BlockTrace, asked: SweepOptions, notes: list[str]
) -> tuple[BlockTrace, SweepOptions]:
    """Return the requests that vLLM would run with room enough, and the sweep over its policy; `notes` get what there is to say."""
    plan = opened.planned.plan
    fits = fitting(trace, replace(plan, engine=replace(plan.engine, num_blocks=None)))
    if not fits.any():
        raise KvtoolError("every request is longer than the context of the model", hint="a larger --max-model-len")
    if left := len(trace) - int(fits.sum()):
        notes.append(f"all rows leave out {plural(left, 'request')}: empty, or longer than the context of the model")
        trace = trace.only(fits)
    notes.append(_ONE_POLICY)
    return trace, replace(asked, engine=plan.engine)
