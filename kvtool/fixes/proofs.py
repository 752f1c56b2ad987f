"""Proofs that a rewrite does to a turn no more than its tier allows. Token ids (P0) are compared where the engine runs again."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from kvtool.diagnose.codes.structure.kv111 import KV111
from kvtool.diagnose.codes.structure.kv112 import KV112
from kvtool.diagnose.codes.structure.kv113 import KV113
from kvtool.diagnose.codes.structure.kv114 import KV114
from kvtool.diagnose.codes.structure.kv115 import KV115
from kvtool.diagnose.codes.structure.kv116 import KV116
from kvtool.diagnose.codes.structure.kv121 import KV121
from kvtool.diagnose.codes.structure.kv141 import KV141
from kvtool.diagnose.codes.structure.kv143 import KV143
from kvtool.diagnose.codes.structure.kv144 import KV144
from kvtool.diagnose.codes.values.kv101 import KV101
from kvtool.diagnose.compare.json_forms import canonical
from kvtool.diagnose.compare.tools import is_tool, tool_name
from kvtool.diagnose.compare.units import common_prefix
from kvtool.diagnose.invisible_differences import NORMALIZERS, normalized
from kvtool.diagnose.values.ascii_digits import plain_signs
from kvtool.diagnose.values.classify import DETECTORS
from kvtool.fixes.fix import Fix
from kvtool.fixes.forms.json_form import WRITE_JSON
from kvtool.fixes.forms.stable_delimiter import DELIMITER
from kvtool.fixes.instructions_kept import INSTRUCTIONS_KEPT
from kvtool.fixes.message_proofs import (
    context_added,
    history_longer,
    instructions_differ,
    instructions_last,
    lines_by_role,
    messages_restored,
    roles_only,
    shells_of,
    text_places,
)
from kvtool.fixes.moves.move_target import places_of
from kvtool.fixes.moves.parent_prefix import PARENT_PREFIX
from kvtool.fixes.moves.passages_last import PASSAGES
from kvtool.fixes.turn_texts import lines_with_places, marks_in, texts_of
from kvtool.text.cache_marks import without_marks
from kvtool.text.json_text import json_in
from kvtool.text.traced import Traced
from kvtool.workload.turn import Turn

ROLE_WARNING = "text changes its role"
"""How the warning of a fix begins that moves text from one role to another."""
OTHER_TEXT_WARNING = "text that is not the application's own changes"
"""How the warning of a fix begins that rewrites what users, tools or the model said."""

INLINE_ORDER = "order-inline"
"""The kind of a fix that puts items of one line in another order."""

STEADY_TOOLS = "steady-tools"
"""The kind of a fix that defines each tool as the first request did."""

NAMED_ONCE = "refer"
"""The kind of a fix that is advice in words: its trial cuts values that no edit of a file can name elsewhere."""

_WORD = re.compile(r"\w+|[^\w\s]")
_LETTERS = re.compile(r"([^\W_]+)")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_LABEL_NUMBER = re.compile(
    r"\A((?:#{1,6} |\*\*|- |<)?[\[(]?(?:[^\W\d]{1,20}(?: |=|\s#)?)?(?:[^\W\d]{1,10}=[\"']?)?)\d{1,6}(?!\d)"
)
_TIMES = [
    pattern for kind, pattern in DETECTORS if kind.code == KV101.code and isinstance(pattern, re.Pattern)
]  # what is coarsened is a clock in digits, whatever language the date beside it is in
_LONGEST_LINE = 1 << 16

_NEW_MESSAGES = frozenset(json.dumps({"role": role}) for role in ("system", "developer", "user"))
"""Messages that a move may add: they hold nothing but the text that moved."""

Check = Callable[[Turn, Turn], str | None]


def check_proof(fix: Fix, before: Turn, after: Turn) -> str | None:
    """Return None where what the fix made of a turn keeps the promise of its tier, else why not, without text of the prompt.

    P0 and P1: the same after the canonicalizer that the code names. P2: the same lines (of long ones the sentences), in each role
    unless a warning says otherwise. P3: nothing differs but the value, the order of tools or the length of the history.
    """
    if before is after:
        return None
    if before.token_ids is not after.token_ids or before.hashed is not after.hashed:
        return "token ids are not for a fix to change"
    if (before.group, before.session, before.salt) != (after.group, after.session, after.salt):
        return "something else than text changed"
    if fix.tier == "P0":
        return None if _same_content(before, after) else "a change of the run must leave the prompt alone"
    if fix.kind.startswith(WRITE_JSON):
        return _keys_sorted(before, after)
    if fix.tier == "P1":
        return _P1.get(fix.code, _identical)(before, after)
    if fix.tier == "P2":
        return _moved_only(fix, before, after)
    if fix.kind == NAMED_ONCE:
        return _values_cut(before, after)
    if fix.kind == DELIMITER:
        return _contains_one_word(before, after)
    if fix.kind == INSTRUCTIONS_KEPT:
        return instructions_differ(before, after)
    if fix.kind == PARENT_PREFIX:
        return instructions_last(before, after)
    if fix.kind == STEADY_TOOLS:
        return _tools_redefined(before, after)
    if fix.code in _P3:
        return _P3[fix.code](before, after)
    return _value_left_out(fix, before, after)


def _contains_one_word(before: Turn, after: Turn) -> str | None:
    """Return one word is another one wherever it stands, and nothing else differs."""
    if text_places(before) != text_places(after) or shells_of(before) != shells_of(after):
        return "the messages are not the same"
    held: set[tuple[str, str]] = set()
    for old, new in zip(texts_of(before), texts_of(after), strict=True):
        words, others = (_LETTERS.split(str.__str__(each.text)) for each in (old, new))
        if len(words) != len(others):
            return "more than a delimiter changed"
        held |= {(one, other) for one, other in zip(words, others, strict=True) if one != other}
    return None if len(held) <= 1 else "more than a delimiter changed"


def _same_content(before: Turn, after: Turn) -> bool:
    return (before.text, before.messages, before.tools) == (after.text, after.messages, after.tools)


def _identical(before: Turn, after: Turn) -> str | None:
    return None if _same_content(before, after) else "the prompt is not the same"


def _tools_sorted(before: Turn, after: Turn) -> str | None:
    if _dumped_tools(before) != _dumped_tools(after):
        return "the tools are not the same"
    return _texts_differ(before, after, lambda text: _with_json(text, lambda value: _dump(value, tools_sorted=True)))


def _keys_sorted(before: Turn, after: Turn) -> str | None:
    if canonical(before.tools) != canonical(after.tools):
        return "the tools differ in more than the order of their keys"
    return _texts_differ(before, after, lambda text: _with_json(text, lambda value: _dump(value)))


def _cosmetic(before: Turn, after: Turn) -> str | None:
    if canonical(before.tools) != canonical(after.tools):
        return "the tools changed"
    return _texts_differ(before, after, lambda text: normalized(text, NORMALIZERS))


_P1: dict[str, Check] = {KV111.code: _tools_sorted, KV112.code: _keys_sorted, KV121.code: _cosmetic}


def _texts_differ(
    before: Turn, after: Turn, canonicalizer: Callable[[str], str], *, by_line: bool = False
) -> str | None:
    """Return whether two turns have other texts, or at other places, once the canonicalizer was applied; `by_line`: it looks at
    each line alone, so that those which are the same need not be shown to it.
    """
    if text_places(before) != text_places(after) or shells_of(before) != shells_of(after):
        return "the messages are not the same"
    for old, new in zip(texts_of(before), texts_of(after), strict=True):
        one, other = str.__str__(old.text), str.__str__(new.text)
        if by_line:
            one, other = _lines_that_differ(one, other)
        if one != other and canonicalizer(one) != canonicalizer(other):
            return "a text differs in more than the canonicalizer may change"
    return None


def _with_json(text: str, write: Callable[[Any], str]) -> str:
    pieces: list[str] = []
    at = 0
    for found in json_in(text):
        pieces += [text[at : found.start], write(found.value)]
        at = found.stop
    return "".join([*pieces, text[at:]])


def _dump(value: Any, *, tools_sorted: bool = False) -> str:
    if tools_sorted:
        value = _tools_in_order(value, 0)
    return json.dumps(value, sort_keys=not tools_sorted)


def _tools_in_order(value: Any, depth: int) -> Any:
    """Return the value with each list of tools, and no other list, in one order."""
    if depth > 100:
        return value
    if isinstance(value, list):
        items = [_tools_in_order(item, depth + 1) for item in value]
        return sorted(items, key=json.dumps) if all(map(is_tool, value)) else items
    if isinstance(value, dict):
        return {key: _tools_in_order(item, depth + 1) for key, item in value.items()}
    return value


def _dumped_tools(turn: Turn) -> Counter[str]:
    return Counter(json.dumps(without_marks(tool), default=repr) for tool in turn.tools or ())


def _moved_only(fix: Fix, before: Turn, after: Turn) -> str | None:
    if _dumped_tools(before) != _dumped_tools(after):
        return "the tools are not the same"
    if marks_in(after) > marks_in(before) + (fix.kind == PASSAGES):  # which marks what is constant in a message
        return "a move adds no cache breakpoint"
    held, holds = _others(before), _others(after)
    if held - holds or any(each not in _NEW_MESSAGES for each in holds - held):
        return "something else than text moved"
    between_roles = any(warning.startswith(ROLE_WARNING) for warning in fix.warnings)
    renumbered = fix.code in (KV111.code, KV113.code, KV114.code)
    old, new = lines_by_role(before, between_roles=between_roles), lines_by_role(after, between_roles=between_roles)
    gone, come = old - new, new - old
    if not gone and not come:
        return None
    if fix.kind == INLINE_ORDER:
        return None if _words(gone) == _words(come) else "text was lost or invented"
    if _pieces(gone, renumbered=renumbered) == _pieces(come, renumbered=renumbered):
        return None
    if not between_roles and _pieces(_no_roles(gone), renumbered=renumbered) == _pieces(
        _no_roles(come), renumbered=renumbered
    ):
        return "text changed its role"
    return "text was lost or invented"


def _others(turn: Turn) -> Counter[str]:
    """Return what messages hold beside their text: images, tool calls, names."""
    rest: Counter[str] = Counter()
    for message in turn.messages or ():
        content = message.get("content")
        parts = content if isinstance(content, list) else []
        others = (part for part in parts if not (isinstance(part, dict) and "text" in part))
        rest.update(json.dumps(without_marks(part), default=repr) for part in others)
        rest[
            json.dumps({key: value for key, value in without_marks(message).items() if key != "content"}, default=repr)
        ] += 1
    return rest


def _words(lines: Counter[tuple[str, str]]) -> Counter[tuple[str, tuple[str, ...]]]:
    """Return the words and signs of each line, in whatever order."""
    found: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for (role, line), count in lines.items():
        found[role, tuple(sorted(_WORD.findall(line)))] += count
    return found


def _no_roles(lines: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for (_, line), count in lines.items():
        found["", line] += count
    return found


def _pieces(lines: Counter[tuple[str, str]], *, renumbered: bool) -> Counter[tuple[str, str]]:
    """Return the sentences of lines; the number of a label is counted apart where items may have changed their places."""
    pieces: Counter[tuple[str, str]] = Counter()
    for (role, line), count in lines.items():
        if renumbered and (label := _LABEL_NUMBER.match(line)):
            pieces[role, f"\0{line[label.end(1) : label.end()]}"] += count
            line = line[: label.end(1)] + line[label.end() :]
        for sentence in _SENTENCE_END.split(line):
            pieces[role, sentence.strip()] += count
    return pieces


def _times_only(before: Turn, after: Turn) -> str | None:
    if before.tools != after.tools:
        return "more than text changed"
    return _texts_differ(before, after, _without_times, by_line=True)


def _lines_that_differ(one: str, other: str) -> tuple[str, str]:
    """Return the lines that are not the same in two texts of as many lines; of other texts all."""
    lines, others = one.split("\n"), other.split("\n")
    if len(lines) != len(others):
        return one, other
    kept = [pair for pair in zip(lines, others, strict=True) if pair[0] != pair[1]]
    return "\n".join(pair[0] for pair in kept), "\n".join(pair[1] for pair in kept)


def _without_times(text: str) -> str:
    text = plain_signs(text)
    for pattern in _TIMES:
        text = "\n".join(pattern.sub("\0", line) if len(line) < _LONGEST_LINE else line for line in text.split("\n"))
    return text


def _value_left_out(fix: Fix, before: Turn, after: Turn) -> str | None:
    """Check that each text is the earlier one with values of the cause left out, or the lines that contain them."""
    if (
        before.tools != after.tools
        or shells_of(before) != shells_of(after)
        or text_places(before) != text_places(after)
    ):
        return "more than text changed"
    for old, new in zip(texts_of(before), texts_of(after), strict=True):
        if old.text != new.text and not _is_left_over(fix, Traced(old.text), new.text):
            return "more than the value was left out"
    return None


def _values_cut(before: Turn, after: Turn) -> str | None:
    """Check that only stretches of lines were left out, the same ones everywhere: the values."""
    if (
        before.tools != after.tools
        or shells_of(before) != shells_of(after)
        or text_places(before) != text_places(after)
    ):
        return "more than text changed"
    for old, new in zip(texts_of(before), texts_of(after), strict=True):
        lines, left = str.__str__(old.text).split("\n"), str.__str__(new.text).split("\n")
        if len(lines) != len(left) or not all(map(_is_part, left, lines)):
            return "more than the value was left out"
    return None


def _is_part(shorter: str, line: str) -> bool:
    """Return whether a line is another one with some of its characters left out."""
    letters = iter(line)
    return shorter == line or all(letter in letters for letter in shorter)


def _is_left_over(fix: Fix, old: Traced, new: str) -> bool:
    """Return whether `new` has the lines of `old` in order but for lines with the value: shorter by one stretch, or not there."""
    places = list(places_of(old, fix.cause.slot)) if fix.cause is not None else []
    lines = str.__str__(new).split("\n")
    at = 0
    for start, stop in lines_with_places(old):
        line = str.__getitem__(old, slice(start, stop))
        if at < len(lines) and line == lines[at]:
            at += 1
            continue
        if not any(low <= stop and start <= high for low, high in places):
            return at == len(lines) - 1 and not lines[at] and stop == len(old)
        if at < len(lines) and _shortened(line, lines[at]):
            at += 1
    return at == len(lines) or (at == len(lines) - 1 and not lines[at])


def _shortened(line: str, shorter: str) -> bool:
    """Return whether one is the other with one stretch left out."""
    missing = len(line) - len(shorter)
    at = common_prefix(line, shorter)
    return missing > 0 and line[at + missing :] == shorter[at:]


def _tools_in_other_order(before: Turn, after: Turn) -> str | None:
    if (before.text, before.messages) != (after.text, after.messages):
        return "more than the tools changed"
    return None if _dumped_tools(before) == _dumped_tools(after) else "the tools are not the same"


def _tools_redefined(before: Turn, after: Turn) -> str | None:
    """Return the same tools by their names, in the same order, and nothing else."""
    if (before.text, before.messages) != (after.text, after.messages):
        return "more than the tools changed"
    names = [[tool_name(tool) for tool in turn.tools or ()] for turn in (before, after)]
    return None if names[0] == names[1] else "the tools are not the same"


_P3: dict[str, Check] = {
    KV143.code: messages_restored,
    KV144.code: context_added,
    KV116.code: roles_only,
    KV101.code: _times_only,
    KV115.code: _tools_in_other_order,
    KV141.code: history_longer,
}
