"""Two lists of messages compared: aligned as sequences, then message by message."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.codes.structure.kv112 import JSON_KEYS
from kvtool.diagnose.codes.structure.kv113 import DOCUMENTS_REORDERED
from kvtool.diagnose.codes.structure.kv114 import EXAMPLES_REORDERED
from kvtool.diagnose.codes.structure.kv116 import ROLE_CHANGED
from kvtool.diagnose.codes.structure.kv141 import WINDOW
from kvtool.diagnose.codes.structure.kv142 import HISTORY_EDITED
from kvtool.diagnose.codes.structure.kv143 import CUT_SHORT, is_cut_short
from kvtool.diagnose.codes.values.kv107 import OPTIONAL
from kvtool.diagnose.compare.change import Change, RequestPart, in_full
from kvtool.diagnose.compare.compare_texts import TextWhere, compare_texts
from kvtool.diagnose.compare.context_block import context_block_change
from kvtool.diagnose.compare.history import NEVER, history_start
from kvtool.diagnose.compare.json_forms import canonical, opened, ordered, same_keys
from kvtool.diagnose.compare.tools import MAX_EXCERPT, compare_tools
from kvtool.diagnose.compare.units import aligned, plain, same_end
from kvtool.diagnose.invisible_differences import NORMALIZERS, cosmetic, first_word
from kvtool.text.align import EqualRun
from kvtool.text.message import answer_message, role_of
from kvtool.workload.turn import Turn

_FIELDS = ("reasoning_content", "tool_calls", "function_call", "name", "tool_call_id")
"""What a message has beside its role and content that a chat template may write."""
HEAD = ("system", "developer")
_BEHIND = 64
_LEAST_ALIKE = 0.5
LEAST_BEHIND = 0.3
MOST_PAIRS = 64
"""Neighbouring messages that all differ and are still compared one by one."""

Key = tuple[str, ...]


class MessageGap(NamedTuple):
    """Messages `[a0, a1)` of the earlier request stand where the later one has `[b0, b1)`.

    `last`: little of what is after them is shared; then they are where the two requests part for good.
    """

    a0: int
    a1: int
    b0: int
    b1: int
    last: bool


def content_text(content: Any) -> str:
    """Return the text of a message's content: of its parts, one after the other, where it is a list; empty where it has none."""
    if isinstance(content, str):
        return str.__str__(content)
    if not isinstance(content, list):
        return "" if content is None else ordered(content).decode(errors="replace")
    pieces = []
    for part in content:
        text = part.get("text") if isinstance(part, dict) else part
        pieces.append(str.__str__(text) if isinstance(text, str) else "")
    return "".join(pieces)


def message_key(message: Any) -> Key:
    """Return a key that is equal for messages that a chat template writes alike."""
    if not isinstance(message, dict):
        return ("", repr(type(message)), ordered(message).decode(errors="replace"))
    content = message.get("content")
    text = str.__str__(content) if isinstance(content, str) else "\0" + ordered(content).decode(errors="replace")
    rest = [f"\0{name}:" + ordered(message[name]).decode(errors="replace") for name in _FIELDS if message.get(name)]
    return (role_of(message), text, *rest)


def goes_on(before: Sequence[Any], after: Sequence[Any]) -> bool:
    """Return whether a request may be a later one of the same conversation: most of what is before its last message was said
    there.

    Where users said several things, these decide: answers are often the same in two conversations that begin alike.
    """
    earlier = [message for message in after[:-1] if role_of(message) not in HEAD]
    said = [message for message in earlier if role_of(message) == "user"]
    counted = said if len(said) > 1 else earlier
    known = {message_key(message) for message in before}
    return 2 * sum(message_key(message) in known for message in counted) > len(counted)


def compare_messages(before: Sequence[Any], after: Sequence[Any], *, later: bool = False) -> list[Change]:
    """Return how two lists of messages differ; nothing where one of them begins with the other, or only the last question is
    another.

    `later` leaves open which values differ in a text where nothing else does.
    """
    start = 0
    most = min(len(before), len(after))
    while start < most and (before[start] is after[start] or message_key(before[start]) == message_key(after[start])):
        start += 1
    if start == most:
        return []
    return _Histories(before, after, start, later=later).changes()


