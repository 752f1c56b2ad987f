"""Alpaca's rows for training: `instruction`, what it is about in `input`, and the answer."""

from __future__ import annotations

from kvtool.workload.logs.records.call_fields import call_of
from kvtool.workload.logs.records.record import Record
from kvtool.workload.logs.records.record_readings import Turns


def read(record: Record) -> Turns:
    """The instruction and, behind a blank line, its input."""
    text = record.text(record.fields["instruction"], "instruction", part="instruction (user)")
    if isinstance(about := record.fields.get("input"), str) and about:
        text = text + "\n\n" + record.text(about, "input", part="input (user)")
    answer = record.first("output", "response")
    return [
        record.turn(
            call=call_of(record),
            messages=[{"role": "user", "content": text}],
            output_text=answer if isinstance(answer, str) else None,
        )
    ]
