"""Made-up logs, and what is read of them, as tests look at it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kvtool.workload.logs.logs import LogOptions, LogSource
from kvtool.workload.logs.overview import row_of

SYSTEM = "You keep the library of Lower Fenwick. " * 8
START = 1_770_000_000.0


def write(path: Path, records: Sequence[Any]) -> str:
    """JSON lines."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(path)


def document(path: Path, value: Any) -> str:
    """One JSON value, on many lines."""
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
    return str(path)


def read(*paths: str, **options: Any) -> tuple[list[dict[str, Any]], LogSource]:
    """Rows of the requests, and the source that gave them."""
    source = LogSource(list(paths), LogOptions(**options))
    rows = []
    for conversation in source.conversations():
        while (turn := conversation.next_turn(None)) is not None:
            rows.append(row_of(turn, source.epoch))
    return rows, source


def chat(number: int, *, session: str = "loan-1", sent: int = 90, cached: int = 0) -> dict[str, Any]:
    """A call of the chat API beside its answer."""
    return {
        "timestamp": START + 10 * number,
        "session_id": session,
        "user_id": "fenwick",
        "request": {
            "model": "gpt-5.5",
            "messages": [
                {"role": "system", "content": SYSTEM},
                {"role": "user", "content": f"Is book {number} on loan?"},
            ],
        },
        "response": {
            "id": f"chatcmpl-{number}",
            "choices": [{"message": {"role": "assistant", "content": f"Book {number} is here."}}],
            "usage": {
                "prompt_tokens": sent,
                "completion_tokens": 6,
                "prompt_tokens_details": {"cached_tokens": cached},
            },
        },
    }
