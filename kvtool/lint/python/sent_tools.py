"""The tools that a call sends, as far as the code says them."""

from __future__ import annotations

import json
from collections.abc import Iterator

from kvtool.lint.passed_values import Orders, SentTools
from kvtool.lint.python.text_values import Items, Literal, Mapped, Value, text_of
from kvtool.lint.skeleton import Hole, TemplatePlace

_MOST = 64
_MADE_UP = 4
"""Tools that are made up where only is known that their order changes."""


def sent_tools(value: Value, place: TemplatePlace) -> SentTools | None:
    """Return the tools in a value that a call sends as such; None where neither one of them nor their order is known."""
    lists = [piece for piece in value if isinstance(piece, Items)]
    order = next((piece for piece in value if isinstance(piece, Hole) and piece.order), None)
    order = next((one.order for one in lists if one.order is not None), order)
    elements = [one for each in lists for one in each.values][:_MOST]
    read = [_tool(one) for one in elements]
    schemas = [json.dumps(tool, ensure_ascii=False) for tool, _ in read if tool is not None]
    partly = any(tool is None or not whole for tool, whole in read)
    orders: Orders = "fixed" if order is None else "request" if order.clock else "process"
    if order is not None and len(schemas) < 2:
        count = max(len(elements), _MADE_UP)
        schemas += [json.dumps(_made_up(number)) for number in range(len(schemas) + 1, count + 1)]
        partly = True
    return SentTools(tuple(schemas), orders, place, partly) if schemas else None


def _tool(value: Value) -> tuple[dict[str, object] | None, bool]:
    """Return a schema with what the code says of it, and whether that is all; None for one without a name."""
    data, whole = _data(value)
    if not isinstance(data, dict):
        return None, False
    inside = data.get("function", data)
    return (data if isinstance(inside, dict) and isinstance(inside.get("name"), str) else None), whole


def _data(value: Value) -> tuple[object | None, bool]:
    """Return the known part of a value as data, and whether that is all of it."""
    one = value[0] if len(value) == 1 else None
    if isinstance(one, Mapped):
        pairs = {key: _data(each) for key, each in one.pairs}
        known = {key: data for key, (data, _) in pairs.items() if data is not None}
        return known, len(known) == len(pairs) and all(whole for _, whole in pairs.values())
    if isinstance(one, Items):
        items = [_data(each) for each in one.values]
        return [data for data, _ in items if data is not None], all(whole for _, whole in items)
    texts = list(_texts(value))
    return ("".join(texts), True) if texts and len(texts) == len(value) else (None, False)


def _texts(value: Value) -> Iterator[str]:
    return (text_of(piece) for piece in value if isinstance(piece, str | Literal))


def _made_up(number: int) -> dict[str, object]:
    return {"type": "function", "function": {"name": f"tool_{number}", "description": f"made up: tool {number}"}}