class _Histories:
    def __init__(self, a: Sequence[Any], b: Sequence[Any], start: int, *, later: bool) -> None:
        self.a, self.b, self.start, self.later = a, b, start, later
        self.keys_a, self.keys_b = [message_key(each) for each in a[start:]], [message_key(each) for each in b[start:]]
        self.keys_b = self.keys_b[: same_end(self.keys_a, self.keys_b)]
        self.b = b = b[: start + len(self.keys_b)]
        runs = aligned(self.keys_a, self.keys_b)
        self.runs = [EqualRun(run.a_start + start, run.b_start + start, run.length) for run in runs if run.length]
        self.head = next((at for at, message in enumerate(a) if role_of(message) not in HEAD), len(a))

    def changes(self) -> list[Change]:
        cut = self._front_cut()
        if cut is not None:
            return [cut]
        gaps = self._gaps()
        found = self._reordered(gaps)
        for gap in gaps:
            found += self._gap(gap)
        return found

    def _front_cut(self) -> Change | None:
        """Return the history of the later request is the end of the earlier one's."""
        start = self.start
        length = _shortest_cut(self.keys_a, self.keys_b)
        kept_user = start == self.head + 1 and length > 1 and role_of(self.a[self.head]) == "user"
        if not length or (start > self.head and not kept_user):
            return None
        part = RequestPart("history", start, role_of(self.b[start]))
        return Change(WINDOW, part, before=_excerpt(self.a[start : start + length]))

    def _gaps(self) -> list[MessageGap]:
        gaps: list[MessageGap] = []
        lengths = [sum(map(len, key)) for key in self.keys_a]
        stop_a, stop_b = len(self.a), len(self.b)
        shared = every = 0
        for run in [*reversed(self.runs), EqualRun(self.start, self.start, 0)]:
            at_a, at_b = run.a_start + run.length, run.b_start + run.length
            if at_a < stop_a or at_b < stop_b:
                gaps.append(MessageGap(at_a, stop_a, at_b, stop_b, last=shared <= LEAST_BEHIND * every))
                every += sum(lengths[at_a - self.start : stop_a - self.start])
            length = sum(lengths[run.a_start - self.start : at_a - self.start])
            shared, every = shared + length, every + length
            stop_a, stop_b = run.a_start, run.b_start
        return gaps[::-1]

    def _reordered(self, gaps: list[MessageGap]) -> list[Change]:
        """Return messages that changed places, where that is all that differs before the end; then the gaps are done with."""
        left_a = [at for gap in gaps for at in range(gap.a0, gap.a1)]
        left_b = [at for gap in gaps for at in range(gap.b0, gap.b1)]
        both = Counter(self.keys_a[at - self.start] for at in left_a) & Counter(
            self.keys_b[at - self.start] for at in left_b
        )
        inner_a = sum(gap.a1 - gap.a0 for gap in gaps if not gap.last)
        inner_b = sum(gap.b1 - gap.b0 for gap in gaps if not gap.last)
        moved = both.total()
        if not moved or moved < max(inner_a, inner_b, 1):
            return []
        involved_a = [at for at in left_a if both[self.keys_a[at - self.start]]]
        involved_b = [at for at in left_b if both[self.keys_b[at - self.start]]]
        first = min(involved_b[0], next(gap.b0 for gap in gaps if gap.a0 <= involved_a[0] < gap.a1))
        last = max(involved_b[-1], max(gap.b0 for gap in gaps if gap.a0 <= involved_a[-1] < gap.a1))
        roles = {role_of(message) for message in self.b[first : last + 1]}
        kind = EXAMPLES_REORDERED if {"user", "assistant"} <= roles else DOCUMENTS_REORDERED
        gaps.clear()
        part = RequestPart("history", first, role_of(self.b[first]))
        return [Change(kind, part, before=_excerpt(self.a[first : last + 1]), after=_excerpt(self.b[first : last + 1]))]

    def _gap(self, gap: MessageGap) -> list[Change]:
        a0, a1, b0, b1 = gap.a0, gap.a1, gap.b0, gap.b1
        found: list[Change] = []
        if gap.last:
            while a0 < a1 and b0 < b1 and (changed := self._role_changed(a0, b0)) is not None:
                found.append(changed)
                a0, b0 = a0 + 1, b0 + 1
            if a0 < a1 and b0 < b1 and role_of(self.a[a0]) == role_of(self.b[b0]):
                found += self._pair(a0, b0, last=True)
            return found
        same_count = a1 - a0 == b1 - b0
        most = a0 + MOST_PAIRS
        while a0 < min(a1, most) and b0 < b1:
            changed = self._role_changed(a0, b0)
            if changed is None and role_of(self.a[a0]) != role_of(self.b[b0]):
                break
            pair = self._pair(a0, b0) if changed is None else [changed]
            if not same_count and any(change.kind in (HISTORY_EDITED, CUT_SHORT, OTHER) for change in in_full(pair)):
                break  # another message, not the same one with something changed
            found += pair
            a0, b0 = a0 + 1, b0 + 1
        if a0 == a1 and b0 == b1:
            return found
        part = RequestPart("history", b0, role_of(self.b[b0]) if b0 < len(self.b) else "")
        before, after = _excerpt(self.a[a0:a1]), _excerpt(self.b[b0:b1])
        return [*found, Change(self._kind(a0, a1, b0, b1), part, before=before, after=after)]

    def _role_changed(self, at_a: int, at_b: int) -> Change | None:
        """Return the change of two messages that say the same under different roles; after the content, as templates write roles
        there.
        """
        one, other = self.a[at_a], self.b[at_b]
        role, now = role_of(one), role_of(other)
        if role == now or not isinstance(one, dict) or not isinstance(other, dict):
            return None
        text = content_text(other.get("content"))
        if not text.strip() or content_text(one.get("content")) != text:
            return None
        return Change(ROLE_CHANGED, RequestPart("message", at_b, now), len(text), len(text), role, now)

    def _kind(self, a0: int, a1: int, b0: int, b1: int) -> DifferenceKind:
        """Return why messages are gone or there: instructions, the front of the history, or any other part of it."""
        if all(role_of(message) in HEAD for message in (*self.a[a0:a1], *self.b[b0:b1])):
            return OPTIONAL if a0 == a1 or b0 == b1 else OTHER
        return WINDOW if b0 == b1 and a0 <= self.head else HISTORY_EDITED

    def _pair(self, at_a: int, at_b: int, *, last: bool = False) -> list[Change]:
        one, other = self.a[at_a], self.b[at_b]
        role = role_of(other)
        answered = any(role_of(message) == "assistant" for message in self.b[at_b + 1 :])
        history = 0 if role not in HEAD and answered else NEVER
        where = TextWhere(RequestPart("message", at_b, role), history=history, tail=last, later=self.later)
        return compare_message(one, other, where)


