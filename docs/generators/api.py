"""The reference of the Python API, from signatures, docstrings and models."""

from __future__ import annotations

import inspect
import re

from pydantic import BaseModel

import kvtool
from docs.generators.pages import fenced
from docs.generators.tables import table


def function(name: str) -> str:
    """A function's signature and what its docstring says, with a table of its arguments."""
    found = getattr(kvtool, name)
    parts = [fenced(_signature(name, inspect.signature(found)), "python")]
    section = ""
    for block in inspect.cleandoc(found.__doc__ or "").split("\n\n"):
        head, _, rest = block.partition("\n")
        if head in ("Args:", "Raises:"):
            section = head
            rows = [(f"`{key}`", _prose(text)) for key, text in _entries(rest)]
            parts.append(table(("argument", "meaning") if head == "Args:" else ("raises", "when"), rows))
        elif not section:
            parts.append(_prose(" ".join(block.split())))
    return "\n\n".join(parts)


def model(name: str) -> str:
    """The fields of a result, with the names of their types."""
    found = getattr(kvtool, name)
    assert issubclass(found, BaseModel)
    rows = [
        (f"`{field.alias or key}`", f"`{_short(str(found.__annotations__.get(key) or _inherited(found, key)))}`")
        for key, field in found.model_fields.items()
    ]
    return table(("field", "type"), rows)


def _inherited(found: type[BaseModel], key: str) -> object:
    return next(base.__annotations__[key] for base in found.__mro__ if key in getattr(base, "__annotations__", {}))


def _short(annotation: str) -> str:
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", annotation)


def _signature(name: str, signature: inspect.Signature) -> str:
    lines = [f"kvtool.{name}("]
    keyword_only = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            lines.append("    *,")
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        lines.append(f"    {parameter.name}: {parameter.annotation}{default},")
    return "\n".join([*lines, f") -> {signature.return_annotation}"])


def _entries(text: str) -> list[tuple[str, str]]:
    """`name: words` with deeper lines that go on, as pairs."""
    found: list[tuple[str, str]] = []
    for line in text.split("\n"):
        stripped = line.strip()
        if (start := re.fullmatch(r" {4}(\w+): (.*)", line)) is not None:
            found.append((start[1], start[2]))
        elif found and stripped:
            found[-1] = (found[-1][0], f"{found[-1][1]} {stripped}")
    return found


def _prose(text: str) -> str:
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(
        piece if number % 2 else re.sub(r"([\\*_<>\[\]{}|])", r"\\\1", piece) for number, piece in enumerate(pieces)
    )
