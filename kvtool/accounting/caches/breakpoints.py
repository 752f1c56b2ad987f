"""Find the token ends of a request's content blocks, and the blocks that its author marked for a provider's cache."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from kvtool.errors import KvtoolError
from kvtool.text.cache_marks import CACHE_MARKS
from kvtool.text.message import Message, role_of
from kvtool.text.pieces import found_in_order
from kvtool.text.quantities import parse_duration
from kvtool.text.templates.chat import TOOLS_HEAD
from kvtool.text.templates.served_messages import part_text
from kvtool.text.tokens.prompt import Prompt
from kvtool.text.traced import first_origin
from kvtool.workload.jobs import Job
from kvtool.workload.turn import Turn

if TYPE_CHECKING:
    from kvtool.accounting.caches.providers import Provider

_LEADING = ("system", "developer")
_RESULTS = ("tool", "function")
_ASKING = ("user", *_RESULTS)
_FIRST_MARKS, _LATEST_MARKS, _MESSAGE_ENDS = 2, 50, 20
"""OpenAI's limits: the marks that it looks up, and the ends of earlier messages in implicit mode."""


class CacheMark(NamedTuple):
    """A mark of the author's; `ttl` in seconds if it has one."""

    ttl: float | None = None


class _Piece(NamedTuple):
    """A block as it is searched in the prompt, and the role of its message if it is that one's last."""

    text: str
    mark: CacheMark | None
    role: str = ""
    takes_mark: bool = True
    """False where OpenAI's API takes no mark."""


@dataclass(frozen=True, slots=True)
class ContentBlocks:
    """Token counts at which content blocks end, rising, and those that are breakpoints, by how long they are kept (None: as usual).

    `lead_end` is where the system text ends and `tools_end` where the tools do; `message_ends` are those of messages.
    """

    ends: tuple[int, ...]
    marked: Mapping[int, float | None]
    asked: tuple[int, ...] = ()
    """Every mark of the author's, also where more were set than are stored."""
    message_ends: tuple[int, ...] = ()
    lead_end: int = 0
    tools_end: int = 0
    turn_ends: tuple[int, ...] = ()
    """Ends of the messages after the leading ones. Results of tools and the message of the user after them are one."""
    unmarkable: frozenset[int] = frozenset()
    """Ends of blocks that take no mark."""
    extra: frozenset[int] = field(default_factory=frozenset)
    """Further ends at which a stored prefix is looked up."""

    def readable(self, lookback: int) -> frozenset[int]:
        """Return the ends at which a stored prefix is looked up: each breakpoint's and those of `lookback` blocks before it."""
        place = {end: at for at, end in enumerate(self.ends)}
        found: set[int] = set(self.extra)
        for mark in self.marked:
            found.update(self.ends[at] for at in looked_up(place[mark], lookback))
        return frozenset(found)

    def blocks_to(self, end: int, marks: Collection[int]) -> int | None:
        """Return how many blocks before the next of these marks a block ends; None where no block ends there or no mark follows."""
        at, mark = bisect_left(self.ends, end), min((mark for mark in marks if mark >= end), default=None)
        if mark is None or self.ends[at] != end:
            return None
        return bisect_left(self.ends, mark) - at


def looked_up(mark: int, lookback: int) -> range:
    """Return the numbers of the blocks at whose ends a mark finds a stored prefix, by the number of its own block."""
    return range(max(mark - lookback, 0), mark + 1)


