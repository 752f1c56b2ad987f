"""Misses that a log with reported usage shows: parts of `kvtool.report/1`. Tokens are as the provider or server counts them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from kvtool.results.choices import MissesBy
from kvtool.results.document_base import Count, Model
from kvtool.results.money import Amount, amount_text
from kvtool.text.terminal.numbers import percent, plural

MissCause = Literal[
    "first_use",
    "prompt_changed",
    "tools_changed",
    "system_changed",
    "history_edited",
    "compaction",
    "resumed",
    "wire_form",
    "expired",
    "evicted",
    "setting_changed",
    "model_changed",
    "key_changed",
    "host_changed",
    "host_uncached",
    "below_minimum",
    "partial_block",
    "lookback",
    "marks_limit",
    "not_marked",
    "replicas",
    "answer_not_kept",
    "reasoning_dropped",
    "provider",
    "unknown",
]
HOUR = '"ttl": "1h" in cache_control'
"""The setting of a mark that keeps what it stores for an hour."""
Certainty = Literal["proven", "consistent", "simulated", "excluded", "unknown"]
"""How a cause is known: by a fact of the log, by facts that fit, by a run that gives the same reads, by exclusion, or not."""

DroppedReasoning = Literal["client", "question", "always"]
"""What leaves earlier reasoning out: the client, or a chat template after the next question or always."""

MISS_CAUSES: dict[MissCause, str] = {
    "first_use": "sent before the answer that stores it",
    "prompt_changed": "text changed before it",
    "tools_changed": "tools changed",
    "system_changed": "system prompt changed",
    "history_edited": "history edited",
    "compaction": "conversation compacted",
    "resumed": "conversation resumed",
    "wire_form": "same text in another form",
    "expired": "expired before reuse",
    "evicted": "evicted",
    "setting_changed": "setting changed",
    "model_changed": "model changed",
    "key_changed": "cache key changed",
    "host_changed": "host changed",
    "host_uncached": "sent to a host without a cache",
    "below_minimum": "too short to be cached",
    "partial_block": "rest of a block",
    "lookback": "beyond the look-back of the breakpoints",
    "marks_limit": "too many breakpoints",
    "not_marked": "no cache breakpoint",
    "replicas": "sent to another replica",
    "answer_not_kept": "answers are not cached",
    "reasoning_dropped": "earlier reasoning left out",
    "provider": "lost by the provider",
    "unknown": "cause unknown",
}
"""Labels of the causes."""


class MissEvent(Model):
    """Tokens of one request that an earlier request had cached and that were not read, for one cause.

    `time` is in seconds since the log began, `gap` since the earlier request. `tokens` were promised and not read; the request
    wrote `written` tokens to the cache again (None: not reported). `cost` is their price above that of a read. `place` is the
    record of the change, and the way to it in its request.
    """

    request: str
    session: str | None
    time: float | None
    gap: float | None
    cause: MissCause
    certainty: Certainty
    tokens: Count
    written: Count | None
    cost: Amount | None
    detail: str
    place: str | None = None
    model: str | None = None
    provider_id: str | None = None
    """What the provider calls the request, where the log calls it otherwise."""
    prefix: str | None = None
    """Hash of the tokens at its front that are those of the earlier request; for misses by exclusion."""
    longer_life: str | None = None
    """Setting of the request's provider that the request does not have and that covers the gap; for what expired."""

    @property
    def is_moved_to_front(self) -> bool:
        """Whether a system message of mid-conversation costs the tokens; a proven change of the system prompt is another text."""
        return self.cause == "system_changed" and self.certainty != "proven"


class MissSum(Model):
    """Sums of the misses of one cause. `cost` is None where no price is known of any."""

    events: Count
    tokens: Count
    written: Count
    cost: Amount | None


class ReportAgreement(Model):
    """Of `requests` whose whole prompt the log holds, the prediction of `agree` is the report, to a block or to rounding.

    `advises`: that is enough to advise changes by predictions.
    """

    requests: Count
    agree: Count
    advises: bool
    differing: list[str] = Field(default_factory=list)
    """The groups of which predictions advise nothing, where they do not advise all."""

    @property
    def withheld(self) -> str:
        """Say that no fix is advised, and why; empty where fixes are."""
        return f"no fix advised: {self.too_few}" if self.too_few else ""

    @property
    def too_few(self) -> str:
        """Say for how few requests prediction and report agree; empty where these are enough."""
        if self.advises or not self.requests:
            return ""
        return f"prediction and report agree for {percent(self.agree / self.requests)} of requests"


class ProviderDiagnosis(Model):
    """Misses whose cause the provider itself reports. For `agree` of them kvtool's own evidence gives the same cause."""

    misses: Count
    agree: Count


class ServerCache(Model):
    """The cache of the user's own server, by reruns: with `blocks` it gives the reported reads, with `enough` blocks `hit_rate`."""

    block_size: Count
    blocks: Count
    enough: Count
    hit_rate: float


