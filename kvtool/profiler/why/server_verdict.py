"""Puts the causes of all sources into one verdict: each cause once, in the order of what it takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from kvtool.diagnose.diagnosis_thresholds import THRESHOLDS
from kvtool.measure.servers.causes.counter_causes import cause, own_change
from kvtool.measure.servers.causes.server_evidence import AskedServer, ServerEvidence
from kvtool.measure.servers.metrics import metric_names as names
from kvtool.measure.servers.metrics.watching import server_counts
from kvtool.measure.servers.server_values import truth_at
from kvtool.profiler.why.log_causes import FIRST_USES, log_causes, unexplained
from kvtool.profiler.why.log_report import LogReport
from kvtool.profiler.why.ordered_causes import is_whole, ordered, server_causes, share_of
from kvtool.profiler.why.recorded_causes import recorded_causes
from kvtool.results.documents.reconciliation import ReplayDocument
from kvtool.results.documents.server_cause import CauseName, ServerCause
from kvtool.results.documents.watched import ServerNow
from kvtool.results.documents.why_document import WhyDocument, WhyServer
from kvtool.results.money import Reported
from kvtool.results.report import Report
from kvtool.text.terminal.numbers import capitalized, percent, plural

Verdict = Literal["cause", "possible", "healthy", "unknown"]
RateSource = Literal["/metrics", "log", "answers"]


def why_document(
    evidence: ServerEvidence,
    *,
    span: str,
    profiled: LogReport | None = None,
    replay: ReplayDocument | None = None,
    notes: Sequence[str] = (),
    logs: Sequence[str] = (),
    of_lines: Sequence[ServerCause] = (),
) -> WhyDocument:
    """Return the verdict on servers, with that on a log or a recorded session of their requests.

    `of_lines` are causes that the servers wrote into their own logs.
    """
    report = None if profiled is None else profiled.report
    of_log = None if report is None else report.reported
    known = profiled is None or not profiled.unknown
    with_prompts = None if report is None or _lacks_prompts(report) or not known else report
    apart = of_log is not None and _is_apart(evidence, of_log)
    looked_up, hits, rate_source = _rate(evidence, None if apart else of_log)
    found = [*server_causes(evidence), *of_lines]
    if replay is not None:
        found += recorded_causes(replay, evidence.kind)
    left = 0
    notes = [*notes, *(f"{server.source}: {server.trouble}" for server in evidence.servers if server.trouble)]
    if report is not None:
        facts = [*found, *_other_traffic(evidence, report)]
        caching, missed = _caching(evidence), _missed(evidence, report)
        enough = None if profiled is None else profiled.enough
        logged = list[ServerCause]()
        if not _lacks_prompts(report):  # its fates are those of placeholders
            found_in_log = log_causes(
                report, facts, evidence.kind, caching=caching, missed=missed, enough=enough, known=known
            )
            logged = [_with_change(each, evidence) for each in found_in_log]
            left = unexplained(report, logged, missed) if known else 0
        if left and share_of(left, looked_up) >= THRESHOLDS.warning_share:
            notes.append(
                f"{plural(left, 'token')} that the server missed are not explained. kvtool replay compares each."
            )
        found += logged
    counts = looked_up or (None if report is None else report.totals.prompt_tokens)
    logged_tokens = of_log.prompt_tokens if apart and of_log is not None else None
    proven = (with_prompts is not None and not apart) or is_whole(evidence)
    mismatch = None if report is None or of_log is not None else _mismatch(evidence, report)
    if mismatch is not None and report is not None:
        logged_tokens, proven = report.totals.prompt_tokens, is_whole(evidence)
        notes.append(mismatch)
    causes = ordered(found, counts, proven=proven, of_log=logged_tokens)
    notes += () if profiled is None else profiled.notes
    if profiled is not None and profiled.unknown:
        notes.append(f"The log is not predicted: {profiled.unknown}")
    if profiled is not None and profiled.assumed and not _lacks_prompts(profiled.report):
        notes.append(profiled.assumed)
    if apart and of_log is not None:
        notes.append(_both_rates(evidence, of_log))
    losses = evidence.losses
    if losses is not None:
        notes += losses.notes
        if not losses.whole:
            notes.append("KV events are missing from before kvtool listened, so the losses are too low.")
    verdict, summary = _verdict(causes, counts, hits, evidence, with_prompts, logged_tokens, has_log=bool(logs))
    if verdict == "healthy" and counts and share_of(left, counts) >= THRESHOLDS.error_share:
        verdict, summary = (
            "unknown",
            f"Unknown: {percent(left / counts)} of the prompt tokens were missed without a known cause.",
        )
    if profiled is not None and profiled.assumed and looked_up is None and verdict == "healthy":
        verdict, summary = (
            "unknown",
            "Unknown: the server reports no cached tokens, and the prediction is an assumption.",
        )
    if mismatch is not None and (not causes or causes[0].source == "log"):
        verdict, summary = "unknown", "Unknown: the server hit more than this log explains. It had other requests."
    return WhyDocument(
        span=span,
        servers=[_server(server) for server in evidence.servers],
        logs=list(logs),
        prompt_tokens=looked_up,
        log_prompt_tokens=logged_tokens,
        hit_tokens=hits,
        hit_rate=None if not looked_up or hits is None else min(hits / looked_up, 1.0),
        rate_source=rate_source,
        predicted_hit_rate=None if with_prompts is None else with_prompts.totals.hit_rate,
        first_use_tokens=_first_uses(evidence, with_prompts),
        causes=causes,
        verdict=verdict,
        summary=summary,
        next=[],
        notes=notes,
    )


def _with_change(each: ServerCause, evidence: ServerEvidence) -> ServerCause:
    """Return a cause of a log with what to change, in the numbers of the first server where it reports them."""
    change = own_change(each.cause, evidence) if evidence.servers else None
    return each if change is None else each.model_copy(update={"change": change})


def _is_apart(evidence: ServerEvidence, of_log: Reported) -> bool:
    """Return whether the servers counted other requests than those of the log: other tokens, or fewer hits than its answers."""
    counted, hits, _ = _rate(evidence, None)
    if counted is None or hits is None or evidence.kind is None:
        return False
    noticed = THRESHOLDS.error_share * counted
    return abs(counted - of_log.prompt_tokens) > noticed or of_log.cached_tokens - hits > noticed


def _mismatch(evidence: ServerEvidence, report: Report) -> str | None:
    """Return how a log without usage differs from the requests that the servers counted; None where they may be the same.

    No server hits much more than its rules predict for the same prompts.
    """
    counted, hits, _ = _rate(evidence, None)
    if not counted or hits is None or _lacks_prompts(report):
        return None
    measured, predicted = min(hits / counted, 1.0), report.totals.hit_rate
    if measured - predicted <= THRESHOLDS.error_share:
        return None
    return (
        f"The log and the server do not match. The server hit {percent(measured)} of {counted:,} prompt tokens."
        f" Its rules predict {percent(predicted)} of {report.totals.prompt_tokens:,} for the log."
    )


def _both_rates(evidence: ServerEvidence, of_log: Reported) -> str:
    counted, hits, _ = _rate(evidence, None)
    rate = percent(min((hits or 0) / counted, 1.0)) if counted else "0.0%"
    return (
        f"The log and the server do not match. The answers of the log report {percent(of_log.hit_rate)} of"
        f" {plural(of_log.prompt_tokens, 'prompt token')}. The server counted {rate} of {counted or 0:,}."
    )


def _rate(evidence: ServerEvidence, of_log: Reported | None) -> tuple[int | None, int | None, RateSource | None]:
    """Return prompt tokens, hits and who reports them: the answers in a log, else the counters."""
    if of_log is not None:
        return of_log.prompt_tokens, of_log.cached_tokens, "log"
    counted, looked_up = evidence.counted, evidence.looked_up
    hits = 0 if counted.get(names.QUERIES) == 0 else counted.get(names.HITS)
    if looked_up and hits is not None:
        return looked_up, hits, "/metrics"
    return None, None, None


def _lacks_prompts(report: Report) -> bool:
    """Return whether the log only counts tokens: a token is in place of each prompt."""
    return report.reported is not None and report.totals.prompt_tokens <= report.totals.requests


def _caching(evidence: ServerEvidence) -> bool | None:
    said = {truth_at(server.labels, "enable_prefix_caching") for server in evidence.servers}
    return said.pop() if len(said) == 1 else None


def _missed(evidence: ServerEvidence, report: Report) -> int:
    """Return the tokens that the answers report less than predicted; without them the counters, if they count no other requests."""
    reported = report.reported
    if reported is not None and reported.requests == report.totals.requests:
        return max(round(report.totals.hit_rate * reported.prompt_tokens) - reported.cached_tokens, 0)
    counted = evidence.counted
    hits = counted.get(names.HITS)
    if hits is None or counted.get(names.REQUESTS) != report.totals.requests:
        return 0
    return max(report.totals.hit_tokens - hits, 0)


def _other_traffic(evidence: ServerEvidence, report: Report) -> Iterable[ServerCause]:
    """Yield that the servers had requests which are not in the log."""
    counted = evidence.counted.get(names.REQUESTS)
    if counted is not None and counted > report.totals.requests:
        why = f"The servers counted {counted - report.totals.requests:,} requests that are not in the log."
        yield cause("other traffic", "shown", None, why, evidence.kind)


def _verdict(
    causes: Sequence[ServerCause],
    counts: int | None,
    hits: int | None,
    evidence: ServerEvidence,
    report: Report | None,
    of_log: int | None,
    *,
    has_log: bool,
) -> tuple[Verdict, str]:
    """Return the verdict and its sentence."""
    if counts and hits is not None and hits > counts:
        return (
            "unknown",
            f"Unknown: the server counts {hits:,} cached of {counts:,} prompt tokens, which is impossible.",
        )
    first = causes[0] if causes else None
    if first is not None and first.basis != "possible":
        of = of_log if first.source == "log" and of_log is not None else counts
        costly = first.basis == "shown" or share_of(first.tokens or 0, of) >= THRESHOLDS.error_share
        if costly:
            return "cause", _headline(first, of, "of the log " if of is not counts else "")
        firsts = _first_uses(evidence, report)
        rest = f" {percent(min(firsts / counts, 1.0))} are first uses." if firsts and counts and of_log is None else ""
        return "healthy", f"No cause takes more than {THRESHOLDS.error_share:.0%} of the prompt tokens.{rest}"
    if first is not None:
        alone = "The lines of the log" if first.source == "log" else "The counters"
        more = "" if has_log else " A log of the requests would."
        return "possible", f"Possible cause: {first.cause}. {alone} alone do not prove it.{more}"
    if counts and (report is not None or is_whole(evidence)):
        return "healthy", "Nothing to change: all other tokens are first uses."
    if not counts and evidence.looked_up == 0:
        return "unknown", "Unknown: no request came in this span."
    if not counts:
        return "unknown", "Unknown: no server or log reports prompt tokens of this span."
    if hits is not None and hits / counts >= 1 - THRESHOLDS.error_share:
        return "healthy", "Nothing to change: almost every token hits."
    if not evidence.servers:
        return "unknown", "Unknown: the log only counts tokens. A log with the prompts would show the cause."
    return "unknown", "Unknown: the counters show no cause. A log of the requests would, or KV events."


_AS_LOSS: Mapping[CauseName, str] = {
    "prompts": "changes in the prompts",
    "model groups": "layers with windows or states",
}
"""Names of causes in a sentence, where they differ."""


def _headline(first: ServerCause, counts: int | None, where: str) -> str:
    if first.tokens is None or not counts or first.basis == "shown":
        return f"{capitalized(first.cause)}. {first.why}"
    most = "At most " if first.basis == "at most" else ""
    loss = _AS_LOSS.get(first.cause, first.cause)
    return f"{most}{percent(min(first.tokens / counts, 1.0))} of the prompt tokens {where}are lost to {loss}."


def _first_uses(evidence: ServerEvidence, report: Report | None) -> int | None:
    if report is not None:
        return sum(report.fates.get(fate, 0) for fate in FIRST_USES)
    return None if evidence.losses is None else evidence.losses.tokens["first_use"]


def _server(server: AskedServer) -> WhyServer:
    facts, after = server.facts, server.after
    return WhyServer(
        source=server.source,
        server=server.kind,
        version=None if facts is None else facts.version,
        model=None if facts is None else facts.model,
        engines=server.engines,
        window=None if after is None else server_counts(server.counted),
        now=None
        if after is None
        else ServerNow(
            kv_cache_usage=after.gauge(names.USAGE),
            running=after.gauge(names.RUNNING),
            waiting=after.gauge(names.WAITING),
            hit_rate=after.gauge(names.HIT_RATE),
        ),
        trouble=server.trouble,
    )
