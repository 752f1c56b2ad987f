"""Proofs about the messages of a turn: what a rewrite may do to their number, their roles and the history."""

from __future__ import annotations

from collections import Counter

from kvtool.diagnose.compare.json_forms import canonical
from kvtool.fixes.turn_texts import INSTRUCTIONS, texts_of
from kvtool.text.cache_marks import marks_on, without_marks
from kvtool.text.message import Message, role_of
from kvtool.workload.turn import Turn


def text_places(turn: Turn) -> list[tuple[int | None, int | None, str]]:
    return [(at.message, at.part, at.role) for at in texts_of(turn)]


def shells_of(turn: Turn) -> list[bytes]:
    return [_shell(message) for message in turn.messages or ()]


def _shell(message: Message) -> bytes:
    """Return a message without its text, JSON in it (arguments of tool calls) as what it says."""
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    others = [part for part in parts if not (isinstance(part, dict) and "text" in part)]
    return canonical({**message, "content": others})


def lines_by_role(turn: Turn, *, between_roles: bool) -> Counter[tuple[str, str]]:
    """Return the lines of each role, without the space around them; blank ones do not count."""
    return Counter(
        ("" if between_roles else at.role, line.strip())
        for at in texts_of(turn)
        for line in str.__str__(at.text).split("\n")
        if line.strip()
    )


def history_longer(before: Turn, after: Turn) -> str | None:
    """Check that all of the turn is there, with older messages put back between the instructions and the rest."""
    old, new = before.messages or [], after.messages or []
    if before.text != after.text or before.tools != after.tools or len(new) < len(old):
        return "more than the history changed"
    head = next((at for at, message in enumerate(old) if role_of(message) not in ("system", "developer")), len(old))
    tail = len(old) - head
    if old[:head] != new[:head] or (tail and old[head:] != new[len(new) - tail :]):
        return "the messages of the turn itself changed"
    return None


def context_added(before: Turn, after: Turn) -> str | None:
    """Check that all that was sent is there, in its role, and nothing but user messages has more."""
    if before.tools != after.tools or len(before.messages or ()) != len(after.messages or ()):
        return "more than user messages changed"
    for one, other in zip(before.messages or (), after.messages or (), strict=True):
        if one != other and (role_of(one) not in ("user", "tool") or role_of(other) != role_of(one)):
            return "more than user messages changed"
    lost = lines_by_role(before, between_roles=True) - lines_by_role(after, between_roles=True)
    return "text was lost" if lost else None


def messages_restored(before: Turn, after: Turn) -> str | None:
    """Check that messages only got longer, each by texts that were cut, and that blocks have the marks that they had."""
    old, new = before.messages or [], after.messages or []
    if before.tools != after.tools or len(old) != len(new):
        return "more than the history changed"
    for one, other in zip(old, new, strict=True):
        contents = [each.get("content") for each in (one, other)]
        parts = [content if isinstance(content, list) else [{"text": content}] for content in contents]
        if {**one, "content": ""} != {**other, "content": ""} or len(parts[0]) != len(parts[1]):
            return "more than the history changed"
        for was, now in zip(*parts, strict=True):
            if was == now:
                continue
            if not is_same_but_text(was, now) or marks_on(was) != marks_on(now):
                return "more than the history changed"
            if len(was["text"]) >= len(now["text"]):
                return "a message was shortened"
    return None


def is_same_but_text(one: object, other: object) -> bool:
    """Return whether two blocks with text differ in nothing but that, and in marks."""
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return False
    are_texts = isinstance(one.get("text"), str) and isinstance(other.get("text"), str)
    return are_texts and without_marks({**one, "text": ""}) == without_marks({**other, "text": ""})


def instructions_last(before: Turn, after: Turn) -> str | None:
    """Check that the instructions are in one other message now, with others in their place, and nothing else differs."""
    old, new = before.messages or [], after.messages or []
    changed = sum(one != other for one, other in zip(old[1:], new[1:], strict=False))
    if (
        before.tools != after.tools
        or not old
        or not len(old) <= len(new) <= len(old) + 1
        or changed > 1 + len(new) - len(old)
    ):
        return "more than instructions changed"
    lost = lines_by_role(before, between_roles=True) - lines_by_role(after, between_roles=True)
    return "text was lost" if lost else None


def instructions_differ(before: Turn, after: Turn) -> str | None:
    """Check that only texts of instructions differ, at the same places."""
    if (
        before.tools != after.tools
        or text_places(before) != text_places(after)
        or shells_of(before) != shells_of(after)
    ):
        return "more than instructions changed"
    others = [
        old.text == new.text
        for old, new in zip(texts_of(before), texts_of(after), strict=True)
        if old.role not in INSTRUCTIONS
    ]
    return None if all(others) else "more than instructions changed"


def roles_only(before: Turn, after: Turn) -> str | None:
    """Check that only roles of instructions and of users differ."""
    old, new = before.messages or [], after.messages or []
    if (before.text, before.tools) != (after.text, after.tools) or len(old) != len(new):
        return "more than roles changed"
    bound = any(
        one.get("role") != other.get("role") and "assistant" in (one.get("role"), other.get("role"))
        for one, other in zip(old, new, strict=True)
    )
    same = all({**one, "role": ""} == {**other, "role": ""} for one, other in zip(old, new, strict=True))
    return None if same and not bound else "more than roles changed"
