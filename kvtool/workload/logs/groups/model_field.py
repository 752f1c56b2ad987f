"""The field of a log's records that holds the model of a request."""

from __future__ import annotations

from itertools import islice

from kvtool.errors import KvtoolError
from kvtool.workload.logs.groups.detected_grouping import FLAG, SAMPLE
from kvtool.workload.logs.groups.field_paths import fields_of, parse_fields
from kvtool.workload.logs.logs import LogSource


def model_field(source: LogSource) -> str | None:
    """Return the field that has the model of each of the first requests as it was read; None where no field has all of them."""
    again = source.of_files(source.files.paths)  # its own pass: what the last one found stays
    found: list[str] | None = None
    try:
        for entry in islice(again.entries(), SAMPLE):
            if isinstance(entry, KvtoolError):
                continue
            model = entry.first.call.model
            found = [
                field
                for field in (fields_of(entry.value) if found is None else found)
                if field and parse_fields(field, FLAG)[0].value(entry.value) == model
            ]
            if not found:
                return None
    except KvtoolError:
        return None  # a pass over the log reports it
    return found[0] if found else None
