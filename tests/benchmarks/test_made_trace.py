"""The made trace is the same for the same seed, reads as a Mooncake trace, and is like one."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.made_trace import BLOCK, write_trace
from kvtool.workload.logs.logs import LogOptions, LogSource


def test_a_made_trace(tmp_path: Path) -> None:
    one, same, other = (tmp_path / name for name in ("one.jsonl", "same.jsonl", "other.jsonl"))
    write_trace(one, 2_000, seed=1)
    write_trace(same, 2_000, seed=1)
    write_trace(other, 2_000, seed=2)
    assert one.read_bytes() == same.read_bytes() != other.read_bytes()
    assert len(list(LogSource([str(one)], LogOptions()).conversations())) == 2_000
    seen: set[int] = set()
    known = references = 0
    before = 0
    for line in one.read_text().splitlines():
        record = json.loads(line)
        ids = record["hash_ids"]
        assert len(ids) == -(-record["input_length"] // BLOCK)
        assert record["timestamp"] >= before
        before = record["timestamp"]
        at = next((at for at, block in enumerate(ids) if block not in seen), len(ids))
        assert not seen.intersection(ids[at:]), "what is known is a prefix"
        seen.update(ids)
        known += at
        references += len(ids)
    assert 18 < references / 2_000 < 32
    assert 0.3 < known / references < 0.45
