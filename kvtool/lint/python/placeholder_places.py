"""Where the placeholders of a Jinja template stand in a Python file that writes it with escapes or in several strings."""

from __future__ import annotations

import re
from dataclasses import replace

from kvtool.lint.python.changed_values import changed
from kvtool.lint.python.text_values import Literal, Piece, Value
from kvtool.lint.skeleton import Hole


def places_found(pieces: Value, literal: Literal) -> Value:
    """The pieces of a template that its file does not hold as it reads, each hole where its name stands between braces.

    They are looked for in their order; what is not found stays where the template begins.
    """
    source = literal.source
    if source is None:
        return pieces
    at = literal.start

    def change(piece: Piece) -> Value | None:
        nonlocal at
        if not isinstance(piece, Hole) or piece.certain or piece.spot.path != source.path:
            return None
        name = re.compile(r"\{[{%][^{}%\n]{0,80}?\b" + re.escape(piece.what.strip("`")) + r"\b[^{}%\n]{0,80}[}%]\}")
        found = name.search(source.text, at, literal.stop) or name.search(source.text, literal.start, literal.stop)
        if found is None:
            return None
        at = found.start()
        return (replace(piece, spot=source.spot(*found.span())),)

    return changed(pieces, change)
