"""KV events as a server publishes them, made of the engine's own."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from kvtool.accounting.event_writer import event_fields
from kvtool.config.asked_run import RunOptions
from kvtool.engine.events import Event
from kvtool.measure.servers.kv_events.event_reuse import AnsweredPrompt
from kvtool.profiler.opening import open_workload
from kvtool.text.tokens.tokenizer import Tokenizers
from kvtool.workload.jobs import JobMaker
from kvtool.workload.logs.logs import LogOptions
from kvtool.workload.prompts_in_memory import MemorySource

RECORDINGS = Path(__file__).resolve().parents[4] / "shared" / "data" / "live-vllm-0.32"
"""Recorded sessions, which hold other people's prompts: they stay outside."""


def payload(events: Sequence[object], *, at: float = 1.0, rank: int | None = 0) -> bytes:
    """A batch."""
    return msgspec.msgpack.encode([at, events, rank])


def stored(
    hashes: Sequence[int | bytes], tokens: Sequence[int], parent: int | None = None, **more: object
) -> dict[str, Any]:
    """Blocks stored, as a map."""
    size = len(tokens) // len(hashes)
    fields = {"block_hashes": hashes, "parent_block_hash": parent, "token_ids": tokens, "block_size": size}
    return {"type": "BlockStored", **fields, "medium": "GPU", **more}


def removed(*hashes: int) -> dict[str, Any]:
    """Blocks removed, as a map."""
    return {"type": "BlockRemoved", "block_hashes": hashes, "medium": "GPU", "group_idx": 0}


CLEARED = {"type": "AllBlocksCleared"}


def as_rows(events: Iterable[dict[str, Any]]) -> list[list[Any]]:
    """Events as older servers write them: arrays, by position."""
    order = (
        "block_hashes",
        "parent_block_hash",
        "token_ids",
        "block_size",
        "lora_id",
        "medium",
        "lora_name",
        "extra_keys",
    )
    names = {"BlockStored": order, "BlockRemoved": ("block_hashes", "medium"), "AllBlocksCleared": ()}
    return [[event["type"], *(event.get(name) for name in names[event["type"]])] for event in events]


def of_engine(events: Iterable[Event], block_size: int, session: str | None = None) -> list[dict[str, Any]]:
    """The engine's events as maps, stored for a session."""
    made = [event_fields(event, block_size) for event in events]
    return [{**each, "session_id": session} if session and each["type"] == "BlockStored" else each for each in made]


def write_recorded(path: Path, payloads: Sequence[bytes], *, first: int = 0) -> Path:
    """A file of messages, as a recording holds it."""
    lines = [
        {"at": 1.0, "topic": "", "seq": first + number, "payload_b64": base64.b64encode(data).decode()}
        for number, data in enumerate(payloads)
    ]
    path.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))
    return path


@cache
def recorded_prompts(folder: Path) -> tuple[list[dict[str, Any]], list[AnsweredPrompt]]:
    """The answered requests of a recording, and their prompts."""
    with gzip.open(folder / "requests.jsonl.gz") as lines:
        rows = [row for row in map(json.loads, lines) if row["status"] == 200]
    meta = folder / "meta.json"
    start = json.loads(meta.read_text())["start_unix"] if meta.exists() else None
    source = MemorySource(
        [{"request": row["body"], "response": row["response"]} for row in rows], LogOptions(by_time=False)
    )
    opened = open_workload(RunOptions(inputs=["x"]), Tokenizers(offline=True), source=source)
    maker = JobMaker(opened.renderer, seed=0)
    turns = [turn for each in source.conversations() if (turn := each.next_turn(None)) is not None]
    prompts = [
        AnsweredPrompt(
            row["session_id"],
            maker.make(turn).ids.tolist(),
            row["response"]["choices"][0]["token_ids"],
            row["session_id"],
            sent=None if start is None else start + row["sent"],
            done=None if start is None else start + row["done"],
        )
        for row, turn in zip(rows, turns, strict=True)
    ]
    return rows, prompts
