"""The command that a report proposes: the one that was given, with a flag more, on lines that a shell can take."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from functools import cache

from kvtool.config.option import Option, walk
from kvtool.config.options.run_options import Measuring, Serving
from kvtool.config.options.shown_options import Showing, Writing
from kvtool.text.terminal.console import cell_width, sanitize

_MARGIN = " " * 2
_DEEPER = " " * 4
_SHORT = len("-o")
_FILES = ("events", "events_no_tokens", "metrics")
"""Of a run, the options that only write something beside its result."""


def with_flag(command: Sequence[str], flag: str, value: str | None) -> list[str]:
    """The command with `flag`, which replaces the one it has."""
    if value is None:
        return [*(argument for argument in command if argument != flag), flag]
    return [*without(command, flag), flag, value]


def changed(command: Sequence[str], flags: Iterable[tuple[str, str | None]]) -> list[str]:
    """The command with flags in place of what it says of them: None takes one away, and an empty value is a flag without one."""
    kept = list(command)
    for flag, value in flags:
        for form in _short_forms().get(flag, ()):
            kept = without(kept, form)
        kept = without(kept, flag) if value is None else with_flag(kept, flag, value or None)
    return kept


def without(command: Sequence[str], flag: str) -> list[str]:
    """The command without a flag and its value."""
    kept: list[str] = []
    skip = False
    for argument in command:
        if not skip and argument != flag and not argument.startswith(f"{flag}="):
            kept.append(argument)
        skip = argument == flag and not skip
    return kept


def allowing(tiers: Iterable[str | None]) -> list[str]:
    """The flag by which `kvtool optimize` may make fixes of these tiers; nothing where it may in any case."""
    asked = sorted({tier for tier in tiers if tier is not None and tier not in ("P0", "P1")})
    return ["--allow", ",".join(asked)] if asked else []


def without_shown(command: Sequence[str]) -> list[str]:
    """The command without what decides how and where its result is shown: that was for once."""
    kept = list(command)
    for flag, takes_value in _shown_flags():
        kept = without(kept, flag) if takes_value else [argument for argument in kept if argument != flag]
    return [argument for argument in kept if not _holds_value(argument)]


@cache
def _shown_flags() -> tuple[tuple[str, bool], ...]:
    """Flags of output, long and short, each with whether a value stands behind it."""
    found = [*walk(Writing), *walk(Showing), *walk(Measuring, _FILES)]
    return tuple(
        (flag, each.kind is not bool)
        for each in found
        if isinstance(each.mark, Option) and each.name != "offline"
        for flag in each.mark.flags(each.name)
    )


@cache
def _short_forms() -> dict[str, tuple[str, ...]]:
    """By long flag of a server, the other ways to write it."""
    forms = [each.mark.flags(each.name) for each in walk(Serving) if isinstance(each.mark, Option)]
    return {long: others for *others_, long in filter(None, forms) if (others := tuple(others_))}


def _holds_value(argument: str) -> bool:
    """Whether it is a short flag of output with its value behind it, as in `-oreport.html`."""
    return any(
        len(flag) == _SHORT and takes_value and argument.startswith(flag) for flag, takes_value in _shown_flags()
    )


def shell_lines(command: Sequence[str], width: int, plain: bool) -> list[str]:
    """The command quoted for a shell; what does not fit a line goes on behind a backslash, which leaves the words whole."""
    lines = _broken(command[0], width, plain, _MARGIN)
    for words in with_values(command[1:]):
        shown = " ".join(_quoted(word, plain) for word in words)
        if cell_width(lines[-1]) + 1 + cell_width(shown) + 2 <= width:
            lines[-1] += f" {shown}"
        elif len(_DEEPER) + cell_width(shown) + 2 <= width:
            lines[-1] += " \\"
            lines.append(_DEEPER + shown)
        else:
            for word in words:
                lines[-1] += " \\"
                lines += _broken(word, width, plain, _DEEPER)
    return lines


def with_values(words: Sequence[str]) -> list[list[str]]:
    """Words that better stay on one line: a flag and what stands behind it."""
    groups: list[list[str]] = []
    for word in words:
        if groups and len(groups[-1]) == 1 and groups[-1][0].startswith("-") and not word.startswith("-"):
            groups[-1].append(word)
        else:
            groups.append([word])
    return groups


def _broken(word: str, width: int, plain: bool, margin: str) -> list[str]:
    """A word on as many lines as it takes; only the first has a margin, as spaces would part the word."""
    lines: list[str] = []
    while cell_width(margin + _quoted(word, plain)) + 2 > width and len(word) > 1:
        cut = _fitting(word, width - len(margin) - 1, plain)
        lines.append(margin + _quoted(word[:cut], plain) + "\\")
        word, margin = word[cut:], ""
    return [*lines, margin + _quoted(word, plain)]


def _quoted(word: str, plain: bool) -> str:
    return sanitize(shlex.quote(word), ascii_only=plain)


def _fitting(word: str, room: int, plain: bool) -> int:
    """How many characters of a word take at most `room` cells when they are quoted; at least one."""
    cut = 1
    while cut < len(word) - 1 and cell_width(_quoted(word[: cut + 1], plain)) <= room:
        cut += 1
    return cut


def shorten_middle(text: str, width: int, *, ascii_only: bool = False) -> str:
    """Text of at most `width` cells that keeps its beginning and its end."""
    if cell_width(text) <= width:
        return text
    mark = "..." if ascii_only else "…"
    room = max(width - cell_width(mark), 0)
    tail = ""
    for char in reversed(text):
        if cell_width(char + tail) > room // 3:
            break
        tail = char + tail
    head = ""
    for char in text:
        if cell_width(head + char) + cell_width(tail) > room:
            break
        head += char
    return head + mark + tail


def shorten_place(place: str, width: int, *, ascii_only: bool = False) -> str:
    """The same for `path:line`, whose line number stays whole."""
    path, colon, line = place.rpartition(":")
    if not colon or not line.isdecimal():
        return shorten_middle(place, width, ascii_only=ascii_only)
    return shorten_middle(path, width - len(colon + line), ascii_only=ascii_only) + colon + line
