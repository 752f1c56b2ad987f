"""A trace whose lines are looked at without parsing is surveyed as one whose lines are parsed."""

from __future__ import annotations

import json
import random
from itertools import count
from pathlib import Path

import pytest

from kvtool.workload.logs.files import log_file
from kvtool.workload.logs.files.log_file import LogFile
from kvtool.workload.logs.survey import Survey
from tests.conftest import some


def surveyed(path: Path) -> Survey:
    log = LogFile(str(path), str(path), "g", 512, None, count(1))
    return log.survey(lambda _id: None, lambda _key, _number: None)


@pytest.mark.parametrize("seed", some(range(4), 2))
def test_times_are_those_that_parsing_finds(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    path = tmp_path / "trace.jsonl"
    lines = []
    for number in range(60):
        time = rng.choice([number * 1000, rng.randrange(10**9), 1_700_000_000_000 + number])
        record = {"timestamp": time, "input_length": 600, "output_length": 5, "hash_ids": [0, number]}
        if rng.random() < 0.1:
            del record["timestamp"]
        lines.append(rng.choice(["{broken", "", json.dumps(record)]) if rng.random() < 0.1 else json.dumps(record))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    quick = surveyed(path)
    monkeypatch.setattr(log_file, "time_in_line", lambda _data: None)
    careful = surveyed(path)
    assert quick.first() == careful.first()
    assert quick.any == careful.any
    for name in ("_times", "_records", "_calls", "_untimed"):
        assert repr(getattr(quick, name)) == repr(getattr(careful, name))
    assert (quick.order() is None) == (careful.order() is None)
