"""Options in the terminal: name, value, and where the value comes from."""

from __future__ import annotations

from collections.abc import Sequence
from json import dumps
from typing import TYPE_CHECKING

from kvtool.config.option import Value
from kvtool.config.option_values import OptionValue
from kvtool.report.terminal.lines import shown_path
from kvtool.text.terminal.console import ascii_only, cell_width, fold, is_plain, put, sanitize, say

if TYPE_CHECKING:
    from rich.console import Console

_GAP = 2
_WIDEST_VALUE = 22
"""Cells; a longer value does not push the others apart."""


def print_option_values(console: Console, values: Sequence[OptionValue], path: str | None) -> None:
    """One line an option, under the table of the configuration file that it belongs to; defaults are dimmed."""
    plain = ascii_only(console)
    if is_plain(console):
        for one in values:
            name, value = (sanitize(text, ascii_only=plain) for text in (one.name, _value(one)))
            put(console, f"{name}: {value}; {_origin(one, plain)}")
        return
    rows = [(one, *_named(one, plain), sanitize(_value(one), ascii_only=plain), _origin(one, plain)) for one in values]
    names = max((size for _, _, name, _, _ in rows if (size := cell_width(name)) <= console.width // 2), default=0)
    widest = max((size for _, _, _, value, _ in rows if (size := cell_width(value)) <= _WIDEST_VALUE), default=0)
    section = ""
    for one, table, name, value, origin in rows:
        if table != section:
            put(console)
            for line in fold(f"[{table}]", console.width, indent=2):
                put(console, line, "bold")
            section = table
        style = "dim" if one.origin.kind == "default" else None
        for line in _lines([name, value, origin], [names, widest], console.width):
            put(console, line, style)
    put(console)
    told = (
        f"configuration: {shown_path(path, plain)}"
        if path is not None
        else "no configuration file; kvtool init writes one"
    )
    say(console, told, indent=0, style="dim")


def _named(one: OptionValue, plain: bool) -> tuple[str, str]:
    """The table of an option, empty for those of the top, and its name in it."""
    table, _, name = sanitize(one.name, ascii_only=plain).rpartition(".")
    return table, name


def _lines(cells: Sequence[str], sizes: Sequence[int], width: int) -> list[str]:
    """The cells on one line; one that is too wide for its column ends the line, and the others go on below."""
    lines, line = [], ""
    for at, cell in enumerate(cells):
        column = sum(sizes[:at]) + _GAP * (at + 1)
        if line:
            column = max(min(column, width - cell_width(cell)), cell_width(line) + _GAP)
        if cell_width(line) > column - _GAP or column + cell_width(cell) > width:
            lines += fold(line, width, indent=4) if line else []
            line = " " * min(column, 4) + cell
        else:
            line += " " * (column - cell_width(line)) + cell
    return [*lines, *fold(line, width, indent=4)]


def _value(one: OptionValue) -> str:
    return one.words if one.value is None else written(one.value)


def written(value: Value) -> str:
    """A value as a configuration file writes it; text without its quotes."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(value)
    return dumps(value)


def _origin(one: OptionValue, plain: bool) -> str:
    place = one.origin.place
    if place is None:
        return str(one.origin)
    path = shown_path(place.path, plain)
    return path if place.line is None else f"{path}:{place.line}"
