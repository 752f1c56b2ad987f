"""Whether a run can be followed by its KV events, and how."""

from __future__ import annotations

from kvtool.measure.servers.kv_events.event_batches import StoredBlocks
from kvtool.profiler.reconcile.evidence import RunEvidence
from kvtool.profiler.reconcile.followed_steps import Followed, LedRequest, StepFollower, steps_of
from kvtool.profiler.reconcile.twin import Twin


def followed(evidence: RunEvidence, twin: Twin) -> Followed | None:
    """Who came before which step, where requests ran together and the events show all of it; None where they do not.

    Every request was answered or refused, each has one prompt, and nobody else stored anything.
    """
    observed = evidence.observed
    trace = observed.trace
    if (
        trace is None
        or twin.at_once == 1
        or evidence.traffic is not None
        or evidence.other_tokens
        or evidence.restarted
    ):
        return None
    if len(evidence.sent) != len(evidence.answered) or observed.partial or observed.failed:
        return None
    served = steps_of(trace)
    if served is None:
        return None
    asks = {ask.number: ask for ask in evidence.sent}
    last: dict[str, int] = {}
    for place, event in enumerate(trace.events):
        if isinstance(event, StoredBlocks) and event.session_id is not None:
            last[event.session_id] = place
    requests = []
    for each in evidence.answered:
        session = each.session_id or ""
        first = trace.admitted.get(session)
        requests.append(LedRequest(asks[each.number], each.sent, each.done, first, last.get(session)))
    return StepFollower(twin.config, served, requests).follow()
