"""Texts with what varies in them, as lint tells it: how sure each is, and what is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from kvtool.diagnose.codes.kv101 import TIME
from kvtool.diagnose.codes.kv102 import REQUEST_ID
from kvtool.diagnose.codes.kv106 import ENVIRONMENT
from kvtool.lint.placeholders import is_set_up
from kvtool.lint.python_sources import DATE
from kvtool.lint.python_values import Either, Items, Many, Mapped, Message, Param, Piece, Value
from kvtool.lint.skeleton import Choice, Hole, Node, Repeat, TemplatePlace, leaves
from kvtool.lint.volatile import HOST
from kvtool.lint.work_budget import spend


def without_holes(value: Value) -> Value:
    """What a function builds, but for what varies in it by itself: that is told where it is written."""
    return _kept(value, lambda piece: None if isinstance(piece, Hole) else piece, ordered=True)


def without_doubtful(value: Value) -> Value:
    """The same but for what varies by its use only: the template that it is put into tells that by its placeholder."""

    def kept(piece: Hole | Param) -> Piece | None:
        if isinstance(piece, Hole):
            return None if piece.doubt else piece
        return replace(piece, hole=None) if piece.hole is not None and piece.hole.doubt else piece

    return _kept(value, kept, ordered=False)


def _kept(value: Value, keep: Callable[[Hole | Param], Piece | None], *, ordered: bool) -> Value:
    """`ordered`: collections are taken for ones in a fixed order."""

    def one(piece: Piece) -> list[Piece]:
        if isinstance(piece, Hole | Param):
            kept = keep(piece)
            return [] if kept is None else [kept]
        if isinstance(piece, Items):
            return [Items(tuple(map(every, piece.values)), None if ordered else piece.order)]
        if isinstance(piece, Mapped):
            return [Mapped(tuple((key, every(inside)) for key, inside in piece.pairs))]
        if isinstance(piece, Message):
            return [replace(piece, content=every(piece.content))]
        if isinstance(piece, Either):
            return [Either(tuple(map(every, piece.branches)))]
        return [Many(every(piece.body))] if isinstance(piece, Many) else [piece]

    def every(inside: Value) -> Value:
        spend(len(inside))
        return tuple(part for piece in inside for part in one(piece))

    return every(value)


def judged(nodes: Iterable[Node], *, weak: bool, unnamed: bool, late: bool, path: str) -> list[Node]:
    """How sure each thing that varies is: by its name only, or only once a day, it is no error; another file's is told there.

    `unnamed`: nothing but how it reads says that the text is a prompt. `late`: the text answers what stands before it in a
    conversation, so what is another by its use costs nothing.
    """
    result: list[Node] = []
    for node in nodes:
        if isinstance(node, Hole):
            hidden = node.spot.path != path or (late and bool(node.doubt))
            hidden = hidden or (node.doubt == "open" and (unnamed or weak or is_set_up(node.what)))
            by_name = not node.certain and not node.doubt and node.kind.code not in (TIME.code, REQUEST_ID.code)
            capped = not node.certain or node.kind in (DATE, HOST) or node.kind.code == ENVIRONMENT.code
            result.append(
                replace(node, minor=node.minor or weak or by_name, capped=node.capped or capped, hidden=hidden)
            )
        elif isinstance(node, Choice):
            result.append(
                Choice(
                    tuple(
                        tuple(judged(branch, weak=weak, unnamed=unnamed, late=late, path=path))
                        for branch in node.branches
                    )
                )
            )
        elif isinstance(node, Repeat):
            result.append(Repeat(tuple(judged(node.body, weak=weak, unnamed=unnamed, late=late, path=path))))
        else:
            result.append(node)
    return result


def told_once(prompts: list[list[Node]], declared: set[TemplatePlace]) -> list[list[Node]]:
    """Without what is told where a parameter is declared, if it is told where a text holds it, too."""
    placed = {(one.kind.key, one.what) for nodes in prompts for one in _holes(nodes) if one.spot not in declared}
    result: list[list[Node]] = []
    for nodes in prompts:
        doubled = any(one.spot in declared and (one.kind.key, one.what) in placed for one in _holes(nodes))
        result.append(_without(nodes, declared, placed) if doubled else nodes)
    return result


def _holes(nodes: Iterable[Node]) -> Iterator[Hole]:
    return (leaf for leaf in leaves(nodes) if isinstance(leaf, Hole))


def _without(nodes: Iterable[Node], declared: set[TemplatePlace], placed: set[tuple[str, str]]) -> list[Node]:
    result: list[Node] = []
    for node in nodes:
        if isinstance(node, Choice):
            result.append(Choice(tuple(tuple(_without(one, declared, placed)) for one in node.branches)))
        elif isinstance(node, Repeat):
            result.append(Repeat(tuple(_without(node.body, declared, placed))))
        elif not (isinstance(node, Hole) and node.spot in declared and (node.kind.key, node.what) in placed):
            result.append(node)
    return result


def key_of(node: Node) -> object:
    if isinstance(node, str):
        return len(node)
    if isinstance(node, Hole):
        return (node.spot, node.kind.key, node.certain)
    if isinstance(node, Choice):
        return tuple(tuple(map(key_of, branch)) for branch in node.branches)
    return ("*", *map(key_of, node.body))
