"""Values that a program stores where it looks for them first: an id in a file, made once, is the same from then on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from kvtool.lint.python.syntax import dotted

_READS = re.compile(r"(?:^|[._])(?:is_?file|exists?\w*|open|read\w*|get\w*|has\w*|load\w*|stat\w*)$", re.IGNORECASE)
_STORES = re.compile(r"(?:^|[._])(?:write\w*|set\w*|put\w*|store\w*|save\w*)$", re.IGNORECASE)


def stored_names(body: Iterable[ast.stmt]) -> frozenset[str]:
    """Return the names of values that a function stores under a key, or in a file, which it reads before."""
    calls = [node for statement in body for node in ast.walk(statement) if isinstance(node, ast.Call)]
    looked_at: set[str] = set()
    found: set[str] = set()
    for call in sorted(calls, key=lambda one: (one.lineno, one.col_offset)):
        name, keys = dotted(call.func) or getattr(call.func, "attr", ""), _keys(call)
        if _STORES.search(name) and looked_at & {ast.dump(key) for key in keys}:
            found |= {one.id for one in call.args[:2] if isinstance(one, ast.Name)}
        elif _READS.search(name):
            looked_at |= {ast.dump(key) for key in keys}
    return frozenset(found)


def _keys(call: ast.Call) -> list[ast.expr]:
    """Return what may name the place that a call reads or writes: what it is a method of, and its first argument."""
    owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    return [one for one in (*owner, *call.args[:1]) if isinstance(one, ast.Name | ast.Attribute | ast.Constant)]
