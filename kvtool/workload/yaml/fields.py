"""The types of the fields of a workload file: each takes a YAML scalar as it was written and says in plain words what is wrong.

Text takes any scalar as written (`version: 1.10` as text is `1.10`, not `1.1`); numbers and booleans take only unquoted ones.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol, TypeVar

from pydantic import BeforeValidator, Field, PlainValidator, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError

from kvtool.text import quantities
from kvtool.text.files.yaml_nodes import Scalar
from kvtool.text.traced import Traced

T = TypeVar("T")
Json = object
"""What JSON can say; pydantic looks into annotations, and a recursive type would not end there."""
_LONGEST_NUMBER = 40  # characters: a bound for hostile files
_PREFIX, _FAMILY = "KV", "KV1"
_CODE = re.compile("KV[0-9]{0,3}")


@dataclass(frozen=True, slots=True)
class Pick:
    """How an entry of a list is chosen for each request; `exponent` is that of the Zipf distribution."""

    how: Literal["cycle", "random", "zipf"]
    exponent: float = 1.0


@dataclass(frozen=True, slots=True)
class Tools:
    """Function schemas written in the workload, or the file that holds them; `orders`: requests send them in so many orders."""

    schemas: list[Json] | None = None
    file: Traced | None = None
    orders: int | None = None


def fail(message: str, hint: str | None = None) -> PydanticCustomError:
    """Return a validation error whose message is for the user; half of a surrogate pair, which pydantic refuses, is escaped."""
    message = message.encode("utf-8", errors="backslashreplace").decode("utf-8")
    return PydanticCustomError("kvtool", "{message}", {"message": message, "hint": hint})


def described(value: object) -> str:
    """Return what the user wrote, in a few words."""
    if isinstance(value, Scalar):
        if value.kind == "null":
            return "nothing"
        return f"`{value.value}`" if len(value.value) <= _LONGEST_NUMBER and "\n" not in value.value else "a long text"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, str) and (len(value) > _LONGEST_NUMBER or "\n" in value):
        return "a long text"
    if isinstance(value, int) and abs(value) >= 10**_LONGEST_NUMBER:
        return "a long number"
    return f"`{value}`"


def as_text(value: object) -> Traced:
    if isinstance(value, Scalar) and value.kind != "null":
        return value.text
    if isinstance(value, str):
        return value if isinstance(value, Traced) else Traced(value)
    raise fail(f"expected text, got {described(value)}")


def as_str(value: object) -> str:
    return str.__str__(as_text(value))


def _as_interval(value: object) -> str:
    number = isinstance(value, int) and not isinstance(value, bool)  # TOML has numbers
    text = (str(value) if number else as_str(value)).strip().lower()
    if text != "none" and quantities.parse_digits(text, 0, quantities.MOST_INTERVAL) is None:
        raise fail('a number of tokens, or "none"')
    return text


def _as_name(value: object) -> str:
    text = as_str(value)
    if not text.strip() or text != text.strip():
        raise fail("a name must not be empty or begin or end with a space")
    if not text.isprintable():
        raise fail("a name must not contain control characters")
    return text


def as_int(value: object) -> object:
    if isinstance(value, Scalar):
        text = value.value
        if value.kind != "int" or len(text) > _LONGEST_NUMBER:
            raise fail(f"expected a whole number, got {described(value)}", _unquote(value, "int"))
        return int(text, 8) if text.startswith("0o") else int(text, 16) if text.startswith("0x") else int(text)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise fail(f"expected a whole number, got {described(value)}", _unquote(value, "int"))


def _as_float(value: object) -> object:
    number = value
    if isinstance(value, Scalar) and value.kind == "float" and len(value.value) <= _LONGEST_NUMBER:
        number = math.nan if value.value[-1] in "fFnN" else float(value.value)  # .inf and .nan
    elif isinstance(value, Scalar) and value.kind == "int" and len(value.value) <= _LONGEST_NUMBER:
        number = as_int(value)
    if isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number):
        return number
    raise fail(f"expected a number, got {described(value)}", _unquote(value, "int", "float"))


def _as_bool(value: object) -> object:
    if isinstance(value, Scalar) and value.kind == "bool":
        return value.value.lower() == "true"
    if isinstance(value, bool):
        return value
    hint = None
    text = value.value if isinstance(value, Scalar) else value
    if isinstance(text, str) and text.lower() in ("yes", "no", "on", "off", "true", "false"):
        hint = "write `true` or `false`"
    raise fail(f"expected true or false, got {described(value)}", hint)


def _unquote(value: object, *kinds: str) -> str | None:
    """Return a hint for a number that was put in quotes."""
    quoted = isinstance(value, Scalar) and value.style in ("'", '"')
    text = value.value if isinstance(value, Scalar) and quoted else value
    if isinstance(text, str) and text.isascii() and text.replace(".", "", 1).isdigit() and kinds:
        return f"remove the quotes: {text}"
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
    if as_int(value) != 1:
        raise fail(f"{described(value)} is unknown", "write `version: 1`")
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
    orders: int | None = None
    if isinstance(value, Mapping):
        keys = set(value)
        if keys not in ({"file"}, {"file", "orders"}, {"items"}, {"items", "orders"}):
            raise fail(
                "expected a list of function schemas, `{file: tools.json}` or `{items: […], orders: 4}`, got a mapping"
            )
        if "orders" in value:
            number = as_int(value["orders"])
            if not isinstance(number, int) or not 1 <= number <= MOST_ORDERS:
                raise fail(f"tools.orders: expected a number from 1 to {MOST_ORDERS:,}, got {described(number)}")
            orders = number
        if "file" in value:
            return Tools(file=as_text(value["file"]), orders=orders)
        value = value["items"]
    if not isinstance(value, list):
        raise fail(f"expected a list of function schemas or `{{file: tools.json}}`, got {described(value)}")
    for number, item in enumerate(value):
        if not isinstance(item, Mapping):
            raise fail(f"tools[{number}]: expected a function schema (a mapping), got {described(item)}")
    return Tools(schemas=[as_json(item) for item in value], orders=orders)


def as_json(value: object) -> Json:
    """Return a YAML tree as JSON data; texts keep their places."""
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_json(item) for item in value]
    if isinstance(value, Scalar):
        if value.kind == "null":
            return None
        if value.kind == "str":
            return value.text
        if value.kind == "bool":
            return value.value.lower() == "true"
        number = as_int(value) if value.kind == "int" else _as_float(value)
        assert isinstance(number, int | float)
        return number
    assert value is None or isinstance(value, str | int | float | bool)
    return value


class KnownCodes(Protocol):
    """The codes of findings that there are. They are declared above this room: who opens a file hands them down."""

    def codes(self) -> tuple[str, ...]:
        """Return all of them, in order."""
        ...

    def similar_code(self, code: str, /) -> str | None:
        """Return the one that was perhaps meant."""
        ...


def _as_code(value: object, info: ValidationInfo) -> str:
    """Return a code of a finding, or the beginning of one."""
    return _code(as_str(value), "", info.context)


def _as_finding_key(value: object, info: ValidationInfo) -> str:
    """Return the same, or a severity."""
    key = as_str(value)
    return key if key in SEVERITIES else _code(key, f", and {', '.join(SEVERITIES)} are severities", info.context)


def _code(text: str, others: str, known: KnownCodes | None) -> str:
    """Return a code, or the beginning of one, as it was written; without `known` codes only its shape is looked at."""
    code = text.upper()
    if known is None:
        if not _CODE.fullmatch(code):
            raise fail(f"unknown code {described(text)}", f"codes begin with {_PREFIX}{others}")
    elif not code.startswith(_PREFIX) or not any(each.startswith(code) for each in known.codes()):
        close = known.similar_code(text)
        first = next(each for each in known.codes() if each.startswith(_FAMILY))
        hint = f"write a code like {first}, or {_FAMILY} for a whole family{others}"
        raise fail(f"unknown code {described(text)}", f"did you mean {close}?" if close else hint)
    return text


SEVERITIES = ("error", "warning", "info")
_ANY = {"type": ["string", "number", "boolean"]}
"""What a text field takes: any scalar, as it was written."""
_NUMBER = r"[0-9]+(\.[0-9]+)?"
_TIME = rf"({_NUMBER} ?(ms|min|s|m|h|d|w) ?)+|{_NUMBER}"


def _amount(pattern: str, example: str, **number: object) -> dict[str, object]:
    """Return a JSON Schema: a text of this pattern, or a bare number."""
    text = {"type": "string", "pattern": rf"^\s*({pattern})\s*$"}
    return {"anyOf": [text, {"type": "number", **number}], "examples": [example]}


_JSON_RATIO: dict[str, object] = {"minimum": 0, "maximum": 1}
_NAME_SCHEMA = {"type": ["string", "number", "boolean"], "pattern": r"^\S(.*\S)?$"}
_PICK_SCHEMA = {
    "anyOf": [
        {"enum": ["cycle", "random", "zipf"]},
        {
            "type": "object",
            "properties": {"zipf": {"type": "number", "exclusiveMinimum": 0, "maximum": 100}},
            "required": ["zipf"],
            "additionalProperties": False,
        },
    ]
}
MOST_ORDERS = 10**6
_IN_ORDERS = {"orders": {"type": "integer", "minimum": 1, "maximum": MOST_ORDERS}}
_TOOLS_SCHEMA = {
    "anyOf": [
        {"type": "array", "items": {"type": "object"}},
        *(
            {
                "type": "object",
                "properties": {key: kind, **_IN_ORDERS},
                "required": [key],
                "additionalProperties": False,
            }
            for key, kind in (("file", _ANY), ("items", {"type": "array", "items": {"type": "object"}}))
        ),
    ]
}

Text = Annotated[Traced, PlainValidator(as_text), WithJsonSchema(_ANY)]
Str = Annotated[str, BeforeValidator(as_str), WithJsonSchema(_ANY)]
Name = Annotated[str, BeforeValidator(_as_name), WithJsonSchema(_NAME_SCHEMA)]
Value = Annotated[str, BeforeValidator(as_str), WithJsonSchema(_ANY)]
Interval = Annotated[
    str,
    BeforeValidator(_as_interval),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^([0-9]{1,9}|none)$"}]}
    ),
]
Bool = Annotated[bool, BeforeValidator(_as_bool)]
Integer = Annotated[int, Field(ge=-(2**53), le=2**53), BeforeValidator(as_int)]
Natural = Annotated[int, Field(ge=0, le=2**53), BeforeValidator(as_int)]
Count = Annotated[int, Field(ge=1, le=10**9), BeforeValidator(as_int)]
HostMib = Annotated[int, Field(ge=-1, le=2**31), BeforeValidator(as_int)]
Percentage = Annotated[int, Field(ge=0, le=100), BeforeValidator(as_int)]
PoolBlocks = Annotated[int, Field(ge=2, le=10**9), BeforeValidator(as_int)]
Tokens = Annotated[int, Field(ge=0, le=2**27), BeforeValidator(as_int)]
OutputTokens = Annotated[int, Field(ge=1, le=2**27), BeforeValidator(as_int)]
Weight = Annotated[float, Field(ge=0, le=1e12), BeforeValidator(_as_float)]
Share = Annotated[float, Field(ge=0, le=1), BeforeValidator(_as_float)]
Fraction = Annotated[float, Field(gt=0, le=1), BeforeValidator(_as_float)]
Version = Annotated[Literal[1], PlainValidator(_as_version), WithJsonSchema({"const": 1})]
Duration = Annotated[
    float, PlainValidator(_parsed(quantities.parse_duration)), WithJsonSchema(_amount(_TIME, "1m", minimum=0))
]
Rate = Annotated[
    float,
    PlainValidator(_parsed(quantities.parse_rate)),
    WithJsonSchema(_amount(rf"{_NUMBER}( ?/ ?(s|sec|second|m|min|minute|h|hour))?", "8/s", exclusiveMinimum=0)),
]
Bytes = Annotated[
    int,
    PlainValidator(_parsed(quantities.parse_bytes)),
    WithJsonSchema({"type": "string", "pattern": rf"^\s*{_NUMBER} ?([kKmMgGtT][iI]?)?[bB]\s*$", "examples": ["24GiB"]}),
]
CapacityField = Annotated[
    quantities.Capacity,
    PlainValidator(_parsed(quantities.parse_capacity)),
    WithJsonSchema(
        _amount(
            rf"{_NUMBER} ?(([kKmMgGtT][iI]?)?[bB]|[kKmM]? ?([bB][lL][oO][cC][kK][sS]?|[tT][oO][kK][eE][nN][sS]?)?)",
            "20GiB",
            minimum=1,
        )
    ),
]
ThresholdField = Annotated[
    float,
    PlainValidator(_parsed(quantities.parse_threshold)),
    WithJsonSchema(_amount(rf"(>=)? ?{_NUMBER} ?%?", ">=80%", **_JSON_RATIO)),
]
"""A ratio that must at least be reached."""
LimitField = Annotated[
    float,
    PlainValidator(_parsed(quantities.parse_limit)),
    WithJsonSchema(_amount(rf"(<=)? ?{_NUMBER} ?%?", "<=5%", **_JSON_RATIO)),
]
"""A ratio that must not be exceeded."""
CostField = Annotated[
    float,
    PlainValidator(_parsed(quantities.parse_cost)),
    WithJsonSchema(_amount(rf"(<=)? ?\$? ?{_NUMBER}", "<=$4", minimum=0)),
]
"""Dollars that something may cost."""
LongestField = Annotated[
    float,
    PlainValidator(_parsed(quantities.parse_longest)),
    WithJsonSchema(_amount(rf"(<=)? ?({_TIME})", "<=50ms", exclusiveMinimum=0)),
]
"""Seconds that something may take."""
FindingKey = Annotated[str, BeforeValidator(_as_finding_key)]
FINDING_KEY_PATTERN = rf"^([kK][vV][0-9]{{0,3}}|{'|'.join(SEVERITIES)})$"
CodeField = Annotated[
    str, BeforeValidator(_as_code), WithJsonSchema({"type": "string", "pattern": "^[kK][vV][0-9]{0,3}$"})
]
PickField = Annotated[Pick, PlainValidator(_as_pick), WithJsonSchema(_PICK_SCHEMA)]
ToolsField = Annotated[Tools, PlainValidator(_as_tools), WithJsonSchema(_TOOLS_SCHEMA)]
