"""Advice for a person about a loss that no fix won back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.accounting.plan import Plan
from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.diagnose.findings import differs_from_groups
from kvtool.diagnose.values.detectors import PART
from kvtool.fixes.turn_texts import INSTRUCTIONS, role_of_part
from kvtool.profiler.advice.kept_fixes import StuckCause

if TYPE_CHECKING:
    from kvtool.accounting.caches.providers import Provider

_SPLIT_THE_LINE = "split the line, so that the value is separate from the shared text"
_TESTED = " (tested: moving the line to the end gains nothing)"
_TESTED_THERE = " (tested: moving it gains nothing)"
_AT_THE_END = "no fix needed: it is already at the end of its {where}"
_HOSTED_SHORT = (
    f"make requests longer: they have {{tokens:,}} tokens, and hosted models often cache from {{least:,}}{_TESTED}"
)
_BELOW_MINIMUM = (
    "nothing to fix: requests of {tokens:,} tokens are too short for the cache of {provider} (minimum {least:,})"
)
_OFTEN_LEAST = 1024
"""Tokens that most providers cache from."""
_SAID = "put shared text before it: it is {what} in {article} {role} message, which an application must not rewrite"
_SHARED_FIRST = "put the text that the groups share before this text"
_FIRST_REQUEST = "nothing to fix: it is the first request of the group, and other groups have a line more there"
_SEND_THE_SAME_LINE = "send the same line each time"
SEND_THE_SAME = "send the same text each time, or move it after the shared text"


def left_to_do(stuck: StuckCause, group: GroupTotals, plan: Plan, *, marked: bool) -> str:
    """Return the same as for an engine, but where a hosted model caches nothing that is so short. `marked`: the provider stores
    what cache marks end, and those of the log were kept."""
    if stuck.cause.is_of_other_groups:
        return _FIRST_REQUEST
    if differs_from_groups(stuck.cause):
        return _SHARED_FIRST
    moved = stuck.tried is not None and stuck.tried.kind.startswith("move")
    tokens = group.prompt_tokens // max(group.requests, 1)
    if (least := minimum_above(group, plan)) is not None:
        return _BELOW_MINIMUM.format(tokens=tokens, provider=least.name, least=least.minimum)
    if moved and plan.hosted and tokens < _OFTEN_LEAST:
        return _HOSTED_SHORT.format(tokens=tokens, least=_OFTEN_LEAST)
    return _advised(stuck, " with the marks of the log" if marked else "")


def minimum_above(group: GroupTotals, plan: Plan) -> Provider | None:
    """Return the provider, where one is known, that caches nothing as short as this group's requests."""
    provider = None if plan.cache is None else plan.cache.provider
    if provider is None or group.hit_tokens or group.prompt_tokens >= provider.minimum * group.requests:
        return None
    return provider


def _advised(stuck: StuckCause, marks: str) -> str:
    """Return what a person may do about a cause that no fix removed; what was not run is not said to be measured."""
    if stuck.tried is None and (stuck.asked or not stuck.advice) and (role := _said_by(stuck.cause)):
        what = "an image or a file" if stuck.cause.kind.key == PART else "text"
        return _SAID.format(what=what, article="an" if role == "assistant" else "a", role=role)
    cause = stuck.cause
    if stuck.tried is None and (stuck.advice or cause.structural):
        return stuck.advice or SEND_THE_SAME
    if stuck.tried is not None and not stuck.tried.kind.startswith("move"):
        return f"{stuck.tried.what} (tested: no gain{marks})"
    tested, tested_there = ("", "") if stuck.tried is None else (_TESTED, _TESTED_THERE)
    if _is_last_line(cause):
        where = "message" if role_of_part(cause.slot.part) else "prompt"
        return _AT_THE_END.format(where=where) + tested_there
    if not _is_whole_line(cause):
        return _SPLIT_THE_LINE + tested
    return _SEND_THE_SAME_LINE + tested if tested else SEND_THE_SAME


def ends_its_message(stuck: StuckCause) -> bool:
    """Return whether a value was moved in vain that is on the last line of its message: after it is what was said then."""
    moved = stuck.tried is not None and stuck.tried.kind.startswith("move")
    return moved and role_of_part(stuck.cause.slot.part) in INSTRUCTIONS and _is_last_line(stuck.cause)


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
