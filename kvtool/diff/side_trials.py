"""Trials of changes of both prompts: each is made in the requests, which are rendered and measured again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kvtool.diagnose.codes import varies
from kvtool.diagnose.codes.structure.kv111 import KV111, TOOLS_REORDERED
from kvtool.diagnose.codes.structure.kv112 import JSON_KEYS
from kvtool.diagnose.codes.structure.kv113 import KV113
from kvtool.diagnose.codes.structure.kv114 import KV114
from kvtool.diagnose.compare.change import Change
from kvtool.diagnose.invisible_differences import NORMALIZERS, cosmetic, normalized
from kvtool.diff.diff_texts import DiffTexts, Unit
from kvtool.diff.moved_units import MovedPair, moved_last, moved_units, taken_out
from kvtool.diff.prompts import PromptDiff, reusable
from kvtool.fixes.forms.json_form import sort_keys, sort_tools
from kvtool.fixes.forms.text_form import COSMETIC_KINDS, SingleForm
from kvtool.fixes.moves.movable_unit import Movable
from kvtool.fixes.orders.permute import ExampleMessages, ItemOrder
from kvtool.fixes.turn_texts import texts_of, with_texts
from kvtool.results.documents.diff import Trial
from kvtool.text.align import common_prefix
from kvtool.text.terminal.numbers import in_words
from kvtool.text.tokens.prompt import Prompt
from kvtool.text.traced import Traced
from kvtool.workload.turn import Turn

Render = Callable[[Turn], Prompt]
Pair = tuple[Turn, Turn]
Read = Callable[[Pair], int | None]
Where = tuple[int | None, int | None]
_SAID_THERE = ("user", "tool")
_ITEMS = {KV111.code: "tools", KV113.code: "documents", KV114.code: "examples"}
_CONTENT = {one.kind.key: one.result for one in NORMALIZERS}


def trials_of(
    pair: Pair, named: Sequence[Change], diff: PromptDiff, render: Render, read: Read = lambda _: None
) -> tuple[Trial, ...]:
    """Changes of two requests of one form (texts, or chats): canonical forms of what differs in order only, then moves.

    Each includes those before it. Two texts with no such difference are tried with the first difference moved, then with all.
    `read` gives what marks let the second request read; None where they decide nothing.
    """
    trials: list[Trial] = []

    def tried(change: _Tried, changed: Pair) -> None:
        trials.append(change.measured(changed, diff, render, further=bool(trials), read=read(changed)))

    is_chat = pair[1].messages is not None
    for change in _first_of_each(named):
        step = _canonical(change, pair, is_chat=is_chat)
        changed = pair if step is None else (step.apply(pair[0]), step.apply(pair[1]))
        if step is not None and (changed[0] is not pair[0] or changed[1] is not pair[1]):
            pair = changed
            tried(_Tried("canonical", result=step.result, code=change.kind.code), pair)
    if not is_chat and not trials:
        return _text_trials(pair, diff, render)
    if (move := _moved_in_chat(pair, named) if is_chat else _moved_in_text(pair)) is not None:
        code = next(
            (change.kind.code for change in named if not change.cosmetic and varies(change.kind.code) != "order"), ""
        )
        tried(replace(move.tried, code=code), move.pair)
    return tuple(trials)


@dataclass(frozen=True, slots=True)
class _Tried:
    """A change of both prompts: text moved to the end, or put into a canonical form.

    `places` says how many stretches are moved; `line_a`, `line_b` where the first one stands, in the message `part` where there
    are messages. `result` describes what is not a move in words, and `code` is the diagnosis that the change answers.
    """

    unit: Unit | Literal["normalize", "canonical"]
    places: int = 1
    line_a: int = 0
    line_b: int = 0
    result: str = ""
    code: str = ""
    part: str = ""

    def measured(
        self, changed: Pair, diff: PromptDiff, render: Render, *, further: bool = False, read: int | None = None
    ) -> Trial:
        """Return the prefix that the changed prompts share, or what is `read` by marks; `further`: it includes the changes tried
        before.
        """
        ids_a, ids_b = (render(turn).ids for turn in changed)
        shared = common_prefix(ids_a, ids_b) if read is None else read
        reuse = reusable(shared, len(ids_b), diff.block_size)
        return Trial(
            unit=self.unit,
            places=self.places,
            line_a=self.line_a,
            line_b=self.line_b,
            reusable=reuse,
            gained_blocks=reuse.blocks - diff.reuse.blocks,
            what=self.result,
            code=self.code,
            part=self.part,
            further=further,
        )


def _first_of_each(named: Sequence[Change]) -> Iterator[Change]:
    """Return one change of each kind in each role, in order."""
    seen: set[tuple[str, str]] = set()
    for change in named:
        key = change.kind.key, change.part.role
        if key not in seen:
            seen.add(key)
            yield change


@dataclass(frozen=True, slots=True)
class _Step:
    """A canonical form, in words, and the function that puts a request into it."""

    result: str
    apply: Callable[[Turn], Turn]


def _canonical(change: Change, pair: Pair, *, is_chat: bool) -> _Step | None:
    """Return the canonical form that answers a change; None where there is none to be tried."""
    key = change.kind.key
    roles = {change.part.role}
    if key == TOOLS_REORDERED.key and change.part.kind == "tools":
        return _Step("sort the tools by name", sort_tools)
    if key == JSON_KEYS.key:
        return _Step("sort the JSON keys", lambda turn: sort_keys(turn, roles))
    if change.kind.code in _ITEMS:
        noun = _ITEMS[change.kind.code]
        order = ItemOrder.learn(pair, None) or (ExampleMessages.learn(pair) if is_chat else None)
        return None if order is None else _Step(f"one order of the {noun}", order)
    if is_chat and change.cosmetic and key in COSMETIC_KINDS:
        who = f"{change.part.role or 'the'} messages"
        return _Step(f"{who} {_CONTENT.get(key, '')}", SingleForm.learn(pair, key, roles))
    return None


def _text_trials(pair: Pair, diff: PromptDiff, render: Render) -> tuple[Trial, ...]:
    """Changes of two texts: the first difference alone, then all differences."""
    if pair[0].text is None or pair[1].text is None:
        return ()
    texts = DiffTexts(pair[0].text, pair[1].text)

    def measured(change: _Tried, a: str, b: str) -> Trial:
        return change.measured((Turn("", text=Traced(a)), Turn("", text=Traced(b))), diff, render)

    region = texts.regions[0]
    line_a, line_b = texts.a.count("\n", 0, region.a[0]) + 1, texts.b.count("\n", 0, region.b[0]) + 1
    code = diff.first.kind.code if diff.first is not None else ""
    unseen = cosmetic(texts.a, texts.b)
    if not unseen:  # the prompts differ in more; the first difference may still be one that nobody sees
        head = texts.lines_of(region)
        unseen = cosmetic(texts.a[slice(*head.a)], texts.b[slice(*head.b)])
    if unseen:
        result = in_words(one.result for one in unseen)
        plain_a, plain_b = normalized(texts.a, unseen), normalized(texts.b, unseen)
        change = _Tried("normalize", 1, line_a, line_b, result, code)
        if plain_a == plain_b:  # both are written as the shorter one is
            one = min(texts.a, texts.b, key=len)
            return (measured(change, one, one),)
        alone = measured(change, plain_a, plain_b)
        left = moved_units(DiffTexts(Traced(plain_a), Traced(plain_b))).every
        if not left:
            return (alone,)
        result += ", what still differs at the end"
        both = _Tried("normalize", 1 + len(left), line_a, line_b, result)
        return alone, measured(both, *_both_last(plain_a, plain_b, left))
    moves = moved_units(texts)
    trials: list[Trial] = []
    for pairs in [moves.every] if len(moves.every) == 1 else [moves.first, moves.every]:
        if pairs:
            change = _Tried(moves.unit, len(pairs), *_lines(texts, pairs[0]), code="" if trials else code)
            trials.append(measured(change, *_both_last(texts.a, texts.b, pairs)))
    return tuple(trials)


def _both_last(a: str, b: str, pairs: Sequence[MovedPair]) -> tuple[str, str]:
    """Return both texts with these units at their ends."""
    return moved_last(a, _of_side(pairs, 0)), moved_last(b, _of_side(pairs, 1))


def _of_side(pairs: Sequence[MovedPair], side: int) -> list[Movable]:
    return [unit for pair in pairs for unit in pair[side]]


@dataclass(frozen=True, slots=True)
class _Move:
    pair: Pair
    tried: _Tried


def _moved_in_text(pair: Pair) -> _Move | None:
    """Return both texts with everything that differs at the end."""
    a, b = (Traced(turn.text or "") for turn in pair)
    if a == b:
        return None
    texts = DiffTexts(a, b)
    moves = moved_units(texts)
    if not moves.every:
        return None
    tried = _Tried(moves.unit, len(moves.every), *_lines(texts, moves.every[0]))
    moved_a, moved_b = _both_last(a, b, moves.every)
    return _Move((replace(pair[0], text=Traced(moved_a)), replace(pair[1], text=Traced(moved_b))), tried)


def _lines(texts: DiffTexts, pair: MovedPair) -> tuple[int, int]:
    """Return the lines, from 1, on which what moves first begins in either text; of nothing, those of the first difference."""
    first = texts.regions[0]
    at_a = pair.a[0].start if pair.a else first.a[0]
    at_b = pair.b[0].start if pair.b else first.b[0]
    return texts.a.count("\n", 0, at_a) + 1, texts.b.count("\n", 0, at_b) + 1


def _moved_in_chat(pair: Pair, named: Sequence[Change]) -> _Move | None:
    """Return both chats with what differs behind what they share.

    Out of instructions it goes to the end of the last message of a user or a tool; what these said stays in its message and goes
    to the end of that. Answers, and a history that was cut or edited, stay as they are.
    """
    chats = _Chat(pair[0]), _Chat(pair[1])
    ends = chats[0].last_message_of, chats[1].last_message_of
    history = min((change.part.index for change in named if change.part.kind == "history"), default=None)
    first: _Tried | None = None
    places = 0
    for where in chats[0].texts:
        role = chats[0].roles[where]
        if (
            role == "assistant"
            or role != chats[1].roles.get(where)
            or (history is not None and (where[0] or 0) >= history)
        ):
            continue
        a, b = (Traced(chat.texts[where]) for chat in chats)
        stays = role in _SAID_THERE
        if a == b or not (stays or all(ends)):
            continue
        texts = DiffTexts(a, b)
        moves = moved_units(texts)
        if stays and moves.unit == "words" and _is_most(texts, moves.every):
            continue  # it is another question, whose words stay in their order
        moved = [chat.move(where, _of_side(moves.every, side), stays) for side, chat in enumerate(chats)]
        if not any(moved):
            continue
        places += len(moves.every)
        if first is None:
            first = _Tried(moves.unit, 0, *_lines(texts, moves.every[0]), part=f"messages[{where[0]}] ({role})")
    if first is None:
        return None
    return _Move((chats[0].finished(ends[0]), chats[1].finished(ends[1])), replace(first, places=places))


def _is_most(texts: DiffTexts, pairs: Sequence[MovedPair]) -> bool:
    """Return whether more of a text would move than stay."""
    return any(
        2 * sum(unit.stop - unit.start for unit in _of_side(pairs, side)) > len(text)
        for side, text in enumerate((texts.a, texts.b))
    )


class _Chat:
    """The texts of a chat, some of which are being taken out."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        found = list(texts_of(turn))
        self.texts: dict[Where, str] = {(at.message, at.part): str.__str__(at.text) for at in found}
        self.roles: Mapping[Where, str] = {(at.message, at.part): at.role for at in found}
        self._changed: dict[Where, str] = {}
        self._moved: list[str] = []

    @property
    def last_message_of(self) -> Where | None:
        """Return the place of the last text of a user or a tool."""
        return next((where for where in reversed(list(self.texts)) if self.roles[where] in _SAID_THERE), None)

    def move(self, where: Where, units: Sequence[Movable], stays: bool) -> bool:
        """Take units out of a text: to its own end (`stays`), or to the end of all; whether that changes anything."""
        text = self.texts[where]
        if not units:
            return False
        if stays:
            self._changed[where] = moved_last(text, units)
            return self._changed[where].rstrip("\n") != text.rstrip("\n")
        self._changed[where], moved = taken_out(text, units)
        self._moved += moved
        return True

    def finished(self, end: Where | None) -> Turn:
        """Return the chat with what was taken out, on lines of its own behind the text at `end`."""
        if self._moved and end is not None:
            last = self._changed.get(end, self.texts[end])
            gap = "\n" if last and not last.endswith("\n") else ""
            self._changed[end] = last + gap + "\n".join(self._moved)
        return with_texts(self._turn, self._changed)
