"""A folder with a prompt and a workload, and `kvtool optimize` in it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.files import write

RULES = "Answer only from the handbook, quote the line that you took it from, and be kind.\n"
WORKLOAD = """\
version: 1   # a comment
vars:
  now: {datetime: 1m}
  rid: {uuid: 4}
  n: {counter: 1}
groups:
  - name: desk     # two messages
    requests: 10
    messages:
      - {role: system, file: prompts/desk.md}
      - {role: user, text: "Question {{ n }}?"}
"""
PROMPT = "# Desk\r\nNow: {{ now }}\r\n" + RULES * 4 + "Request {{ rid }}.\n" + RULES * 4
TOOLS = """\
  - name: api
    requests: 10
    messages:
      - {role: system, text: "{{ tools }}"}
      - {role: user, text: "Question {{ n }}?"}
"""


@dataclass(frozen=True)
class Change:
    path: str
    before: str
    after: str


Optimize = Callable[..., tuple[int, str, str]]


@pytest.fixture
def optimize(in_folder: Optimize) -> Optimize:
    """Runs `kvtool optimize`."""
    return partial(in_folder, "optimize")


@pytest.fixture
def desk(optimize: Optimize) -> str:
    """A workload whose prompt has a clock before its rules and a request id between them."""
    write("prompts/desk.md", PROMPT)
    return write("w.yaml", WORKLOAD)


def document(optimize: Optimize, *arguments: str) -> dict[str, Any]:
    code, out, _ = optimize(*arguments, "--json")
    assert code == 0
    found: dict[str, Any] = json.loads(out)
    return found


def contents(folder: str = ".") -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}


def patched(command: str) -> None:
    if shutil.which("patch") is None:
        pytest.skip("there is no `patch` here")
    subprocess.run(command, shell=True, check=True, capture_output=True)


def refused(optimize: Optimize, message: str, *arguments: str, files: Iterable[str] = (".",)) -> None:
    before = [contents(folder) for folder in files]
    code, out, err = optimize(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
    assert [contents(folder) for folder in files] == before


def chat_log(path: str, count: int = 12, *, last: str = "\n") -> list[bytes]:
    """Requests that go round three long documents, so that a small cache has always just lost the next one."""
    lines = []
    for number in range(count):
        document = f"Document {number % 3}. " * 40
        messages = [{"role": "system", "content": document}, {"role": "user", "content": f"Question {number}?"}]
        lines.append(json.dumps({"messages": messages}).encode() + (b"\n" if number + 1 < count else last.encode()))
    write(path, b"".join(lines))
    return lines
