"""The types of the fields of a workload file: each takes a YAML scalar as it was written and says in plain words what is wrong.

Text takes any scalar as written (`version: 1.10` as text is `1.10`, not `1.1`); numbers and booleans take only unquoted ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from pydantic import BeforeValidator, Field, PlainValidator
from pydantic_core import PydanticCustomError

from kvtool.text import Traced
from kvtool.workload import quantities
from kvtool.workload.yaml_nodes import Scalar

T = TypeVar("T")
Json = object
"""What JSON can say; pydantic looks into annotations, and a recursive type would not end there."""
_LONGEST_NUMBER = 40


@dataclass(frozen=True, slots=True)
class Pick:
    """How an entry of a list is chosen for each request; `exponent` is that of the Zipf distribution."""

    how: Literal["cycle", "random", "zipf"]
    exponent: float = 1.0


@dataclass(frozen=True, slots=True)
class Tools:
    """Function schemas written in the workload, or the file that holds them."""

    schemas: list[Json] | None = None
    file: Traced | None = None


def fail(message: str, hint: str | None = None) -> PydanticCustomError:
    """A validation error whose message is for the user."""
    return PydanticCustomError("kvtool", "{message}", {"message": message, "hint": hint})


def described(value: object) -> str:
    """What the user wrote, in a few words."""
    if isinstance(value, Scalar):
        if value.kind == "null":
            return "nothing"
        return f"`{value.value}`" if len(value.value) <= _LONGEST_NUMBER and "\n" not in value.value else "a long text"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return f"`{value}`"


def as_text(value: object) -> Traced:
    if isinstance(value, Scalar) and value.kind != "null":
        return value.text
    if isinstance(value, str):
        return value if isinstance(value, Traced) else Traced(value)
    raise fail(f"expected text, got {described(value)}")


def as_str(value: object) -> str:
    return str.__str__(as_text(value))


def _as_name(value: object) -> str:
    text = as_str(value)
    if not text.strip() or text != text.strip():
        raise fail("a name must not be empty or begin or end with a space")
    if not text.isprintable():
        raise fail("a name must not contain control characters")
    return text


def _as_int(value: object) -> object:
    if isinstance(value, Scalar):
        text = value.value
        if value.kind != "int" or len(text) > _LONGEST_NUMBER:
            raise fail(f"expected a whole number, got {described(value)}", _unquote(value, "int"))
        return int(text, 8) if text.startswith("0o") else int(text, 16) if text.startswith("0x") else int(text)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise fail(f"expected a whole number, got {described(value)}")


def _as_float(value: object) -> object:
    number = value
    if isinstance(value, Scalar) and value.kind == "float" and len(value.value) <= _LONGEST_NUMBER:
        number = math.nan if value.value[-1] in "fFnN" else float(value.value)  # .inf and .nan
    elif isinstance(value, Scalar) and value.kind == "int" and len(value.value) <= _LONGEST_NUMBER:
        number = _as_int(value)
    if isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number):
        return number
    raise fail(f"expected a number, got {described(value)}", _unquote(value, "int", "float"))


def _as_bool(value: object) -> object:
    if isinstance(value, Scalar) and value.kind == "bool":
        return value.value.lower() == "true"
    if isinstance(value, bool):
        return value
    hint = None
    if isinstance(value, Scalar) and value.value.lower() in ("yes", "no", "on", "off", "true", "false"):
        hint = "write `true` or `false`"
    raise fail(f"expected true or false, got {described(value)}", hint)


def _unquote(value: object, *kinds: str) -> str | None:
    """A hint for a number that was put in quotes."""
    if isinstance(value, Scalar) and value.style in ("'", '"') and value.value.replace(".", "", 1).isdigit() and kinds:
        return f"leave the quotes out: {value.value}"
    return None


def _parsed(parse: Callable[[str], T]) -> Callable[[object], T]:
    def validate(value: object) -> T:
        try:
            return parse(as_str(value)) if isinstance(value, Scalar | str) else parse(_number_text(value))
        except ValueError as error:
            raise fail(str(error)) from error

    return validate


def _number_text(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise fail(f"expected one value, got {described(value)}")


def _as_version(value: object) -> Literal[1]:
    if _as_int(value) != 1:
        raise fail(f"{described(value)} is not known", "this kvtool reads `version: 1`")
    return 1


def _as_pick(value: object) -> Pick:
    if isinstance(value, Scalar | str):
        how = as_str(value)
        if how == "cycle" or how == "random":
            return Pick("cycle" if how == "cycle" else "random")
        if how == "zipf":
            return Pick("zipf")
    elif isinstance(value, Mapping) and set(value) == {"zipf"}:
        exponent = _as_float(value["zipf"])
        assert isinstance(exponent, int | float)
        if not 0 < exponent <= 100:
            raise fail("the exponent of zipf must be above 0 and at most 100")
        return Pick("zipf", float(exponent))
    raise fail(f"expected `cycle`, `random` or `{{zipf: 1.1}}`, got {described(value)}")


def _as_tools(value: object) -> Tools:
    if isinstance(value, Mapping):
        if set(value) != {"file"}:
            raise fail("expected a list of function schemas or `{file: tools.json}`, got a mapping")
        return Tools(file=as_text(value["file"]))
    if not isinstance(value, list):
        raise fail(f"expected a list of function schemas or `{{file: tools.json}}`, got {described(value)}")
    for number, item in enumerate(value):
        if not isinstance(item, Mapping):
            raise fail(f"tools[{number}]: expected a function schema (a mapping), got {described(item)}")
    return Tools(schemas=[_as_json(item) for item in value])


def _as_json(value: object) -> Json:
    """A YAML tree as JSON data; texts keep their places."""
    if isinstance(value, Mapping):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    if isinstance(value, Scalar):
        if value.kind == "null":
            return None
        if value.kind == "str":
            return value.text
        if value.kind == "bool":
            return value.value.lower() == "true"
        number = _as_int(value) if value.kind == "int" else _as_float(value)
        assert isinstance(number, int | float)
        return number
    assert value is None or isinstance(value, str | int | float | bool)
    return value


Text = Annotated[Traced, PlainValidator(as_text, json_schema_input_type=str)]
Str = Annotated[str, BeforeValidator(as_str)]
Name = Annotated[str, BeforeValidator(_as_name)]
Value = Annotated[str, BeforeValidator(as_str)]
Bool = Annotated[bool, BeforeValidator(_as_bool)]
Integer = Annotated[int, BeforeValidator(_as_int), Field(ge=-(2**53), le=2**53)]
Count = Annotated[int, BeforeValidator(_as_int), Field(ge=1, le=10**9)]
Tokens = Annotated[int, BeforeValidator(_as_int), Field(ge=0, le=2**27)]
OutputTokens = Annotated[int, BeforeValidator(_as_int), Field(ge=1, le=2**27)]
Weight = Annotated[float, BeforeValidator(_as_float), Field(ge=0, le=1e12)]
Fraction = Annotated[float, BeforeValidator(_as_float), Field(gt=0, le=1)]
Version = Annotated[Literal[1], PlainValidator(_as_version, json_schema_input_type=Literal[1])]
Duration = Annotated[float, PlainValidator(_parsed(quantities.parse_duration), json_schema_input_type=str | float)]
Rate = Annotated[float, PlainValidator(_parsed(quantities.parse_rate), json_schema_input_type=str | float)]
Bytes = Annotated[int, PlainValidator(_parsed(quantities.parse_bytes), json_schema_input_type=str)]
CapacityField = Annotated[
    quantities.Capacity, PlainValidator(_parsed(quantities.parse_capacity), json_schema_input_type=str | int)
]
ThresholdField = Annotated[
    float, PlainValidator(_parsed(quantities.parse_threshold), json_schema_input_type=str | float)
]
PickField = Annotated[Pick, PlainValidator(_as_pick, json_schema_input_type=str | dict[str, float])]
ToolsField = Annotated[
    Tools, PlainValidator(_as_tools, json_schema_input_type=list[dict[str, object]] | dict[str, str])
]
