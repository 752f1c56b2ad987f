"""What earlier requests left in a cache, as their reports say: by session, and by the beginning of the prompt."""

from __future__ import annotations

import json
from array import array
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from weakref import ref

import orjson
import xxhash

from kvtool.accounting.prefix_tree import Ids
from kvtool.text.message import Message
from kvtool.text.templates.served_messages import part_text
from kvtool.workload.call import CallSettings

if TYPE_CHECKING:
    from kvtool.workload.turn import Turn

CHUNK = 32
"""Tokens of a piece of a prompt that has a name."""
Names: TypeAlias = "array[int]"
"""Names of the beginnings of a prompt, from 64 bits each."""
NO_NAMES: Names = array("Q")
_RESULTS = ("tool", "function")
_MOST_NAMES = 400_000
_MOST_HELD = 1_000_000
"""Names of the latest requests of sessions; a form of a message counts as `_FORM` names."""
_FORM = 20
_MOST_TURNS = 512
"""Bounds on memory; the least recently used ones are forgotten."""


@dataclass(frozen=True, slots=True)
class CacheKey:
    """Everything that must agree so that two requests use the same cache; None: not in the log."""

    model: str | None
    key: str | None
    host: str | None
    account: tuple[str | None, str | None, str | None]


class MessageForm(NamedTuple):
    """How a message is written: the number of its parts (None: a string), how many have a mark, and a digest of its text.

    Of JSON in tool calls and in results of tools, `text` is of the value, and `json` of the characters.
    """

    role: str
    parts: int | None
    marks: int
    text: int
    reasoning: bool = False
    """Whether it has reasoning beside its text."""
    json: int = 0


class ToolForm(NamedTuple):
    """A tool by its name, and a digest of its definition; `json` is one of the definition with its keys in their order."""

    name: str
    text: int
    json: int = 0


@dataclass(frozen=True, slots=True)
class PromptState:
    """A request, and the tokens at its front that are cached after it: by its report, in the provider's tokens."""

    key: CacheKey
    session: str | None
    time: float | None
    answered: float | None
    """When its answer began, on the clock of `time`."""
    settings: CallSettings
    stored: int
    stored_1h: int
    """Of them, those that are kept for an hour by a mark."""
    prompt: int
    own_tokens: int
    """Tokens of its text by our tokenizer."""
    ttl: float | None
    """Seconds for which its mark or its provider keeps it; None: not known."""
    names: Names
    forms: tuple[MessageForm, ...]
    tools: tuple[ToolForm, ...]
    marks: int
    """Marks that it set, those included that are too many."""
    reasoned: bool = False
    """Whether its answer has reasoning."""
    reasoning_begins: int | None = None
    """Our tokens before the first reasoning that it sends again since its last question."""
    reported: bool = False
    """Whether reports say what is stored: to the token. Else it follows from the provider's rules."""
    is_local: bool = False
    """Whether the log does not say the zone of its time."""
    read: int = 0
    """Tokens that it read itself: so long a prefix was stored."""
    stored_ends: tuple[int, ...] | None = None
    """Our tokens at which its marks end; None where no mark is known, or all of a prompt is stored."""

    @property
    def held(self) -> int:
        """Names and forms that it has, in names."""
        return len(self.names) + _FORM * len(self.forms)


@dataclass(frozen=True, slots=True)
class Earlier:
    """The requests with which a prompt is compared, each with the tokens (ours) of the beginning that it shares."""

    session: PromptState | None
    shared_session: int
    same_cache: PromptState | None
    shared_same_cache: int
    any: PromptState | None
    shared: int
    like: PromptState | None
    """A request whose text it repeats after another beginning."""

    def of_session(self) -> Earlier:
        """Return it without requests of other sessions with a common beginning: what they share is no text of theirs."""
        return replace(self, same_cache=None, shared_same_cache=0, any=None, shared=0)


class _Piece:
    """The next names of some prompts after those of `parent`, and the latest request with all of them."""

    __slots__ = ("children", "latest", "names", "parent")

    def __init__(self, names: Names, parent: _Piece | None, latest: PromptState | None) -> None:
        self.names = names
        self.parent = parent
        self.latest = latest
        self.children: dict[int, _Piece] = {}

    def split(self, length: int) -> _Piece:
        """Cut off the first names, and return the piece that has them; this one keeps the rest."""
        assert self.parent is not None
        upper = _Piece(self.names[:length], self.parent, self.latest)
        self.parent.children[self.names[0]] = upper
        self.names, self.parent = self.names[length:], upper
        upper.children[self.names[0]] = self
        return upper


