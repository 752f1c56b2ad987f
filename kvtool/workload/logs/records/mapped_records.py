"""Records of a shape that nobody knows: `--map messages=payload.req.messages,session=meta.chat` says where everything is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvtool.errors import KvtoolError
from kvtool.workload.logs.files.plain_text_files import TEXT_FORMAT
from kvtool.workload.logs.formats.known_formats import format_named
from kvtool.workload.logs.groups.field_paths import FieldPath, parse_fields
from kvtool.workload.logs.records.call_context import FieldsAround, call_from
from kvtool.workload.logs.records.call_fields import decimal_of, names_of
from kvtool.workload.logs.records.failed_calls import FAILED, has_failed
from kvtool.workload.logs.records.record import Record, parsed_text, seconds
from kvtool.workload.logs.records.record_format import Reading, RecordFormat
from kvtool.workload.logs.records.usage import usage_of

FLAG = "--map"
_PROMPTS = ("messages", "prompt")
NAMES = (
    *_PROMPTS,
    *("tools", "session", "tenant", "time", "end", "model", "provider", "usage", "output", "id", "cost"),
)
_FORM = "write a map like messages=payload.req.messages,session=meta.chat,time=ts,usage=payload.res.usage"


@dataclass(frozen=True, slots=True)
class Way:
    """A path that may go through all elements of lists (`[]`) and into texts that are JSON."""

    parts: tuple[FieldPath | None, ...]
    """Between the `[]`; None: nothing is there."""

    def value(self, record: object) -> Any:
        """Return the value at the path; None where there is none."""
        found: Any = record
        for at, part in enumerate(self.parts):
            if at:
                rest = Way(self.parts[at:])
                found = _object(found)
                return [rest._first(each) for each in found] if isinstance(found, list) else None
            found = found if part is None else _stepped(part, found)
        return found

    def _first(self, element: object) -> Any:
        part = self.parts[0]
        found = element if part is None else _stepped(part, element)
        return Way((None, *self.parts[1:])).value(found) if len(self.parts) > 1 else found


def requested_format(text: str | None) -> RecordFormat | None:
    """Return the format that a user asked for, by its name or as a map; None: each record has its own, or files are prompts.

    KvtoolError where it is neither.
    """
    if text is None or text == TEXT_FORMAT:
        return None
    return mapped_format(text) if "=" in text else format_named(text)


def mapped_format(text: str) -> RecordFormat:
    """Return the format that a map describes; KvtoolError for what is none."""
    ways: dict[str, Way] = {}
    for piece in text.split(","):
        name, sign, path = (part.strip() for part in piece.partition("="))
        if not sign or not path:
            raise KvtoolError(f"{FLAG}: `{piece.strip()[:60]}` is not NAME=PATH", hint=_FORM)
        if name not in NAMES:
            raise KvtoolError(f"{FLAG}: unknown name `{name[:40]}`", hint=f"known names: {', '.join(NAMES)}")
        if name in ways:
            raise KvtoolError(f"{FLAG}: `{name}` appears twice", hint=_FORM)
        ways[name] = way_of(path)
    prompt = next((name for name in _PROMPTS if name in ways), None)
    if prompt is None:
        raise KvtoolError(f"{FLAG} names no prompt", hint=_FORM)
    way = ways[prompt]
    return RecordFormat(
        "map",
        f"{prompt} at {text[:200]}",
        lambda fields: way.value(fields) is not None,
        lambda record: _read(record, ways),
    )


def way_of(path: str, flag: str = FLAG) -> Way:
    """Return the way that a path describes; KvtoolError, which names `flag`, for what is none."""
    if not path.replace("[]", "").strip("."):
        raise KvtoolError(f"{flag} names no field: `{path}`", hint="write a path like meta.customer or tags[0]")
    parts = [part.strip(".") for part in path.split("[]")]
    return Way(tuple(parse_fields(part, flag)[0] if part else None for part in parts))


def _read(record: Record, ways: Mapping[str, Way]) -> Reading:
    """Return the request of a record."""

    def at(name: str) -> Any:
        return ways[name].value(record.fields) if name in ways else None

    if has_failed(record):
        return FAILED
    usage = _object(at("usage"))
    around = FieldsAround(
        session=names_of([at("session")]),
        time=seconds(at("time"), "s"),
        end=seconds(at("end"), "s"),
        identity=names_of([at("id")]),
        value=record.fields,
        model=names_of([at("model")]),
        provider=names_of([at("provider")]),
        tenant=names_of([at("tenant")]),
        usage=usage_of(usage, record.pointer),
        cost=decimal_of(at("cost")),
    )
    name = next(name for name in _PROMPTS if name in ways)
    tools = _object(at("tools"))
    found = call_from(record, at(name), around, answer=at("output"), beside={"tools": tools} if tools else None)
    if found is None:
        raise record.error(f"{FLAG}: `{name}` contains neither messages nor text", hint=_FORM)
    return found


def _stepped(path: FieldPath, value: object) -> Any:
    """Return the value at a path, also inside texts that are JSON."""
    if isinstance(value, dict) and path.text in value:
        return value[path.text]
    for step in path.steps:
        value = _object(value)
        if isinstance(step, str) and isinstance(value, dict):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, list) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def _object(value: Any) -> Any:
    parsed = parsed_text(value) if isinstance(value, str) else None
    return value if parsed is None else parsed
