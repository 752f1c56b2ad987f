"""`kvtool profile --events` beside what a real server published of the same requests: each field of each event, in order."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import pytest

pytest.importorskip("msgspec", reason="needs the extra `live`")

import msgspec

from kvtool.cli.app import run
from tests.measure.servers.recordings import recording


def test_events_are_those_of_a_server_field_by_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = recording("eviction")
    monkeypatch.setenv("PYTHONHASHSEED", "0")  # the server's
    written = tmp_path / "e.jsonl"
    server = ["--block-size", "32", "--num-gpu-blocks", "400", "--max-num-batched-tokens", "2048"]
    asked = ["profile", str(folder / "requests.jsonl.gz"), "--dry-run", "--no-advice", "--quiet"]
    assert run([*asked, *server, "--hash-algo", "sha256_cbor", "--events", str(written)]) == 0
    published = []
    with gzip.open(folder / "kv_events.jsonl.gz") as lines:
        for line in lines:
            for event in msgspec.msgpack.decode(base64.b64decode(json.loads(line)["payload_b64"]))[1]:
                event.pop("session_id", None)
                published.append(event)
    assert published.pop(0) == {"type": "AllBlocksCleared"}  # before the session
    ours = [json.loads(line) for line in written.read_text().splitlines()]
    assert [list(event.items()) for event in ours] == [list(event.items()) for event in published]
    assert len(ours) == 6560