class Hypothesis(Model):
    """What a rerun of all requests shows: under it `agree` of the `requests` read what was reported.

    Of the `misses` it gives `explained`. `routing` is None where no rule of the router is known. `dropped`: what leaves earlier
    reasoning out. `silent_hosts` are those that read nothing from a cache. `cache` is the one whose evictions explain the misses.
    """

    cause: MissCause
    replicas: Count
    routing: str | None
    dropped: DroppedReasoning | None = None
    silent_hosts: list[str] = Field(default_factory=list)
    cache: ServerCache | None = None
    explained: Count
    misses: Count
    agree: Count
    requests: Count


class FieldSeparation(Model):
    """A field of the records that separates `misses` without a known cause from `hits`: so many of each have `value` in it.

    `value` is a word or a digest; None: it changed since the request before of the session. `chance` is that of a field that
    separates as well without any cause, corrected for the `tried` fields and values.
    """

    field: str
    value: str | None
    misses: Count
    misses_with: Count
    hits: Count
    hits_with: Count
    chance: float
    tried: Count


def _by_cost(sums: dict[MissCause, MissSum]) -> dict[MissCause, MissSum]:
    """Return the costliest first: files have keys in the order of the alphabet."""
    return dict(sorted(sums.items(), key=lambda item: (-Decimal(item[1].cost or 0), -item[1].tokens)))


CauseSums = Annotated[dict[MissCause, MissSum], AfterValidator(_by_cost)]
"""Sums by cause, the costliest first."""


class TtlCosts(Model):
    """The price of some requests as paid, and by replay of their gaps with all marks for 5 minutes or for an hour.

    `models` are those that they name.
    """

    requests: Count
    paid: Amount
    five_minutes: Amount
    one_hour: Amount
    models: list[str] = Field(default_factory=list)


class MissRow(Model):
    """The requests of one session, project, model or day. `promised`, `read` and `by_cause` are as in `CacheMisses`.

    `promised` is None where the log says of none of its requests what earlier ones left for it: what they missed is unknown, not 0.
    `cost` is the price of the misses above that of reads, `paid` the price of all requests (None: no price is known of any).
    `first` and `last` are the times of the first and the last request, in seconds since 1970 where the log has a clock.
    """

    key: str
    project: str | None
    """The project of its last request, where the log names one."""
    subagent: bool
    """Whether a subagent sent its last request, not the user's own conversation."""
    requests: Count
    prompt_tokens: Count
    promised: Count | None
    read: Count
    cost: Amount | None
    paid: Amount | None
    first: float | None
    last: float | None
    by_cause: CauseSums = Field(validation_alias="causes", serialization_alias="causes")
    ttl: TtlCosts | None = None
    """Where the provider sells both times to live."""
    unjudged: Count = 0
    """Requests of which the log does not say what earlier ones left for them: what they missed is unknown."""
    unreported: Count = 0
    """Requests that do not report what they read: they are in no other figure."""

    @property
    def missed(self) -> int | None:
        """Tokens that were cached and not read, as far as the log says; None where it does not."""
        return None if self.promised is None else self.promised - self.read

    @property
    def hit_rate(self) -> float | None:
        """The reported hit rate; None where nothing is reported."""
        return min(self.read / max(self.prompt_tokens, 1), 1.0) if self.requests else None


class MissRows(Model):
    """Misses by session, project, model or day, the costliest first. By event there are no rows but the events themselves."""

    by: MissesBy
    rows: list[MissRow]


class Compaction(Model):
    """A conversation that was compacted or cleared: its prompt had `before` tokens and then `after`, of which `computed` again.

    `cost` is the price of these above a read. In the `turns` requests from then on, shorter prompts saved `saved` more than that
    (negative: less). It pays after `break_even` requests. The request for the summary is in no transcript and not in the price.
    """

    request: str
    session: str
    time: float | None
    before: Count
    after: Count
    computed: Count
    cost: Amount | None
    turns: Count
    saved: Amount | None
    break_even: Count | None


class TimelineRequest(Model):
    """A request of a session: its prompt, what it read of it, what it missed, and the cause of most of that.

    `time` is in seconds since the log began.
    """

    request: str
    time: float
    prompt: Count
    read: Count
    missed: Count
    cause: MissCause | None


class SessionTimeline(Model):
    """The first requests of a session that missed much; `left_out` counts the later ones."""

    session: str
    missed: Count
    left_out: Count
    requests: list[TimelineRequest]


