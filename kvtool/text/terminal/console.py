"""The one way to a terminal: colour rules, width, and text that cannot harm it.

Everything kvtool shows goes through `make_console` and `put`; text that came from a user goes through `sanitize` before it. rich's
own markup, highlighting, wrapping and truncation are never used.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from math import isnan
from typing import IO, TYPE_CHECKING, Literal

from kvtool.text.quantities import parse_digits
from kvtool.text.terminal.runner_commands import blunt, sign_places

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

ColorChoice = Literal["auto", "always", "never"]

DEFAULT_WIDTH, DEFAULT_HEIGHT = 80, 24
UNBOUNDED = 1 << 20
"""The width of a plain console: nothing is folded, aligned or drawn there, and every record is one line."""
BARS_FROM = 70
"""Columns of a console."""
_EIGHTHS = " ▏▎▍▌▋▊▉"
_BOX = "█▌▏·…│─"
_UNSAFE = re.compile(r"[^\x20-\x7e]")
_EMOJI = "\ufe0f"
"""Makes the character before it an emoji, and a cell wider."""
_SHORT_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def make_console(
    *,
    stderr: bool = False,
    color: ColorChoice = "auto",
    width: int | None = None,
    file: IO[str] | None = None,
    plain: bool = False,
) -> Console:
    """A console on stdout, stderr or `file` that never wraps, never reads markup and never fails to encode.

    Characters the stream's encoding lacks are written as escapes: the stream's own error handler is set for that. A `plain`
    console is for screen readers, grep and logs: no bars, no columns, one record per line, however long.
    """
    from rich.console import Console

    class PlainConsole(Console):
        def on_broken_pipe(self) -> None:
            """Leave a closed pipe to the command line: rich would end the process with code 1."""
            raise  # called while BrokenPipeError is being handled

    stream = file if file is not None else (sys.stderr if stderr else sys.stdout)
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None and getattr(stream, "errors", None) in ("strict", "surrogateescape"):
        reconfigure(errors="backslashreplace")
    colored = wants_color(color, stream, os.environ)
    if plain:
        width = UNBOUNDED
    return PlainConsole(
        file=stream,
        width=width if width is not None else find_width(stream, os.environ),
        height=DEFAULT_HEIGHT,  # nothing asks for it; without it, rich reads COLUMNS and LINES, however many digits they have
        color_system="standard" if colored else None,
        force_terminal=colored,  # rich would ask FORCE_COLOR itself, and takes 0 for on
        no_color=not colored,
        force_jupyter=False,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
    )


def wants_color(color: ColorChoice, stream: IO[str], env: Mapping[str, str]) -> bool:
    """Flag, then NO_COLOR, then CLICOLOR_FORCE or FORCE_COLOR (0 means off), then a terminal that is not dumb."""
    if color != "auto":
        return color == "always"
    if env.get("NO_COLOR"):
        return False
    for name in ("CLICOLOR_FORCE", "FORCE_COLOR"):
        if value := env.get(name):
            return value.strip().lower() not in ("0", "false")
    return is_terminal(stream) and env.get("TERM") != "dumb"


def find_width(stream: IO[str], env: Mapping[str, str]) -> int:
    """COLUMNS, else the terminal after the stream, else 80."""
    columns = parse_digits(env.get("COLUMNS", ""), 1, UNBOUNDED)
    if columns is not None:
        return columns
    if is_terminal(stream):
        try:
            return os.get_terminal_size(stream.fileno()).columns or DEFAULT_WIDTH
        except (OSError, ValueError):
            pass
    return DEFAULT_WIDTH


def is_terminal(stream: IO[str]) -> bool:
    """Return whether a person reads what is written to a stream."""
    try:
        return stream.isatty()
    except ValueError:  # the stream was closed
        return False


def ascii_only(console: Console) -> bool:
    """Return whether the console's encoding lacks the characters that bars and boxes are drawn with."""
    try:
        _BOX.encode(console.encoding)
    except (UnicodeEncodeError, LookupError):
        return True
    return False


def is_plain(console: Console) -> bool:
    """Return whether the console takes one record per line, without bars and columns (`--plain`)."""
    return console.width >= UNBOUNDED


def draws_bars(console: Console) -> bool:
    """Return whether a bar has room beside the figures."""
    return BARS_FROM <= console.width < UNBOUNDED


def put_field(
    console: Console, label: str, value: str, *more: str, size: int, hang: int = 0, style: str | None = None
) -> None:
    """A label, padded to `size`, and what there is to say of it, on as many lines as it takes, the later ones indented by `hang`.

    On a plain console `label: value; more; more`.
    """
    more = tuple(text for text in more if text)
    if is_plain(console):
        put(console, f"{label}: {'; '.join((value.strip(), *more))}", style)
        return
    for line in fold(f"  {label:<{size}}{'  '.join((value, *more))}", console.width, indent=hang or size + 2):
        put(console, line, style)


def at_right(console: Console, line: str, text: str, *, margin: int = 0) -> str:
    """The line with a text at the right edge of the console, or where there are no edges after it."""
    if is_plain(console):
        return f"{line}; {text}"
    return line + text.rjust(max(console.width - margin - cell_width(line), len(text) + 1))


def put(console: Console, line: str | Text = "", style: str | None = None) -> None:
    """Write one line as it is: not wrapped, not cropped, no markup; a plain console is spared the indent.

    Whatever it holds, it remains one line, and neither the terminal nor a CI runner that reads its log obeys it. Who wants columns
    to hold sanitizes before they are made.
    """
    if isinstance(line, str) and is_plain(console):
        line = line.lstrip(" ")
    line = blunt(sanitize(line)) if isinstance(line, str) else _harmless(line)
    console.print(line, style=style, no_wrap=True, overflow="ignore", crop=False, soft_wrap=True, markup=False)


