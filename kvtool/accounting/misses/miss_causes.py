"""Causes of a miss: one function each, which names the evidence, or returns None where the log has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from kvtool.accounting.caches.cache_rules import Prediction, UnreadPrefix, lifetime
from kvtool.accounting.caches.forks import setting_of
from kvtool.accounting.misses.changed_part import ChangedPart, place_in_record, place_of_message
from kvtool.accounting.misses.prompt_states import MessageForm, PromptState
from kvtool.accounting.misses.reported_request import ReportedRequest
from kvtool.results.misses import Certainty, MissCause
from kvtool.text.terminal.numbers import in_words, plural
from kvtool.workload.call import CallSettings, ReportedMiss
from kvtool.workload.logs.records.incomplete_prompts import LOOPED

if TYPE_CHECKING:
    from kvtool.accounting.caches.providers import Provider

_USUAL = 1.0
"""Seconds after which a gap counts as longer than a time to live: clocks of logs are whole seconds."""


@dataclass(frozen=True, slots=True)
class MissEvidence:
    """A request that read less than `state`, the earlier request with this beginning, left in the cache.

    What it did not read is kept for `ttl` seconds. `changed` is the first part that differs from the request before in the
    session; `rewritten`: the log does not hold the whole prompt, and the conversation does not begin with the earlier one.
    """

    request: ReportedRequest
    state: PromptState
    ttl: float | None
    changed: ChangedPart | None
    rewritten: bool
    forms: tuple[MessageForm, ...]
    other_json: ChangedPart | None
    """The first part that is the same JSON in another form."""
    tools: ChangedPart | None
    """The first tool that differs."""
    hosted: bool
    cached: bool

    @property
    def gap(self) -> float | None:
        """Seconds since the earlier request."""
        return self.request.gap_after(self.state)

    @property
    def prediction(self) -> Prediction | None:
        return self.request.prediction

    @property
    def continues(self) -> bool:
        """Whether a whole request begins with all messages of the earlier one."""
        before, now = self.state.forms, self.forms
        same = [(each.role, each.text) for each in before] == [(each.role, each.text) for each in now[: len(before)]]
        return bool(before) and self.request.whole and same


@dataclass(frozen=True, slots=True)
class MissReason:
    cause: MissCause
    certainty: Certainty
    detail: str
    place: str | None = None


FindCause = Callable[[MissEvidence], MissReason | None]


_REPORTED: dict[str, MissCause] = {
    "tools_changed": "tools_changed",
    "system_changed": "system_changed",
    "messages_changed": "history_edited",
    "model_changed": "model_changed",
    "input_changed": "prompt_changed",
    "prompt_cache_key_changed": "key_changed",
    "context_compacted": "compaction",
}
"""Causes by the words of Anthropic's and OpenAI's diagnostics."""
_OF_MESSAGES = ("messages_changed", "input_changed")
_REPORTED_SETTINGS = {
    "text_format_changed": "text.format",
    "reasoning_effort_changed": "reasoning.effort",
    "verbosity_changed": "text.verbosity",
    "service_tier_changed": "service_tier",
}
"""Settings by the words of OpenAI's diagnostics."""
_NO_MARK = "the request sets none, so it reads nothing"


def reported_by_provider(evidence: MissEvidence) -> MissReason | None:
    """Anthropic's and OpenAI's diagnostics name the part of the request that differs: not where the log shows that it does not."""
    missed = evidence.request.call.missed
    if missed is None or (missed.reason in _OF_MESSAGES and evidence.continues):
        return None
    return cause_of_report(missed)


def reported_against_the_log(evidence: MissEvidence) -> MissReason | None:
    """A diagnosis that the log does not bear out is all that is known where nothing else explains the miss."""
    missed = evidence.request.call.missed
    return None if missed is None else cause_of_report(missed)


def cause_of_report(missed: ReportedMiss) -> MissReason | None:
    """Return the cause of a miss in the provider's word; None for a word that kvtool does not know."""
    if (setting := _REPORTED_SETTINGS.get(missed.reason)) is not None:
        return MissReason("setting_changed", "proven", f"changed: {setting} (reported by the provider)")
    cause = _REPORTED.get(missed.reason)
    return None if cause is None else MissReason(cause, "proven", "reported by the provider")


