"""The one way in which charts become markup: whatever is not markup already is made harmless and escaped."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

from kvtool.text.terminal.console import sanitize


def shown(value: object) -> object:
    """What a template or a chart is about to write: control and bidi characters of text as visible escapes, markup as it is."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return sanitize(value)


def element(name: str, *children: object, **attributes: object) -> Markup:
    """An element; `_` in names of attributes stands for `-`, `class_` for `class`, and an attribute that is None is left out."""
    parts = [Markup("<") + name]
    for key, value in attributes.items():
        if value is not None:
            parts.append(Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), shown(_figure(value))))
    parts += [Markup(">"), joined(children), Markup("</") + name + Markup(">")]
    return Markup("").join(parts)


def joined(parts: Iterable[object]) -> Markup:
    """Parts one after the other."""
    return Markup("").join(escape(shown(part)) for part in parts)


def arrows(text: str) -> str:
    """A sentence with real arrows, which no line ends within."""
    return text.replace(" -> ", " → ")


def prose(text: str) -> Markup:
    """A sentence, in which what stands between backticks is code."""
    pieces = text.split("`")
    if not len(pieces) % 2:  # one backtick too many
        return joined((text,))
    return joined(element("code", piece) if place % 2 else piece for place, piece in enumerate(pieces))


def share(ratio: float) -> str:
    """A place or a length as a part of the drawing's width: `37.5%`."""
    return f"{_figure(100 * min(max(ratio, 0.0), 1.0))}%"


def _figure(value: object) -> object:
    """Coordinates to a thousandth, without a tail of zeros, so that files stay small and are the same everywhere."""
    if not isinstance(value, float):
        return value
    text = f"{value:.3f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
