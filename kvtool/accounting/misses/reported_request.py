"""A request whose usage is reported: what it read, what it looks like, and what it leaves in the cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from kvtool.accounting.caches.cache_rules import Prediction
from kvtool.accounting.ledger.ledger import LedgerEntry
from kvtool.accounting.misses.hypothesis_trials import JUDGED_CAUSES, KeptRead
from kvtool.accounting.misses.miss_sums import Missed
from kvtool.accounting.misses.prefix_cuts import PrefixCuts
from kvtool.accounting.misses.prompt_states import (
    CHUNK,
    NO_NAMES,
    CacheKey,
    MessageForm,
    Names,
    PromptState,
    ToolForm,
    chunk_names,
    message_forms,
)
from kvtool.accounting.servers.server import ServedRequest
from kvtool.results.misses import HOUR, MissCause
from kvtool.workload.call import FEWER, Call, Usage
from kvtool.workload.jobs import Job
from kvtool.workload.logs.records.incomplete_prompts import LOOPED, NO_PROMPT, SUMMED
from kvtool.workload.turn import LocalTime

if TYPE_CHECKING:
    from kvtool.accounting.caches.providers import Provider
    from kvtool.accounting.prices.price_row import Rates

_MOST_FEWER = 1.5
"""Reported tokens for each of ours up to which a text is whole: tokenizers of the same text differ by less."""
LEAST_TOKENS = 64
_ROUNDING = 64
"""A miss is more than the step of the cache, this many tokens, and one in so many of the prompt: tokenizers differ by less."""
_HOUR, _MINUTES = 3600.0, 300.0


@dataclass(frozen=True, slots=True)
class ReportedRequest:
    """A request with reported usage. `prompt` and `read` are the provider's tokens, `names` those of the beginnings of its text.

    `lack` is why the log does not hold its whole prompt.
    """

    job: Job
    usage: Usage
    prompt: int
    read: int
    prediction: Prediction | None
    rules: Provider | None
    """Those of its provider; None where they are not known, or an own server answered."""
    entry: LedgerEntry | None
    hit: int | None
    """Our tokens that the simulated cache read; None where no rules are known."""
    lack: str | None
    key: CacheKey
    names: Names

    @classmethod
    def of(cls, job: Job, entry: LedgerEntry | None, served: ServedRequest | None) -> ReportedRequest | None:
        """Return the request; None where its prompt or its read is not reported. `served` is None where no rules are known."""
        call = job.turn.call
        usage = call.usage
        if job.is_trace or usage is None or usage.prompt is None or usage.cached is None:
            return None
        lack = lack_of(job)
        scope = call.scope
        host = call.provider if scope.replica is None else f"rank {scope.replica}"
        key = CacheKey(
            call.model, scope.key or job.turn.salt, host, (scope.organisation, scope.workspace, scope.region)
        )
        names = _chunk_names(job)
        prediction, hit = (None, None) if served is None else (served.prediction, served.hit)
        rules = _rules_of(job) if prediction is None else prediction.rules
        return cls(job, usage, usage.prompt, usage.cached, prediction, rules, entry, hit, lack, key, names)

    @property
    def call(self) -> Call:
        return self.job.turn.call

    @property
    def now(self) -> float | None:
        """When it was sent, in seconds since the log began."""
        return self.job.turn.arrival

    @property
    def is_local(self) -> bool:
        """Whether the log does not say the zone of its time."""
        return isinstance(self.job.turn.clock, LocalTime)

    def gap_after(self, state: PromptState) -> float | None:
        """Return the seconds since an earlier request; None without times, or if the zone of one of them alone is known."""
        if self.now is None or state.time is None or self.is_local != state.is_local:
            return None
        return max(self.now - state.time, 0.0)

    @property
    def predicted(self) -> int | None:
        """Tokens that the rules predict to be read: a provider's, else those of the user's engine; None for a prompt not whole."""
        if not self.whole or self.hit is None:
            return None
        return self.theirs_of(self.hit) if self.prediction is None else self.prediction.cached

    @property
    def answer(self) -> int:
        """Tokens of the answer: as reported, else as the log holds it."""
        return self.job.logged_output if self.usage.output is None else self.usage.output

    @property
    def own_tokens(self) -> int:
        """Tokens of its text by our tokenizer."""
        return len(self.job.ids)

    @property
    def step(self) -> int:
        """Tokens by which the provider's cache grows."""
        return 1 if self.rules is None else self.rules.step

    @property
    def least(self) -> int:
        """Tokens above which a difference is more than rounding: of our tokens and the provider's, or of its cache."""
        return max(self.step, self._rounding)

    @property
    def _rounding(self) -> int:
        return max(LEAST_TOKENS, self.prompt // _ROUNDING)

    def surely_stored(self, tokens: int, rules: Provider) -> int:
        """Return how much of a beginning of about so many tokens is stored, in whole steps: only our tokens say how long it is."""
        found = (tokens - self._rounding) // rules.step * rules.step
        return found if found >= rules.minimum else 0

    @property
    def whole(self) -> bool:
        """Whether all of the prompt is text that the log holds."""
        return self.lack is None and not self.call.uncounted

    @property
    def marks(self) -> int:
        """Marks that it sets; 0 also where the log does not hold them."""
        return 0 if self.prediction is None else self.prediction.marks

    @property
    def is_unmarked(self) -> bool:
        """Whether it sets no mark where the provider needs one: neither the log has one, nor was anything read or written."""
        needs = self.rules is not None and self.rules.needs_mark and self.whole
        marked = self.prediction is None or self.marks or self.prediction.stored_ends
        return needs and not marked and not self.read and self.usage.all_written == 0

    def longer_life(self, gap: float | None) -> str | None:
        """Return the setting of its provider for the longest time to live, if the request does not have it and it covers a gap."""
        rules = self.rules
        if gap is None or rules is None:
            return HOUR if gap is not None and self.usage.written_5m and gap <= _HOUR else None
        if rules.retentions:
            name, seconds = max(rules.retentions, key=lambda each: each[1])
            lacks = self.call.settings.retention != name
            return f'"prompt_cache_retention": "{name}"' if lacks and gap <= seconds else None
        has_hour = rules.keeps == "breakpoints" and _HOUR in rules.tiers
        return HOUR if has_hour and gap <= _HOUR and not self.usage.written_1h else None

    def kept_read(
        self,
        numbers: Mapping[MissCause, tuple[int, ...]],
        state: PromptState,
        cuts: PrefixCuts,
    ) -> KeptRead:
        """Return what a rerun under a hypothesis needs. `numbers`: its misses by cause; `state`: what it left in the cache."""
        ours = self.own_tokens / max(self.prompt, 1)
        rules = self.rules
        all_names = chunk_names(np.concatenate([self.job.ids, self.job.computed_output()]), self.names)
        marked = rules is not None and rules.keeps == "breakpoints"
        return KeptRead(
            self.key,
            self.job.turn.session,
            self.names,
            all_names[len(self.names) :],
            self.read * ours,
            self.least * ours,
            numbers,
            minimum=0.0 if rules is None else rules.minimum * ours,
            stored=int(state.stored * ours) // CHUNK if marked else None,
            cuts=cuts,
            prompt=(self.own_tokens, self.prompt),
            unread=self.prompt - self.read,
            answered=self.job.logged_output,
            reasons=state.reasoning_begins is not None,
            judged=JUDGED_CAUSES.issuperset(numbers),
        )

    def above_read(self, rates: Rates) -> Decimal:
        """Return what a million tokens cost above a read: by the rate of what the request wrote, else as input."""
        return rates.above_read(written=self.usage.all_written or 0, written_1h=self.usage.written_1h or 0)

    def priced(self, cause: MissCause, tokens: int, rates: Rates | None) -> Missed:
        """Return a part of its misses with the price above that of a read."""
        if rates is None:
            return Missed(cause, tokens, None)
        from kvtool.accounting.prices.price_row import MILLION

        return Missed(cause, tokens, tokens * self.above_read(rates) / MILLION)

    def paid(self, rates: Rates) -> Decimal:
        """Return its whole price."""
        from kvtool.accounting.prices.money_book import reported_bill

        return reported_bill(self.usage, self.prompt, self.answer, rates).total

    def theirs_of(self, own: int) -> int:
        """Return the provider's tokens for a number of ours: through the prefixes whose tokens reports give, if there are any."""
        scale = None if self.prediction is None else self.prediction.scale
        found = own * self.prompt // max(self.own_tokens, 1) if scale is None else scale.theirs_of(own)
        return min(found, self.prompt)

    def read_past(self, own: int) -> bool:
        """Return whether its server read more than so many tokens of ours, beyond rounding: a difference there changed no read."""
        return self.read - self.theirs_of(own) > self.least_at(own)

    def least_at(self, own: int) -> int:
        """Return the tokens above which a difference at a number of ours is more than rounding and the error of conversion."""
        scale = None if self.prediction is None else self.prediction.scale
        return max(self.least, 0 if scale is None else scale.error_of(own))

    def state_after(
        self,
        before: PromptState | None,
        epoch: float | None,
        forms: tuple[MessageForm, ...],
        tools: tuple[ToolForm, ...],
        reasoning_begins: int | None,
        *,
        tells_writes: bool = True,
    ) -> PromptState:
        """Return what it left in the cache: what it read and wrote or, where writes are free, all of it in whole steps.

        `before` is the request from whose cache it may have read. `tells_writes`: a reported write of 0 means that nothing was.
        """
        rules, wrote = self.rules, self.usage.all_written
        marked = rules is not None and rules.keeps == "breakpoints"
        is_told = wrote is not None and (wrote > 0 or tells_writes)
        if is_told or (marked and (self.whole or tells_writes)):
            read = self.read
            if self.call.loops:  # what it stored was read again between its tools
                read = min(read, 0 if before is None else before.stored)
            stored = min(read + (wrote or 0), self.prompt)
        else:
            step = 1 if rules is None else rules.step
            stored = self.prompt // step * step
            if rules is not None and stored < rules.minimum:
                stored = self.read
        answered = self.call.first_answer if self.call.first_answer is not None else self.call.end
        if answered is not None and epoch is not None:
            answered -= epoch
        hour = min(self.read, before.stored_1h) if before is not None else 0
        if self.usage.written_1h:
            hour = min(self.read + self.usage.written_1h, self.prompt)
        return PromptState(
            self.key,
            self.job.turn.session,
            self.now,
            answered,
            self.call.settings,
            stored,
            hour,
            self.prompt,
            self.own_tokens,
            self._ttl(stored, hour),
            self.names,
            forms,
            tools,
            self.marks,
            self.call.reasoned,
            reasoning_begins,
            is_told,
            self.is_local,
            self.read,
            self.prediction.stored_ends if self.prediction is not None and self.marks else None,
        )

    def _ttl(self, stored: int, hour: int) -> float | None:
        """Return for how many seconds all that is stored is kept: by its marks, or by the provider's rules; None: not known."""
        if hour and hour >= stored:
            return _HOUR
        if self.usage.written_5m or hour:
            return _MINUTES
        return None if self.rules is None else self.rules.kept_for(self.call.settings)


def _rules_of(job: Job) -> Provider | None:
    """Return the rules of a provider whose requests the run does not predict; None where marks, which nobody followed, decide."""
    if job.turn.call.model is None:
        return None
    from kvtool.accounting.hosted_models import is_hosted  # only logs need it

    if not is_hosted(job.turn.call):
        return None
    from kvtool.accounting.caches.dated_rules import rule_of  # a log of an own server loads no rules

    row = rule_of(job.turn)
    return row.rules if row is not None and row.rules.keeps == "prefix" else None


@dataclass(frozen=True, slots=True)
class _ChunkNames:
    """The names of a prompt's beginnings, for the prompt that continues it."""

    names: Names


def _chunk_names(job: Job) -> Names:
    if job.prompt is None:
        return chunk_names(job.ids)
    noted = job.prompt.note_before(_ChunkNames)
    names = chunk_names(job.ids, NO_NAMES if noted is None else noted[0].names[: noted[1].tokens // CHUNK])
    job.prompt.notes[_ChunkNames] = _ChunkNames(names)
    return names


@dataclass(frozen=True, slots=True)
class _Forms:
    """The forms of a prompt's messages, for the prompt that continues it."""

    forms: tuple[MessageForm, ...]


def request_forms(job: Job, before: tuple[MessageForm, ...]) -> tuple[MessageForm, ...]:
    """Return the forms of a request's messages; see `message_forms`."""
    messages, prompt = job.turn.messages, job.prompt
    if prompt is None or messages is None:
        return message_forms(messages, before)
    noted, known = prompt.note_before(_Forms), tuple[MessageForm, ...]()
    if noted is not None:
        known = noted[0].forms[: noted[1].messages]
    forms = known + message_forms(messages[len(known) :], before[len(known) :])
    prompt.notes[_Forms] = _Forms(forms)
    return forms


def lack_of(job: Job) -> str | None:
    """Return why the log does not hold the whole prompt; None where nothing says so."""
    call = job.turn.call
    if call.incomplete is None or (call.incomplete == FEWER and not is_short(job)):
        return LOOPED if call.loops else None
    return call.incomplete


def is_withheld(job: Job) -> bool:
    """Return whether the log has no text of a prompt, or far too little for any prediction."""
    return job.turn.call.incomplete in (NO_PROMPT, SUMMED) or is_short(job)


def is_short(job: Job) -> bool:
    """Return whether the text of a prompt is too short for its reported tokens, counted with the tokenizer of this run, too."""
    call = job.turn.call
    prompt = None if call.usage is None else call.usage.prompt
    return call.incomplete == FEWER and prompt is not None and prompt > _MOST_FEWER * len(job.ids)
