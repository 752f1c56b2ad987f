"""Two requests compared: their prompts as a cache sees them, what differs in their structure, and what changes would give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kvtool.diagnose.causes.pair_causes import PairCause, causes_between
from kvtool.diagnose.causes.structure_changes import STRUCTURAL
from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.compare.change import Change, RequestPart
from kvtool.diagnose.compare.messages import compare_turns
from kvtool.diagnose.findings import logged_place
from kvtool.diagnose.tool_places import TOOLS, tool_place
from kvtool.diff.diff_texts import DiffTexts
from kvtool.diff.marked_reuse import marked_reuse
from kvtool.diff.prompts import CHAT_TEMPLATE, SEAM, Difference, PromptDiff, diff_prompts, reusable
from kvtool.diff.side_inputs import InputSide
from kvtool.diff.side_trials import trials_of
from kvtool.results.documents.diff import Spot
from kvtool.text.align import EqualRun
from kvtool.text.message import role_of
from kvtool.text.tokens.prompt import Prompt
from kvtool.text.traced import Origin, Traced
from kvtool.workload.render import Renderer
from kvtool.workload.turn import RequestName, Turn

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
    causes = pair_causes(a, b, renderer)
    changes = named_changes(a, b)
    named = [_as_judged(change, causes, b) for change in changes]
    shown = (*named, *(_as_judged(change, causes, b) for change in unnamed_changes(a, b, changes)))
    diff = replace(diff, named=shown, named_places=tuple(_place_of(change, b) for change in shown))
    if diff.first is None:
        return diff
    diff = replace(diff, first=judged(with_tool_places(diff.first, a, b), causes))
    if a.prompt.text is None or b.prompt.text is None or a.is_chat != b.is_chat:  # a text has no messages to move to
        return diff
    pair = a.side.turn, b.side.turn
    if a.is_chat:
        if (read := marked_reuse(*pair, renderer)) is not None:
            diff = replace(diff, reuse=reusable(read, diff.length_b, block_size))
        trials = trials_of(pair, named, diff, renderer.prompt, lambda changed: marked_reuse(*changed, renderer))
        return replace(diff, changes=trials, at_end=not trials and not _shared_later(b.prompt, diff.runs, diff.common))
    return diff if diff.at_end else replace(diff, changes=trials_of(pair, named, diff, renderer.prompt))


def pair_causes(a: Rendered, b: Rendered, renderer: Renderer) -> list[PairCause]:
    """Return what keeps the second prompt from reusing the first one, as a run of the two names it."""
    tokenizer = renderer.tokenizer
    sides = [(each.side.turn if a.is_chat == b.is_chat else _as_text(each), each.prompt) for each in (a, b)]
    return causes_between(*sides, newline=lambda: tokenizer.newline_mask, decode=tokenizer.decode)


def judged(first: Difference, causes: Sequence[PairCause]) -> Difference:
    """Return the first difference under the name of the first cause; a text that ends where the other one continues has none."""
    return first if first.kind is SEAM or not causes else replace(first, kind=causes[0].kind)


def _as_judged(change: Change, causes: Sequence[PairCause], b: Rendered) -> Change:
    """Return a value that differs under the name of the cause that is there; changes of structure have their own."""
    if change.cosmetic or change.kind in STRUCTURAL or change.part.kind not in ("text", "message"):
        return change
    origin, offset = _origin_of(change, b)
    width = max(change.stop - change.start - 1, 0)
    found = next((each.kind for each in causes if each.is_at(origin, offset, offset + width)), None)
    return change if found is None else replace(change, kind=found)


def _as_text(side: Rendered) -> Turn:
    return Turn("", text=side.prompt.text)


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
    return compare_turns(_as_text(a), _as_text(b))


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
    """Return the place of a change in the later request, in words, as findings of logs have it."""
    if change.part.kind not in ("message", "text"):
        return change.part.kind
    text, at = _text_of(change, b)
    origin, offset = _origin_of(change, b)
    if origin is not None and origin.pointer:
        return logged_place(RequestName(origin.path), origin, offset, origin.part).told
    line = f"line {text.count(chr(10), 0, at) + 1:,}"
    return line if change.part.kind == "text" else f"messages[{change.part.index}] ({change.part.role}), {line}"


def _origin_of(change: Change, b: Rendered) -> tuple[Origin | None, int]:
    """Return where the text of a change was written, and the offset there."""
    text, at = _text_of(change, b)
    return text.at(at) if isinstance(text, Traced) and at < len(text) else (None, 0)


def _text_of(change: Change, b: Rendered) -> tuple[str, int]:
    """Return the text of the later request that a change is in, and the place of its first character."""
    if change.part.kind == "message":
        return _written_at((b.side.turn.messages or [])[change.part.index].get("content"), change.start)
    text = b.side.turn.text if b.side.turn.text is not None and not b.is_chat else b.prompt.text
    return text or "", change.start


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
