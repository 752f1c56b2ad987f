"""Markup of charts: whatever is not markup already is made harmless and escaped."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

from kvtool.text.terminal.console import sanitize


def shown(value: object) -> object:
    """Make control and bidi characters of text visible escapes; markup stays as it is."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return sanitize(value)


def element(name: str, *children: object, **attributes: object) -> Markup:
    """Return an element; `_` in names of attributes means `-`, `class_` means `class`, and an attribute of None is left out."""
    parts = [Markup("<") + name]
    for key, value in attributes.items():
        if value is not None:
            parts.append(Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), shown(_figure(value))))
    parts += [Markup(">"), joined(children), Markup("</") + name + Markup(">")]
    return Markup("").join(parts)


def joined(parts: Iterable[object]) -> Markup:
    """Join parts, escaped."""
    return Markup("").join(escape(shown(part)) for part in parts)


def arrows(text: str) -> str:
    """Return a sentence with real arrows."""
    return text.replace(" -> ", " → ")


def prose(text: str) -> Markup:
    """Return a sentence with code where there are backticks."""
    pieces = text.split("`")
    if not len(pieces) % 2:  # one backtick too many
        return joined((text,))
    return joined(element("code", piece) if place % 2 else piece for place, piece in enumerate(pieces))


def share(ratio: float) -> str:
    """Return a place or a length as a part of the drawing's width: `37.5%`."""
    return f"{_figure(100 * min(max(ratio, 0.0), 1.0))}%"


def _figure(value: object) -> object:
    """Round coordinates to a thousandth, without a tail of zeros, so that files stay small and are the same everywhere."""
    if not isinstance(value, float):
        return value
    text = f"{value:.3f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
