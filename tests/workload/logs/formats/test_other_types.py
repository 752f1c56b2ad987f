"""A list or an object where a format has a text: the record is read or refused with its place, in every format that tools write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kvtool.errors import KvtoolError
from tests.fuzz.log_samples import json_samples
from tests.workload.logs.formats.agent_rows import lines, rows
from tests.workload.logs.test_trace_exports import GENAI, otlp, span

_SAMPLES = {name: [json.loads(line) for line in data.splitlines()] for name, data in json_samples().items()}
_MORE: dict[str, list[Any]] = {
    "codex-compacted": [
        *_SAMPLES["codex"][:4],
        {"type": "compacted", "payload": {"replacement_history": [{"type": "compaction"}]}},
        *_SAMPLES["codex"][3:],
    ],
    "otlp-failed": [otlp(span("c", GENAI, parent="p", status={"code": "ERROR"}))],
}


def _texts(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each text."""
    if isinstance(value, str):
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _texts(inner, (*path, key))


def _with(records: list[Any], path: tuple[Any, ...], value: Any) -> list[Any]:
    made = json.loads(json.dumps(records))
    at = made
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return made  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", [*_SAMPLES, *_MORE])
def test_no_value_of_another_type_is_more_than_a_bad_record(name: str, tmp_path: Path) -> None:
    records = {**_SAMPLES, **_MORE}[name]
    for path in _texts(records):
        for value in ([["a"]], {"a": ["b"]}):
            with suppress(KvtoolError):
                rows(lines(tmp_path / "l.jsonl", _with(records, path, value)))
