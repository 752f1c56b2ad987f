"""Expressions that cut a history, or tell old messages from the latest ones; when a cut is one in nearly each turn."""

from __future__ import annotations

import ast

from kvtool.lint.python.syntax import dotted, names_in
from kvtool.lint.python.value_origins import holds_turns

_LEAST_KEPT = 3
"""Messages, below which the latest ones alone are meant: no conversation goes on with them."""
_LARGER = ("max", "Math.max")
_STRIDE = 2
"""Messages that are cut at once, up to which nearly each turn cuts."""


def _number(node: ast.expr | None) -> int | None:
    """Return a written whole number."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inside = _number(node.operand)
        return None if inside is None else -inside
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


def kept_of(cut: ast.expr) -> ast.expr | None:
    """Return how many of the last elements a slice keeps; None where it keeps others, or only the latest."""
    if not isinstance(cut, ast.Slice) or cut.upper is not None or cut.lower is None or cut.step is not None:
        return None
    if isinstance(cut.lower, ast.UnaryOp) and isinstance(cut.lower.op, ast.USub):
        number = _number(cut.lower.operand)
        return cut.lower.operand if number is None or number >= _LEAST_KEPT else None
    options = cut.lower.args if isinstance(cut.lower, ast.Call) and dotted(cut.lower.func) in _LARGER else [cut.lower]
    return next((one.right for one in options if isinstance(one, ast.BinOp) and is_distance(one)), None)


def is_front(index: ast.expr) -> bool:
    """Return whether an index, or a slice, means the first elements of a list, or those after its system message."""
    if isinstance(index, ast.Slice):
        return index.upper is not None and is_front(index.lower or ast.Constant(0)) and (_number(index.upper) or 1) > 0
    return _number(index) in (0, 1)


def is_limit(guard: ast.expr | None) -> bool:
    """Return whether a condition is that something is too long: one that looks at a message takes out that message, and one that
    asks whether there is any empties a queue."""
    compares = [one for one in ast.walk(guard) if isinstance(one, ast.Compare)] if guard is not None else []
    return any(
        0 not in (_number(side), _number(other))
        and (
            isinstance(operator, ast.Gt | ast.GtE | ast.Lt | ast.LtE)
            or (isinstance(operator, ast.Eq) and _is_length(side))
        )
        for one in compares
        for operator, side, other in zip(one.ops, [one.left, *one.comparators], one.comparators, strict=False)
    )


def slides(guard: ast.expr | None, kept: ast.expr | None) -> bool:
    """Return whether a cut under a condition cuts a little in nearly each turn.

    Many at once, as in `if len(messages) > 40: messages = messages[-20:]`, is the right way to do it. A condition that asks only
    for the number that is kept is a setting: `if limit > 0`.
    """
    lengths = [one for one in ast.walk(guard) if isinstance(one, ast.Compare)] if guard is not None else []
    for compare in lengths:
        sides = [compare.left, *compare.comparators]
        if not any(_is_length(side) for side in sides):
            continue
        limit = next((side for side in sides if not _is_length(side)), None)
        if kept is None or limit is None:
            return True  # one at a time
        most, left = _number(limit), _number(kept)
        if most is not None and left is not None:
            return most - left <= _STRIDE
        return ast.dump(limit) == ast.dump(kept)
    return guard is None or kept is None or names_in(guard) <= names_in(kept)


def is_all_but_latest(node: ast.Subscript) -> bool:
    """Return whether it is a conversation without its latest messages: `messages[:-4]`."""
    upper = node.slice.upper if isinstance(node.slice, ast.Slice) else None
    cut = upper is not None and ((_number(upper) or 0) < 0 or is_distance(upper))
    return cut and holds_turns(dotted(node.value))


def _is_length(node: ast.expr) -> bool:
    """Return whether it is the number of messages."""
    return isinstance(node, ast.Call) and dotted(node.func) in ("len", "@.len") and holds_turns(first_argument(node))


def first_argument(node: ast.Call) -> str:
    return dotted(node.args[0]) if node.args else ""


def is_distance(node: ast.expr) -> bool:
    """Return whether it is a place at a distance from the end: `len(messages) - 6`."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and _is_length(node.left)


def number_of_message(target: ast.expr, over: ast.expr) -> str:
    """The name of the number of a message in a loop over them: `i` of `for i, m in enumerate(messages)`."""
    call = over if isinstance(over, ast.Call) else None
    if call is None or dotted(call.func) not in ("enumerate", "@.enumerate", "range") or not call.args:
        return ""
    if dotted(call.func) == "range":
        return dotted(target) if any(_is_length(one) for one in call.args) else ""
    first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else None
    return dotted(first) if first is not None and holds_turns(first_argument(call)) else ""


def latest_kept(loop: ast.For | ast.AsyncFor | ast.While) -> list[tuple[str, ast.expr | ast.stmt]]:
    """Return where a loop from the end adds to a list until a limit, with the list: `for m in reversed(messages)`."""
    parts = [part for statement in loop.body for part in ast.walk(statement)]
    limits = [one for one in parts if isinstance(one, ast.If) and is_limit(one.test)]
    if not any(isinstance(each, ast.Break) for one in limits for each in (*one.body, *one.orelse)):
        return []
    back = _is_backwards(loop.test if isinstance(loop, ast.While) else loop.iter)
    found: list[tuple[str, ast.expr | ast.stmt]] = []
    for one in parts:
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute):
            first = one.func.attr == "insert" and len(one.args) == 2 and _number(one.args[0]) == 0
            if first or one.func.attr == "appendleft" or (back and one.func.attr == "append"):
                found.append((dotted(one.func.value), one))
        elif isinstance(one, ast.Assign) and isinstance(one.value, ast.List) and len(one.value.elts) > 1:
            last = one.value.elts[-1]
            name = dotted(last.value) if isinstance(last, ast.Starred) else ""
            if name and name == dotted(one.targets[0]):
                found.append((name, one))
    return found


def _is_backwards(over: ast.expr) -> bool:
    """Return whether a loop goes from the end to the beginning: by what it goes over, or by its condition."""
    if isinstance(over, ast.Compare):
        to_first = isinstance(over.ops[0], ast.Gt | ast.GtE) and _number(over.comparators[0]) in (0, -1)
        return to_first and isinstance(over.left, ast.Name)  # the length of a queue says nothing of the order
    if isinstance(over, ast.Subscript) and isinstance(over.slice, ast.Slice):
        return _number(over.slice.step) == -1
    if not isinstance(over, ast.Call):
        return False
    last = over.func.attr if isinstance(over.func, ast.Attribute) else dotted(over.func)
    return "reverse" in last.lower() or (last == "range" and len(over.args) == 3 and _number(over.args[2]) == -1)


def makes_message(body: list[ast.stmt]) -> bool:
    """Return whether statements make another message of one, or another content."""
    for statement in body:
        for one in ast.walk(statement):
            if isinstance(one, ast.Assign) and any(dotted(target).endswith(".content") for target in one.targets):
                return True
            keys = one.keys if isinstance(one, ast.Dict) else ()
            if any(isinstance(key, ast.Constant) and key.value == "content" for key in keys):
                return True
    return False
