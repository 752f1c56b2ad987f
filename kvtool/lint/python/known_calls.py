"""Calls that say by themselves what they give: clocks, ids, files, JSON, sets; and values as they are written into a text."""

from __future__ import annotations

import ast
import os
import re
from dataclasses import replace
from itertools import takewhile

from kvtool.diagnose.codes.values.kv105 import COUNTER
from kvtool.lint.evidence.prompt_evidence import Evidence
from kvtool.lint.evidence.value_precision import keeps, refined
from kvtool.lint.evidence.volatile_calls import (
    JSON_KEYS,
    called,
    from_git,
    has_no_order,
    of_unknown,
    order_hole,
    process_variable,
    unordered,
)
from kvtool.lint.python.chance_orders import ChanceOrders
from kvtool.lint.python.changed_values import dedented, holes_of, in_order, made_up, placed
from kvtool.lint.python.filled_templates import with_replaced
from kvtool.lint.python.syntax import as_written, dotted
from kvtool.lint.python.text_values import (
    Callee,
    Either,
    FilePath,
    Instance,
    Items,
    Literal,
    Mapped,
    Param,
    Piece,
    Value,
    cut,
    pieces_of,
    spread_out,
    text_of,
)
from kvtool.lint.python.value_origins import is_request_body
from kvtool.lint.skeleton import Hole, TemplatePlace

_SAME_CALLS = frozenset(
    [
        "str",
        "textwrap.dedent",
        "dedent",
        "inspect.cleandoc",
        "cleandoc",
        "textwrap.indent",
        "indent",
        "repr",
        "format",
        "int",
        "float",
        "round",
        "textwrap.fill",
        "typing.cast",
        "markdown",
        "escape",
        "html.escape",
        "markupsafe.Markup",
    ]
)
_SAME_ITEMS = frozenset(
    ["list", "tuple", "iter", "enumerate", "copy.copy", "copy.deepcopy", "itertools.chain", "dict", "asyncio.gather"]
)
_MOST_DRAWN = 40
"""Known elements of which some are drawn."""
_SETS = frozenset(["set", "frozenset"])
_ESCAPED = re.compile(r"\\(\W)")
_SPECIAL = re.compile(r"[\\.^$*+?{}\[\]|()]")
"""What means more than itself in a pattern."""


def _path_name(piece: Piece) -> str:
    """Return a part of a path that is written in the code; empty for any other."""
    return piece.name if isinstance(piece, FilePath) else text_of(piece) if isinstance(piece, str | Literal) else ""