class _Beginnings:
    """A tree of the names of prompts' beginnings, for each `apart`. Eight bytes a name; each is there once.

    Equal names mean that all names before them are equal, too.
    """

    def __init__(self) -> None:
        self._roots: dict[Hashable, _Piece] = {}
        self._names = 0
        self._recent: dict[_Piece, Hashable] = {}
        """Pieces after which no other comes, with their `apart`, the least recently used first."""

    def __len__(self) -> int:
        return self._names

    def find(self, apart: Hashable, names: Names) -> tuple[PromptState | None, int]:
        """Return the latest request with the longest beginning that is known, and how many pieces that has."""
        node, at = self._roots.get(apart), 0
        latest = None
        while node is not None and at < len(names) and (child := node.children.get(names[at])) is not None:
            shared = _common(child.names, names, at)
            latest, at = child.latest, at + shared
            node = child if shared == len(child.names) else None
        return latest, at

    def add(self, apart: Hashable, state: PromptState) -> None:
        """Enter a request as the latest user of all its beginnings."""
        names, at = state.names, 0
        if not names:
            return
        node = root = self._roots.setdefault(apart, _Piece(names[:0], None, None))
        while at < len(names) and (child := node.children.get(names[at])) is not None:
            shared = _common(child.names, names, at)
            node = child if shared == len(child.names) else child.split(shared)
            node.latest, at = state, at + shared
        if at < len(names):
            self._names += len(names) - at
            if node is root or node.children:
                node.children[names[at]] = node = _Piece(names[at:], node, state)
            else:
                node.names = node.names + names[at:]
        if not node.children:
            self._recent.pop(node, None)
            self._recent[node] = apart
        while self._names > _MOST_NAMES and len(self._recent) > 1:
            self._forget(next(iter(self._recent)))

    def _forget(self, piece: _Piece) -> None:
        """Forget a piece after which no other comes, and those before it that only it had used."""
        apart, latest = self._recent.pop(piece), piece.latest
        while piece.parent is not None and not piece.children:
            if piece.latest is not latest:
                self._recent[piece] = apart
                return
            del piece.parent.children[piece.names[0]]
            self._names -= len(piece.names)
            piece = piece.parent
        if piece.parent is None and not piece.children:
            del self._roots[apart]


class PromptStates:
    """Find earlier requests by session and by the longest common beginning; keep a bounded number."""

    def __init__(self) -> None:
        self._sessions: dict[str, PromptState] = {}
        self._held = 0
        """Names and forms of the requests in `_sessions`."""
        self._turns: dict[int, tuple[ref[Turn], PromptState]] = {}
        """By the identity of the turn, whose text it does not keep."""
        self._any = _Beginnings()
        self._same = _Beginnings()

    def find(self, names: Names, key: CacheKey, session: str | None, donor: Turn | None = None) -> Earlier:
        """Return the latest request of the session, and those with the longest common beginning in this cache and in any.

        `donor` is the request with the most similar text.
        """
        before = None if session is None else self._sessions.get(session)
        same, any_ = self._same.find(key, names), self._any.find(None, names)
        shared = 0 if before is None else _common(before.names, names, 0)
        return Earlier(before, shared * CHUNK, same[0], same[1] * CHUNK, any_[0], any_[1] * CHUNK, self._left_by(donor))

    def _left_by(self, donor: Turn | None) -> PromptState | None:
        """Return what a request left in the cache; None where it is forgotten."""
        known = None if donor is None else self._turns.get(id(donor))
        return known[1] if known is not None and known[0]() is donor else None

    def add(self, state: PromptState, turn: Turn | None = None) -> None:
        """Enter a request as the latest user of all its beginnings."""
        if turn is not None:
            self._turns[id(turn)] = ref(turn), state
        if len(self._turns) > _MOST_TURNS:
            del self._turns[next(iter(self._turns))]
        if state.session is not None:
            if (before := self._sessions.pop(state.session, None)) is not None:
                self._held -= before.held
            self._sessions[state.session] = state
            self._held += state.held
            while self._held > _MOST_HELD and len(self._sessions) > 1:
                self._held -= self._sessions.pop(next(iter(self._sessions))).held
        self._any.add(None, state)
        self._same.add(state.key, state)


