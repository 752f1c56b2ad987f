"""What a straight run of a template costs, known when it is compiled: the price of its nodes, in steps."""

from __future__ import annotations

from collections.abc import Iterable

from jinja2 import nodes

_BLOCK = 12
"""Of entering a body: an iteration, a branch, a call of a macro."""
_LITERAL = 16
_OUTPUT = 60
_PRICES: dict[type[nodes.Node], int] = {
    nodes.Call: 100,
    nodes.Filter: 40,
    nodes.Test: 20,
    nodes.Getattr: 40,
    nodes.Getitem: 30,
    nodes.Concat: 60,
    nodes.For: 30,
    nodes.Macro: 60,
    nodes.CallBlock: 120,
    nodes.FilterBlock: 60,
    nodes.AssignBlock: 60,
    nodes.Block: 120,
    nodes.List: 30,
    nodes.Dict: 40,
    nodes.Compare: 12,
    nodes.Assign: 8,
}
_OPERATOR = 20
_NODE = 2


def run_price(statements: Iterable[nodes.Node]) -> int:
    """Steps of these statements, once: all but the bodies in them, which are paid for when they are entered."""
    return _BLOCK + sum(map(node_price, statements))


def node_price(node: nodes.Node) -> int:
    """Steps of a statement or an expression, without bodies in it."""
    if isinstance(node, nodes.TemplateData):
        return _LITERAL
    price = _PRICES.get(type(node), _OPERATOR if isinstance(node, nodes.BinExpr) else _NODE)
    if isinstance(node, nodes.Output):
        price += sum(_OUTPUT for child in node.nodes if not isinstance(child, nodes.TemplateData))
    inner = () if isinstance(node, nodes.ScopedEvalContextModifier) else ("body", "else_")
    return price + sum(map(node_price, node.iter_child_nodes(exclude=inner)))
