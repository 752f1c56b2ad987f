"""Filters, methods and formats: what each says about the value that it is applied to, and about its result."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from jinja2 import nodes

from kvtool.text.templates.shapes import LIST_METHODS, TEXT_METHODS, Shape, unify

Argument = tuple[nodes.Expr, Shape]
"""An argument of a filter or a call, and its shape."""
_SAME = frozenset(("list", "sort", "reverse", "unique", "shuffle", "select", "reject", "selectattr", "rejectattr"))
_ONE = frozenset(("first", "last", "random", "min", "max"))
_NUMBERS = frozenset(("abs", "round", "int", "float", "filesizeformat"))
_NEEDS_TEXT = frozenset(("truncate", "wordwrap", "indent", "urlize"))
_TEXTS_OF_ANY = frozenset(
    ("upper", "lower", "title", "capitalize", "trim", "string", "escape", "e", "safe", "forceescape", "striptags",
     "replace", "center", "urlencode", "tojson", "pprint", "format")
)  # fmt: skip
_BY_ATTRIBUTE = frozenset(("sort", "unique", "min", "max", "sum", "join", "groupby", "map"))
_LISTS_OF_TEXT = frozenset(("split", "rsplit", "splitlines", "partition", "rpartition"))
_NUMBERS_OF_TEXT = frozenset(("count", "find", "rfind", "index", "rindex"))
_TRUTHS_OF_TEXT = frozenset(name for name in TEXT_METHODS if name.startswith(("is", "starts", "ends")))
_CONVERSION = re.compile(r"%(?:\((\w+)\))?[#0\- +]*\d*(?:\.\d+)?([diouxXeEfFgGcrsa%])")
_BRACES = re.compile(r"(?<!\{)\{(\w*)(?:![rsa])?:([^{}]*)\}")
_NUMBER_SPEC = re.compile(r"[+\- ,_0-9.#]*[bcdeEfFgGnoxX%]|[0-9,_.]*,[0-9.]*")


def constant(node: nodes.Node | None) -> object:
    """Return the value of a constant; None for all others."""
    return node.value if isinstance(node, nodes.Const) else None


def filtered(
    name: str, base: Shape, args: Sequence[Argument], named: Mapping[str, nodes.Expr], node: nodes.Node | None = None
) -> Shape:
    """Return the shape of `base | name(args)`; `node` is what is filtered."""
    first = constant(args[0][0]) if args else None
    attribute = constant(named.get("attribute"))
    if attribute is None and name in _BY_ATTRIBUTE and name != "join" and args and name in ("sum", "groupby"):
        attribute = first
    if attribute is None and name == "join" and len(args) > 1:
        attribute = constant(args[1][0])
    if isinstance(attribute, str) and name in _BY_ATTRIBUTE:
        part = [base.element().at_path(each) for each in attribute.split(",")][-1]
    else:
        part = base.element() if name in ("join", "sum", "map") else Shape()
    if name in _SAME:
        base.element()
        if name in ("selectattr", "rejectattr") and isinstance(first, str):
            tested(base.element().at_path(first), args[1:])
        elif name in ("select", "reject"):
            tested(base.element(), args)
        return base
    if name in _ONE:
        return base.element()
    if name in ("default", "d"):
        return unify(base, *(shape for _, shape in args[:1]))
    if name in ("length", "count"):
        return Shape("maybe number")
    if name in _NUMBERS:
        base.hint("number")
        return Shape("number")
    if name == "sum":
        part.hint("number")
        return Shape("number")
    if name == "join":
        return Shape("maybe text")
    if name == "map":
        return _mapped(part, attribute, args)
    if name == "groupby":
        return _grouped(base, part)
    if name in ("batch", "slice"):
        out = Shape()
        unify(out.element(), base)
        base.element()
        return out
    if name in ("items", "dictsort"):
        return pairs(base)
    if name == "xmlattr":
        base.hint("object")
    if name == "attr" and isinstance(first, str):
        return base.field(first)
    if name == "format":
        printf(constant(node), [shape for _, shape in args])
    if name in _NEEDS_TEXT:
        base.hint("text")
    if name in _NEEDS_TEXT or name in _TEXTS_OF_ANY:
        return Shape("maybe text")
    return Shape("number") if name == "wordcount" else base


def _mapped(part: Shape, attribute: object, args: Sequence[Argument]) -> Shape:
    """Return the list that `map` makes: of attributes, or of what a filter gives for each item."""
    out = Shape()
    name = constant(args[0][0]) if args else None
    made = part if attribute is not None or not isinstance(name, str) else filtered(name, part, args[1:], {})
    unify(out.element(), made)
    return out


def _grouped(base: Shape, key: Shape) -> Shape:
    out = Shape()
    group = out.element()
    unify(group.field("grouper"), group.position(0), key)
    unify(group.field("list"), group.position(1), base)
    return out


def pairs(base: Shape) -> Shape:
    """Return the keys and values of a mapping."""
    out = Shape()
    base.hint("object", "iterated")
    out.element().position(0).hint("maybe text")
    unify(out.element().position(1), base.any_value())
    return out


def tested(shape: Shape, args: Sequence[Argument]) -> None:
    """Take in that a value is tested: `selectattr("role", "equalto", "user")`."""
    name = constant(args[0][0]) if args else None
    if name is None:
        shape.hint("tested")
    else:
        apply_test(str(name), shape, args[1:])


def apply_test(name: str, shape: Shape, args: Sequence[Argument]) -> None:
    """Take in `shape is name(args)`."""
    if name in ("eq", "equalto", "==", "ne", "!="):
        for node, other in args[:1]:
            compare_equal(shape, node, other)
    elif name in ("lt", "lessthan", "<", "le", "<=", "gt", "greaterthan", ">", "ge", ">="):
        for node, other in args[:1]:
            compare_order(shape, node, other)
    elif name in ("odd", "even", "divisibleby"):
        shape.hint("number")
    elif name == "in":
        for node, other in args[:1]:
            compare_within(shape, node, other)
    elif name in ("number", "integer", "float"):
        shape.hint("maybe number")
    elif name in ("boolean", "true", "false"):
        shape.hint("maybe bool")
    elif name not in ("defined", "undefined", "none", "string", "mapping", "iterable", "sequence"):
        shape.hint("tested")


def compare_equal(shape: Shape, node: nodes.Expr, other: Shape) -> None:
    """Take in `shape == node`."""
    value = constant(node)
    if isinstance(value, bool):
        shape.hint("maybe bool")
    elif isinstance(value, int | float):
        shape.root.numbers.append(value)
    elif isinstance(value, str):
        shape.root.texts.append(value)
    elif not isinstance(node, nodes.Const):
        unify(shape, other)


def compare_order(shape: Shape, node: nodes.Expr, other: Shape) -> None:
    """Take in `shape < node`."""
    value = constant(node)
    if isinstance(value, int | float):
        shape.hint("number")
        shape.root.numbers.append(value)
    elif isinstance(value, str):
        shape.hint("text")
    else:
        unify(shape, other).hint("maybe number")


def compare_within(shape: Shape, node: nodes.Expr, other: Shape) -> None:
    """Take in `shape in node`."""
    if isinstance(node, nodes.List | nodes.Tuple):
        for item in node.items:
            compare_equal(shape, item, Shape())
    elif not isinstance(node, nodes.Const) and other.root.literal is None and "object" not in other.root.hints:
        unify(other.element(), shape)


def method_called(name: str, base: Shape, args: Sequence[Argument], node: nodes.Node | None = None) -> Shape:
    """Return the shape of `base.name(args)`; `node` is what has the method."""
    first = constant(args[0][0]) if args else None
    if name in ("get", "pop", "setdefault") and args and not isinstance(first, int):
        base.hint("object", *(() if isinstance(first, str) else ("keyed",)))
        out = base.field(first) if isinstance(first, str) else base.any_value()
        return unify(out, *(shape for _, shape in args[1:2]))
    if name in ("items", "values", "keys") and not args:
        base.hint("object", "iterated")
        if name == "items":
            return pairs(base)
        out = Shape()
        unify(out.element(), base.any_value() if name == "values" else Shape("maybe text"))
        return out
    if name in ("append", "insert") and args:
        unify(base.element(), args[-1][1])
        return Shape()
    if name == "extend" and args:
        return unify(base, args[0][1])
    if name == "format":
        _formatted_braces(constant(node), args)
    base.root.called.add(name)
    out = base.field(name)
    if name not in TEXT_METHODS | LIST_METHODS:
        return out.returned()
    result = out.returned()
    if name in _LISTS_OF_TEXT:
        result.element().hint("maybe text")
    elif name in _NUMBERS_OF_TEXT:
        result.hint("maybe number")
    elif name in _TRUTHS_OF_TEXT:
        result.hint("maybe bool")
    return result


def printf(form: object, values: Sequence[Shape]) -> None:
    """Take in `form % values`: a conversion to a number needs one."""
    if not isinstance(form, str):
        return
    kinds = [found[2] for found in _CONVERSION.finditer(form) if found[2] != "%"]
    for kind, shape in zip(kinds, values, strict=False):
        if kind not in "rsa":
            shape.hint("number")


def _formatted_braces(form: object, args: Sequence[Argument]) -> None:
    """Take in `form.format(args)`."""
    if not isinstance(form, str):
        return
    for number, found in enumerate(_BRACES.finditer(form)):
        at = int(found[1]) if found[1].isdigit() else number
        if at >= len(args) or (found[1] and not found[1].isdigit()):
            continue
        if "%" in found[2] and len(found[2]) > 1 and found[2][0] == "%":
            args[at][1].root.called.add("strftime")
            args[at][1].field("strftime")
        elif _NUMBER_SPEC.fullmatch(found[2]):
            args[at][1].hint("number")
