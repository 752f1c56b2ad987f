"""What a process spends on looking for cycles: next to nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_COUNTED = """
import gc, sys
counts = [0]
gc.callbacks.append(lambda phase, info: counts.__setitem__(0, counts[0] + (phase == "start")))
from kvtool.__main__ import main
try:
    main()
finally:
    print(counts[0], gc.get_freeze_count() > 10_000, file=sys.stderr)
"""


def test_a_command_looks_for_cycles_a_few_times(tmp_path: Path) -> None:
    """With the thresholds that Python begins with, this one did so 170 times, which took a fifth of its time."""
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}\n')
    command = [sys.executable, "-c", _COUNTED, "profile", str(trace), "--dry-run", "--no-config"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    count, frozen = ended.stderr.split()[-2:]
    assert int(count) < 40
    assert frozen == "True"