def find_blocks(job: Job, provider: Provider) -> ContentBlocks:
    """Return the content blocks of a request; one without messages is one block.

    A request without marks from the log of a provider that needs marks stores nothing, unless it asks for automatic caching, with a
    `cache_control` of the whole request: that is a breakpoint at its last block, beside those of blocks. A request of a workload
    file counts as asking for it, unless its group says otherwise. With an implicit breakpoint, there is one at the last question
    and one after the leading system text. If there are more marks than the provider takes, the latest count.
    """
    count, settings = len(job.ids), job.turn.call.settings
    if job.prompt is None or job.prompt.text is None or not job.turn.messages:
        return ContentBlocks((count,), {count: None}, message_ends=(count,))
    text = str.__str__(job.prompt.text)
    ends: dict[int, CacheMark | None] = {}
    tools_end = 0
    for place, mark in _tools(text, job.turn.tools or ()):
        tools_end = job.prompt.token_at(place)
        ends[tools_end] = mark
    message_ends: list[int] = []
    turn_ends: list[int] = []
    unmarkable: set[int] = set()
    lead_end, last, leading, before = tools_end, 0, True, ""
    for piece, end in _found_pieces(job.prompt, job.turn.messages, text):
        ends[end] = piece.mark or ends.get(end)
        if provider.implicit and not piece.takes_mark:
            unmarkable.add(end)
        if piece.role:
            message_ends.append(end)
            last = end if piece.role in _ASKING else last
            leading = leading and piece.role in _LEADING
            lead_end = max(lead_end, end) if leading else lead_end
            if not leading:
                joined = before in _RESULTS and piece.role in _ASKING
                turn_ends[len(turn_ends) - joined :] = [end]
            before = piece.role
    if not ends:
        return ContentBlocks((count,), {count: None}, message_ends=(count,))
    ordered = tuple(sorted(ends))
    asked = {end: mark.ttl for end in ordered if (mark := ends[end]) is not None}
    marked, extra = dict(asked), frozenset[int]()
    if provider.implicit and settings.cache_mode != "explicit":
        own = sorted({end for end in (lead_end, last or ordered[-1]) if end in ends})
        marked = {**dict(list(asked.items())[-max(provider.most - len(own), 0) :]), **dict.fromkeys(own)}
        extra = frozenset([*sorted(message_ends)[-_MESSAGE_ENDS - 1 :], lead_end])
    elif not provider.implicit and (
        settings.cache_ttl
        or (not asked and (not provider.needs_mark or (job.turn.name is None and settings.cache_mode != "marks")))
    ):
        marked.setdefault(ordered[-1], _seconds(settings.cache_ttl))
    if provider.implicit:
        extra |= {*list(asked)[:_FIRST_MARKS], *list(asked)[-_LATEST_MARKS:]}
    kept = dict(sorted(marked.items())[-provider.most :])
    return ContentBlocks(
        ordered,
        kept,
        tuple(asked),
        tuple(message_ends),
        lead_end,
        tools_end,
        turn_ends=tuple(turn_ends),
        unmarkable=frozenset(unmarkable),
        extra=extra,
    )


def _tools(text: str, tools: Any) -> Iterator[tuple[int, CacheMark | None]]:
    """Return the end of each tool and its mark, for a prompt that begins with tools, one a line."""
    at = text.find(TOOLS_HEAD, 0, 4 * len(TOOLS_HEAD))
    if at < 0:
        return
    at += len(TOOLS_HEAD)
    for tool in tools:
        at = text.find("\n", at)
        if at < 0:
            return
        inner = tool.get("function") if isinstance(tool, dict) else None
        yield at, _mark(tool) or _mark(inner)
        at += 1


@dataclass(frozen=True, slots=True)
class _FoundPieces:
    """The pieces of each message that are found in a prompt, each with the token that it ends in, for the prompt that continues it.

    `stops` are the characters where the search for the next message begins; empty where any piece was not found.
    """

    messages: list[list[tuple[_Piece, int]]]
    stops: list[int]


def _found_pieces(prompt: Prompt, messages: list[Message], text: str) -> list[tuple[_Piece, int]]:
    """Return the blocks of the messages that are in the prompt, in order, each with the token that it ends in."""
    known, stops = list[list[tuple[_Piece, int]]](), list[int]()
    if (noted := prompt.note_before(_FoundPieces)) is not None:
        earlier, continued = noted
        kept = min(bisect_left(earlier.stops, continued.chars), continued.messages)
        known, stops = earlier.messages[:kept], earlier.stops[:kept]
    at = stops[-1] if stops else 0
    new = [list(_pieces([message])) for message in messages[len(known) :]]
    places = found_in_order((piece.text for pieces in new for piece in pieces), text, at)
    complete = True
    for pieces in new:
        found = []
        for piece in pieces:
            if (place := next(places)) is not None:
                at = place[1]
                found.append((piece, prompt.token_at(at)))
            elif piece.text.strip():
                complete = False
        known.append(found)
        stops.append(at)
    prompt.notes[_FoundPieces] = _FoundPieces(known, stops if complete else [])
    return [found for pieces in known for found in pieces]