class CacheMisses(Model):
    """All misses of the `requests` with reported reads, which have `prompt_tokens`.

    Of `promised` tokens, which earlier requests had cached, `read` were read; the sums of the causes are the rest. For `unjudged`
    requests the log does not say what earlier ones left for them: what they missed is unknown.

    `events` has each of them, in the order of their requests.
    """

    requests: Count
    prompt_tokens: Count
    promised: Count
    read: Count
    unjudged: Count = 0
    unreported: Count = 0
    """Requests that do not report what they read: they are in no other figure."""
    local_times: Count = 0
    """Requests whose time has no zone, taken as UTC; no gap is counted between them and the `zoned_times`."""
    zoned_times: Count = 0
    counted_twice: Count = 0
    """Requests whose log counts cached tokens twice; here they count once."""
    by_cause: CauseSums = Field(validation_alias="causes", serialization_alias="causes")
    events: list[MissEvent]
    rule_contradictions: list[str]
    predictable: bool
    """Whether documented rules predict these requests: the log holds what the rules need, and no report contradicts them."""
    calibration: ReportAgreement
    unknown_fields: list[str]
    """Parts of requests that this log does not hold: what they were is unknown, not absent."""
    diagnosis: ProviderDiagnosis | None = None
    """What the provider reports of its misses, compared with kvtool's own evidence; None: it reports nothing."""
    separation: FieldSeparation | None = None
    """The field that separates misses without a known cause best; None: no field does so better than chance."""
    hypothesis: Hypothesis | None = None
    """The hypothesis under which a rerun gives the reported reads; None: none was needed, or none does."""
    began: float | None = None
    """When the log begins, in seconds since 1970; None where it has no clock."""
    rows: MissRows | None = None
    """The same by session, project, model or day, as `--by` asks; the rows sum to the figures above."""
    ttl: TtlCosts | None = None
    """Where the provider sells both times to live."""
    compactions: list[Compaction] = Field(default_factory=list)
    timelines: list[SessionTimeline] = Field(default_factory=list)
    """Of the sessions that missed most, where the log has times."""


def local_times_in_words(local_times: int, zoned_times: int) -> list[str]:
    """Say that times have no zone, and how they count."""
    notes = []
    if local_times:
        notes.append(f"{plural(local_times, 'time')} without a zone: taken as UTC.")
        if zoned_times:
            notes.append(f"No gap is counted between these and the {zoned_times:,} with a zone.")
    return notes


def amount(values: Iterable[str | None]) -> str | None:
    """Return the sum of the known amounts; None where none is known."""
    known = [Decimal(value) for value in values if value is not None]
    return amount_text(sum(known, Decimal(0))) if known else None


def sum_ttl(parts: Sequence[TtlCosts]) -> TtlCosts | None:
    """Return the sums of several replays; None where there is none."""
    if not parts:
        return None
    return TtlCosts(
        requests=sum(each.requests for each in parts),
        paid=amount(each.paid for each in parts) or "0",
        five_minutes=amount(each.five_minutes for each in parts) or "0",
        one_hour=amount(each.one_hour for each in parts) or "0",
        models=sorted({model for each in parts for model in each.models}),
    )


def sum_rows(key: str, rows: Sequence[MissRow]) -> MissRow:
    """Return one row for several."""
    causes: dict[MissCause, list[MissSum]] = {}
    for row in rows:
        for cause, each in row.by_cause.items():
            causes.setdefault(cause, []).append(each)
    sums = {
        cause: MissSum(
            events=sum(each.events for each in parts),
            tokens=sum(each.tokens for each in parts),
            written=sum(each.written for each in parts),
            cost=amount(each.cost for each in parts),
        )
        for cause, parts in causes.items()
    }
    return MissRow(
        key=key,
        project=None,
        subagent=False,
        requests=sum(row.requests for row in rows),
        prompt_tokens=sum(row.prompt_tokens for row in rows),
        promised=None if all(row.promised is None for row in rows) else sum(row.promised or row.read for row in rows),
        read=sum(row.read for row in rows),
        unjudged=sum(row.unjudged for row in rows),
        unreported=sum(row.unreported for row in rows),
        cost=amount(row.cost for row in rows),
        paid=amount(row.paid for row in rows),
        first=min((row.first for row in rows if row.first is not None), default=None),
        last=max((row.last for row in rows if row.last is not None), default=None),
        by_cause=sums,
        ttl=sum_ttl([row.ttl for row in rows if row.ttl is not None]),
    )


_DROPPED: dict[DroppedReasoning, str] = {
    "client": "without the reasoning that the client does not send again",
    "question": "with a chat template that drops reasoning after the next question",
    "always": "with a chat template that drops all earlier reasoning",
}


def hypothesis_in_words(found: Hypothesis) -> str:
    """Name a hypothesis: `with 3 replicas in turn`, `without answers in the cache`."""
    if found.dropped is not None:
        return _DROPPED[found.dropped]
    if found.cause == "wire_form":
        return "in which the same text in another form is another prompt"
    if found.cause == "system_changed":
        return "in which system messages of mid-conversation are moved to the front"
    if found.cause == "host_changed":
        silent = f" and none on {', '.join(found.silent_hosts)}" if found.silent_hosts else ""
        return f"with a separate cache on each host{silent}"
    if (cache := found.cache) is not None:
        return f"with {cache.blocks:,} blocks of {plural(cache.block_size, 'token')}"
    if found.cause == "answer_not_kept":
        return "without answers in the cache"
    turns = " in turn" if found.routing == "round-robin" else ""
    return f"with {found.replicas} replicas{turns}"
