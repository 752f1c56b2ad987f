"""SVG: the terminal report as a picture, light or dark as the reader's system is. It loads nothing, fonts included."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from io import StringIO
from typing import TYPE_CHECKING

from kvtool.report.terminal.any_result import print_result
from kvtool.report.write_options import WriteOptions
from kvtool.results.check import CheckResult
from kvtool.text.terminal.console import cell_width, make_console, sanitize
from kvtool.text.terminal.runner_commands import blunt_xml

if TYPE_CHECKING:
    from rich.console import Console
    from rich.style import Style

_FONT = (
    'ui-monospace, SFMono-Regular, Menlo, "Cascadia Mono", Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace'
)
_SIZE = 14
_CELL = 8.4
"""Width of a column: six tenths of the font's size, as nearly all fonts of one width have it."""
_LINE = 18
_MARGIN = 16
_TITLE = 32
_COLORS = {
    "paper": ("#16181d", "#ffffff"),
    "rule": ("#30343c", "#d0d7de"),
    "ink": ("#d7dae0", "#1f2328"),
    "dim": ("#9198a1", "#59636e"),
    "red": ("#ff7b72", "#b3261e"),
    "green": ("#7ee787", "#116329"),
    "yellow": ("#e3b341", "#7d4e00"),
    "blue": ("#79c0ff", "#0550ae"),
    "magenta": ("#d2a8ff", "#7a3db8"),
    "cyan": ("#76e3ea", "#0b6e75"),
}
"""In the dark, and in the light; text has a contrast of 4.5 to 1 or more on paper (WCAG 2.2)."""
_ANSI = ("dim", "red", "green", "yellow", "blue", "magenta", "cyan", "ink")
_BAR = "█▉▊▋▌▍▎▏"
"""From a whole cell to an eighth."""
_PIECE = re.compile(rf"[\x21-\x7e]+(?: [\x21-\x7e]+)*|[{_BAR}]+|[^\x20-\x7e{_BAR}]+")
"""Text of one kind: what another font may have to draw is put in its columns by itself."""


def write(result: CheckResult, options: WriteOptions) -> str:
    """Return the report at `options.width` columns, under the name of the workload."""
    names = [report.workload for report in result.reports]
    shown = names[0] if len(names) == 1 else f"{len(names)} workloads" if names else ""

    def show(console: Console) -> None:
        print_result(console, result, show_text=options.show_text, command=options.command, details=options.details)

    return svg_of(show, f"kvtool {result.command} {shown}".rstrip(), options.width)


def svg_of(print_function: Callable[[Console], None], title: str, width: int) -> str:
    """Draw what `print_function` prints to a console of `width` columns, with a title; the same for the same text."""
    file = StringIO()
    console = make_console(file=file, color="always", width=width)
    print_function(console)
    return _picture(_runs(file.getvalue(), console), sanitize(title), width)


@dataclass(frozen=True, slots=True)
class _Run:
    """Text of one style that begins in a cell of a line, both counted from 0."""

    line: int
    cell: int
    text: str
    classes: tuple[str, ...]


def _runs(printed: str, console: Console) -> list[_Run]:
    """Cut what was printed where its style changes and where there is more than one space."""
    from rich.ansi import AnsiDecoder

    found: list[_Run] = []
    for number, line in enumerate(AnsiDecoder().decode(printed)):
        cell = 0
        for segment in line.render(console):
            classes = _classes(segment.style)
            for piece in _PIECE.finditer(segment.text):
                at = cell + cell_width(segment.text[: piece.start()])
                found.append(_Run(number, at, piece[0], classes))
            cell += cell_width(segment.text)
    return found


def _classes(style: Style | None) -> tuple[str, ...]:
    if style is None:
        return ("ink",)
    number = style.color.number if style.color is not None else None
    color = "ink" if number is None else _ANSI[number % 8]
    if style.dim and color == "ink":
        color = "dim"
    return (color, *(["bold"] if style.bold else []), *(["italic"] if style.italic else []))


def _picture(runs: list[_Run], title: str, width: int) -> str:
    lines = max((run.line for run in runs), default=0) + 1
    across = round(2 * _MARGIN + width * _CELL)
    down = _TITLE + 2 * _MARGIN + lines * _LINE - (_LINE - _SIZE)
    name = "kv" + sha256(repr((runs, title, width)).encode(errors="backslashreplace")).hexdigest()[:8]
    size = f'width="{across}" height="{down}" viewBox="0 0 {across} {down}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" class="{name}" aria-labelledby="{name}-title">',
        f'<title id="{name}-title">{escape(title)}</title>',
        f"<style>{_styles(name)}</style>",
        f'<rect class="paper rule" x="0.5" y="0.5" width="{across - 1}" height="{down - 1}" rx="8"/>',
        f'<path class="rule" d="M0.5 {_TITLE}.5H{across - 0.5:g}"/>',
        f'<text class="dim" x="{across / 2:g}" y="{_TITLE / 2 + _SIZE / 3:.1f}" text-anchor="middle">{escape(title)}</text>',
        *_texts(runs),
        "</svg>",
    ]
    return blunt_xml("\n".join(parts) + "\n")


def _texts(runs: list[_Run]) -> Iterator[str]:
    for run in runs:
        x, y = _MARGIN + run.cell * _CELL, _TITLE + _MARGIN + run.line * _LINE + _SIZE - 2
        if run.text[0] in _BAR:  # glyphs would not join
            size = sum(1 - _BAR.index(char) / len(_BAR) for char in run.text) * _CELL
            color = run.classes[0]
            yield f'<rect class="{color}" x="{x:.1f}" y="{y - _SIZE + 3}" width="{size:.1f}" height="{_SIZE}"/>'
            continue
        size = cell_width(run.text) * _CELL
        yield (
            f'<text class="{" ".join(run.classes)}" x="{x:.1f}" y="{y}" textLength="{size:.1f}" '
            f'lengthAdjust="spacingAndGlyphs">{escape(run.text, quote=False)}</text>'
        )


def _styles(name: str) -> str:
    """Rules that hold in this picture only, wherever it is put."""

    def fills(column: int) -> str:
        rules = [f".{name} .{color}{{fill:{values[column]}}}" for color, values in _COLORS.items() if color != "rule"]
        return "".join([*rules, f".{name} .rule{{stroke:{_COLORS['rule'][column]}}}"])

    return (
        f".{name} text{{font-family:{_FONT};font-size:{_SIZE}px;font-variant-ligatures:none}}"
        f".{name} .bold{{font-weight:bold}}.{name} .italic{{font-style:italic}}"
        f"{fills(0)}@media (prefers-color-scheme:light){{{fills(1)}}}"
    )