def _pieces(messages: list[Message]) -> Iterator[_Piece]:
    """Return every block of the messages, in order: texts, placeholders of images and files, calls of tools."""
    for message in messages:
        content: Any = message.get("content")
        found: list[_Piece] = []
        if isinstance(content, str):
            found.append(_Piece(str.__str__(content), None))
        elif isinstance(content, list):
            found += [_Piece(str.__str__(part_text(part)), _mark(part)) for part in content]
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            found += [_Piece("</tool_call>", _mark(call)) for call in calls]
        if not found:
            continue
        role = role_of(message) or "user"
        if not takes_mark(message):
            found = [piece._replace(takes_mark=False) for piece in found]
        yield from found[:-1]
        yield found[-1]._replace(mark=found[-1].mark or _mark(message), role=role)


def takes_mark(message: Message) -> bool:
    """Return whether OpenAI's API takes a mark on a message: not on an answer, and not on `instructions`, which are a text."""
    content: Any = message.get("content")
    first = content[0] if isinstance(content, list) and content else content
    text = first.get("text") if isinstance(first, dict) else first
    origin = first_origin(text) if isinstance(text, str) else None
    return role_of(message) != "assistant" and (origin is None or origin.pointer[-1:] != ("instructions",))


class BlockPlace(NamedTuple):
    """A content block: its place in a request's body, as the provider's API has it (`tools[0]`, `system[1]`,
    `messages[2].content[0]`), and the path to it in the turn."""

    name: str
    path: tuple[str | int, ...]


def block_places(turn: Turn) -> list[BlockPlace]:
    """Return the places of all content blocks with text. Results of tools and the message of the user after them are one message in
    the provider's API."""
    found = [BlockPlace(f"tools[{number}]", ("tools", number)) for number in range(len(turn.tools or ()))]
    systems, messages, blocks, before, leading = turn.call.headers, -1, 0, "", True
    for at, message in enumerate(turn.messages or ()):
        paths = [path for path, piece in zip(_paths(message), _pieces([message]), strict=False) if piece.text]
        role = role_of(message) or "user"
        if not paths:
            continue
        leading = leading and role in _LEADING
        if leading:
            names = [f"system[{systems + number}]" for number in range(len(paths))]
            systems += len(paths)
        else:
            if before not in _RESULTS or role not in _ASKING:
                messages, blocks = messages + 1, 0
            names = [f"messages[{messages}].content[{blocks + number}]" for number in range(len(paths))]
            blocks, before = blocks + len(paths), role
        found += [BlockPlace(name, (at, *path)) for name, path in zip(names, paths, strict=True)]
    return found


def _paths(message: Message) -> list[tuple[str | int, ...]]:
    """Return the paths to the pieces of a message."""
    content: Any = message.get("content")
    paths: list[tuple[str | int, ...]] = [()] if isinstance(content, str) else []
    paths += [("content", number) for number in range(len(content))] if isinstance(content, list) else []
    calls = message.get("tool_calls")
    return paths + ([("tool_calls", number) for number in range(len(calls))] if isinstance(calls, list) else [])


def _mark(holder: object) -> CacheMark | None:
    if not isinstance(holder, dict):
        return None
    for name in CACHE_MARKS:
        value = holder.get(name)
        if value:
            return CacheMark(_seconds(value.get("ttl")) if isinstance(value, dict) else None)
    return None


def _seconds(ttl: object) -> float | None:
    """Parse a request's time to live: `5m`, `1h`; None if it is none."""
    if not isinstance(ttl, str):
        return None
    try:
        return parse_duration(ttl)
    except (ValueError, KvtoolError):
        return None