def _harmless(line: Text) -> Text:
    """The same of text with styles, which stay where they are."""
    found = {match.start(): escape(match[0]) for match in _UNSAFE.finditer(line.plain) if not is_visible(match[0])}
    signs = [place for place in sign_places(line.plain) if place not in found]
    if not found and not signs:
        return line
    made = line[:0]
    last = 0
    for place in sorted((*found, *signs)):
        made = made + line[last:place] + found.get(place, " ")
        last = place + (place in found)
    return made + line[last:]


def say(console: Console, text: str, *, indent: int = 2, hang: int = 0, style: str | None = None) -> None:
    """A sentence, on as many indented lines as it takes; those after the first are indented by `hang` more."""
    for line in fold(" " * indent + text, console.width, indent=indent + hang):
        put(console, line, style)


def sanitize(text: str, *, newlines: bool = True, ascii_only: bool = False) -> str:
    """Text that is safe to show: control, format, surrogate and unassigned characters as visible escapes (`\\x1b`, `\\u202e`).

    `newlines=False` leaves line feeds alone; `ascii_only` escapes every character beyond ASCII, for streams that cannot hold it.
    """
    if str.isascii(text) and str.isprintable(text):
        return str.__str__(text)

    def shown(match: re.Match[str]) -> str:
        char = match[0]
        if char == "\n" and not newlines:
            return char
        return char if not ascii_only and is_visible(char) else escape(char)

    return _UNSAFE.sub(shown, text)


def is_visible(char: str) -> bool:
    """Return whether a terminal draws the character as itself; spaces other than U+0020 count, as they only take room."""
    return char.isprintable() or (char.isspace() and char > "\x9f" and char not in "\u2028\u2029")


def escape(char: str) -> str:
    """One character as a visible escape, in Python's notation."""
    if char in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[char]
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def cell_width(text: str) -> int:
    """Count the terminal cells of a text (wide characters take two, combining marks none)."""
    if str.isascii(text):
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def shorten(text: str, width: int, *, ascii_only: bool = False) -> str:
    """Prose cut to `width` cells with an ellipsis; never for numbers, codes or paths."""
    if cell_width(text) <= width:
        return text
    mark = "..." if ascii_only else "…"
    if width < len(mark):
        return mark[:width] if width > 0 else ""
    kept: list[str] = []
    room = width - len(mark)
    for char in text:
        room -= cell_width(char)
        if room < 0:
            break
        kept.append(char)
    return "".join(kept).rstrip() + mark


def bar(fraction: float, width: int, ascii_only: bool = False, *, track: bool = False) -> str:
    """A bar of exactly `width` cells, filled in eighths; anything above nothing shows at least the thinnest mark.

    `track` fills the rest with dots; in ASCII a bar is made of `#` and its track of `.`.
    """
    if width <= 0:
        return ""
    fraction = 0.0 if isnan(fraction) else min(max(fraction, 0.0), 1.0)
    if ascii_only:
        full = round(fraction * width) or int(fraction > 0)
        return "#" * full + ("." if track else " ") * (width - full)
    eighths = round(fraction * width * 8) or int(fraction > 0)
    if fraction < 1:
        eighths = min(eighths, width * 8 - 1)  # a full bar means all of it
    text = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
    return text + ("·" if track else " ") * (width - len(text))


def pack(parts: Iterable[str], width: int, *, separator: str = " · ", indent: int = 0) -> list[str]:
    """Put parts on as few lines as hold them, broken between parts; a part longer than a line is folded, never cut."""
    lines: list[str] = []
    line = ""
    for part in parts:
        joined = line + separator + part if line else part
        if cell_width(joined) <= width:
            line = joined
            continue
        if line:
            lines.append(line)
        *whole, line = fold(" " * indent + part if lines else part, width, indent=indent)
        lines += whole
    return [*lines, line] if line else lines


def fold(text: str, width: int, *, indent: int = 0) -> list[str]:
    """Text broken into lines of at most `width` cells, at spaces where there are any; nothing is dropped but those spaces.

    Control characters are made visible, and what CI runners obey is made harmless, before widths are counted.
    """
    lines: list[str] = []
    text = blunt(sanitize(text))
    width = max(width, 1)
    at, lead = 0, ""
    while True:
        cut, space = _fitting(text, at, width - len(lead))
        if cut == len(text):
            return [*lines, lead + text[at:]]
        if text[cut] == " ":
            space = cut
        cut = space or (cut if lead else max(cut, at + 1))
        if line := (lead + text[at:cut]).rstrip():
            lines.append(line)
        else:  # nothing but the indent fits: without it the text gets somewhere
            indent = 0
        at = cut
        while text.startswith(" ", at):
            at += 1
        lead = " " * min(indent, max(width - 1, 0))
        if text.startswith("::", at):  # the start of a line is where a runner would look for it
            lead, at = f"{lead}: ", at + 1


def _fitting(text: str, start: int, room: int) -> tuple[int, int]:
    """The first character from `start` on that does not fit into so many cells, and the last space before it at which to break.

    The length of the text where all of it fits, and 0 where there is no such space.
    """
    space, used, begun = 0, 0, False
    for index in range(start, len(text)):
        char = text[index]
        used += 1 if char == _EMOJI else cell_width(char)
        if used > room:
            return index, space
        if char != " ":
            begun = True
        elif begun:
            space = index
    return len(text), space
