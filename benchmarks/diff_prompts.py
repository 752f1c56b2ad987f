"""What `kvtool diff-prompts` takes for pairs of about half a million tokens: CPU seconds of the whole process, and memory.

python benchmarks/diff_prompts.py [--words N] [--seed N]

The pairs differ in a value at the front, in one word of fifty, in their keys, in the order of their paragraphs, in the messages
of a chat that were taken out of its middle, in their line ends, and in everything.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from timing import machine, time_process

_NAMES = "abcdefghijklmnopqrstuvwxyz"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--words", type=int, default=150_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        for name, suffix, a, b in _pairs(asked.words, random.Random(asked.seed)):
            paths = [Path(folder, f"{side}{suffix}") for side in "ab"]
            for path, text in zip(paths, (a, b), strict=True):
                path.write_bytes(text.encode())
            command = [sys.executable, "-m", "kvtool", "diff-prompts", "--no-config", *map(str, paths)]
            timed = time_process(command, runs=3, warm_up=1)
            size = len(a.encode()) / 1e6
            print(f"{name:26} {size:5.2f} MB  {timed.cpu:5.2f} s CPU  {timed.peak_mib:5.0f} MiB", flush=True)


def _pairs(words: int, rng: random.Random) -> Iterator[tuple[str, str, str, str]]:
    """Name, suffix and the two texts of each pair."""
    known = ["".join(rng.choices(_NAMES, k=rng.randint(2, 9))) for _ in range(5_000)]
    text = rng.choices(known, k=words)
    lines = [" ".join(text[at : at + 12]) for at in range(0, words, 12)]
    body = "\n".join(lines)
    yield "a value at the front", ".txt", f"It is 09:13.\n{body}", f"It is 10:15.\n{body}"
    other = [word if rng.random() > 0.02 else rng.choice(known) for word in text]
    yield "a word of fifty, one line", ".txt", " ".join(text), " ".join(other)
    records = [{"id": at, "title": line[:20], "body": line} for at, line in enumerate(lines[: len(lines) * 4 // 7])]
    turned = [dict(reversed(record.items())) for record in records]
    yield "JSON, other keys first", ".txt", json.dumps(records), json.dumps(turned)
    shuffled = rng.sample(lines, len(lines))
    yield "paragraphs in turn", ".txt", "\n\n".join(lines), "\n\n".join(shuffled)
    messages = [{"role": ("user", "assistant")[at % 2], "content": line} for at, line in enumerate(lines[:4_000])]
    kept = messages[:400] + messages[800:]
    yield "messages left out", ".json", json.dumps({"messages": messages}), json.dumps({"messages": kept})
    yield "line ends", ".txt", body, body.replace("\n", "\r\n")
    yield "nothing in common", ".txt", body, " ".join(rng.choices(known, k=words))


if __name__ == "__main__":
    main()
