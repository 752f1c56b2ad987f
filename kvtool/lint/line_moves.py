"""Lines of a template that stand alone, so that what varies in them can be moved to its end (tier P2)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kvtool.diagnose.codes import varies
from kvtool.fixes.edits.edits_template import NotEditableError, Shape, shape_of
from kvtool.fixes.fix import fix_name
from kvtool.lint.static import BY_NAME
from kvtool.results.finding import Finding

TIER = "P2"
_KEY = "move-line"
_CONTROL_BEHIND = ("-}}", "-%}", "-#}")
_CONTROL_BEFORE = ("{{-", "{%-", "{#-")
_CUES = (":", ">", "]")
"""What a last line ends with that leads over to the answer: nothing can follow it."""
_WHOLE = re.compile(r"\bmessages\b|\{%-?\s{0,8}(?:extends|block|macro)\b")
"""A chat template, or one that others build on: its end is not the end of a text."""
_SET = re.compile(r"\{%-?\s{0,8}set\s{1,8}(\w{1,100})")


def movable(text: str, findings: Sequence[Finding], *, jinja: bool) -> list[Finding]:
    """The findings of one template, those whose whole line can go to its end with a fix key and its tier."""
    lines = _movable_lines(text, {one.line for one in findings if _moves(one)}, jinja)
    return [
        one.model_copy(update={"fix_key": fix_name(f"{_KEY}:{one.path}:{one.line}"), "tier": TIER})
        if one.line in lines and _moves(one)
        else one
        for one in findings
    ]


def _moves(finding: Finding) -> bool:
    """Whether it is a value, of which something tells that it varies."""
    return varies(finding.code) == "value" and finding.confidence >= BY_NAME


def moved(text: str, numbers: Sequence[int]) -> str:
    """The text with these lines (from 1) at its end, in their order; a last line without a line end stays without one."""
    lines = re.findall(r"[^\n]*\n|[^\n]+\Z", text)
    wanted = set(numbers)
    taken = [line for number, line in enumerate(lines, 1) if number in wanted]
    rest = [line for number, line in enumerate(lines, 1) if number not in wanted]
    if rest and not rest[-1].endswith("\n"):
        end = "\r\n" if "\r\n" in text else "\n"
        rest[-1] += end
        taken[-1] = taken[-1].removesuffix("\n").removesuffix("\r")
    return "".join([*rest, *taken])


def _movable_lines(text: str, wanted: set[int], jinja: bool) -> set[int]:
    """Lines with nothing but text and expressions, before others that do not vary, in a template that may go on at its end."""
    if "\r" in text.replace("\r\n", ""):  # Jinja counts it as the end of a line
        return set()
    try:
        shape = shape_of(text) if jinja else Shape()
    except NotEditableError:
        return set()
    if jinja and _WHOLE.search(text):
        return set()
    lines = text.split("\n")
    last = max((number for number, line in enumerate(lines, 1) if line.strip()), default=0)
    if last not in wanted and lines[last - 1].rstrip().endswith((*_CUES, *_CONTROL_BEHIND)):
        return set()
    found = {number for number in wanted if _stands_alone(text, lines, number, shape)}
    tail = len(lines)
    while tail and (tail in found or not lines[tail - 1].strip()):
        tail -= 1
    return {number for number in found if number < tail}


def _stands_alone(text: str, lines: Sequence[str], number: int, shape: Shape) -> bool:
    """Whether a line can be taken out without changing what Jinja does with the others."""
    line = lines[number - 1]
    start = sum(len(each) + 1 for each in lines[: number - 1])
    stop = start + len(line)
    inside = [each for each in shape.solid if each[0] < stop and start < each[1]]
    if any(each not in shape.expressions or not (start <= each[0] and each[1] <= stop) for each in inside):
        return False
    before = lines[number - 2].rstrip() if number > 1 else ""
    behind = lines[number].lstrip() if number < len(lines) else ""
    if before.endswith(_CONTROL_BEHIND) or behind.startswith(_CONTROL_BEFORE):
        return False
    if line.lstrip().startswith(_CONTROL_BEFORE) or line.rstrip().endswith(_CONTROL_BEHIND):
        return False
    words = set(re.findall(r"\w{1,100}", line))
    return not any(match[1] in words for match in _SET.finditer(text, stop))
