"""Findings of Python files that a test makes."""

from __future__ import annotations

from kvtool.lint.python.built_prompts import python_prompts
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
    return static_findings(path, text, python_prompts(path, text)[0], len, block_size=16, least=least)


def codes(text: str) -> list[str]:
    return [one.code for one in found(HEAD + text)]
