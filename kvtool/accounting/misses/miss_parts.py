"""Divide what a request did not read by cause: what was stored and not read, what was never stored, what a change blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvtool.accounting.misses.changed_part import (
    ChangedPart,
    find_changed_part,
    find_changed_tools,
    find_other_json,
    place_in_record,
    place_of_token,
)
from kvtool.accounting.misses.miss_causes import (
    MissEvidence,
    MissReason,
    cause_of_report,
    compaction,
    expired,
    find_cause,
    find_unstored,
    reported_by_provider,
)
from kvtool.accounting.misses.own_text import has_own_text, repeated_tokens
from kvtool.accounting.misses.prompt_states import Earlier, MessageForm, PromptState, ToolForm
from kvtool.accounting.misses.reported_request import LEAST_TOKENS, ReportedRequest
from kvtool.results.misses import MissCause

_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class MissPart:
    """A part of a request's misses, before it has a price; `blocked` of its tokens come after a change of the text."""

    tokens: int
    found: MissReason
    gap: float | None
    blocked: int = 0


@dataclass(frozen=True, slots=True)
class ComparedRequest:
    """A request beside the earlier one that has most in common with it; `before` is None where none is known."""

    request: ReportedRequest
    earlier: Earlier
    forms: tuple[MessageForm, ...]
    tools: tuple[ToolForm, ...]
    hosted: bool
    cached: bool = True
    """Whether rules or earlier reports say that the model's prompts are cached."""
    reasons: bool = False
    """Whether a template may write reasoning into it, which our count leaves out: then what follows its reads is not exact."""

    @property
    def before(self) -> PromptState | None:
        """The request before in the session or, with a longer common beginning, one of the same cache or of any; else one with the
        same text after another beginning."""
        earlier, before = self.earlier, self.earlier.session or self._conversation
        other = earlier.any if self._may_share(earlier.any) else None
        if before is None and earlier.same_cache is None and other is None:
            return earlier.like if self._shares_cache(earlier.like) else None
        if before is None or (self.request.whole and earlier.shared_same_cache > earlier.shared_session):
            return earlier.same_cache if other is None or earlier.shared_same_cache >= earlier.shared else other
        return before

    @property
    def _conversation(self) -> PromptState | None:
        """The request that this one goes on from in the session that it resumes. Else, where the log names no session and images or
        files are all that is not counted: what stands for them in the text tells one from another, so equal texts are equal
        prompts."""
        request, same = self.request, self.earlier.same_cache
        if same is not None and self.earlier.shared_same_cache < same.own_tokens - LEAST_TOKENS:
            same = None
        if request.call.began == "resumed":
            return same
        if request.whole or request.lack is not None or request.job.turn.session is not None:
            return None
        return same or (self.earlier.like if self._keeps(self.earlier.like) else None)

    def _goes_on_from(self, before: PromptState) -> bool:
        return before is self.earlier.session or before is self._conversation

    def _may_share(self, other: PromptState | None) -> bool:
        """Return whether this request could have read what another one stored: models never share, so one of another model has to
        be the same conversation, which this request continues."""
        if other is None or None in (other.key.model, model := self.request.key.model) or other.key.model == model:
            return other is not None
        return self.earlier.shared >= other.own_tokens - LEAST_TOKENS and len(self.forms) > len(other.forms)

    def _keeps(self, like: PromptState | None) -> bool:
        """Return whether the cache of this request still keeps an earlier one."""
        gap = self.request.gap_after(like) if like is not None and self._shares_cache(like) else None
        return like is not None and gap is not None and (like.ttl is None or gap <= like.ttl)

    def _shares_cache(self, like: PromptState | None) -> bool:
        """Return whether this request reads the cache of an earlier one, and how much later it is."""
        request = self.request
        if like is None or request.lack is not None or like.key != request.key:
            return False
        return request.gap_after(like) is not None

    @property
    def is_judged(self) -> bool:
        """Whether the log says what an earlier request left for it: by its text, or by the request before of its session."""
        before = self.before
        return self.request.whole or (before is not None and self._goes_on_from(before))

    def parts(self) -> list[MissPart]:
        """Return the request's misses by cause."""
        request, before = self.request, self.before
        missed = request.call.missed
        if self.hosted and not self.cached:
            from kvtool.accounting.caches.dated_rules import has_no_cache  # a log of an own server loads no rules

            if has_no_cache(request.call.model or "", request.call.provider):
                return []
        if before is None and missed is not None and (found := cause_of_report(missed)) is not None:
            tokens = min(missed.tokens or 0, request.prompt - request.read)
            return [MissPart(tokens, found, None)] if tokens else []
        if before is None or not self.is_judged:
            return []
        if not request.whole:
            evidence = self._evidence(before)
            found = compaction(evidence)
            new = self._new_tokens() if found is not None and found.cause == "compaction" else 0
            return self._unread(before, min(before.stored, request.prompt - new), evidence)
        return self._whole(before)

    def _new_tokens(self) -> int:
        """Return the tokens of the log's text that are no repetition, as a summary is none: those were never cached."""
        return max(self.request.own_tokens - self.earlier.shared, 0)

    def own_causes(self) -> list[MissCause]:
        """Return the causes of its misses by kvtool's own evidence, without the provider's diagnosis."""
        turn = self.request.job.turn
        job = replace(self.request.job, turn=replace(turn, call=replace(turn.call, missed=None)))
        return [part.found.cause for part in replace(self, request=replace(self.request, job=job)).parts()]

    def _whole(self, before: PromptState) -> list[MissPart]:
        """Return the misses of a prompt whose text the log holds."""
        request, evidence = self.request, self._evidence(before)
        entry, read, prompt, least = request.entry, request.read, request.prompt, request.least
        known = entry.known if entry is not None else self.earlier.shared
        shared = request.theirs_of(known)
        stored = self._stored(before, known, shared)
        rows = self._unread(before, stored, evidence)
        gaps = () if entry is None or entry.alignment is None else entry.alignment.gaps
        repeated = request.theirs_of(min(repeated_tokens(request.job, gaps), request.own_tokens - known))
        held, last = before.stored, self.earlier.session
        if last is not None and self._changed_front(before) is not None:
            held = max(held, last.stored)
        blocked = min(repeated, held - shared, prompt - shared) - max(read - shared, 0)
        changed: MissPart | None = None
        if blocked > least:
            changed = MissPart(blocked, self._changed(evidence, known, shared), evidence.gap, blocked)
        if changed is not None and rows and rows[-1].found in (changed.found, replace(changed.found, place=None)):
            last_row = rows.pop()
            changed = replace(last_row, tokens=blocked + last_row.tokens, blocked=blocked)
        if (unstored := shared - max(stored, read)) > least and has_own_text(request.job, known, LEAST_TOKENS):
            after = before.prompt - least <= before.stored <= shared
            found = reported_by_provider(evidence)
            if found is None and not (after and self.reasons):
                past = before.stored > shared
                found = find_unstored(request, before, shared, after_prompt=after, past=past)
                if past and found is not None and found.cause in ("not_marked", "below_minimum"):
                    if changed is not None:  # what it stored ends after the change, and would have held without it
                        unstored, found, changed = unstored + changed.tokens, changed.found, None
                    elif before is self.earlier.session:
                        found = self._changed(evidence, known, shared)
            if rows and rows[-1].found == found:
                unstored += rows.pop().tokens
            rows += [] if found is None else [MissPart(unstored, found, evidence.gap)]
        rows += [] if changed is None else [changed]
        missed = request.call.missed
        if not rows and missed is not None and (missed.tokens or 0) > least:
            rows.append(MissPart(min(missed.tokens or 0, prompt - read), find_cause(evidence), evidence.gap))
        return rows

    def _stored(self, before: PromptState, known: int, shared: int) -> int:
        """Return how many of the `shared` tokens (`known` of ours) the cache has.

        A prefix with other text at its end is of no use: of it counts what ends at a mark or was read, where marks decide what is
        stored, and else what is surely as long as the provider's minimum, as our tokens say only about how long it is.
        """
        request = self.request
        prediction, rules = request.prediction, request.rules
        marked: list[int] = []
        differs = before.stored > shared + request.least
        if before.stored_ends is not None and prediction is not None:
            unread = 0 if prediction.unread is None else prediction.unread.tokens
            marked = [*(request.theirs_of(end) for end in before.stored_ends if end <= known), prediction.kept, unread]
            differs |= max(before.stored_ends, default=0) > known and max(marked) < before.stored - request.least
        if not differs:
            return min(before.stored, shared)
        if marked:
            return max((end for end in marked if end <= shared), default=0)
        if before.reported and self.hosted if rules is None else rules.keeps == "breakpoints":
            return max((end for end in (before.read, before.stored_1h) if end <= shared), default=0)
        if rules is not None and rules.keeps == "requests" and prediction is not None:
            return min(prediction.kept, shared)
        return shared if rules is None else request.surely_stored(shared, rules)

    def _unread(self, before: PromptState, stored: int, evidence: MissEvidence) -> list[MissPart]:
        """Return what was stored and not read: what is kept for an hour apart from the rest, if their causes differ."""
        read, least, rules = self.request.read, self._least(before), self.request.rules
        is_short = rules is not None and not read and not before.reported and stored < rules.minimum
        if stored - read <= least or is_short:
            return []
        hour = before.stored_1h if before.stored_1h < stored - least else stored
        rest = self._find_cause(evidence)
        front = self._find_cause(self._evidence(before, _HOUR)) if read < hour else rest
        if front == rest:
            return [MissPart(stored - read, rest, evidence.gap)]
        parts = [(hour - read, front), (stored - hour, rest)]
        return [MissPart(tokens, found, evidence.gap) for tokens, found in parts if tokens > least]

    def _find_cause(self, evidence: MissEvidence) -> MissReason:
        """Return why a stored prefix was not read. Where an older prefix is gone and the request before in the session is not, a
        change since then is the cause."""
        found = find_cause(evidence)
        part = self._changed_since(evidence.state) if found.cause in ("expired", "provider", "unknown") else None
        if part is None:
            return found
        return MissReason(part.cause, "consistent", part.says, place_in_record(self.request.job.turn, part.place))

    def _changed_since(self, state: PromptState) -> ChangedPart | None:
        """Return what changed since the request before in the session, if the cache keeps that one and it is not `state`."""
        before, request = self.earlier.session, self.request
        if before is None or before is state or not request.whole:
            return None
        is_kept = (request.gap_after(before) or 0.0) <= (
            before.ttl or 0.0
        ) or not self.hosted  # own servers: no time to live
        return find_changed_part(before, request.job.turn, self.forms, self.tools) if is_kept else None

    def _changed_front(self, state: PromptState) -> ChangedPart | None:
        """Return the change of tools or system prompt since the request before in the session, if the text that follows is of that
        one: another request shares a longer beginning, which ends in this text."""
        part = self._changed_since(state) if self.earlier.like is self.earlier.session else None
        return part if part is not None and part.cause in ("system_changed", "tools_changed") else None

    def _least(self, before: PromptState) -> int:
        """Return the tokens above which a stored prefix was not read: none are lost to rounding where both are reported, unless our
        tokens say where the text differs, close to its end."""
        request = self.request
        known = self.earlier.shared if request.entry is None else request.entry.known
        is_exact = before.reported and (not request.whole or before.stored + request.least <= request.theirs_of(known))
        return request.step - 1 if is_exact else request.least_at(known)

    def _evidence(self, before: PromptState, ttl: float | None = None) -> MissEvidence:
        request, earlier = self.request, self.earlier
        shared = earlier.shared_same_cache if before is earlier.same_cache else 0
        shared = earlier.shared_session if before is earlier.session else shared
        differs = shared < before.own_tokens - LEAST_TOKENS
        rewritten = self._goes_on_from(before) and differs and not request.whole
        return MissEvidence(
            request,
            before,
            before.ttl if ttl is None else ttl,
            changed=find_changed_part(before, request.job.turn, self.forms, self.tools) if rewritten else None,
            rewritten=rewritten,
            forms=self.forms,
            other_json=self._other_json(before),
            tools=find_changed_tools(before.tools, self.tools),
            hosted=self.hosted,
            cached=self.cached,
        )

    def _other_json(self, before: PromptState) -> ChangedPart | None:
        request = self.request
        read = max(request.read - request.least, 0) * request.own_tokens // max(request.prompt, 1)
        return find_other_json(before, request.job, self.forms, self.tools, read)

    def _changed(self, evidence: MissEvidence, known: int, shared: int) -> MissReason:
        """Return which change parts the prompt from the earlier one, and where it is in the record; of text that is gone, that it
        is."""
        turn, before = self.request.job.turn, evidence.state
        since = self._changed_front(before)
        part = find_changed_part(before, turn, self.forms, self.tools)
        place = place_of_token(self.request.job, known) or (None if part is None else part.place)
        place = None if place is None else place_in_record(turn, place)
        if since is None and (gone := expired(evidence)) is not None:
            return replace(gone, place=place)
        if (other := self._other_json(before)) is not None:
            return MissReason("wire_form", "proven", other.says, place_in_record(turn, other.place))
        if since is not None:
            return MissReason(since.cause, "proven", since.says, place_in_record(turn, since.place))
        if part is not None and part.cause == "tools_changed" and before is self.earlier.session:
            return MissReason("tools_changed", "proven", part.says, place_in_record(turn, part.place))
        is_front = part is not None and part.cause in ("system_changed", "tools_changed")
        if part is None or (before is not self.earlier.session and not is_front) or part.cause == "compaction":
            return MissReason("prompt_changed", "proven", f"text differs after token {shared:,}", place)
        return MissReason(part.cause, "proven", f"{part.says}: text differs after token {shared:,}", place)
