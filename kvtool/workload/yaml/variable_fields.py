"""The types of the fields of variables: data, numbers of items, and names of filters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, PlainValidator, WithJsonSchema

from kvtool.text.templates.application import NAME as FUNCTION_NAME
from kvtool.workload.yaml.fields import Json, as_int, as_json, as_str, described, fail

MOST_ITEMS = 1_000
"""Of a list that a variable makes."""


def _as_data(value: object) -> Json:
    """Return a text as written, a list or a mapping as data; their texts do not keep places, as a variable writes them."""
    return _without_places(as_json(value)) if isinstance(value, Mapping | list) else as_str(value)


def _without_places(value: Json) -> Json:
    if isinstance(value, Mapping):
        return {key: _without_places(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_places(item) for item in value]
    return str.__str__(value) if isinstance(value, str) else value


def _as_count(value: object) -> tuple[int, int]:
    """Return the least and the most of a number of items."""
    ends = [as_int(each) for each in (value if isinstance(value, list) else [value, value])]
    if len(ends) != 2:
        raise fail(f"expected a number, or the least and the most: [1, 5]; got {described(value)}")
    low, high = ends
    assert isinstance(low, int)
    assert isinstance(high, int)
    if not 0 <= low <= high <= MOST_ITEMS:
        raise fail(f"the least must be at least 0, the most at most {MOST_ITEMS:,}, and not below the least")
    return low, high


def _as_function_name(value: object) -> str:
    name = as_str(value)
    if not FUNCTION_NAME.fullmatch(name):
        raise fail(f"{described(value)} is not a name", "letters, digits and `_`, not a digit first")
    return name


DataField = Annotated[
    object, PlainValidator(_as_data), WithJsonSchema({"type": ["string", "number", "boolean", "array", "object"]})
]
"""What a text field takes, or a list or a mapping, whose values keep their types."""
CountField = Annotated[
    tuple[int, int],
    PlainValidator(_as_count),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": MOST_ITEMS},
                {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 2, "maxItems": 2},
            ]
        }
    ),
]
FunctionName = Annotated[
    str, BeforeValidator(_as_function_name), WithJsonSchema({"type": "string", "pattern": f"^{FUNCTION_NAME.pattern}$"})
]
"""The name of a filter or a test."""
