"""Collections that are handed on as a whole: each text in them is one of its own."""

from __future__ import annotations

from kvtool.lint.evidence.prompt_evidence import Evidence, name_says_prompt
from kvtool.lint.python.name_values import Names
from kvtool.lint.python.text_values import MESSAGE_KEYS, Items, Mapped, Piece, Value


def apart(scope: Names, value: Value, evidence: Evidence) -> Value:
    """Hand on what a mapping holds that is no text itself: the body of a request, what a call is given; and give the rest."""
    whole: list[Piece] = []
    for piece in value:
        if not isinstance(piece, Mapped) or any(piece.get(key) is not None for key in MESSAGE_KEYS):
            whole.append(piece)
            continue
        for key, one in piece.pairs:
            says = Evidence.NAME if name_says_prompt(key) else Evidence.NOTHING
            scope.told_as(key, one, says if evidence >= Evidence.SENT else max(evidence, says))
    return tuple(whole)


def elements_told(scope: Names, value: Value, evidence: Evidence) -> Value:
    """Hand on the elements of collections each by itself, and give what is left."""
    for piece in value:
        if isinstance(piece, Items):
            for one in piece.values:
                scope.told(one, evidence)
        elif isinstance(piece, Mapped):
            for _, one in piece.pairs:
                scope.told(one, evidence)
    return tuple(piece for piece in value if not isinstance(piece, Items | Mapped))
