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

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

ColorChoice = Literal["auto", "always", "never"]

DEFAULT_WIDTH = 80
_EIGHTHS = " ▏▎▍▌▋▊▉"
_BOX = "█▌▏·…│─"
_UNSAFE = re.compile(r"[^\x20-\x7e]")
_SHORT_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def make_console(
    *, stderr: bool = False, color: ColorChoice = "auto", width: int | None = None, file: IO[str] | None = None
) -> Console:
    """A console on stdout, stderr or `file` that never wraps, never reads markup and never fails to encode.

    Characters the stream's encoding lacks are written as escapes: the stream's own error handler is set for that.
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
    return PlainConsole(
        file=stream,
        width=width if width is not None else find_width(stream, os.environ),
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
    return _is_terminal(stream) and env.get("TERM") != "dumb"


def find_width(stream: IO[str], env: Mapping[str, str]) -> int:
    """COLUMNS, else the terminal behind the stream, else 80."""
    columns = env.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns) > 0:
        return int(columns)
    if _is_terminal(stream):
        try:
            return os.get_terminal_size(stream.fileno()).columns or DEFAULT_WIDTH
        except (OSError, ValueError):
            pass
    return DEFAULT_WIDTH


def _is_terminal(stream: IO[str]) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # the stream was closed
        return False


def ascii_only(console: Console) -> bool:
    """Whether the console's encoding lacks the characters that bars and boxes are drawn with."""
    try:
        _BOX.encode(console.encoding)
    except (UnicodeEncodeError, LookupError):
        return True
    return False


def put(console: Console, line: str | Text = "", style: str | None = None) -> None:
    """Write one line as it is: not wrapped, not cropped, no markup."""
    console.print(line, style=style, no_wrap=True, overflow="ignore", crop=False, soft_wrap=True, markup=False)


def say(console: Console, text: str, *, indent: int = 2, style: str | None = None) -> None:
    """A sentence, on as many indented lines as it takes."""
    for line in fold(" " * indent + text, console.width, indent=indent):
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
    """Whether a terminal draws the character as itself; spaces other than U+0020 count, as they only take room."""
    return char.isprintable() or (char.isspace() and char > "\x9f" and char not in "\u2028\u2029")


def escape(char: str) -> str:
    """One character as a visible escape, in Python's notation."""
    if char in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[char]
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def cell_width(text: str) -> int:
    """How many terminal cells the text takes (wide characters take two, combining marks none)."""
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
    """Text broken into lines of at most `width` cells, at spaces where there are any; nothing is dropped but those spaces."""
    lines: list[str] = []
    width = max(width, 1)
    while cell_width(text) > width:
        cut, space, used = 0, 0, 0
        for index, char in enumerate(text):
            used += cell_width(char)
            if used > width:
                cut = index
                break
            if char == " " and text[:index].strip():
                space = index
        if text[cut] == " ":
            space = cut
        cut = space or max(cut, 1)
        if line := text[:cut].rstrip():
            lines.append(line)
        else:  # nothing but the indent fits: without it the text gets somewhere
            indent = 0
        text = " " * min(indent, max(width - 1, 0)) + text[cut:].lstrip(" ")
    return [*lines, text]
