"""What is planned as a document: the requests, the cache as it is now, and the rows."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.profiler.opening import Opened
from kvtool.results.documents.what_if import MissingRow, SweepRow, WhatIfDocument
from kvtool.workload.block_trace import AskedBlocks, BlockTrace


def plan_document(
    opened: Opened,
    trace: BlockTrace,
    blocks: AskedBlocks,
    rows: list[SweepRow],
    notes: list[str],
    *,
    bytes_per_block: int | None,
    sampled: float = 1.0,
    answer: Sequence[str] = (),
    missing: Sequence[MissingRow] = (),
) -> WhatIfDocument:
    """Of the table, or of one axis; `blocks` are those that the trace's requests look up."""
    plan, references, reachable = opened.planned.plan, blocks.references, blocks.reachable
    return WhatIfDocument(
        schema="kvtool.what-if/1",
        input=opened.name,
        rules=plan.rules,
        block_size=trace.block_size,
        requests=len(trace),
        references=references,
        distinct_blocks=trace.distinct,
        reachable_blocks=reachable,
        reachable_hit_rate=reachable / references if references else 0.0,
        capacity=None if plan.engine.num_blocks is None else plan.engine.num_blocks - 1,
        bytes_per_block=bytes_per_block,
        sampled=sampled,
        notes=notes,
        answer=list(answer),
        rows=rows,
        missing=list(missing),
    )
