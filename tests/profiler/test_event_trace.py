"""What the events of a run say of it, and where they break off."""

from __future__ import annotations

import pytest

pytest.importorskip("msgspec")

from kvtool.measure.servers.kv_events.event_batches import EventBatch, read_payload
from kvtool.profiler.reconcile.event_trace import EventTrace
from tests.measure.servers.published import CLEARED, payload, stored

FIRST, SECOND = stored([1], [7] * 4, session_id="a"), stored([2], [8] * 4, session_id="b")


def numbered(*batches: tuple[int, list[object]]) -> list[EventBatch]:
    return [read_payload(payload(events), seq) for seq, events in batches]


@pytest.mark.parametrize("begin", [[CLEARED], [], [FIRST]])
def test_what_is_missing_behind_the_first_batch_is_a_gap_whatever_that_holds(begin: list[object]) -> None:
    trace = EventTrace.of(numbered((5, begin), (8, [SECOND])))
    assert [str(found) for _, found in trace.breaks] == ["2 batches are missing before number 8 of rank 0"]


def test_a_run_may_begin_at_any_number() -> None:
    trace = EventTrace.of(numbered((5, [CLEARED]), (6, [FIRST]), (7, [SECOND])))
    assert trace.breaks == []
    assert trace.began_empty
    assert list(trace.admitted) == ["a", "b"]
