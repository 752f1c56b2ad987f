"""The lines of `kvtool logs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kvtool.accounting.log_clock import moment_of
from kvtool.results.documents.log_contents import LogExample, LogsDocument
from kvtool.text.terminal.console import put, put_field, sanitize, say
from kvtool.text.terminal.numbers import percent, plural
from kvtool.text.terminal.table import Column, put_table
from kvtool.workload.logs.formats.known_formats import format_titles

if TYPE_CHECKING:
    from rich.console import Console

_SIZE = 10
_MOST_MODELS = 6
_NO_CLOCK = 1e12
"""Seconds from which on digits say nothing."""


def print_logs(console: Console, document: LogsDocument, notes: Sequence[str]) -> None:
    """Print the contents of logs, an example of each kind, and notes, in lines no wider than the console."""
    put_field(console, "Format", sanitize(format_titles(document.format)), size=_SIZE, style="bold")
    put_field(console, "Records", f"{document.records:,}", *_became(document), size=_SIZE)
    put_field(console, "Sessions", _number(document.sessions), f"tenants: {_number(document.tenants)}", size=_SIZE)
    put_field(console, "Models", *_models(document.models), size=_SIZE)
    put_field(console, "Times", *_times(document), size=_SIZE)
    put_field(console, "Reported", *_usage(document), size=_SIZE)
    put_field(console, "Complete", *_cut(document), size=_SIZE)
    put(console)
    columns = (Column("Kind", "<"), Column("count"), Column("first", "<"), Column("", "<", keep=0))
    put_table(console, columns, [_row(each) for each in document.examples])
    if notes:
        put(console)
    for note in notes:
        say(console, note, hang=2, style="dim")


def _became(document: LogsDocument) -> list[str]:
    left_out = ", ".join(f"{sanitize(kind)} {count:,}" for kind, count in document.left_out_kinds.items())
    return [
        plural(document.requests, "request"),
        f"left out: {left_out}" if left_out else "",
        f"{plural(document.skipped, 'bad record')} skipped" if document.skipped else "",
        f"{plural(document.repeated, 'call')} logged twice" if document.repeated else "",
    ]


def _number(count: int) -> str:
    return f"{count:,}" if count else "none"


def _models(models: Mapping[str, int]) -> list[str]:
    named = [f"{sanitize(name)} {count:,}" for name, count in list(models.items())[:_MOST_MODELS]]
    return [*named, *([f"and {len(models) - _MOST_MODELS:,} more"] if len(models) > _MOST_MODELS else [])] or ["none"]


def _times(document: LogsDocument) -> list[str]:
    if document.first_time is None or document.last_time is None:
        return ["none"]
    if moment_of(document.last_time, 0.0) is None:  # where such times begin is unknown
        return ["no date", f"{_seconds(document.last_time - document.first_time)} from the first to the last"]
    return [f"{_time(document.first_time)} to {_time(document.last_time)}"]


def _time(seconds: float) -> str:
    moment = moment_of(seconds, 0.0)
    return _seconds(seconds) if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _seconds(seconds: float) -> str:
    return f"{seconds:,.3f} s" if seconds < _NO_CLOCK else f"{seconds:g} s"


def _usage(document: LogsDocument) -> list[str]:
    return [f"{name} tokens {count:,} of {document.requests:,}" for name, count in document.usage.items()] or [
        "no token counts"
    ]


def _cut(document: LogsDocument) -> list[str]:
    cut = sum(document.incomplete.values())
    if not cut:
        return ["no prompt seems incomplete"]
    causes = [f"{count:,}: {sanitize(cause)}" for cause, count in document.incomplete.items()]
    return [
        f"no, {cut:,} of {plural(document.requests, 'prompt')} incomplete ({percent(cut / document.requests)})",
        *causes,
    ]


def _row(example: LogExample) -> list[str]:
    place = sanitize(example.path) + ("" if example.line is None else f":{example.line}")
    return [sanitize(example.kind), f"{example.count:,}", place, sanitize(example.says)]
