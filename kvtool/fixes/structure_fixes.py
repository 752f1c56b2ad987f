"""The fixes for a change of structure: orders, forms, tools, roles, and a history that does not only grow."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.diagnose.codes.structure.kv113 import KV113, LIST_REORDERED
from kvtool.diagnose.compare.json_forms import canonical, ordered
from kvtool.diagnose.invisible_differences import NORMALIZERS
from kvtool.fixes.cause_fixes import advise, fix_cause
from kvtool.fixes.fix import Fix
from kvtool.fixes.forms.json_form import WRITE_JSON, SingleLayout, put_on_one_line, sort_keys, sort_tools
from kvtool.fixes.forms.resent_calls import RESEND_CALLS, RESENT_CALLS, ResentCalls, are_rewritten
from kvtool.fixes.forms.stable_delimiter import (
    FirstDefinitions,
    SingleRole,
)
from kvtool.fixes.forms.text_form import COSMETIC_KINDS, IN_CODE, SingleForm
from kvtool.fixes.moves.context_blocks import (
    CONTEXT_FIRST,
    CONTEXT_KEPT,
    CONTEXT_LAST,
    CONTEXT_TO_SYSTEM,
    KEEP_CONTEXT,
    MOVE_CONTEXT,
    ContextBlocks,
    ContextKept,
    MovedContext,
)
from kvtool.fixes.orders.inline_order import AS_MEANT, InlineOrder, is_ranked
from kvtool.fixes.orders.permute import ExampleMessages, ItemOrder, ToolsByFirstUse
from kvtool.fixes.proofs import INLINE_ORDER, OTHER_TEXT_WARNING, STEADY_TOOLS
from kvtool.fixes.turn_texts import INSTRUCTIONS, role_of_part
from kvtool.fixes.window import StrideWindow
from kvtool.results.finding import TRIED_WITHOUT
from kvtool.text.terminal.numbers import in_words
from kvtool.workload.turn import Turn

_NOT_GENERATED = INSTRUCTIONS | {"user", "tool"}
_ORDER_MATTERS = "the order of examples can change answers: evaluate before and after"
_RANK_MATTERS = "documents may be in the order of their rank, which is lost: evaluate before and after"
_PUT_BACK = "prompts get longer, by up to half of the history that the application keeps"
_LONGER = "prompts get longer: they contain the blocks of earlier turns"
_ROLE_COUNTS = "the role sets the priority of a text: evaluate before and after"
AN_APPLICATION = "it is in a user message: move only text that the application writes"
_NUMBERS = "items get other numbers: answers that cite an item by number then cite another one"
ONE_LINE = "write JSON on one line, with one space after each comma and colon, outside of code"
ONE_LAYOUT = "write JSON with one serializer and the same options: on one line, and in code blocks like most requests"


def reordered_tools(cause: SlotCause, samples: Sequence[Turn]) -> list[Fix]:
    fix = fix_cause(cause, "sort-tools", "P1", "sort the tools by name", lambda: sort_tools, shared="tools")
    return [fix, *_items(cause, samples, "put the tools in the text into one order, the most frequent first")]


def changed_tools(cause: SlotCause, samples: Sequence[Turn]) -> list[Fix]:
    del samples
    what = "keep the tools of a session in their first order, and append new tools"
    defer = "declare all tools from the first turn on, and limit them with `tool_choice`"
    return [
        fix_cause(cause, "append-tools", "P3", what, ToolsByFirstUse, shared="tools", in_order=True),
        advise(cause, "defer-tools", "P3", defer),
    ]


def changed_definition(cause: SlotCause) -> list[Fix]:
    """Return a value in the definition of a tool, which has no line that could move; a trial holds what was said of each tool
    first.
    """
    what = "keep the tool definition constant, and move the changing value into a message after the shared text"
    return [fix_cause(cause, STEADY_TOOLS, "P3", what, FirstDefinitions, TRIED_WITHOUT, shared="tools", in_order=True)]


def json_keys(cause: SlotCause, samples: Sequence[Turn]) -> list[Fix]:
    role = role_of_part(cause.slot.part)
    if role == "assistant" and are_rewritten(samples):
        return [fix_cause(cause, RESENT_CALLS, "P1", RESEND_CALLS, ResentCalls, shared="calls", in_order=True)]
    if role == "assistant" and _sent_alike(samples):
        return [advise(cause, RESENT_CALLS, "P1", RESEND_CALLS)]
    roles = INSTRUCTIONS | {role}
    warnings = () if role in INSTRUCTIONS else (f"{OTHER_TEXT_WARNING}: {role} messages",)
    what = "write JSON with sorted keys"
    return [
        fix_cause(
            cause,
            "sort-keys",
            "P1",
            what,
            lambda: lambda turn: sort_keys(turn, roles),
            *warnings,
            shared=role or "prompt",
        ),
    ]


def _sent_alike(samples: Sequence[Turn]) -> bool:
    """Return whether requests send each tool call in one form: then it is the model that wrote it in another."""
    forms: dict[bytes, bytes] = {}
    calls = (call for turn in samples for message in turn.messages or () for call in message.get("tool_calls") or ())
    return all(forms.setdefault(canonical(call), ordered(call)) == ordered(call) for call in calls)


def other_form(cause: SlotCause, samples: Sequence[Turn]) -> list[Fix]:
    kind = cause.kind.key if cause.kind.key in COSMETIC_KINDS else "unicode_form"
    role = role_of_part(cause.slot.part)
    warnings = () if role in INSTRUCTIONS else (f"{OTHER_TEXT_WARNING}: {role} messages",)
    form = SingleForm.learn(samples, kind, INSTRUCTIONS | {role})
    outside = "the values of variables" if set(form.kinds) <= set(IN_CODE) else "code and the values of variables"
    forms = [one.kind.name for one in NORMALIZERS if one.kind.key in form.kinds]
    what = f"normalize {in_words(forms)}, outside {outside}"
    fixes = [fix_cause(cause, "normalize", "P1", what, lambda: form, *warnings, shared=f"{kind}:{role}")]
    if kind == "whitespace":
        roles = INSTRUCTIONS | {role}
        fixes.append(
            fix_cause(
                cause,
                WRITE_JSON,
                "P1",
                ONE_LINE,
                lambda: lambda turn: put_on_one_line(turn, roles),
                *warnings,
                shared=role,
            )
        )
        if (layout := SingleLayout.learn(samples, roles)) is not None:
            name = f"{WRITE_JSON}-alike"
            fixes.append(fix_cause(cause, name, "P1", ONE_LAYOUT, lambda: layout, *warnings, shared=role))
    return fixes


def reordered_documents(cause: SlotCause, samples: Sequence[Turn]) -> list[Fix]:
    if cause.kind is LIST_REORDERED:
        what = "put the list into one order for all requests, the most frequent first (a set has none)"
        return _items(cause, samples, what) or [advise(cause, "order", "P2", what)]
    what = "put documents and memories into one order for all requests, the most frequent first"
    return _items(cause, samples, what, _RANK_MATTERS) or [advise(cause, "order", "P2", what)]


def reordered_examples(cause: SlotCause, samples: Sequence[Turn]) -> list[Fix]:
    what = "put the examples into one order for all requests, the most frequent first"
    fixes = _items(cause, samples, what, _ORDER_MATTERS)
    messages = ExampleMessages.learn(samples)
    if messages is not None:
        fixes.append(
            fix_cause(cause, "order-messages", "P2", what, lambda: messages, _ORDER_MATTERS, shared="messages")
        )
    return fixes or [advise(cause, "order", "P2", what)]


def _items(cause: SlotCause, samples: Sequence[Turn], what: str, *warnings: str) -> list[Fix]:
    """Return the orders of lists that are below each other, and of those on one line."""
    role = role_of_part(cause.slot.part)
    if role == "assistant":
        return []
    roles = {role} if role else _NOT_GENERATED
    fixes = []
    order = ItemOrder.learn(samples, roles)
    inline = InlineOrder.learn(samples, roles)
    if cause.kind.code == KV113.code and is_ranked(order, inline, samples):
        return [advise(cause, "as-meant", "P3", AS_MEANT)]
    if order is not None:
        numbers = (_NUMBERS,) if order.numbered else ()
        fixes.append(fix_cause(cause, "order", "P2", what, lambda: order, *warnings, *numbers, shared=role or "prompt"))
    if inline is not None:
        fixes.append(fix_cause(cause, INLINE_ORDER, "P2", what, lambda: inline, *warnings, shared=role or "prompt"))
    return fixes


def cut_history(cause: SlotCause, samples: Sequence[Turn]) -> list[Fix]:
    del samples
    what = "cut the history rarely: let it grow to 1.5 times the length kept now, then cut it at once"
    said = "cut the history rarely, many messages at once: the turns in between then share a prefix"
    return [
        fix_cause(cause, "stride", "P3", what, StrideWindow, _PUT_BACK, shared="history", in_order=True),
        advise(cause, "cut-rarely", "P3", said),
    ]


def context_block(cause: SlotCause, samples: Sequence[Turn]) -> list[Fix]:
    blocks = ContextBlocks.learn(samples)
    if blocks is None:
        return [advise(cause, "context", "P2", MOVE_CONTEXT)]
    last, first, kept = (
        partial(MovedContext, blocks),
        partial(MovedContext, blocks, first=True),
        partial(ContextKept, blocks),
    )
    return [
        fix_cause(cause, CONTEXT_LAST, "P2", MOVE_CONTEXT, last, shared="context"),
        fix_cause(cause, CONTEXT_FIRST, "P2", CONTEXT_TO_SYSTEM, first, AN_APPLICATION, shared="context"),
        fix_cause(cause, CONTEXT_KEPT, "P3", KEEP_CONTEXT, kept, _LONGER, shared="context", in_order=True),
    ]


def changed_roles(cause: SlotCause, samples: Sequence[Turn]) -> list[Fix]:
    what = "send the text under one role in all requests, the most frequent one"
    roles = SingleRole.learn(samples)
    if roles is None:
        return [advise(cause, "role", "P3", what)]
    return [fix_cause(cause, "role", "P3", what, lambda: roles, _ROLE_COUNTS, shared="roles")]
