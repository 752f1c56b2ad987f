"""Layers of a model that the rules of other engines leave out."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from kvtool.engine.model.configs.served_model import ServedModel
from kvtool.text.terminal.numbers import in_words

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def knows_kinds(options: DataclassInstance) -> bool:
    """Return whether the rules with such options follow windows and states."""
    return "sliding_window" in {each.name for each in fields(options)}


def left_out_of(served: ServedModel, *, kinds_known: bool) -> str | None:
    """Return the layers that rules do not follow, in words; None where they follow all.

    `kinds_known` is true where they follow windows and states.
    """
    kinds = []
    if not kinds_known and served.states:
        kinds.append("linear attention")
    if any(layer.chunk is not None for layer in served.attention):
        kinds.append("chunked attention")
    if not kinds_known and any(layer.window is not None for layer in served.attention):
        kinds.append("sliding windows")
    return f"{served.name} has {in_words(kinds)}" if kinds else None