def message_forms(messages: Sequence[Message] | None, before: tuple[MessageForm, ...] = ()) -> tuple[MessageForm, ...]:
    """Return the form of each message; nothing for a prompt without messages. Equal ones are those of `before`, to save memory."""
    found = []
    for number, message in enumerate(messages or ()):
        content = message.get("content")
        parts = content if isinstance(content, list) else None
        marks = sum(isinstance(part, dict) and "cache_control" in part for part in parts or ())
        texts = [part_text(part) for part in parts] if parts is not None else [content] if content is not None else []
        calls, role = message.get("tool_calls"), str(message.get("role"))
        is_json = bool(calls) or (role in _RESULTS and any(text.lstrip()[:1] in ("{", "[") for text in texts))
        values = texts if not calls else [*texts, calls]
        text = digest_of(_read_json(values) if is_json else values)
        reasoning = bool(message.get("reasoning_content") or message.get("reasoning"))
        json_ = digest_of(values, as_written=True) if is_json else 0
        form = MessageForm(role, None if parts is None else len(parts), marks, text, reasoning, json_)
        found.append(before[number] if number < len(before) and before[number] == form else form)
    return tuple(found)


def tool_forms(tools: Sequence[object] | None, before: tuple[ToolForm, ...] = ()) -> tuple[ToolForm, ...]:
    """Return the form of each tool, in order; `before` if nothing changed."""
    found = []
    for tool in tools or ():
        inner = tool.get("function", tool) if isinstance(tool, dict) else None
        name = inner.get("name") if isinstance(inner, dict) else None
        digests = digest_of([tool]), digest_of([tool], as_written=True)
        found.append(ToolForm(str.__str__(name) if isinstance(name, str) else "", *digests))
    return before if before == tuple(found) else tuple(found)


def digest_of(values: Sequence[object], *, as_written: bool = False) -> int:
    """Return a digest of texts, whatever their parts, and of values of JSON; marks for the cache do not count. `as_written`: the
    order of keys counts."""
    digest = xxhash.xxh3_64()
    for value in values:
        text = value
        if not isinstance(value, str):
            text = json.dumps(_without_marks(value), sort_keys=not as_written, default=repr)
        digest.update(str.__str__(text).encode(errors="surrogatepass"))
    return digest.intdigest()


def _read_json(value: object) -> Any:
    """Return a value in which each text that is a JSON object or list is that: two serializers then give the same."""
    if isinstance(value, str):
        plain = str.__str__(value)
        try:
            found = orjson.loads(plain) if plain.lstrip()[:1] in ("{", "[") else None
        except ValueError:
            return value
        return value if found is None else ["json", found]
    if isinstance(value, dict):
        return {name: _read_json(each) for name, each in value.items()}
    return [_read_json(each) for each in value] if isinstance(value, list) else value


def _without_marks(value: object) -> object:
    if isinstance(value, dict):
        return {str(name): _without_marks(each) for name, each in value.items() if name != "cache_control"}
    return [_without_marks(each) for each in value] if isinstance(value, list) else value


def chunk_names(ids: Ids, known: Names = NO_NAMES) -> Names:
    """Return a name for every beginning of whole pieces: equal names mean equal tokens from the front on. `known` are the first
    ones."""
    names, name = known[:], known[-1] if known else 0
    data, size = ids[len(known) * CHUNK :].astype("<i4", copy=False).tobytes(), 4 * CHUNK
    for start in range(0, len(data) - size + 1, size):
        name = xxhash.xxh3_64_intdigest(data[start : start + size], name)
        names.append(name)
    return names


def _common(first: Names, second: Names, start: int) -> int:
    """Return how many names of the first are those of the second from `start` on."""
    low, high = 0, min(len(first), len(second) - start)
    while low < high:
        middle = (low + high + 1) // 2
        if first[middle - 1] == second[start + middle - 1]:
            low = middle
        else:
            high = middle - 1
    return low