def compare_message(a: Any, b: Any, where: TextWhere) -> list[Change]:
    """Return how two messages in the same place differ. With `where.tail`, b may be another message altogether, which is no
    change.
    """
    if not isinstance(a, dict) or not isinstance(b, dict):
        return [] if where.tail else [_whole(where, ordered(a).decode(), ordered(b).decode())]
    text_a, text_b = content_text(a.get("content")), content_text(b.get("content"))
    if where.history == 0 and where.part.role == "user":
        block = context_block_change(text_a, text_b, where.part)
        if block is not None:
            return [block]
    if where.history == 0 and not where.tail and is_cut_short(len(text_a), len(text_b)):
        return [Change(CUT_SHORT, where.part, 0, len(text_b), text_a[:MAX_EXCERPT], text_b[:MAX_EXCERPT])]
    found = [] if where.tail and not are_alike(text_a, text_b) else compare_texts(text_a, text_b, where)
    if where.tail:
        return found
    end = len(text_b)
    others = [ordered(_other_parts(each.get("content"))).decode(errors="replace") for each in (a, b)]
    if others[0] != others[1]:
        found.append(_whole(where, others[0], others[1], end))
    for name in _FIELDS:
        found += _compare_field(a.get(name), b.get(name), where, end)
    return found


def _compare_field(a: Any, b: Any, where: TextWhere, end: int) -> list[Change]:
    """Return a field beside the content; its range is in the text after the content, as JSON where it is no text."""
    if a is b or ordered(a) == ordered(b):
        return []
    text_a, text_b = _field_text(a), _field_text(b)
    if canonical(a) == canonical(b) and not isinstance(opened(b), str):
        spelling = [one.kind for one in cosmetic(text_a, text_b) or NORMALIZERS[-1:]]
        kinds = spelling if same_keys(a, b) else [JSON_KEYS]
        stop = end + len(text_b)
        return [
            Change(kind, where.part, end, stop, text_a[:MAX_EXCERPT], text_b[:MAX_EXCERPT], cosmetic=True)
            for kind in kinds
        ]
    return compare_texts(text_a, text_b, TextWhere(where.part, end, where.history))


def _field_text(value: Any) -> str:
    if isinstance(value, str):
        return str.__str__(value)
    if value is None:
        return ""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return ordered(value).decode(errors="replace")