def model_changed(evidence: MissEvidence) -> MissReason | None:
    """Caches of models are apart."""
    before, now = evidence.state.key.model, evidence.request.key.model
    if before is None or now is None or before == now:
        return None
    return MissReason("model_changed", "proven", f"{before} before, {now} now")


def host_changed(evidence: MissEvidence) -> MissReason | None:
    """Each host that serves a model has a cache of its own."""
    before, now = evidence.state.key.host, evidence.request.key.host
    if before is None or now is None or before == now:
        return None
    return MissReason("host_changed", "consistent", f"{before} before, {now} now")


def key_changed(evidence: MissEvidence) -> MissReason | None:
    """A cache key, an account, a workspace or a region keeps prompts apart."""
    if evidence.state.key.key != evidence.request.key.key:
        return MissReason("key_changed", "consistent", "not the key of the request before")
    if evidence.state.key.account != evidence.request.key.account:
        return MissReason("key_changed", "consistent", "another account, workspace or region")
    return None


def unmarked(evidence: MissEvidence) -> MissReason | None:
    """A request without a mark reads nothing where a provider needs one: what others stored is not lost."""
    return MissReason("not_marked", "proven", _NO_MARK) if evidence.request.is_unmarked else None


def expired(evidence: MissEvidence) -> MissReason | None:
    """The gap is longer than the time to live of the mark, of the provider's rule, or than it usually keeps a prefix."""
    gap, ttl = evidence.gap, evidence.ttl
    if gap is None:
        return None
    if ttl is not None and gap > ttl + _USUAL:
        return MissReason("expired", "proven", f"{lifetime(round(gap))} after the last use, kept for {lifetime(ttl)}")
    rules = evidence.request.rules
    if rules is not None and rules.usual is not None and gap > rules.usual + _USUAL:
        usually = f"usually {lifetime(rules.usual)}"
        kept = (
            f"usually kept for {lifetime(rules.usual)}"
            if ttl is None
            else f"kept for at most {lifetime(ttl)}, {usually}"
        )
        return MissReason("expired", "consistent", f"{lifetime(round(gap))} after the last use, {kept}")
    return None


def compaction(evidence: MissEvidence) -> MissReason | None:
    """The conversation begins with other text than at the request before: compacted or cleared where it is shorter, else edited."""
    if evidence.request.call.began == "compacted":
        return MissReason("compaction", "proven", "the transcript records a compaction before this request")
    if not evidence.rewritten:
        return None
    if evidence.request.own_tokens < evidence.state.own_tokens:
        return MissReason("compaction", "consistent", "the conversation begins anew and is shorter")
    changed = evidence.changed
    place = None if changed is None else place_in_record(evidence.request.job.turn, changed.place)
    return MissReason("history_edited", "consistent", "earlier messages differ from the request before", place)


def resumed(evidence: MissEvidence) -> MissReason | None:
    """A program that resumes a session may not send what it sent before; its transcript records the resume."""
    if evidence.request.call.began != "resumed":
        return None
    return MissReason("resumed", "consistent", "the transcript records a resume before this request")


def tools_listed(evidence: MissEvidence) -> MissReason | None:
    """Transcripts do not hold tools, but some note that their list changed."""
    if evidence.request.call.began != "tools_changed":
        return None
    return MissReason("tools_changed", "consistent", "the transcript records another list of tools before this request")


def _unread_prefix(evidence: MissEvidence, *, dropped: bool) -> UnreadPrefix | None:
    """Return the stored prefix that no mark of a whole request finds, if it is longer than what was read."""
    prediction, request = evidence.prediction, evidence.request
    unread = None if prediction is None else prediction.unread
    if unread is None or unread.dropped != dropped or not request.whole:
        return None
    stored = request.read + request.least < unread.tokens <= evidence.state.stored + request.least
    return unread if stored and prediction is not None and prediction.cached <= request.read + request.least else None


