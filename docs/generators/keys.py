"""Tables of the keys of a workload file and of kvtool.toml, from the models that read them and the words that explain them."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from docs.generators.key_notes import NOTES, Note
from docs.generators.tables import table
from kvtool.config import file_model as config
from kvtool.workload.yaml import fields, schema, variable_fields

_NAMED: tuple[tuple[object, str], ...] = (
    (fields.Text, "text"),
    (fields.Str, "text"),
    (fields.Value, "text"),
    (variable_fields.DataField, "text, list or mapping"),
    (variable_fields.CountField, "whole number, or the least and the most"),
    (variable_fields.FunctionName, "name"),
    (fields.Name, "name"),
    (fields.Bool, "true or false"),
    (fields.Integer, "whole number"),
    (fields.Count, "whole number, from 1"),
    (fields.Tokens, "tokens, from 0"),
    (fields.OutputTokens, "tokens, from 1"),
    (fields.Weight, "number, from 0"),
    (fields.Fraction, "ratio, above 0 to 1"),
    (fields.Version, "`1`"),
    (fields.Duration, "time"),
    (fields.Rate, "rate"),
    (fields.Bytes, "size"),
    (fields.CapacityField, "capacity"),
    (fields.ThresholdField, "threshold"),
    (fields.LimitField, "limit"),
    (fields.LongestField, "time"),
    (fields.FindingKey, "code or severity"),
    (fields.CodeField, "code"),
    (fields.PickField, "pick"),
    (fields.ToolsField, "tools"),
)
"""What a type is called in the tables; `workload.md` explains the words that are not plain."""


class KeysError(Exception):
    """A key without words, or words without a key."""


def model_named(name: str) -> type[BaseModel]:
    """A model of a workload file or of the configuration file."""
    found: type[BaseModel] | None = getattr(schema, name, None) or getattr(config, name, None)
    if found is None:
        raise KeysError(f"there is no model {name}")
    return found


def keys_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The keys of a model as users write them."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def key_table(name: str, *, notation: str = "yaml") -> str:
    """Every key of a model: what it takes, what it is where it is left out, what it does, an example."""
    model = model_named(name)
    notes = notes_of(name)
    words = descriptions(model)
    hints = get_type_hints(model, include_extras=True)
    rows = []
    for (python_name, field), key in zip(model.model_fields.items(), keys_of(model), strict=True):
        note = notes[key]
        example = f"`{key}: {note.example}`" if notation == "yaml" else f"`{key} = {note.example}`"
        what = f"{words[python_name]} {note.more}".strip()
        rows.append((f"`{key}`", type_words(hints[python_name]), _default(field, note), what, example))
    return table(("key", "type", "default", "what it says", "example"), rows)


def notes_of(name: str) -> Mapping[str, Note]:
    """The words for the keys of a model; KeysError where they are not for exactly its keys."""
    notes = NOTES.get(name, {})
    keys = keys_of(model_named(name))
    missing, left = [key for key in keys if key not in notes], [key for key in notes if key not in keys]
    if missing or left:
        raise KeysError(
            f"{name}: keys without words: {missing}; words without a key: {left} (docs/generators/key_notes.py)"
        )
    return notes


def descriptions(model: type[BaseModel]) -> dict[str, str]:
    """The text under each field in the source, as the JSON Schema has it; KeysError where there is none."""
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if not (issubclass(each, BaseModel) and each.__module__.startswith("kvtool.")):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(each))).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, below in pairwise(body.body):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
                text = ast.literal_eval(below.value)
                found[field.target.id] = " ".join(str(text).split())
    missing = [name for name in model.model_fields if name not in found]
    if missing:
        raise KeysError(f"{model.__name__}: no description under {', '.join(missing)}")
    return found


def type_words(hint: Any) -> str:
    """A type in the words of the tables."""
    for known, words in _NAMED:
        if hint == known:
            return words
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return type_words(parts[0])
    if origin in (Union, types.UnionType):
        return " or ".join(type_words(part) for part in parts if part is not type(None))
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in parts)
    if origin is list:
        return f"list of {_several(type_words(parts[0]))}"
    if origin is dict:
        key = {"name": "names", "code or severity": "codes and severities"}.get(type_words(parts[0]), "names")
        return f"mapping of {key} to {_several(type_words(parts[1]))}"
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        heading = hint.__name__.removesuffix("Spec")
        return f"[{heading}](#{heading.lower()})"
    return {str: "text", int: "whole number", float: "number", bool: "true or false"}.get(hint, str(hint))


def _several(words: str) -> str:
    plural = {
        "text": "texts",
        "text, list or mapping": "texts, lists or mappings",
        "name": "names",
        "whole number": "whole numbers",
        "number, from 0": "numbers, from 0",
        "code": "codes",
    }
    return plural.get(words, words)


def _default(field: FieldInfo, note: Note) -> str:
    if field.is_required():
        return "required"
    if note.default is not None:
        return note.default
    if field.default_factory is not None or field.default is None:
        return "-"
    assert field.default is not PydanticUndefined
    if isinstance(field.default, bool):
        return f"`{str(field.default).lower()}`"
    return f"`{field.default}`"
