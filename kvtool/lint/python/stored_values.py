"""Values that are the same in many requests by how a function uses them.

An id in a file, made once, is the same from then on. What a text is chosen by is one of a few values that the code names.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from kvtool.lint.python.syntax import dotted

_READS = re.compile(r"(?:^|[._])(?:is_?file|exists?\w*|open|read\w*|get\w*|has\w*|load\w*|stat\w*)$", re.IGNORECASE)
_STORES = re.compile(r"(?:^|[._])(?:write\w*|set\w*|put\w*|store\w*|save\w*)$", re.IGNORECASE)


def steady_names(body: Iterable[ast.stmt]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of values that a function stores under a key, or in a file, which it reads before; and the names of values
    that choose between texts by constants: `A if mode == "a" else B if mode == "b" else C`.
    """
    nodes = list(_own_nodes(body))
    return _stored(one for one in nodes if isinstance(one, ast.Call)), frozenset(
        name
        for node in nodes
        if isinstance(node, ast.IfExp) and isinstance(node.orelse, ast.IfExp)
        if (name := _compared(node.test)) and name == _compared(node.orelse.test)
    )


def _own_nodes(body: Iterable[ast.stmt]) -> Iterator[ast.Call | ast.IfExp]:
    """Yield the calls and choices of a function, without those of functions within it, which are read by themselves."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if isinstance(node, ast.Call | ast.IfExp):
            yield node
        waiting += ast.iter_child_nodes(node)


def _stored(calls: Iterable[ast.Call]) -> frozenset[str]:
    looked_at: set[str] = set()
    found: set[str] = set()
    for call in sorted(calls, key=lambda one: (one.lineno, one.col_offset)):
        name, keys = dotted(call.func) or getattr(call.func, "attr", ""), _keys(call)
        if _STORES.search(name) and looked_at & {ast.dump(key) for key in keys}:
            found |= {one.id for one in call.args[:2] if isinstance(one, ast.Name)}
        elif _READS.search(name):
            looked_at |= {ast.dump(key) for key in keys}
    return frozenset(found)


def _compared(test: ast.expr) -> str:
    """Return the name of what a test compares with a constant text; empty for any other test."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
        return ""
    wanted = test.comparators[0]
    return dotted(test.left) if isinstance(wanted, ast.Constant) and isinstance(wanted.value, str) else ""


def _keys(call: ast.Call) -> list[ast.expr]:
    """Return what may name the place that a call reads or writes: what it is a method of, and its first argument."""
    owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    return [one for one in (*owner, *call.args[:1]) if isinstance(one, ast.Name | ast.Attribute | ast.Constant)]