def lookback(evidence: MissEvidence) -> MissReason | None:
    """A mark finds what an earlier request stored at most so many blocks before it: the provider's rule gives the number."""
    unread, rules = _unread_prefix(evidence, dropped=False), evidence.request.rules
    if unread is None or rules is None or unread.blocks <= rules.lookback:
        return None
    words = f"{unread.blocks} blocks back, the look-back is {rules.lookback}"
    return MissReason("lookback", "proven", words)


def marks_limit(evidence: MissEvidence) -> MissReason | None:
    """A request may have so many marks; the first ones of more do not count."""
    rules = evidence.request.rules
    if rules is None or _unread_prefix(evidence, dropped=True) is None:
        return None
    return _too_many(evidence.request.marks, rules)


def _too_many(marks: int, rules: Provider) -> MissReason:
    return MissReason("marks_limit", "proven", f"{plural(marks, 'cache breakpoint')}, {rules.most} are allowed")


def setting_changed(evidence: MissEvidence) -> MissReason | None:
    """Some settings are part of the cache's key: the provider's rules say which, and reads show the rest."""
    before, now = evidence.state.settings, evidence.request.call.settings
    changed = [
        each.name for each in fields(CallSettings) if setting_of(before, each.name) != setting_of(now, each.name)
    ]
    if not changed:
        return None
    rules = evidence.request.rules
    ruled = () if rules is None else (*rules.fork_system, *rules.fork_messages)
    prediction, request = evidence.prediction, evidence.request
    more_lost = prediction is not None and prediction.cached > request.read + request.least
    proven = bool(set(changed) & set(ruled)) and not more_lost  # by the rules, less would be lost
    return MissReason("setting_changed", "proven" if proven else "consistent", f"changed: {', '.join(changed)}")


def system_changed(evidence: MissEvidence) -> MissReason | None:
    """A system message in mid-conversation: templates and gateways may move it to the front."""
    turn, first = evidence.request.job.turn, len(evidence.state.forms)
    for number, form in enumerate(evidence.forms[first:], first):
        if first and form.role in ("system", "developer"):
            place = place_in_record(turn, place_of_message(turn, number))
            return MissReason("system_changed", "consistent", "a system message was added in mid-conversation", place)
    return None


def tools_moved(evidence: MissEvidence) -> MissReason | None:
    """Other tools: servers may write them before text that they follow in kvtool's template."""
    if evidence.tools is None:
        return None
    place = place_in_record(evidence.request.job.turn, evidence.tools.place)
    return MissReason("tools_changed", "consistent", f"{evidence.tools.says}; servers may write tools first", place)


def wire_form(evidence: MissEvidence) -> MissReason | None:
    """The same text in another form, a string or a list of parts, is another request for some providers; so is the same JSON."""
    if (other := evidence.other_json) is not None:
        place = place_in_record(evidence.request.job.turn, other.place)
        return MissReason("wire_form", "proven" if evidence.request.whole else "consistent", other.says, place)
    for number, (before, now) in enumerate(zip(evidence.state.forms, evidence.forms, strict=False)):
        if before.text != now.text:
            return None  # a change of text, not of form
        if (before.role, before.parts) == (now.role, now.parts):
            continue
        was, is_ = (_form(before), _form(now)) if before.role == now.role else (before.role, now.role)
        lost = " without its cache_control" if before.marks > now.marks else ""
        turn = evidence.request.job.turn
        place = place_in_record(turn, place_of_message(turn, number))
        return MissReason("wire_form", "consistent", f"{was} before, {is_} now{lost}", place)
    return None


def _form(form: MessageForm) -> str:
    return "a string" if form.parts is None else plural(form.parts, "content part")


def unanswered(evidence: MissEvidence) -> MissReason | None:
    """A prompt is stored when its answer begins; a request before that cannot read it."""
    answered = evidence.state.answered
    if answered is None or evidence.request.now is None or evidence.request.now >= answered:
        return None
    return MissReason("first_use", "proven", "the request that stores it had no answer yet")


