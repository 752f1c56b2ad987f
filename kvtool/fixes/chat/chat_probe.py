"""Conversations to look at a chat template with, and what is told of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvtool.diagnose.codes.entry import CodeEntry
from kvtool.errors import KvtoolError
from kvtool.fixes.fix import Fix
from kvtool.results.choices import Severity
from kvtool.results.finding import Finding
from kvtool.text.message import Message
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.tokens.prompt import Ids
from kvtool.text.traced import Traced
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Output, Source, Turn

_CONVERSATIONS = 8
_TURNS = 4
ASKED, ANSWERED, AGAIN = "First question, number 4711?", "An answer, number 4712.", "Second question, number 4713?"
"""What a conversation is made of where a workload has none that shows it."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Findings of a chat template, and their fixes."""

    finding: Finding
    fix: Fix | None = None


def sample_turns(source: Source) -> list[Turn]:
    """Return the first turns of the first conversations: enough to see what a chat template does."""
    found: list[Turn] = []
    for conversation, _ in zip(source.conversations(), range(_CONVERSATIONS), strict=False):
        answer: Output | None = None
        for _ in range(_TURNS):
            turn = conversation.next_turn(answer)
            if turn is None:
                break
            found.append(turn)
            answer = Output(ANSWERED)
    return found


def finding(
    entry: CodeEntry,
    severity: Severity,
    template: ChatTemplate,
    group: str,
    message: str,
    fix: str,
    *,
    place: tuple[int, int] = (0, 0),
    lost: int = 0,
) -> Finding:
    is_file = Path(template.name).is_file()
    line, column = place
    return Finding.of(
        entry.code,
        severity,
        group,
        template.name,
        line,
        column,
        message,
        lost,
        fix,
        in_source=is_file and line > 0,
        tier=entry.tier,
    )


def rendered(template: ChatTemplate, turn: Turn, **changes: Any) -> Traced | None:
    """Return a turn's text, or None where the template does not take it."""
    try:
        return template.render(
            changes.get("messages", turn.messages or []),
            changes.get("tools", turn.tools),
            add_generation_prompt=changes.get("prompted", True),
            extra=turn.extra,
            seconds=turn.arrival or 0.0,
        )
    except KvtoolError:
        return None


def ids_of(renderer: Renderer, text: str) -> Ids:
    return renderer.tokenizer.encode_ids(text)


def place_of(text: Traced, index: int) -> tuple[int, int]:
    """Return line and column in the chat template of what wrote the character at `index`, or else the last one before it."""
    at, found = 0, (0, 0)
    for length, origin, offset in text.marks:
        if origin is not None and origin.part == "chat template":
            found = origin.position(offset + min(max(index - at, 0), length - 1))
        at += length
        if at > index:
            break
    return found


def place_in_source(template: ChatTemplate, *patterns: str) -> tuple[int, int]:
    """Return line and column of the first of these that the template's source has."""
    for pattern in patterns:
        match = re.search(pattern, template.source)
        if match is not None:
            start = match.start()
            return template.source.count("\n", 0, start) + 1, start - template.source.rfind("\n", 0, start)
    return 0, 0


def opening(turn: Turn) -> list[Message]:
    """Return what a conversation begins with before its first question."""
    found: list[Message] = []
    for message in turn.messages or []:
        if message.get("role") not in ("system", "developer"):
            break
        found.append(message)
    return found
