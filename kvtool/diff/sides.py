"""Two requests compared: their prompts as a cache sees them, what differs in their structure, and what changes would give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kvtool.diagnose.codes import varies
from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.compare.change import Change, RequestPart
from kvtool.diagnose.compare.messages import compare_turns
from kvtool.diagnose.findings import logged_place
from kvtool.diagnose.tool_places import TOOLS, in_tools, tool_place
from kvtool.diff.diff_texts import DiffTexts
from kvtool.diff.marked_reuse import marked_reuse
from kvtool.diff.prompts import CHAT_TEMPLATE, Difference, PromptDiff, diff_prompts, reusable
from kvtool.diff.side_inputs import InputSide
from kvtool.diff.side_trials import trials_of
from kvtool.fixes.turn_texts import INSTRUCTIONS
from kvtool.results.documents.diff import Spot
from kvtool.text.align import EqualRun
from kvtool.text.message import role_of
from kvtool.text.tokens.prompt import Prompt
from kvtool.text.traced import Traced
from kvtool.workload.render import Renderer
from kvtool.workload.turn import RequestName, Turn

_OF_STRUCTURE = ("order", "session")
_MOST_SHOWN = 4096
"""Characters of a difference that are kept."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """A request and the prompt that a server would see of it."""

    side: InputSide
    prompt: Prompt

    @classmethod
    def of(cls, side: InputSide, renderer: Renderer) -> Rendered:
        return cls(side, renderer.prompt(side.turn))

    @property
    def is_chat(self) -> bool:
        return self.side.turn.messages is not None


def diff_sides(a: Rendered, b: Rendered, renderer: Renderer, block_size: int) -> PromptDiff:
    """Compare request `b` with a cache that holds request `a`, and measure what would bring them together."""
    diff = diff_prompts(
        a.prompt,
        b.prompt,
        block_size,
        newline=renderer.tokenizer.newline_mask,
        names=(a.side.name, b.side.name),
        tokenizer=renderer.tokenizer.name,
    )
    named = tuple(named_changes(a, b))
    shown = (*named, *unnamed_changes(a, b, named))
    diff = replace(diff, named=shown, named_places=tuple(_place_of(change, b) for change in shown))
    if diff.first is None:
        return diff
    first = with_tool_places(diff.first, a, b)
    diff = replace(diff, first=named_difference(first, named, b))
    if a.prompt.text is None or b.prompt.text is None or a.is_chat != b.is_chat:  # a text has no messages to move to
        return diff
    pair = a.side.turn, b.side.turn
    if a.is_chat:
        if (read := marked_reuse(*pair, renderer)) is not None:
            diff = replace(diff, reuse=reusable(read, diff.length_b, block_size))
        trials = trials_of(pair, named, diff, renderer.prompt, lambda changed: marked_reuse(*changed, renderer))
        return replace(diff, changes=trials, at_end=not trials and not _shared_later(b.prompt, diff.runs, diff.common))
    return diff if diff.at_end else replace(diff, changes=trials_of(pair, named, diff, renderer.prompt))


def with_tool_places(first: Difference, a: Rendered, b: Rendered) -> Difference:
    """Return the first difference with the tool and the field of either side, where it is in the tools."""
    return replace(first, a=_in_tools(first.a, a), b=_in_tools(first.b, b))


def _in_tools(spot: Spot | None, side: Rendered) -> Spot | None:
    if spot is None or spot.part not in (TOOLS, CHAT_TEMPLATE) or side.prompt.text is None:
        return spot
    place = tool_place(side.side.turn.tools, str.__str__(side.prompt.text), spot.start)
    return spot if place is None else spot.model_copy(update={"part": place})


def named_changes(a: Rendered, b: Rendered) -> list[Change]:
    """Return the differences in the structure of two requests; a chat and a text are compared as texts."""
    if a.prompt.text is None or b.prompt.text is None or a.prompt.text == b.prompt.text:
        return []
    if a.is_chat == b.is_chat:
        return compare_turns(a.side.turn, b.side.turn)
    return compare_turns(*(Turn("", text=side.prompt.text) for side in (a, b)))


def unnamed_changes(a: Rendered, b: Rendered, named: Sequence[Change]) -> Iterator[Change]:
    """Yield the lines that differ beside the named differences, of which no kind is known; nothing where a history differs."""
    if any(change.part.kind not in ("text", "message") for change in named):
        return
    for part, one, other in _text_pairs(a, b):
        known = [(change.start, change.stop) for change in named if change.part == part]
        texts = DiffTexts(Traced(one), Traced(other))
        for line in (line for region in texts.regions for line in texts.by_line(region)):
            start, stop = line.b
            if not any((low < stop and start < high) or low == high == start for low, high in known):
                yield Change(
                    OTHER, part, start, stop, one[slice(*line.a)][:_MOST_SHOWN], other[start:stop][:_MOST_SHOWN]
                )


def _text_pairs(a: Rendered, b: Rendered) -> Iterator[tuple[RequestPart, str, str]]:
    """Yield the texts of two requests that differ, each with its part: of texts the whole, of chats message by message."""
    if not (a.is_chat and b.is_chat):
        one, other = (each.side.turn.text if a.is_chat == b.is_chat else each.prompt.text for each in (a, b))
        if one is not None and other is not None:
            yield RequestPart("text"), str.__str__(one), str.__str__(other)
        return
    pairs = zip(a.side.turn.messages or (), b.side.turn.messages or (), strict=False)
    for index, (before, after) in enumerate(pairs):
        one, other = before.get("content"), after.get("content")
        if isinstance(one, str) and isinstance(other, str) and one != other and role_of(before) == role_of(after):
            yield RequestPart("message", index, role_of(after)), str.__str__(one), str.__str__(other)


def _place_of(change: Change, b: Rendered) -> str:
    """Return the place of a change in the later request, in words; of a message as findings of logs have it."""
    if change.part.kind == "message":
        message = (b.side.turn.messages or [])[change.part.index]
        text, at = _written_at(message.get("content"), change.start)
        origin, offset = text.at(at) if isinstance(text, Traced) and at < len(text) else (None, 0)
        if origin is not None and origin.pointer:
            return logged_place(RequestName(origin.path), origin, offset, origin.part).told
        part = f"messages[{change.part.index}] ({change.part.role})"
        return f"{part}, line {text.count(chr(10), 0, at) + 1:,}"
    if change.part.kind == "text":
        text = str(b.side.turn.text if b.side.turn.text is not None and not b.is_chat else b.prompt.text)
        return f"line {text.count(chr(10), 0, change.start) + 1:,}"
    return change.part.kind


def _written_at(content: object, start: int) -> tuple[str, int]:
    """Return the text of a message that contains a character of `content_text`, and its place in that text."""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    found = [text for text in texts if isinstance(text, str)]
    for text in found:
        if start < len(text) or text is found[-1]:
            return text, min(start, len(text))
        start -= len(text)
    return "", 0


def named_difference(first: Difference, named: Sequence[Change], b: Rendered) -> Difference:
    """Return the first difference under the name of the change of structure that it belongs to, where there is one."""
    change = _owner(first, named, b)
    if change is None or not (varies(change.kind.code) in _OF_STRUCTURE or first.kind == OTHER):
        return first
    return replace(first, kind=change.kind)


def _owner(first: Difference, named: Sequence[Change], b: Rendered) -> Change | None:
    spot = first.b
    if spot is None:
        return None
    if not b.is_chat:
        return next((one for one in named if one.part.kind == "text" and one.start <= spot.start <= one.stop), None)
    if in_tools(spot.part):
        return next((one for one in named if one.part.kind == "tools"), None)
    if spot.part == CHAT_TEMPLATE:  # the marks around messages: another role stands there, or nothing
        return next((one for one in named if one.part.kind in ("history", "tools")), None)
    index = _message_of(b, spot.start)
    inside = [one for one in named if one.part.kind == "message" and one.part.index == index]
    covering = [one for one in inside if one.start <= (spot.character or 0) <= one.stop]
    history = [one for one in named if one.part.kind == "history" and index is not None and index >= one.part.index]
    if index is not None and role_of((b.side.turn.messages or [])[index]) in INSTRUCTIONS:
        history = []  # instructions are no history
    return next(iter([*covering, *inside[:1], *history]), None)


def _message_of(side: Rendered, start: int) -> int | None:
    """Return the message of a chat that wrote a character of its prompt."""
    origin = side.prompt.text.at(start)[0] if side.prompt.text is not None else None
    if origin is None:
        return None
    for index, message in enumerate(side.side.turn.messages or ()):
        content = message.get("content")
        texts = [content] if not isinstance(content, list) else [p.get("text") for p in content if isinstance(p, dict)]
        if any(getattr(text, "marks", ()) and text.marks[0].origin == origin for text in texts if text):
            return index
    return None


def _shared_later(prompt: Prompt, runs: Sequence[EqualRun], common: int) -> bool:
    """Return whether text that both chats have, other than the template's own, follows token `common`."""
    text = prompt.text
    if text is None:
        return False
    ends: list[tuple[int, int]] = []
    at = 0
    for length, origin, _ in text.marks:
        at += length
        if origin is not None and (origin.part != CHAT_TEMPLATE or origin.variable == TOOLS):
            ends.append((at - length, at))
    for run in runs:
        if run.b_start <= common:
            continue
        start, stop = prompt.char_range(run.b_start), prompt.char_range(run.b_start + run.length - 1)
        if start and stop and any(left < stop[1] and start[0] < right for left, right in ends):
            return True
    return False
