"""Transcripts of Claude Code made for tests: sessions with gaps, subagents, and copies that a resumed session makes."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_BEGAN = datetime(2026, 11, 1, tzinfo=UTC).timestamp()


def write_lines(path: Path, lines: list[dict[str, Any]]) -> Path:
    """Write a transcript."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def made_session(
    source: random.Random, name: str, project: str, requests: int, *, agent: str | None = None
) -> list[dict[str, Any]]:
    """Return the lines of a session whose provider keeps prompts for 5 minutes."""
    lines: list[dict[str, Any]] = []
    now, stored, prompt, parent = _BEGAN + source.random() * 1e6, 0, source.randint(9_000, 30_000), None
    for number in range(requests):
        gap = source.choice([20.0, 60.0, 900.0, 7_000.0])
        now, prompt = now + gap, prompt + source.randint(100, 900)
        shared = {"sessionId": name, "cwd": f"/home/me/{project}", "isSidechain": agent is not None, "agentId": agent}
        time = datetime.fromtimestamp(now, UTC).isoformat()
        said = {"role": "user", "content": f"{project} {number}"}
        user, answer = f"{name}{agent}u{number}", f"{name}{agent}a{number}"
        lines.append({**shared, "type": "user", "uuid": user, "parentUuid": parent, "timestamp": time, "message": said})
        read = stored if gap < 300 else 0
        usage = {
            "input_tokens": 2,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": prompt - read,
            "cache_creation": {"ephemeral_5m_input_tokens": prompt - read, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 7,
        }
        model = source.choice(["claude-opus-4-8"] * 8 + ["no-such-model"])
        message = {"role": "assistant", "id": f"msg_{answer}", "model": model, "content": "Yes.", "usage": usage}
        lines.append(
            {**shared, "type": "assistant", "uuid": answer, "parentUuid": user, "timestamp": time, "message": message}
        )
        stored, parent = prompt, answer
    return lines


def resumed(source: random.Random, lines: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Return a copy of the first lines of a session, under another name, as a resumed session begins."""
    return [{**line, "sessionId": name} for line in lines[: 2 * source.randint(1, max(len(lines) // 2, 1))]]


def made_folder(source: random.Random, folder: Path, sessions: int) -> list[Path]:
    """Write transcripts of random sessions, some with a subagent, some of which another one resumes."""
    paths = []
    for number in range(sessions):
        project = source.choice(["shop", "app"])
        lines = made_session(source, f"s{number}", project, source.randint(1, 5))
        below = folder / f"-home-me-{project}"
        paths.append(write_lines(below / f"s{number}.jsonl", lines))
        if source.random() < 0.4:
            paths.append(
                write_lines(below / f"agent-{number}.jsonl", made_session(source, f"s{number}", project, 2, agent="x"))
            )
        if source.random() < 0.4:
            paths.append(write_lines(below / f"r{number}.jsonl", resumed(source, lines, f"r{number}")))
    return paths
