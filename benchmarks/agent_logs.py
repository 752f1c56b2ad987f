"""Logs of agents, cold: an empty cache folder, so that the tokenizer is prepared too. Against tokenizing every prompt once.

python benchmarks/agent_logs.py LOG.jsonl...
"""

from __future__ import annotations

import os
import sys
import tempfile

from timing import machine, time_process

TOKENIZE = """
import json, sys
from kvtool.text.tokens.tokenizer_files import find_tokenizer
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_buffer(find_tokenizer(None, offline=True).data)
tokens = 0
for path in sys.argv[1:]:
    for line in open(path):
        tokens += len(tokenizer.encode(json.loads(line)["input"]).ids)
print(tokens)
"""


def main(logs: list[str]) -> None:
    print(machine())
    size = sum(os.path.getsize(log) for log in logs)  # noqa: PTH202 - one figure, no Path needed
    print(f"{len(logs)} files, {size / 1e6:.1f} MB")
    profile = [sys.executable, "-m", "kvtool", "profile", *logs, "--dry-run"]
    with tempfile.TemporaryDirectory() as cache:
        cold = time_process(profile, runs=1, warm_up=0, env={"XDG_CACHE_HOME": cache})
        warm = time_process(profile, env={"XDG_CACHE_HOME": cache})
        plain = time_process([sys.executable, "-c", TOKENIZE, *logs], runs=1, warm_up=0, env={"XDG_CACHE_HOME": cache})
    print(f"kvtool profile, cold            {cold.seconds:6.2f} s  {cold.peak_mib:6.0f} MiB")
    print(f"kvtool profile, warm            {warm.seconds:6.2f} s  {warm.peak_mib:6.0f} MiB")
    print(f"tokenizing every prompt, once   {plain.seconds:6.2f} s  {plain.peak_mib:6.0f} MiB")
    print(f"warm profile / tokenizing alone {warm.seconds / plain.seconds:6.2f}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
