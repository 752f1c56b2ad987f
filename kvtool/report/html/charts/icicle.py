"""The tree of prefixes, lying on its side: who shares what, and how much of the prompts it is."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from kvtool.report.html.charts.drawing import axis, drawing, label, rectangle
from kvtool.report.html.charts.scales import round_ticks
from kvtool.report.html.fates import paint, swatch
from kvtool.report.html.markup import element, share
from kvtool.report.html.page_parts import Drawing, DrawnSection, Key
from kvtool.report.views.section import Cell, Section, Table, TableColumn
from kvtool.results.report import Report
from kvtool.results.views import PrefixTree, TreeNode
from kvtool.text.terminal.numbers import percent, plural

_TITLE = "Shared prefixes"
_LEAD = (
    "Prompts from their first token (left) to their last. Each piece is a run of tokens that the same requests share; its "
    "height is the number of requests."
)
_HEIGHT = 320.0
_MOST_NODES = 200
_MOST_ROWS = 40
_LEAST_TALL = 15
_THIN = 6
_WIDE = 560
"""Pixels of the drawing from which on texts of the class `wide` are shown, at least."""
_LETTER = 7.5
_LEAST_WIDE = 0.045
"""Part of the width that holds a number of two digits at 360 pixels."""


def icicle_section(report: Report, prefix: str) -> Section | None:
    """Tokens run from left to right as in a prompt; the taller, the more requests pass. None where no block is shared."""
    tree = report.views.prefix_tree if report.views is not None else None
    identity = f"{prefix}-tree"
    if tree is None or not _shares_blocks(tree, report.kv_cache.block_size):
        return None
    nodes = tree.nodes[:_MOST_NODES]
    spans = layout(nodes, report.totals.requests)
    heaviest = sorted(range(len(nodes)), key=lambda place: (-nodes[place].tokens * nodes[place].requests, place))[
        :_MOST_ROWS
    ]
    numbers = {place: number for number, place in enumerate(heaviest, 1)}
    held = f"The pieces cover {percent(_held(tree))} of {plural(tree.prompt_tokens, 'prompt token')}"
    if tree.left_out:
        held += f"; {plural(tree.left_out, 'token')} are in smaller pieces"
    more = len(tree.nodes) - len(nodes)
    return DrawnSection(
        identity,
        _TITLE,
        (_LEAD, f"{held}."),
        drawings=[Drawing(_svg(f"{identity}-icicle", nodes, spans, numbers))],
        keys=_keys(nodes),
        tables=[_table(nodes, heaviest, report.totals.requests)],
        notes=(f"Not drawn: {more:,} more pieces.",) if more > 0 else (),
    )


def layout(nodes: Sequence[TreeNode], requests: int) -> list[tuple[float, float]]:
    """Return where each node begins and how tall it is, as parts of the height: children share their parent's by requests.

    A node whose parent does not stand before it counts as one at the front.
    """
    parents = [
        node.parent if node.parent is not None and node.parent < place else None for place, node in enumerate(nodes)
    ]
    below: dict[int | None, int] = {}
    for parent, node in zip(parents, nodes, strict=True):
        below[parent] = below.get(parent, 0) + node.requests
    used: dict[int | None, float] = {}
    spans: list[tuple[float, float]] = []
    for parent, node in zip(parents, nodes, strict=True):
        top, room = (0.0, 1.0) if parent is None else spans[parent]
        passing = max(below[parent], requests if parent is None else nodes[parent].requests, 1)
        height = room * node.requests / passing
        begin = used.get(parent, top)
        spans.append((begin, height))
        used[parent] = begin + height
    return spans


def _shares_blocks(tree: PrefixTree, block_size: int) -> bool:
    """Return whether any requests share a whole block."""
    return any(node.requests > 1 and node.start + node.tokens >= block_size for node in tree.nodes)


def _held(tree: PrefixTree) -> float:
    return 1 - tree.left_out / tree.prompt_tokens if tree.prompt_tokens else 0.0


def _svg(
    identity: str, nodes: Sequence[TreeNode], spans: Sequence[tuple[float, float]], numbers: dict[int, int]
) -> Markup:
    longest = max((node.start + node.tokens for node in nodes), default=1) or 1
    ticks = axis(_HEIGHT, [(at / longest, f"{at:,}") for at in round_ticks(longest, 4)])
    shapes: list[Markup] = [element("g", ticks, class_="whole-tree")]
    for place, (node, (top, height)) in enumerate(zip(nodes, spans, strict=True)):
        x, width, y, tall = node.start / longest, node.tokens / longest, top * _HEIGHT, height * _HEIGHT
        class_, fill = _look(node)
        thin = " thin" if tall < _THIN else ""
        parts = [rectangle(x, y, width, tall, f"piece {class_}{thin}", tip=_tip(node), fill=fill)]
        if place in numbers and tall >= _LEAST_TALL and width >= _LEAST_WIDE:
            parts += _texts(numbers[place], node, x, y + min(tall / 2 + 4, 20), width)
        shapes.append(_piece(place, node, top, height, parts))
    first = nodes[min(numbers, key=numbers.__getitem__)]
    told = (
        f"{plural(len(nodes), 'run')} of tokens. The largest: {plural(first.tokens, 'token')} from position {first.start:,} "
        f"in {plural(first.requests, 'request')}, {_where(first)}. The table below lists the largest runs."
    )
    return drawing(identity, "Prefix tree: shared prefixes", told, _HEIGHT + 20, shapes, data_height=_HEIGHT)


def _piece(place: int, node: TreeNode, top: float, tall: float, parts: Sequence[Markup]) -> Markup:
    """Draw a node, with the figures from which the script draws it anew."""
    above = node.parent if node.parent is not None and node.parent < place else None
    return element(
        "g",
        *parts,
        class_="node",
        data_parent=above,
        data_start=node.start,
        data_tokens=node.tokens,
        data_top=f"{top:.6g}",
        data_tall=f"{tall:.6g}",
        data_label=_label(node),
    )


def _tip(node: TreeNode) -> str:
    groups = f"; {', '.join(node.groups)}" if node.groups else ""
    return f"{plural(node.requests, 'request')}, {plural(node.tokens, 'token')} from {node.start:,}; {_where(node)}{groups}"


def _label(node: TreeNode) -> str:
    return f"{_place(node) or node.part or 'place not known'} · {plural(node.requests, 'request')}"


def _texts(number: int, node: TreeNode, x: float, y: float, width: float) -> list[Markup]:
    """Return the number on a plate and, where even narrow pages of the wide layout have room, the name of the piece."""
    plate = 26 if number > 9 else 18
    shapes = [
        element(
            "rect",
            x=share(x),
            y=y - 13,
            width=plate,
            height=17,
            rx=3,
            class_="plate whole-tree",
            transform="translate(4)",
        ),
        label(x, y, f"{number}", "strong whole-tree", shift=8, anchor="start"),
    ]
    text = _label(node)
    if node.requests > 1 and len(node.groups) < 2 and _LETTER * len(text) + plate + 16 < width * _WIDE:
        shapes.append(label(x, y, text, "wide whole-tree", shift=plate + 10, anchor="start"))
    return shapes


def _look(node: TreeNode) -> tuple[str, str | None]:
    if node.requests < 2:
        return "new", paint("once")
    return ("hit", paint("across")) if len(node.groups) > 1 else ("hit within", None)


def _keys(nodes: Sequence[TreeNode]) -> list[Key]:
    kinds = {_look(node) for node in nodes}
    names = {
        ("hit", paint("across")): "shared by several groups",
        ("hit within", None): "shared within a group",
        ("new", paint("once")): "in one request only",
    }
    return [
        Key(swatch(fill, f"piece {class_}"), text) for (class_, fill), text in names.items() if (class_, fill) in kinds
    ]


def _where(node: TreeNode) -> str:
    return ", ".join(part for part in (_place(node), node.part) if part) or "unknown place"


def _place(node: TreeNode) -> str:
    return f"{node.path}:{node.line}" if node.path and node.line else node.path


def _table(nodes: Sequence[TreeNode], heaviest: Sequence[int], requests: int) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            f"{number}",
            _where(node),
            f"{node.start:,}",
            f"{node.tokens:,}",
            f"{node.requests:,}",
            percent(min(node.requests / requests, 1.0)) if requests else "0.0%",
            f"{node.tokens * max(node.requests - 1, 0):,}",
            ", ".join(node.groups),
        )
        for number, node in enumerate((nodes[place] for place in heaviest), 1)
    ]
    columns = (
        TableColumn("Piece"),
        TableColumn("Start", "code"),
        TableColumn("From token", "number"),
        TableColumn("Tokens", "number"),
        TableColumn("Requests", "number"),
        TableColumn("Of all", "number"),
        TableColumn("Reusable", "number"),
        TableColumn("Groups"),
    )
    note = "Reusable: the tokens in all requests after the first."
    return Table("Shared runs of tokens", columns, rows, more=len(nodes) - len(heaviest), folded=True, notes=(note,))
