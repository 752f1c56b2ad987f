"""Causes in the order of what they take, each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kvtool.diagnose.diagnosis_thresholds import THRESHOLDS
from kvtool.measure.servers.causes.counter_causes import counter_causes
from kvtool.measure.servers.causes.event_causes import event_causes
from kvtool.measure.servers.causes.server_evidence import ServerEvidence
from kvtool.results.documents.server_cause import Basis, ServerCause

_SURE: Sequence[Basis] = ("counted", "shown", "at most", "possible")


def top_causes(evidence: ServerEvidence) -> list[ServerCause]:
    """Return the causes of servers without a log."""
    return ordered(server_causes(evidence), evidence.looked_up, proven=is_whole(evidence))


def server_causes(evidence: ServerEvidence) -> list[ServerCause]:
    """Return what the counters and the KV events of servers show, in no order."""
    found = [*counter_causes(evidence, costly=THRESHOLDS.error_share), *event_causes(evidence)]
    return list(_of_all(found, len(evidence.servers)))


def _of_all(found: Sequence[ServerCause], servers: int) -> Iterable[ServerCause]:
    """Return one cause of all servers where each of them shows it in the same words and with the same tokens."""
    shared = [each.model_copy(update={"server": None}) for each in found]
    times = Counter(each.model_dump_json() for each in shared)
    kept: dict[str, ServerCause] = {}
    for each, one in zip(found, shared, strict=True):
        best = one if times[one.model_dump_json()] == servers else each
        kept.setdefault(best.model_dump_json(), best)
    return kept.values()


def is_whole(evidence: ServerEvidence) -> bool:
    """Return whether KV events count all losses of the span."""
    return evidence.losses is not None and evidence.losses.whole


def ordered(
    found: Sequence[ServerCause], counts: int | None, *, proven: bool, of_log: int | None = None
) -> list[ServerCause]:
    """Return each cause of each server once, by what it takes of `counts` tokens; what takes less than users notice goes.

    Of a cause of all servers together and the same one of single servers, the surer one is kept.

    `proven`: events or a log count what causes take, so what is only possible goes, too. `of_log` are the tokens of which causes
    from a log take a part, where the log has other requests than the servers counted.
    """

    def share(each: ServerCause) -> float:
        of = of_log if each.source == "log" and of_log is not None else counts
        return share_of(each.tokens or 0, of)

    def key(each: ServerCause) -> tuple[int, float]:
        return _SURE.index(each.basis), -share(each)

    def order(each: ServerCause) -> tuple[bool, bool, int, float]:
        is_contradiction = each.basis == "shown" and each.source == "server"  # sure, and its change costs nothing
        is_small = each.tokens is not None and share(each) < THRESHOLDS.error_share
        return not is_contradiction, is_small, _SURE.index(each.basis), -share(each)

    by_name: dict[str, dict[str | None, ServerCause]] = {}
    for each in sorted(found, key=key):
        if not proven or each.basis != "possible":
            by_name.setdefault(each.cause, {}).setdefault(each.server, each)
    best: list[ServerCause] = []
    for by_server in by_name.values():
        surest = next(iter(by_server.values()))
        best += [surest] if surest.server is None else [each for each in by_server.values() if each.server is not None]
    kept = [each for each in best if each.tokens is None or share(each) >= THRESHOLDS.warning_share]
    return sorted(kept, key=order)


def share_of(tokens: int, counts: int | None) -> float:
    """Return the part of all tokens; 1 where nobody counts them."""
    return tokens / counts if counts else 1.0
