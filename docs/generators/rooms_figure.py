"""The picture of rooms: a staircase of floors, and for each room the lines that lead down to what it imports."""

from __future__ import annotations

import math
import textwrap
from html import escape

from docs.generators.rooms import House, Room, read_house

_LEFT, _TOP, _NAME, _BAR, _STEP, _GAP = 16, 88, 156, 540, 21, 9
"""Margins; the room of names; the width of the first bar; how far each reaches beyond the one above; the space between floors."""
_LETTER, _SIZE = 6.9, 100
"""The width of a letter in the widest of the system fonts, so that no text runs into another; the room that a size takes."""
_FEW, _SOME = 5, 20
_SIZES = {"few": 2.5, "some": 4.5, "many": 7}
_STYLE = """
  text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; font-size: 12px; fill: #1c2330; }
  .head { font-size: 15px; font-weight: 600; }
  .name { font-size: 14px; font-weight: 600; }
  .small { font-size: 11px; fill: #4a5365; }
  .paper { fill: #ffffff; stroke: #d0d5dd; }
  .room { fill: #e6eef8; stroke: #8aa4c4; }
  .module { fill: #f4f6f9; stroke: #aab4c3; }
  .engine { fill: #fbe9e4; stroke: #cf9483; }
  .row { stroke: #c3cbd7; stroke-width: 1; }
  .line { stroke: #7d90aa; fill: none; }
  .dot { fill: #234a80; }
  .head-of { fill: #7d90aa; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6e9ef; }
    .small { fill: #a9b3c2; }
    .paper { fill: #14181f; stroke: #343c49; }
    .room { fill: #1f2d40; stroke: #4c6688; }
    .module { fill: #1d222b; stroke: #475061; }
    .engine { fill: #38251f; stroke: #87594b; }
    .row { stroke: #39424f; }
    .line { stroke: #647894; }
    .dot { fill: #9cc2f5; }
    .head-of { fill: #647894; }
  }
"""


def figures() -> dict[str, str]:
    """The file name and the text of the picture."""
    return {"rooms.svg": picture(read_house())}


def step_of(number: int) -> str:
    """Imports in steps, so that the picture changes with the structure and not with each import."""
    return "few" if number < _FEW else "some" if number < _SOME else "many"


def about(lines: int) -> str:
    """A size in steps of two, for the same reason."""
    size = 500
    while lines > size * math.sqrt(2):
        size *= 2
    return f"about {size:,} lines"


def picture(house: House) -> str:
    """Rooms from the roof down; each bar reaches a step further than the one above it, so that its line comes straight down."""
    rooms = house.rooms
    ends = {room.name: _LEFT + _BAR + _STEP * number for number, room in enumerate(rooms)}
    tops, heights = _places(house, ends)
    below = max(tops[room.name] + heights[room.name] for room in rooms)
    width, height = ends[rooms[-1].name] + 2 * _LEFT, below + 46
    title = "The rooms of kvtool: each imports only what lies below it"
    how = "Go right from a room: each dot stands over a room that it imports; follow the line down to it. Lines never lead up."
    floor = "Rooms that touch share a floor, and do not import each other."
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="title">',
        f'<title id="title">{title}</title>',
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
        f'<text class="head" x="{_LEFT}" y="30">{title}</text>',
        f'<text class="small" x="{_LEFT}" y="50">{how}</text>',
        f'<text class="small" x="{_LEFT}" y="67">{floor}</text>',
    ]
    middle = {name: top + heights[name] / 2 for name, top in tops.items()}
    for room in rooms:
        parts += _row(house, room, middle, ends)
    for room in rooms:
        parts += _line(house, room, middle, ends, tops)
    for room in rooms:
        parts += _bar(room, ends[room.name], tops[room.name], heights[room.name])
    for (one, other), number in sorted(house.imports.items()):
        place = f'cx="{ends[other]}" cy="{middle[one]:g}" r="{_SIZES[step_of(number)]:g}"'
        parts.append(f'<circle class="dot" {place}><title>{one} imports {other}</title></circle>')
    parts += _legend(below + 26)
    return "\n".join([*parts, "</svg>", ""])


def _words(room: Room, end: int) -> list[str]:
    width = end - _LEFT - _NAME - (_SIZE if room.is_package else 0)
    return textwrap.wrap(room.owns.replace("`", ""), int(width / _LETTER))


def _places(house: House, ends: dict[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """The top of each bar, and its height."""
    tops, heights, y = {}, {}, _TOP
    for floor in house.floors:
        for room in floor:
            tops[room.name], heights[room.name] = y, 16 + 15 * max(len(_words(room, ends[room.name])), 1)
            y += heights[room.name]
        y += _GAP
    return tops, heights


def _row(house: House, room: Room, middle: dict[str, float], ends: dict[str, int]) -> list[str]:
    """From a room to the last of what it imports."""
    used = [ends[other] for one, other in house.imports if one == room.name]
    if not used:
        return []
    y = f"{middle[room.name]:g}"
    return [f'<line class="row" x1="{ends[room.name] + 12}" y1="{y}" x2="{max(used)}" y2="{y}"/>']


def _line(house: House, room: Room, middle: dict[str, float], ends: dict[str, int], tops: dict[str, int]) -> list[str]:
    """From the highest room that imports this one down into it: thicker where more have joined."""
    x, top = ends[room.name], tops[room.name]
    users = sorted((middle[one], number) for (one, other), number in house.imports.items() if other == room.name)
    parts, total = [], 0
    for place, (y, number) in enumerate(users):
        total += number
        until = users[place + 1][0] if place + 1 < len(users) else top - 6
        thick = {"few": 1.2, "some": 2.2, "many": 3.6}[step_of(total)]
        parts.append(f'<line class="line" x1="{x}" y1="{y:g}" x2="{x}" y2="{until:g}" stroke-width="{thick}"/>')
    if users:
        parts.append(f'<path class="head-of" d="M{x - 5.5} {top - 7} h11 L{x} {top} z"/>')
    return parts


def _bar(room: Room, end: int, top: int, height: int) -> list[str]:
    kind = "engine" if room.name in ("engine", "kernels") else "room" if room.is_package else "module"
    middle = top + height / 2
    words = _words(room, end)
    first = middle - 7.5 * (len(words) - 1) + 4
    shown = f"{room.name}/" if room.is_package else f"{room.name}.py"
    parts = [
        f'<rect class="{kind}" x="{_LEFT}" y="{top}" width="{end + 12 - _LEFT}" height="{height}"/>',
        f'<text class="name" x="{_LEFT + 10}" y="{middle + 5:g}">{shown}</text>',
    ]
    for number, line in enumerate(words):
        parts.append(f'<text x="{_LEFT + _NAME}" y="{first + 15 * number:g}">{escape(line)}</text>')
    if room.is_package:
        parts.append(
            f'<text class="small" x="{end - 6}" y="{middle + 4:g}" text-anchor="end">{about(room.lines)}</text>'
        )
    return parts


def _legend(y: int) -> list[str]:
    parts, x = [], _LEFT + 8
    for step, words in (("few", f"fewer than {_FEW} imports"), ("some", f"fewer than {_SOME}"), ("many", "more")):
        parts.append(f'<circle class="dot" cx="{x}" cy="{y - 4}" r="{_SIZES[step]:g}"/>')
        parts.append(f'<text class="small" x="{x + 14}" y="{y}">{words}</text>')
        x += 34 + 7 * len(words)
    text = "Imports inside functions and for types count, too. Sizes in steps of two."
    return [*parts, f'<text class="small" x="{x + 10}" y="{y}">{text}</text>']
