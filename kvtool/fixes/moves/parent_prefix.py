"""Forks and subagents with instructions of their own before the history of their parent: they can have the parent's prefix (P3)."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from kvtool.fixes.moves.move import MovedText, append_units, last_asked
from kvtool.text.message import Message, role_of
from kvtool.text.traced import Traced
from kvtool.workload.turn import Turn

PARENT_PREFIX = "parent-prefix"
"""The kind of a fix that gives a fork the instructions of its parent, and its own ones last."""
INHERIT = "send the parent's instructions and history unchanged, and the fork's own instructions in its first task"
WITH_PARENTS = "a fork then has its parent's instructions too: evaluate before and after"

_INSTRUCTIONS = ("system", "developer")
_MOST = 100_000
_ANSWERS = 2
"""Answers of a model that two conversations have in common only if one goes on from the other."""

_Said = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Prompt:
    """A request in parts: its instructions, and how the history after them begins."""

    head: Message
    text: str
    history: _Said


class ParentPrefix:
    """Gives a request the instructions under which its history was sent first, and puts its own ones into its first task.

    That is the last message of the fork's first request: later ones have them at the same place. A history is what comes after
    the instructions, up to the second answer: two conversations in which it is the same are parent and fork, and no two that
    begin with the same greeting.
    """

    def __init__(self) -> None:
        self._first: OrderedDict[tuple[str, str | None, _Said], Message] = OrderedDict()
        self._tasks: OrderedDict[tuple[str, str, str], tuple[int, str]] = OrderedDict()

    @classmethod
    def helps(cls, samples: Sequence[Turn]) -> bool:
        """Return whether one history comes after several instructions that have little in common: no move of lines mends that."""
        transform = cls()
        return any(_have_little_in_common(turn, after) for turn in samples if (after := transform(turn)) is not turn)

    def __call__(self, turn: Turn) -> Turn:
        prompt = _parted(turn)
        if prompt is None:
            return turn
        key = turn.group, turn.salt, prompt.history
        head = self._first.setdefault(key, prompt.head)
        if len(self._first) > _MOST:
            self._first.popitem(last=False)
        if head.get("content") == prompt.head.get("content"):
            return turn
        messages = [dict(head), *(turn.messages or [])[1:]]
        at = last_asked(messages)
        if at is None:
            return turn
        task = self._tasks.setdefault((turn.group, turn.session or "", prompt.text), (at, _said(messages[at])))
        if len(self._tasks) > _MOST:
            self._tasks.popitem(last=False)
        if task[0] < len(messages) and _said(messages[task[0]]) == task[1]:
            at = task[0]
        after = append_units(turn.with_messages(messages), [MovedText(Traced(prompt.text), apart=True)], at=at)
        after.call = turn.call.of_another_prompt
        return after


def _said(message: Message) -> str:
    return str.__str__(str(message.get("content")))


def _have_little_in_common(turn: Turn, other: Turn) -> bool:
    texts = [str.__str__(str(each.messages[0].get("content"))) for each in (turn, other) if each.messages]
    one, two = (Counter(text.split("\n")) for text in texts)
    shared = sum(len(line) * count for line, count in (one & two).items())
    return 2 * shared < min(map(len, texts))


def _parted(turn: Turn) -> _Prompt | None:
    """Return None for a request without instructions, or with a history that is too short to tell its parent."""
    messages = turn.messages or []
    if len(messages) < 2 or role_of(messages[0]) not in _INSTRUCTIONS:
        return None
    text = messages[0].get("content")
    answers = [at for at, each in enumerate(messages) if role_of(each) == "assistant"][:_ANSWERS]
    if not isinstance(text, str) or len(answers) < _ANSWERS or answers[0] < 2:
        return None
    history = tuple((role_of(each), _said(each)) for each in messages[1 : answers[-1] + 1])
    return _Prompt(messages[0], text, history)