class KnownCalls(ChanceOrders):
    """Tells what is known of calls by their names, whatever program they are in."""

    def as_text(self, value: Value, node: ast.expr | ast.arg) -> Value:
        """A value as it is written into a text: a collection in its order, which may be another each time."""
        result: list[Piece] = []
        for piece in value:
            if isinstance(piece, Items):
                order = piece.order
                result += [order.at(self.source.spot_of(node))] if order is not None else []
                result += [part for one in piece.values for part in one]
            elif isinstance(piece, Mapped):
                result += [part for _, one in piece.pairs for part in self.as_text(one, node)]
            elif isinstance(piece, Either):
                result.append(Either(tuple(self.as_text(one, node) for one in piece.branches)))
            elif isinstance(piece, Instance):
                result += self.program.called_method(piece, "__str__", self.depth)
            elif not isinstance(piece, Callee | FilePath):
                result.append(piece)
        return tuple(result)

    @staticmethod
    def added(values: list[Value]) -> Value:
        """Texts one after the other; lists become one list."""
        result: list[Piece] = []
        for value in values:
            for piece in value:
                if isinstance(piece, Items) and result and isinstance(result[-1], Items):
                    before = result.pop()
                    assert isinstance(before, Items)
                    piece = Items((*before.values, *piece.values), before.order or piece.order)
                result.append(piece)
        return cut(result)

    def _argument(self, node: ast.expr) -> Value:
        """Return the value of an argument, placed where it is given until a placeholder is found."""
        return placed(self.as_text(self.value_of(node), node), self.source.spot_of(node))

    @staticmethod
    def _path(*values: Value) -> Value:
        """A path of several parts, with what varies in it: a folder that is named for a clock stays for all that is done there."""
        parts = [piece for value in values for piece in value]
        given = all(isinstance(piece, Param) or (isinstance(piece, FilePath) and piece.given) for piece in parts)
        written = list(takewhile(bool, map(_path_name, reversed(parts))))  # what is before them may be any folder
        name = os.path.normpath("/".join(reversed(written))) if written else ""
        holes = (hole for value in values for hole in made_up(holes_of(value)))
        return (FilePath(given and bool(parts), name), *holes)

    def order_of(self, over: Value, node: ast.expr, items: str) -> Hole | None:
        """Return the hole of a loop over a collection without a fixed order."""
        for piece in pieces_of(over, 40):
            if isinstance(piece, Items) and piece.order is not None:
                return order_hole(piece.order, f"{items} {self._words(node)}", self.source.spot_of(node))
        return None

    @staticmethod
    def _words(node: ast.expr) -> str:
        return " ".join(
            one.id if isinstance(one, ast.Name) else one.attr
            for one in ast.walk(node)
            if isinstance(one, ast.Name | ast.Attribute)
        )

    def refine(self, value: Value, method: str, pattern: str | None = None) -> Value:
        """Return the parts of varying values that a method leaves."""
        result: list[Piece] = []
        for piece in value:
            if isinstance(piece, Hole):
                hole = refined(piece, method, pattern)
                result += [hole] if hole is not None else []
            elif isinstance(piece, Either):
                result.append(Either(tuple(self.refine(one, method, pattern) for one in piece.branches)))
            elif isinstance(piece, Param) and keeps(method):
                result.append(piece)
        return tuple(result)

    def _element(self, node: ast.expr) -> Value:
        value = self.value_of(node)
        return spread_out(value) if isinstance(node, ast.Starred) else value

    def _known(self, node: ast.Call, name: str, spot: TemplatePlace) -> Value | None:
        """Return the value of a call whose name says its result; None for any other."""
        last = name.rpartition(".")[2]
        if name in ("os.getenv", "os.environ.get", "getenv", "environ.get") and node.args:
            hole = process_variable(f"os.environ.{self._constant(node.args[0])}", spot)
            return (hole,) if hole is not None else ()
        if hole := called(name, spot, as_written(node.func)):
            if (
                last == "sample"
                and node.args
                and (elements := self.each(in_order(self.value_of(node.args[0])), _MOST_DRAWN))
            ):
                return (Items(elements, hole),)
            if last == "strftime" and node.args:
                return self.refine((hole,), "strftime", self._constant(node.args[0]))
            return self.refine((hole,), "date") if last == "today" and name.endswith("date.today") else (hole,)
        if name == "itertools.count":
            return (Hole(spot, COUNTER, f"`{name}`", certain=True, hidden=True),)
        if name == "next" and node.args and (counters := _counters(self.value_of(node.args[0]))):
            return tuple(
                replace(one, spot=spot, what=f"`next({dotted(node.args[0])})`", hidden=False) for one in counters
            )
        if name in _SETS:
            inside = self.value_of(node.args[0]) if node.args else ()
            values = tuple(
                one for piece in inside for one in (piece.values if isinstance(piece, Items) else ((piece,),))
            )
            order = unordered(name, self._words(node), spot)
            unknown = not any(isinstance(piece, str | Literal | Hole) for one in values for piece in one)
            return (Items(values, of_unknown(order) if unknown and order is not None else order),)
        if has_no_order(name) and (hole := unordered(name, self._words(node), spot)):
            return (Items((), hole),)
        if hole := from_git(name, node, spot):
            return (hole,)
        if name == "shuffled" and node.args:
            return self.mixed(self.value_of(node.args[0]), node.args[0], spot, as_written(node.func))
        if name in ("locals", "vars") and not node.args:
            return (Mapped(tuple((key, value) for key, value in self.values.items() if "." not in key)),)
        if name == "re.sub" and len(node.args) >= 3:
            return self._substituted(node)
        return self._made_of(node, name, spot)

    def _made_of(self, node: ast.Call, name: str, spot: TemplatePlace) -> Value | None:
        """Return the value of a call that makes something of its arguments."""
        last = name.rpartition(".")[2]
        if name in ("json.dumps", "dumps", "orjson.dumps", "ujson.dumps", "yaml.dump", "pprint.pformat"):
            return self._dumps(node, name, spot)
        if name == "sorted" and node.args:
            return self.in_new_order(node, node.args[0], spot)
        if name in _SAME_CALLS and node.args:
            value = self.value_of(node.args[0] if name != "typing.cast" else node.args[-1])
            if name == "format" and len(node.args) > 1:
                return self.refine(value, "strftime", self._constant(node.args[1]))
            text = self.as_text(value, node.args[0])
            return dedented(text) if last in ("dedent", "cleandoc") else text
        if name == "reversed" and node.args:
            return self.reversed_origin(node.args[0])
        if name in _SAME_ITEMS and node.args:
            return (
                self._element(ast.Starred(node.args[0])) if name == "itertools.chain" else self.value_of(node.args[0])
            )
        if name == "dict" and node.keywords and not node.args:
            words = {word.arg for word in node.keywords}
            if not {"role", "content"} <= words:
                return (Mapped(tuple((word.arg, self.value_of(word.value)) for word in node.keywords if word.arg)),)
        if name in ("map", "filter") and len(node.args) == 2:
            value = self.value_of(node.args[1])
            taken = self.chance_in(node.args[0], value) if name == "filter" else None
            return value if taken is None else (taken,)
        if name == "functools.partial" and node.args:
            return self._partial(node)
        if last in ("field", "Field"):
            return self._default(node)
        if last in ("Path", "PurePath", "files", "open", "join", "joinpath", "dirname", "abspath") and (
            last != "join" or name in ("os.path.join", "path.join")
        ):
            if last == "joinpath":
                return None
            return self._path(*map(self.value_of, node.args[: 1 if last == "open" else 9]))
        return None

    def _default(self, node: ast.Call) -> Value | None:
        """Return the default of an attribute: `Field(default="…")`; None where that is not known."""
        given = {word.arg: word.value for word in node.keywords}
        if "default_factory" in given:
            return self._made(given["default_factory"])
        default = given.get("default", node.args[0] if node.args else None)
        return self.value_of(default) or None if default is not None else None

    def _substituted(self, node: ast.Call) -> Value:
        """`re.sub(pattern, value, text)`: where the pattern is one text, and else the text as it is."""
        pattern = self._constant(node.args[0])
        base = self.value_of(node.args[2])
        needle = _ESCAPED.sub(r"\1", pattern) if pattern is not None else ""
        if not needle or _SPECIAL.search(_ESCAPED.sub("", pattern or "")):
            return base
        return cut(with_replaced(base, needle, self._argument(node.args[1])))

    @staticmethod
    def _constant(node: ast.expr) -> str | None:
        return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None

    def _written(self, node: ast.expr) -> str | None:
        """The constant text that an expression gives: where it is written, or of a name."""
        value = self.value_of(node)
        one = value[0] if len(value) == 1 else None
        return text_of(one) if isinstance(one, str | Literal) else None

    def _dumps(self, node: ast.Call, name: str, spot: TemplatePlace) -> Value:
        """JSON keeps the order of keys unless it is reported to sort them; of what is written in place the order is known."""
        if not node.args:
            return ()
        given = self.value_of(node.args[0])
        if any(isinstance(piece, Mapped) and is_request_body(key for key, _ in piece.pairs) for piece in given):
            self.told(given, Evidence.ASKED)
        value = self.as_text(given, node.args[0])
        keywords = self.keywords_name
        if (
            keywords
            and isinstance(node.args[0], ast.Name)
            and node.args[0].id == keywords
            and not any(word.arg == "sort_keys" for word in node.keywords)
        ):
            return (Hole(spot, JSON_KEYS, f"`{name}()` without sort_keys", certain=True, order=True, minor=True),)
        return value

    def _made(self, node: ast.expr) -> Value:
        """Return the result of a factory: a function of the module, a lambda, or a known call."""
        if isinstance(node, ast.Lambda):
            return self.value_of(node.body)
        call = ast.copy_location(ast.Call(node, [], []), node)
        return self.value_of(call)

    def _partial(self, node: ast.Call) -> Value:
        target = self.callee(node.args[0], dotted(node.args[0]))
        if not isinstance(target, Callee):
            return ()
        names = target.function.parameters()
        bound = [(name, self.value_of(one)) for name, one in zip(names, node.args[1:], strict=False)]
        bound += [(word.arg, self.value_of(word.value)) for word in node.keywords if word.arg]
        return (Callee(target.function, target.owner, (*target.bound, *bound)),)


def _counters(value: Value) -> list[Hole]:
    return [piece for piece in pieces_of(value) if isinstance(piece, Hole) and piece.kind is COUNTER and piece.hidden]
