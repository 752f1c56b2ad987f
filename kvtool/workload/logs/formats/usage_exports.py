"""Usage exports of providers: rows that sum requests, or that are one, without prompts. The table is `usage_exports.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from kvtool.text.bounded_number import whole_number
from kvtool.workload.call import CacheScope, Call, CallSettings, SummedRequests, Usage
from kvtool.workload.logs.records.call_fields import decimal_of
from kvtool.workload.logs.records.incomplete_prompts import NO_PROMPT, SUMMED
from kvtool.workload.logs.records.record import Record
from kvtool.workload.logs.records.record_format import Fields, LeftOut, Reading, RecordFormat
from kvtool.workload.logs.records.usage import checked, count_of

BILLED_BY = "billed_by"
"""The field that the rows of an export get: its name."""
_UNUSED = LeftOut("row without usage")
_TRUE = ("true", "1")
_MOST = 1 << 50
"""Tokens in a row: a bound for hostile tables."""
_LONG = 200_001
"""Tokens from which a long context has a price of its own."""


@dataclass(frozen=True, slots=True)
class UsageExport:
    """What the columns of an export hold."""

    name: str
    provider: str
    columns: tuple[str, ...]
    time: str
    model: str
    prompt: tuple[str, ...]
    cached: str
    output: str
    written: str = ""
    written_5m: str = ""
    written_1h: str = ""
    written_12h: str = ""
    """Beside `written`, not a part of this column."""
    cost: str = ""
    requests: str | None = None
    window: str = ""
    long: tuple[str, ...] = ()
    variant: str = ""


@cache
def usage_exports() -> tuple[UsageExport, ...]:
    """Return all exports, in the order of the table."""
    table = tomllib.loads(files(__package__).joinpath("usage_exports.toml").read_text(encoding="utf-8"))
    return tuple(_export(row) for row in table["export"])


def _export(row: dict[str, Any]) -> UsageExport:
    made: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in row.items()}
    return UsageExport(**made)


def export_of_table(columns: Collection[str]) -> UsageExport | None:
    """Return the export that has these columns; None where none does."""
    return next((each for each in usage_exports() if set(columns) >= set(each.columns)), None)


def billed_row(export: UsageExport, row: Fields) -> Fields:
    """Return a row of an export as a record: with the export's name, and its time where all records have it."""
    return {BILLED_BY: export.name, **row, **({"timestamp": row[export.time]} if export.time in row else {})}


def _export_of(fields: Fields) -> UsageExport | None:
    return next((each for each in usage_exports() if each.name == fields.get(BILLED_BY)), None)


def read(record: Record) -> Reading:
    """Return a request of one token, which is in place of the prompts of a row, and what the row says of them."""
    export = _export_of(record.fields)
    assert export is not None
    usage = _usage(record, export)
    if usage is None:
        return _UNUSED
    fields = record.fields
    summed = None if export.requests is None else _summed(record, export, usage.prompt or 0)
    call = Call(
        model=_model(fields, export),
        provider=export.provider,
        tenant=_word(fields.get("user_id")) or _word(fields.get("user")),
        request_id=_word(fields.get("generation_id")),
        project=_word(fields.get("project_id")) or _word(fields.get("workspace")),
        usage=usage,
        scope=CacheScope(workspace=_word(fields.get("project_id")) or _word(fields.get("workspace"))),
        settings=CallSettings(service_tier=_tier(fields), batch=_is_batch(fields)),
        cost=decimal_of(fields.get(export.cost)),
        incomplete=NO_PROMPT if summed is None else SUMMED,
        summed=summed,
    )
    return [record.promptless_turn(call)]


def _usage(record: Record, export: UsageExport) -> Usage | None:
    """Return the counts of a row; None where it has none. RecordError for counts that cannot be."""

    def count(name: str) -> int | None:
        value = record.fields.get(name)
        if not name or value is None:
            return None
        number = whole_number(value, least=-_MOST, most=_MOST, in_text=True)
        return count_of(value, name, record.pointer) if number is None else number

    parts = [number for name in export.prompt if (number := count(name)) is not None]
    output = count(export.output)
    if not sum(parts) and not output:
        return None
    short, long = count(export.written_5m), count(export.written_1h)
    written = count(export.written)
    if written is None and (short is not None or long is not None):
        written = (short or 0) + (long or 0)
    half_day = count(export.written_12h)
    if half_day is not None:
        written = (written or 0) + half_day
    return checked(Usage(sum(parts), count(export.cached), written, short, long, output, written_12h=half_day))


def _summed(record: Record, export: UsageExport, prompt: int) -> SummedRequests:
    """Return how many requests a row sums, and the prompt of one of them."""
    if export.requests and (requests := whole_number(record.fields.get(export.requests), least=1, in_text=True)):
        return SummedRequests(requests, prompt // requests)
    is_long = str(record.fields.get(export.window, "")).startswith(export.long)
    return SummedRequests(None, _LONG if is_long else 0)


def _model(fields: Fields, export: UsageExport) -> str | None:
    model, variant = (_word(fields.get(name)) for name in (export.model, export.variant))
    return model if variant in (None, "standard") else f"{model}:{variant}"


def _tier(fields: Fields) -> str | None:
    return _word(fields.get("service_tier")) or (fast if (fast := _word(fields.get("speed"))) == "fast" else None)


def _is_batch(fields: Fields) -> bool:
    return str(fields.get("batch")).lower() in _TRUE or fields.get("usage_type") == "batch"


def _word(value: object) -> str | None:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip() else None


_EXAMPLE = """
{"billed_by": "OpenAI", "start_time": 1764547200, "num_model_requests": 12, "model": "gpt-5-2025-08-07", "input_tokens": 24000,
 "input_cached_tokens": 16000, "output_tokens": 1200, "timestamp": 1764547200}
"""
FORMAT = RecordFormat(
    "usage-export",
    "rows of a usage export",
    lambda fields: _export_of(fields) is not None,
    read,
    unit="s",
    example=_EXAMPLE,
)
