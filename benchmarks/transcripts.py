"""Transcripts of Claude Code, made: CPU seconds and memory of `kvtool sessions` and `kvtool profile` by their size.

python benchmarks/transcripts.py [MB...]
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from timing import machine, time_process

_BEGAN = datetime(2026, 11, 1, tzinfo=UTC).timestamp()
_LETTERS = random.Random(1)
_WORDS = ["".join(_LETTERS.choices("aeiounrstlmdc", k=_LETTERS.randint(3, 9))) for _ in range(400)]


def made_session(source: random.Random, name: str, size: int) -> Iterator[str]:
    """Yield the lines of a session of about `size` bytes: questions, calls of tools with files as results, and expired pauses."""
    now, read, parent, written = _BEGAN + source.random() * 2e6, 0, None, 0
    prompt, turn = 18_000, 0
    while written < size:
        turn += 1
        gap = source.choice((5.0, 15.0, 40.0, 90.0)) if source.random() < 0.95 else source.uniform(400, 9_000)
        now += gap
        if turn % 8 == 1:
            said: Any = _text(source, 20, 120)
        else:
            result = "\n".join(f"{at}\t{_text(source, 4, 14)}" for at in range(source.randint(10, 120)))
            said = [{"type": "tool_result", "tool_use_id": f"toolu_{name}_{turn - 1}", "content": result}]
        shared = {
            "sessionId": name,
            "cwd": "/home/me/app",
            "version": "2.0.31",
            "gitBranch": "main",
            "isSidechain": False,
        }
        user, answer = f"{name}-u{turn}", f"{name}-a{turn}"
        time = datetime.fromtimestamp(now, UTC).isoformat()
        question = {**shared, "type": "user", "uuid": user, "parentUuid": parent, "timestamp": time}
        line = json.dumps({**question, "message": {"role": "user", "content": said}}) + "\n"
        new = len(line) // 4 + 60
        hit = read if gap < 300 else 0
        read = prompt + new
        usage = {
            "input_tokens": 4,
            "cache_read_input_tokens": hit,
            "cache_creation_input_tokens": read - hit,
            "cache_creation": {"ephemeral_5m_input_tokens": read - hit, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 90,
        }
        content = [
            {"type": "text", "text": _text(source, 5, 60)},
            {
                "type": "tool_use",
                "id": f"toolu_{name}_{turn}",
                "name": "Read",
                "input": {"file_path": f"/home/{turn}.py"},
            },
        ]
        message = {"id": f"msg_{name}_{turn}", "role": "assistant", "type": "message", "model": "claude-sonnet-4-6"}
        answered = {**shared, "type": "assistant", "uuid": answer, "parentUuid": user, "timestamp": time}
        line += json.dumps({**answered, "message": {**message, "content": content, "usage": usage}}) + "\n"
        prompt, parent = read, answer
        written += len(line)
        yield line


def _text(source: random.Random, least: int, most: int) -> str:
    return " ".join(source.choices(_WORDS, k=source.randint(least, most)))


def made_folder(folder: Path, size: int, each: int = 240_000, seed: int = 0) -> None:
    """Write transcripts of about `size` bytes together, each of about `each`."""
    source = random.Random(seed)
    for number in range(max(size // each, 1)):
        path = folder / "projects" / "-home-me-app" / f"s{number}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(made_session(source, f"s{number}", each)), encoding="utf-8")


def main(sizes: list[int]) -> None:
    print(machine())
    for size in sizes:
        with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as cache:
            made_folder(Path(made), size * 1_000_000)
            for command in (["sessions", made], ["profile", "--no-advice", made]):
                ran = time_process(
                    [sys.executable, "-m", "kvtool", *command], runs=1, warm_up=0, env={"XDG_CACHE_HOME": cache}
                )
                print(f"{size:5d} MB  kvtool {command[0]:8}  {ran.cpu:7.1f} CPU s  {ran.peak_mib:6.0f} MiB")


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]] or [8, 24])
