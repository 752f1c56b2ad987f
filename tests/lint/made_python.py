"""Findings of Python files that a test makes."""

from __future__ import annotations

from pathlib import Path

from kvtool.lint.python.built_prompts import PythonPrompts
from kvtool.results.finding import Finding
from tests.lint.found import static_findings

RULES = (
    "You are a careful assistant of a small library. Answer only from the handbook, and quote the line that you took it from. "
    "Never guess a date that is not written there. If you do not know the answer, say so in one sentence and stop. "
)
HEAD = f"""\
import datetime, hashlib, json, os, platform, random, secrets, socket, string, subprocess, textwrap, time, uuid
from pathlib import Path
RULES = {RULES!r}
"""


def found(text: str, path: str = "a.py", *, least: int = 16) -> list[Finding]:
    return static_findings(path, text, PythonPrompts()(path, text), len, block_size=16, least=least)


def codes(text: str) -> list[str]:
    return [one.code for one in found(HEAD + text)]


def program(folder: Path, files: dict[str, str]) -> dict[str, list[tuple[str, int, int]]]:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    read = PythonPrompts()
    result: dict[str, list[tuple[str, int, int]]] = {}
    for name, text in files.items():
        if name.endswith(".py"):
            path = str(folder / name)
            findings = static_findings(path, text, read(path, text), len, block_size=16, least=16)
            result[name] = [(one.code, one.line, one.column) for one in findings]
    return {name: one for name, one in result.items() if one}
