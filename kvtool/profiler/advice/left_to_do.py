"""Advice for a person about a loss that no fix won back."""

from __future__ import annotations

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.accounting.plan import Plan
from kvtool.diagnose.causes import SlotCause
from kvtool.diagnose.values.detectors import PART
from kvtool.fixes.turn_texts import INSTRUCTIONS, role_of_part
from kvtool.profiler.advice.advisor import StuckCause

_PART_THE_LINE = "part the line, so that the value stands apart from the text that is shared"
_MOVED = f"moving its line to the end wins nothing (measured by running again): {_PART_THE_LINE}"
_AT_THE_END = (
    "leave it: it stands at the end of its message, and what follows is what was said there;"
    " moving it wins nothing (measured by running again)"
)
_HOSTED_SHORT = (
    "moving its line to the end wins nothing under the provider's rules (measured by running again): requests of {tokens:,} tokens"
    " are shorter than what hosted models begin to cache at, often {least:,}"
)
_OFTEN_LEAST = 1024
"""Tokens that most providers cache from."""
_WINS_NOTHING = "wins nothing in this run (measured by running again)"
_SAID = (
    "it is {what} of {article} {role} message, which is not for an application to rewrite: put what is shared before it"
)
_NOT_TRIED = "no fix of it could be tried: send the same each time, or what differs behind what is shared"


def left_to_do(stuck: StuckCause, group: GroupTotals, plan: Plan) -> str:
    """Return the same as for an engine, but where a hosted model caches nothing that is so short."""
    moved = stuck.tried is not None and stuck.tried.kind.startswith("move")
    tokens = group.prompt_tokens // max(group.requests, 1)
    if moved and plan.hosted and tokens < _OFTEN_LEAST:
        return _HOSTED_SHORT.format(tokens=tokens, least=_OFTEN_LEAST)
    return _advised(stuck)


def _advised(stuck: StuckCause) -> str:
    """Return what a person may do about a cause that no fix removed; what was not run is not said to be measured."""
    if stuck.tried is None and (stuck.asked or not stuck.advice) and (role := _said_by(stuck.cause)):
        what = "an image or a file" if stuck.cause.kind.key == PART else "text"
        return _SAID.format(what=what, article="an" if role == "assistant" else "a", role=role)
    if stuck.tried is None:
        return stuck.advice or (_NOT_TRIED if stuck.cause.structural else _PART_THE_LINE)
    if stuck.tried.kind.startswith("move"):
        return _AT_THE_END if ends_its_message(stuck) else _MOVED
    return f"{stuck.tried.what}: {_WINS_NOTHING}"


def ends_its_message(stuck: StuckCause) -> bool:
    """Return whether a value was moved in vain that is on the last line of its message: after it is what was said then."""
    origin, slot = stuck.cause.origin, stuck.cause.slot
    if stuck.tried is None or not stuck.tried.kind.startswith("move") or origin is None or not slot.logged:
        return False
    text = str.__str__(origin.text)
    return role_of_part(slot.part) in INSTRUCTIONS and "\n" not in text[stuck.cause.offset :].rstrip()


def _said_by(cause: SlotCause) -> str:
    """Return the role of a logged message that is no application's text; empty for other text."""
    role = role_of_part(cause.slot.part)
    return role if cause.slot.logged and not cause.structural and role in ("user", "assistant", "tool") else ""
