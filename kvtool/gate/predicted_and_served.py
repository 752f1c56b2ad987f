"""Predictions of a report beside the counters of a server, with causes of their difference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvtool.errors import KvtoolError
from kvtool.measure.servers.metrics.counted_between import Counted, counted_between, since_start
from kvtool.measure.servers.metrics.counters import Scrape
from kvtool.measure.servers.metrics.watching import LOGGED_REQUESTS, Watching, server_counts
from kvtool.measure.servers.server_values import number_at, truth_at
from kvtool.results.check import CheckResult
from kvtool.results.documents.server_comparison import BesideServer, Explained, PredictedSums, Reason
from kvtool.results.documents.watched import LoggedRate, ServerCounts
from kvtool.results.report import Report
from kvtool.text.terminal.numbers import plural


def beside_server(
    result: CheckResult, before: Scrape | None, after: Scrape, *, source: str, report: str
) -> BesideServer:
    """Predicted and served, from one scrape to another, or with no scrape `before` since the server's start.

    KvtoolError where the scrapes are of several servers, whose counters cannot be subtracted, or the report has no requests.
    """
    if not result.reports or not any(each.totals.prompt_tokens for each in result.reports):
        raise KvtoolError(
            f"`{report}` predicts no requests", hint="write one with kvtool profile WORKLOAD -o report.json"
        )
    counted = since_start(after) if before is None else counted_between(before, after)
    if counted.broken == "several servers":
        raise KvtoolError(
            "the two scrapes are of several servers, so their counters cannot be compared",
            hint="give the URL of one server, not of a load balancer",
        )
    predicted = _predicted(result.reports)
    served = server_counts(counted)
    explained = list(_explained(result.reports, predicted, served, counted, after))
    agree = _equal(predicted, served)
    rate = served.hit_rate
    return BesideServer(
        schema="kvtool.beside-server/1",
        source=source,
        report=report,
        span="since its start" if before is None else "between two scrapes",
        server=after.of.server,
        measured=after.of.measured,
        predicted=predicted,
        served=served,
        difference=None if rate is None else rate - predicted.hit_rate,
        agree=agree,
        log=_logged(before, after),
        explained=explained or ([] if agree or rate is None else [_unexplained()]),
    )


def _predicted(reports: Sequence[Report]) -> PredictedSums:
    """Return the sums as the counters have them: without prompts of requests that look nothing up."""
    totals = [each.totals for each in reports]
    prompt = sum(each.prompt_tokens - each.uncounted_tokens for each in totals)
    hits = sum(each.hit_tokens for each in totals)
    return PredictedSums(
        requests=sum(each.requests for each in totals),
        prompt_tokens=prompt,
        hit_tokens=hits,
        hit_rate=hits / prompt if prompt else 0.0,
    )


def _equal(predicted: PredictedSums, served: ServerCounts) -> bool:
    return (served.queried_tokens, served.hit_tokens) == (predicted.prompt_tokens, predicted.hit_tokens)


def _logged(before: Scrape | None, after: Scrape) -> LoggedRate | None:
    watching = Watching(before or after, window=0.0)
    if before is not None:
        watching.scraped(after)
    logged = watching.logged
    if logged is None:
        return None
    rate = None if logged[0] is None else min(1.0, max(0.0, logged[0]))
    return LoggedRate(requests=LOGGED_REQUESTS, hit_rate=rate, unseen_requests=logged[1])


def _explained(
    reports: Sequence[Report], predicted: PredictedSums, served: ServerCounts, counted: Counted, after: Scrape
) -> Iterator[Explained]:
    """Yield every reason that the counters show; each is a test of its own."""
    for text in _config_moves(reports, after):
        yield _of("configuration", text)
    if counted.broken == "restart":
        yield _of("restart", "the server restarted between the scrapes, so its earlier counts are lost")
    looked, hits, done = served.queried_tokens, served.hit_tokens, served.requests
    if looked is None:
        return
    if done is not None and done != predicted.requests:
        more, tokens = done - predicted.requests, looked - predicted.prompt_tokens
        told = plural(abs(tokens), f"{'more' if tokens >= 0 else 'fewer'} prompt token")
        if more > 0:
            yield _of("other traffic", f"the server counted {plural(more, 'more request')} than predicted, and {told}")
        else:
            yield _of(
                "part of the workload",
                f"the server counted {plural(-more, 'fewer request')} than predicted, and {told}",
            )
    elif looked != predicted.prompt_tokens:
        text = f"the server counted {looked:,} prompt tokens, predicted {predicted.prompt_tokens:,}"
        if done is None:
            yield _of("other traffic" if looked > predicted.prompt_tokens else "part of the workload", text)
        else:
            yield _of(
                "other tokens",
                f"{text}, for the same number of requests: the tokenizer, the chat template or the prompts differ",
            )
    elif hits is not None and hits > predicted.hit_tokens:
        text = f"{plural(hits - predicted.hit_tokens, 'more token')} hit than predicted: the cache was not empty at the start"
        yield _of("warm start", text)
    if served.external_tokens:
        yield _of(
            "second tier",
            f"{served.external_tokens:,} tokens came from another tier or server, which the prediction leaves out",
        )
    if served.preemptions:
        yield _of("preemptions", f"{plural(served.preemptions, 'preemption')}: requests were computed again")


def _config_moves(reports: Sequence[Report], after: Scrape) -> Iterator[str]:
    """Return the settings in which the server differs from the report."""
    said = next(iter(after.config.values()), None)
    if said is None:
        return
    blocks = number_at(said, "num_gpu_blocks")
    served = {
        "block_size": number_at(said, "block_size"),
        "capacity_blocks": None if blocks is None else blocks - 1,
        "enable_prefix_caching": truth_at(said, "enable_prefix_caching"),
    }
    for name, value in served.items():
        found = {report.config.get(name) for report in reports}
        if value is not None and found != {value}:
            predicted = ", ".join("unlimited" if each is None else f"{each}" for each in sorted(found, key=str))
            yield f"{name} is {value} on the server, {predicted} in the report"


def _of(reason: Reason, text: str) -> Explained:
    return Explained(reason=reason, text=text)


def _unexplained() -> Explained:
    text = "the counters do not show the cause: request order, concurrency or other prompts of the same length"
    return _of("unexplained", f"{text}; kvtool replay compares each request")
