"""A folder with a workload, and kvtool as a process of its own in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MARKER = "Xyzzyplugh"
WORKLOAD = f"""\
version: 1
vars:
  now: {{datetime: 1m}}
  n: {{counter: 1}}
groups:
  - name: support
    requests: 12
    messages:
      - {{role: system, text: "Now: {{{{ now }}}}. {MARKER} You are the agent of a shop; be short, be kind, be right."}}
      - {{role: user, text: "Question {{{{ n }}}} about the {MARKER}?"}}
    gate: {{hit_rate: ">=80%"}}
  - name: tenant
    requests: 6
    tenant: acme
    segments:
      - {{id: rules, text: "Answer only from the document, and quote the line that you took it from. "}}
      - {{id: ask, text: "Question {{{{ n }}}}?"}}
  - name: chat
    sessions: {{count: 2, turns: 3, output_tokens: 20}}
    messages:
      - {{role: system, text: "You talk to people who plan a journey."}}
      - {{role: user, text: "And then {{{{ n }}}}?"}}
"""

RunKvtool = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with `w.yaml`; colours and widths of the caller do not reach the test."""
    (tmp_path / "w.yaml").write_text(WORKLOAD, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def clean_environment(**changes: str) -> dict[str, str]:
    """What a process needs, where its tokenizer cache is, and nothing of the caller's terminal."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "XDG_CACHE_HOME", "TMPDIR") if name in os.environ}
    return {**kept, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color", "COLUMNS": "80", **changes}


@pytest.fixture
def kvtool(folder: Path) -> RunKvtool:
    """Runs the command line as a process of its own."""

    def start(*arguments: str, env: dict[str, str] | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
        options = {"stdin": subprocess.DEVNULL, "capture_output": True, **options}
        return subprocess.run(
            [sys.executable, "-m", "kvtool", *arguments],
            env=clean_environment(**(env or {})),
            cwd=folder,
            text=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=60,
            check=False,
            **options,
        )

    return start


def shell(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """A line of bash in which `kvtool` is the command."""
    script = f'kvtool() {{ "{sys.executable}" -m kvtool "$@"; }}\n{line}'
    return subprocess.run(
        ["bash", "-c", script],
        env=clean_environment(),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