def by_exclusion(evidence: MissEvidence) -> MissReason:
    """Nothing in the log explains it: the provider lost it or, where the log lacks what could explain it, it is unknown."""
    missing = [] if evidence.gap is not None else ["times that can be compared"]
    whole = evidence.request.whole
    if not whole and not evidence.request.read:
        missing.append("whole prompts")
    if not evidence.hosted:
        return MissReason("unknown", "unknown", "evicted, or served by another replica: the log does not say")
    if not evidence.cached:
        return MissReason("unknown", "unknown", "no cache of this model is known, and the log shows no read")
    if missing:
        return MissReason("unknown", "unknown", f"the log lacks {in_words(missing)}")
    if not whole or evidence.ttl is None:
        lack = "the time to live is not known"
        if evidence.request.call.loops:
            lack = LOOPED
        elif evidence.request.lack is not None:
            lack = "the system prompt and tools are not in it"
        elif not whole:
            lack = f"{in_words([kind for kind, _ in evidence.request.call.uncounted])} parts are not counted"
        return MissReason("provider", "unknown", f"nothing in the log explains it; {lack}")
    within = f"within the time to live of {lifetime(evidence.ttl)}"
    return MissReason("provider", "excluded", f"same text, cache key and settings, {within}")


def rest_of_block(read: int, step: int) -> MissReason:
    """Less than the step in which all reads grow is never read: the rest of a prefix, or all of a short one."""
    cause: MissCause = "partial_block" if read else "below_minimum"
    return MissReason(cause, "consistent", f"all reads are whole blocks of {step:,} tokens, and this is less")


CAUSES: tuple[FindCause, ...] = (
    reported_by_provider,
    unmarked,
    model_changed,
    host_changed,
    key_changed,
    expired,
    unanswered,
    compaction,
    resumed,
    tools_listed,
    lookback,
    marks_limit,
    setting_changed,
    system_changed,
    tools_moved,
    wire_form,
    reported_against_the_log,
)
"""In the order in which they are asked; the first with evidence is the cause."""


def find_cause(evidence: MissEvidence) -> MissReason:
    """Return the first cause with evidence, or what is left by exclusion."""
    for find in CAUSES:
        if (found := find(evidence)) is not None:
            return found
    return by_exclusion(evidence)


def find_unstored(
    request: ReportedRequest, before: PromptState, shared: int, *, after_prompt: bool, past: bool
) -> MissReason | None:
    """Return why text that earlier requests had was never stored, by the rules of the provider; None where none promises it.

    `before` is the request that had these `shared` tokens; `after_prompt`: they are the answer of the request before, after a
    stored prompt; `past`: what it stored ends after them, in text that this request does not have.
    """
    prediction, rules = request.prediction, request.rules
    lost = {} if prediction is None else dict(prediction.lost)
    if after_prompt:
        if rules is not None and rules.keeps == "breakpoints":
            return None
        return MissReason("answer_not_kept", "consistent", "read up to the end of the prompt before its answer")
    is_short = rules is not None and (
        request.prompt < rules.minimum or (past and shared < rules.minimum + request.least)
    )
    few_marked = lost.get("not_marked") and not is_short and shared >= (rules.minimum if rules else 0) + request.least
    if rules is not None and few_marked and lost.get("below_minimum"):
        words = f"the breakpoints are at less than {rules.minimum:,} tokens, which the provider does not store"
        return MissReason("not_marked", "proven", words)
    if rules is not None and (lost.get("below_minimum") or is_short):
        is_near = rules.is_learned or (not lost.get("below_minimum") and min(request.prompt, shared) >= rules.minimum)
        words = f"it stores at least {rules.minimum:,} tokens"
        if rules.is_learned:
            words = f"half of the shortest reported prefix, {rules.minimum:,} tokens"
        return MissReason("below_minimum", "consistent" if is_near else "proven", words)
    if past and rules is not None and rules.keeps != "breakpoints":
        return None  # the rest of a step
    if rules is not None and lost.get("not_marked") and before.marks > rules.most:
        return _too_many(before.marks, rules)
    if past:
        known: Certainty = "consistent" if before.stored_ends is None else "proven"
        return MissReason("not_marked", known, "the breakpoint is on text that changes")
    if rules is not None and lost.get("not_marked"):
        return MissReason("not_marked", "proven", _NO_MARK if request.is_unmarked else "none ends this prefix")
    if lost.get("setting_changed"):
        return MissReason("setting_changed", "proven", "stored with other settings")
    return MissReason("unknown", "unknown", "the reports show that it was not stored")
