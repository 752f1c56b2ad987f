"""Filters, methods and formats: what each says about the value that it is applied to, and about its result."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jinja2 import nodes

from kvtool.text.templates.shapes import LIST_METHODS, TEXT_METHODS, ValueShape, unify

Argument = tuple[nodes.Expr, ValueShape]
"""An argument of a filter or a call, and its shape."""
_NEEDS_TEXT = frozenset(("truncate", "wordwrap", "indent", "urlize"))
_TEXTS_OF_ANY = frozenset(
    ("upper", "lower", "title", "capitalize", "trim", "string", "escape", "e", "safe", "forceescape", "striptags",
     "replace", "center", "urlencode", "tojson", "pprint")
)  # fmt: skip
_BY_ATTRIBUTE = frozenset(("sort", "unique", "min", "max", "sum", "join", "groupby", "map"))
_ATTRIBUTE = {"sum": 0, "groupby": 0, "join": 1}
"""Where the attribute is among the arguments, if it has no name."""
_LISTS_OF_TEXT = frozenset(("split", "rsplit", "splitlines", "partition", "rpartition"))
_NUMBERS_OF_TEXT = frozenset(("count", "find", "rfind", "index", "rindex"))
_TRUTHS_OF_TEXT = frozenset(name for name in TEXT_METHODS if name.startswith(("is", "starts", "ends")))
_CONVERSION = re.compile(r"%(?:\((\w+)\))?[#0\- +]*\d*(?:\.\d+)?([diouxXeEfFgGcrsa%])")
_BRACES = re.compile(r"(?<!\{)\{(\w*)(?:![rsa])?:([^{}]*)\}")
_NUMBER_SPEC = re.compile(r"[+\- ,_0-9.#]*[bcdeEfFgGnoxX%]|[0-9,_.]*,[0-9.]*")


def constant(node: nodes.Node | None) -> object:
    """Return the value of a constant; None for all others."""
    return node.value if isinstance(node, nodes.Const) else None


@dataclass(frozen=True, slots=True)
class _Use:
    """A use of a filter: what is filtered, its shape, the arguments, and what `attribute` leads to."""

    node: nodes.Node | None
    base: ValueShape
    args: Sequence[Argument]
    attribute: str | None

    @property
    def first(self) -> object:
        return constant(self.args[0][0]) if self.args else None

    def part(self) -> ValueShape:
        """Return the shape of an item, or of its attribute."""
        if self.attribute is None:
            return self.base.element()
        return [self.base.element().at_path(each) for each in self.attribute.split(",")][-1]


def filtered(
    name: str,
    base: ValueShape,
    args: Sequence[Argument],
    named: Mapping[str, nodes.Expr],
    node: nodes.Node | None = None,
) -> ValueShape:
    """Return the shape of `base | name(args)`; `node` is what is filtered."""
    position = _ATTRIBUTE.get(name)
    attribute = constant(named.get("attribute"))
    if attribute is None and position is not None and len(args) > position:
        attribute = constant(args[position][0])
    use = _Use(node, base, args, attribute if isinstance(attribute, str) and name in _BY_ATTRIBUTE else None)
    if name in _NEEDS_TEXT:
        base.hint("text")
    if name in _NEEDS_TEXT or name in _TEXTS_OF_ANY:
        return ValueShape("maybe text")
    read = _FILTERS.get(name)
    return base if read is None else read(use)


def _same_items(use: _Use) -> ValueShape:
    use.part()
    return use.base


def _selected(use: _Use) -> ValueShape:
    tested(use.base.element(), use.args)
    return use.base


def _selected_by_attribute(use: _Use) -> ValueShape:
    if isinstance(use.first, str):
        tested(use.base.element().at_path(use.first), use.args[1:])
    return use.base


def _one_item(use: _Use) -> ValueShape:
    use.part()
    return use.base.element()


def _number(use: _Use) -> ValueShape:
    use.base.hint("number")
    return ValueShape("number")


def _sum(use: _Use) -> ValueShape:
    use.part().hint("number")
    return ValueShape("number")


def _joined(use: _Use) -> ValueShape:
    use.part()
    return ValueShape("maybe text")


def _lists(use: _Use) -> ValueShape:
    out = ValueShape()
    use.base.element()
    unify(out.element(), use.base)
    return out


def _attribute_of(use: _Use) -> ValueShape:
    return use.base.field(use.first) if isinstance(use.first, str) else use.base.any_value()


def _formatted(use: _Use) -> ValueShape:
    printf(constant(use.node), [shape for _, shape in use.args])
    return ValueShape("maybe text")


def _written_as_attributes(use: _Use) -> ValueShape:
    use.base.hint("object")
    return ValueShape("maybe text")


def _mapped(use: _Use) -> ValueShape:
    """Return the list that `map` makes: of attributes, or of what a filter gives for each item."""
    out = ValueShape()
    by_filter = use.attribute is None and isinstance(use.first, str)
    unify(out.element(), filtered(str(use.first), use.part(), use.args[1:], {}) if by_filter else use.part())
    return out


def _grouped(use: _Use) -> ValueShape:
    key, base = use.part(), use.base
    out = ValueShape()
    group = out.element()
    unify(group.field("grouper"), group.position(0), key)
    unify(group.field("list"), group.position(1), base)
    return out


def pairs(base: ValueShape) -> ValueShape:
    """Return the keys and values of a mapping."""
    out = ValueShape()
    base.hint("object", "iterated")
    out.element().position(0).hint("maybe text")
    unify(out.element().position(1), base.any_value())
    return out


_FILTERS: dict[str, Callable[[_Use], ValueShape]] = {
    **dict.fromkeys(("list", "sort", "reverse", "unique", "shuffle"), _same_items),
    **dict.fromkeys(("select", "reject"), _selected),
    **dict.fromkeys(("selectattr", "rejectattr"), _selected_by_attribute),
    **dict.fromkeys(("first", "last", "random", "min", "max"), _one_item),
    **dict.fromkeys(("abs", "round", "int", "float", "filesizeformat"), _number),
    **dict.fromkeys(("default", "d"), lambda use: unify(use.base, *(shape for _, shape in use.args[:1]))),
    **dict.fromkeys(("length", "count"), lambda _: ValueShape("maybe number")),
    **dict.fromkeys(("batch", "slice"), _lists),
    **dict.fromkeys(("items", "dictsort"), lambda use: pairs(use.base)),
    "attr": _attribute_of,
    "format": _formatted,
    "groupby": _grouped,
    "join": _joined,
    "map": _mapped,
    "sum": _sum,
    "wordcount": lambda _: ValueShape("number"),
    "xmlattr": _written_as_attributes,
}
"""What is not here gives its value."""


def tested(shape: ValueShape, args: Sequence[Argument]) -> None:
    """Take in that a value is tested: `selectattr("role", "equalto", "user")`."""
    name = constant(args[0][0]) if args else None
    if name is None:
        shape.hint("tested")
    else:
        apply_test(str(name), shape, args[1:])


def apply_test(name: str, shape: ValueShape, args: Sequence[Argument]) -> None:
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


def compare_equal(shape: ValueShape, node: nodes.Expr, other: ValueShape) -> None:
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


def compare_order(shape: ValueShape, node: nodes.Expr, other: ValueShape) -> None:
    """Take in `shape < node`."""
    value = constant(node)
    if isinstance(value, int | float):
        shape.hint("number")
        shape.root.numbers.append(value)
    elif isinstance(value, str):
        shape.hint("text")
    else:
        unify(shape, other).hint("maybe number")


def compare_within(shape: ValueShape, node: nodes.Expr, other: ValueShape) -> None:
    """Take in `shape in node`."""
    if isinstance(node, nodes.List | nodes.Tuple):
        for item in node.items:
            compare_equal(shape, item, ValueShape())
    elif not isinstance(node, nodes.Const) and other.root.literal is None and "object" not in other.root.hints:
        unify(other.element(), shape)


def method_called(name: str, base: ValueShape, args: Sequence[Argument], node: nodes.Node | None = None) -> ValueShape:
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
        out = ValueShape()
        unify(out.element(), base.any_value() if name == "values" else ValueShape("maybe text"))
        return out
    if name in ("append", "insert") and args:
        unify(base.element(), args[-1][1])
        return ValueShape()
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


def printf(form: object, values: Sequence[ValueShape]) -> None:
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
