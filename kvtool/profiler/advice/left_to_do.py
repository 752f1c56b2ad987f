"""Advice for a person about a loss that no fix won back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.accounting.plan import Plan
from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.diagnose.findings import differs_from_groups
from kvtool.diagnose.values.detectors import PART
from kvtool.fixes.fix import Fix, no_gain
from kvtool.fixes.turn_texts import INSTRUCTIONS, role_of_part
from kvtool.profiler.advice.kept_fixes import StuckCause
from kvtool.results.finding import Finding

if TYPE_CHECKING:
    from kvtool.accounting.caches.providers import Provider

_SPLIT_THE_LINE = "split the line, so that the value is separate from the shared text"
_HOSTED_SHORT = ". Requests have {tokens:,} tokens, and hosted models often cache from {least:,}"
_BELOW_MINIMUM = (
    "nothing to fix: requests of {tokens:,} tokens are too short for the cache of {provider} (minimum {least:,})"
)
_OFTEN_LEAST = 1024
"""Tokens that most providers cache from."""
_SAID = "put shared text before it: it is {what} in {article} {role} message, which an application must not rewrite"
_SHARED_FIRST = "put the text that the groups share before this text"
_FIRST_REQUEST = "nothing to fix: it is the first request of the group, and other groups have a line more there"
SEND_THE_SAME = "send the same text each time, or move it after the shared text"


def left_to_do(stuck: StuckCause, group: GroupTotals, plan: Plan, *, marked: bool) -> str:
    """Return what a person may do about a cause that no fix removed; of what was tested, that it wins nothing.

    `marked`: the provider stores what cache breakpoints end, and those of the log were kept.
    """
    if stuck.cause.is_of_other_groups:
        return _FIRST_REQUEST
    if differs_from_groups(stuck.cause):
        return _SHARED_FIRST
    tokens = group.prompt_tokens // max(group.requests, 1)
    if short := _too_short(group, plan):
        return short
    if stuck.tried is None:
        return _advised(stuck)
    if _is_moved(stuck.tried) and _is_last_line(stuck.cause):
        return f"{_at_the_end(stuck.cause)} (tested: moving it gains nothing)"
    tested = no_gain(f"{stuck.tried.what}{' with the cache breakpoints as they are' if marked else ''}")
    may_be_short = plan.hosted and tokens < _OFTEN_LEAST
    return tested + (_HOSTED_SHORT.format(tokens=tokens, least=_OFTEN_LEAST) if may_be_short else "")


def of_short_requests(finding: Finding, groups: Mapping[str, GroupTotals], plan: Plan) -> Finding:
    """Return a loss as information, where the requests of its group are too short for the provider's cache."""
    group = groups.get(finding.group)
    if group is None or finding.rerun is not None or not finding.tokens_lost or not (why := _too_short(group, plan)):
        return finding
    return finding.model_copy(update={"severity": "info", "fix": why, "tier": None, "too_short": True})


def _too_short(group: GroupTotals, plan: Plan) -> str:
    """Say that the requests of a group are too short for the provider's cache; empty where they are not."""
    least = minimum_above(group, plan)
    tokens = group.prompt_tokens // max(group.requests, 1)
    return "" if least is None else _BELOW_MINIMUM.format(tokens=tokens, provider=least.name, least=least.minimum)


def minimum_above(group: GroupTotals, plan: Plan) -> Provider | None:
    """Return the provider, where one is known, that caches nothing as short as this group's requests."""
    provider = None if plan.cache is None else plan.cache.provider
    if provider is None or group.hit_tokens or group.prompt_tokens >= provider.minimum * group.requests:
        return None
    return provider


def _advised(stuck: StuckCause) -> str:
    """Return what a person may do about a cause for which no fix was run."""
    cause = stuck.cause
    if (stuck.asked or not stuck.advice) and (role := _said_by(cause)):
        what = "an image or a file" if cause.kind.key == PART else "text"
        return _SAID.format(what=what, article="an" if role == "assistant" else "a", role=role)
    if stuck.advice or cause.structural:
        return stuck.advice or SEND_THE_SAME
    if _is_last_line(cause):
        return _at_the_end(cause)
    return SEND_THE_SAME if _is_whole_line(cause) else _SPLIT_THE_LINE


def _at_the_end(cause: SlotCause) -> str:
    return f"no fix needed: it is already at the end of its {'message' if role_of_part(cause.slot.part) else 'prompt'}"


def ends_its_message(stuck: StuckCause) -> bool:
    """Return whether a value was moved in vain that is on the last line of its message: after it is what was said then."""
    in_instructions = role_of_part(stuck.cause.slot.part) in INSTRUCTIONS
    return _is_moved(stuck.tried) and in_instructions and _is_last_line(stuck.cause)


def _is_moved(tried: Fix | None) -> bool:
    return tried is not None and tried.kind.startswith("move")


def _is_last_line(cause: SlotCause) -> bool:
    """Return whether a value of a log is on the last line of its instructions, or of a prompt without messages."""
    if cause.origin is None or not cause.slot.logged or role_of_part(cause.slot.part) not in ("", *INSTRUCTIONS):
        return False
    return "\n" not in str.__str__(cause.origin.text)[cause.offset :].rstrip()


def _is_whole_line(cause: SlotCause) -> bool:
    """Return whether a value is all that its line says."""
    around = cause.excerpt[: cause.value_start] + cause.excerpt[cause.value_stop :]
    return not any(map(str.isalnum, around))


def _said_by(cause: SlotCause) -> str:
    """Return the role of a logged message that is no application's text; empty for other text."""
    role = role_of_part(cause.slot.part)
    return role if cause.slot.logged and not cause.structural and role in ("user", "assistant", "tool") else ""
