"""Units of a template that are alone, so that what varies in them can be moved to its end (tier P2).

Where a template ends with values under labels, such as the message of a customer, its end is before them: what follows a label
would be read as a part of that value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kvtool.diagnose.codes import varies
from kvtool.fixes.edits.edits_template import NotEditableError, Shape, shape_of
from kvtool.fixes.fix import Tier, fix_name
from kvtool.fixes.moves.inserted_content import CLOSED, QUOTES, REST_OF_LINE, begin_of_introduced
from kvtool.fixes.moves.movable_unit import Movable, movable_unit
from kvtool.fixes.moves.split_text import is_in_many, parted_at, units_last
from kvtool.lint.findings.template_findings import BY_NAME
from kvtool.results.finding import Finding
from kvtool.text.structure.masking import Span, placeholders
from kvtool.text.traced import Traced

TIER: Tier = "P2"
_KEY = "move-line"
_CONTROL_BEHIND = ("-}}", "-%}", "-#}")
_CONTROL_BEFORE = ("{{-", "{%-", "{#-")
_CUES = (":", ">", "]")
"""What a last line ends with that leads over to the answer: nothing can follow it."""
_WHOLE = re.compile(r"\bmessages\b|\{%-?\s{0,8}(?:extends|block|macro)\b")
"""A chat template, or one that others build on: its end is not the end of a text."""
_SET = re.compile(r"\{%-?\s{0,8}set\s{1,8}(\w{1,100})")


def movable(text: str, findings: Sequence[Finding], *, jinja: bool) -> list[Finding]:
    """The findings of one template, those whose whole unit can go to its end with a fix key and its tier."""
    units, _ = _movable_units(text, findings, jinja)
    return [
        one.model_copy(update={"fix_key": fix_name(f"{_KEY}:{one.path}:{one.line}"), "tier": TIER}) if unit else one
        for one, unit in zip(findings, units, strict=True)
    ]


def _moves(finding: Finding) -> bool:
    """Return whether it is a value, of which something says that it varies."""
    return varies(finding.code) == "value" and finding.confidence >= BY_NAME


def moved(text: str, findings: Sequence[Finding], *, jinja: bool) -> str:
    """The text with the units of these findings at its end, in their order; its last line ends stay its end."""
    found_units, end = _movable_units(text, findings, jinja)
    units = [unit for unit in found_units if unit is not None]
    found = parted_at(text, units, end)
    return str.__str__(units_last(Traced(text), found, end)) if found.units else text


def _movable_units(text: str, findings: Sequence[Finding], jinja: bool) -> tuple[list[Movable | None], int]:
    """For each finding the unit that can go to the end: of text and expressions alone, before others that do not vary; and the
    end."""
    nothing: tuple[list[Movable | None], int] = [None] * len(findings), len(text.rstrip("\r\n"))
    if "\r" in text.replace("\r\n", ""):  # Jinja counts it as the end of a line
        return nothing
    try:
        shape = shape_of(text) if jinja else Shape()
    except NotEditableError:
        return nothing
    if jinja and _WHOLE.search(text):
        return nothing
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    values = [_value_at(text, starts, one, shape) if _moves(one) else None for one in findings]
    tags = {*shape.solid} - {*shape.expressions}
    known = sorted({*shape.expressions, *placeholders(text), *(value for value in values if value)} - tags)
    units = [_unit_of(text, value, known, shape) for value in values]
    alone = [span for span in known if not (shape.splits(span[0]) or shape.splits(span[1]))]
    end = min(_end(text, alone), _content_begin(text, alone, [unit for unit in units if unit]))
    if shape.splits(end):
        return nothing
    stop = len(text[:end].rstrip())
    begin = text.rfind("\n", 0, stop) + 1
    last = text[begin:stop]
    if last.endswith((*_CUES, *_CONTROL_BEHIND)) and not any(unit and unit.stop > begin for unit in units):
        return nothing
    tail = begin + len(last)
    for unit in sorted((unit for unit in units if unit), reverse=True):
        if unit.stop >= tail:
            tail = min(tail, len(text[: unit.start].rstrip()))
    return [unit if unit and unit.stop <= tail else None for unit in units], end


def _end(text: str, values: Sequence[Span]) -> int:
    """The end of a text without its last line ends, and without the values under labels that it ends with."""
    end = len(text.rstrip("\r\n"))
    for start, stop in reversed(values):
        if stop > end or CLOSED.match(text, stop, end) is None:
            return end
        begin = begin_of_introduced(text, start)
        if begin is None:
            begin = text.rfind("\n", 0, start) + 1
            if text[begin:start].strip(QUOTES):
                return end
        end = len(text[:begin].rstrip("\r\n"))
    return end


def _content_begin(text: str, values: Sequence[Span], units: Sequence[Movable]) -> int:
    """The beginning of the first text that is inserted after a unit: a value with lines of its own. Nothing moves past it."""
    for start, stop in values:
        line = text.rfind("\n", 0, start) + 1
        if (
            any(unit.stop <= start for unit in units)
            and not any(unit.start < stop and start < unit.stop for unit in units)
            and not text[line:start].strip(QUOTES)
            and REST_OF_LINE.match(text, stop) is not None
        ):
            begin = begin_of_introduced(text, start)
            return len(text[: line if begin is None else begin].rstrip("\r\n"))
    return len(text)


def _value_at(text: str, starts: Sequence[int], one: Finding, shape: Shape) -> Span | None:
    """The expression that a finding is about, or its line where none is known."""
    if not 0 < one.line <= len(starts):
        return None
    start = starts[one.line - 1]
    stop = text.find("\n", start)
    stop = len(text) if stop < 0 else stop
    at = start + max(one.column - 1, 0)
    here = [span for span in (*shape.expressions, *placeholders(text)) if span[0] <= at < span[1]]
    on_line = [span for span in shape.expressions if start <= span[0] < stop]
    return next(iter([*here, *on_line]), (start, stop))


def _unit_of(text: str, value: Span | None, known: Sequence[Span], shape: Shape) -> Movable | None:
    """The unit around a value that can be taken out without changing what Jinja does with the rest."""
    if value is None or not text[slice(*value)].strip():
        return None
    reason = is_in_many(text, *value) if value in known else None
    unit = reason or movable_unit(text, *value, known)
    if isinstance(unit, str):
        return None
    start, stop = unit.start, unit.stop
    inside = [each for each in shape.solid if each[0] < stop and start < each[1]]
    if any(each not in shape.expressions or not (start <= each[0] and each[1] <= stop) for each in inside):
        return None
    shown = text[start:stop]
    if text[:start].rstrip().endswith(_CONTROL_BEHIND) or text[stop:].lstrip().startswith(_CONTROL_BEFORE):
        return None
    if shown.lstrip().startswith(_CONTROL_BEFORE) or shown.rstrip().endswith(_CONTROL_BEHIND):
        return None
    words = set(re.findall(r"\w{1,100}", shown))
    return None if any(match[1] in words for match in _SET.finditer(text, stop)) else unit