def _other_parts(content: Any) -> list[Any]:
    """Return what a list of parts holds beside texts: images, files."""
    if not isinstance(content, list):
        return []
    return [part for part in content if not isinstance(part, str) and not (isinstance(part, dict) and "text" in part)]


def _whole(where: TextWhere, before: str, after: str, start: int = 0) -> Change:
    kind = HISTORY_EDITED if where.history < NEVER else OTHER
    return Change(kind, where.part, start, start, before[:MAX_EXCERPT], after[:MAX_EXCERPT])


def are_alike(a: str, b: str) -> bool:
    """Return whether two texts in the place of the last message are one text with something changed: they share long lines."""
    if min(len(a), len(b)) < _BEHIND:
        return False
    rows_a, rows_b = ([(first_word(line), line) for line in each.split("\n")] for each in (a, b))
    firsts = {first for first, _ in rows_a} & {first for first, _ in rows_b}
    lines_a, lines_b = (Counter(plain(line) for first, line in rows if first in firsts) for rows in (rows_a, rows_b))
    shared = sum(len(line) * count for line, count in (lines_a & lines_b).items())
    return shared >= _BEHIND and shared >= _LEAST_ALIKE * min(len(a), len(b))


def _shortest_cut(a: list[Key], b: list[Key]) -> int:
    """Return the fewest items to take from the front of `a` for the rest of it to be the front of `b`; 0 where nothing is left
    then.
    """
    if b[:1] and b[0] not in a:
        return 0
    joined = [*b, ("\0",), *a]
    border = [0] * len(joined)
    length = 0
    for at in range(1, len(joined)):
        while length and joined[at] != joined[length]:
            length = border[length - 1]
        length += joined[at] == joined[length]
        border[at] = length
    kept = border[-1]
    return len(a) - kept if kept and len(a) > kept else 0


def _excerpt(messages: Sequence[Any]) -> str:
    """Return the texts of messages, as much as a change holds."""
    pieces: list[str] = []
    left = MAX_EXCERPT
    for message in messages:
        if left <= 0:
            break
        fields = message if isinstance(message, dict) else {"content": message}
        calls = fields.get("tool_calls")
        text = content_text(fields.get("content")) + (_field_text(calls) if calls else "")
        pieces.append(text[:left])
        left -= len(text) + 1
    return "\n".join(pieces)[:MAX_EXCERPT]


def compare_turns(before: Turn, after: Turn) -> list[Change]:
    """Return the differences of two requests in order of position: tools, then messages or text.

    There are none where the later one only goes on from the earlier one or is its beginning, and none after the last text that
    they share: another last question is the request's own. Requests that are not of one form have none that can be told.
    """
    return compare_requests(before, after, None)


def compare_answer(before: Turn, after: Turn) -> list[Change]:
    """Return how a request writes the tool calls of the answer before it otherwise: in another order of keys, with other spaces."""
    asked, sent = before.messages or [], after.messages or []
    at = len(asked)
    if (
        not asked
        or len(sent) <= at
        or before.output_text is None
        or message_key(asked[-1]) != message_key(sent[at - 1])
    ):
        return []
    answer = answer_message(before.output_text) if sent[at].get("tool_calls") else None
    if answer is None:
        return []
    where = TextWhere(RequestPart("message", at, role_of(sent[at])))
    return [change for change in compare_message(answer, sent[at], where) if change.cosmetic]


def compare_structure(before: Turn, after: Turn) -> list[Change]:
    """Compare like `compare_turns`, but a text that differs in nothing but values has one change for all
    of them (see `in_full`).
    """
    return compare_requests(before, after, None, later=True)


def compare_requests(before: Turn, after: Turn, history: int | None, *, later: bool = False) -> list[Change]:
    """Compare like `compare_turns`, given at which character of a request's text its conversation begins to grow (None: look for
    marks).

    `later` leaves open which values differ where nothing else does.
    """
    found = compare_tools(before.tools, after.tools)
    if before.messages is not None and after.messages is not None:
        return found + compare_messages(before.messages, after.messages, later=later)
    if before.text is None or after.text is None:
        return found
    a, b = str.__str__(before.text), str.__str__(after.text)
    if b.startswith(a) or a.startswith(b):
        return found
    start = history_start(a) if history is None else history
    where = TextWhere(RequestPart("text"), history=start, tail=True, conversation=True, later=later)
    return found + compare_texts(a, b, where)
