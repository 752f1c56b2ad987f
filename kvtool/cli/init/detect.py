"""What in a folder looks like prompts: workload files, templates, logs, and Python that builds prompts.

The search is bounded: a few levels, some thousand files, no folder of tools or installed packages, no links. Nothing is executed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kvtool.errors import KvtoolError
from kvtool.text.files.text_files import read_text
from kvtool.workload.logs.logs import LogOptions, LogSource

MAX_DEPTH = 6
MAX_FILES = 20_000
MAX_LOG_BYTES = 32 << 20
_MAX_TEXT_BYTES = 1 << 20
_MOST = 16
_NOISE = frozenset(
    (
        "node_modules",
        "venv",
        "env",
        "site-packages",
        "__pycache__",
        "dist",
        "build",
        "target",
        "vendor",
        "htmlcov",
        "tests",
    )
)
_LOGS = (".jsonl", ".ndjson", ".jsonl.gz", ".jsonl.zst")
_JINJA = (".j2", ".jinja", ".jinja2")
_PLAIN = (".md", ".txt", ".prompt")
_OTHER_TEMPLATES = re.compile(
    r"\.(html?|ya?ml|json|sql|conf|cfg|ini|toml|sh|py|js|ts|css|service|env|xml|tf)$|^chat_template", re.IGNORECASE
)
_PROMPT_NAME = re.compile(r"prompt|instruction", re.IGNORECASE)
_NOT_PROMPTS = re.compile(r"^(readme|license|changelog|contributing|requirements)", re.IGNORECASE)
_WORKLOAD = re.compile(r"^groups:", re.MULTILINE)
_PYTHON_PROMPT = re.compile(r"""\w*_PROMPT\b|system_prompt|["']role["']\s*:\s*["']system["']""")


@dataclass(slots=True)
class FoundPrompts:
    """Paths, from the folder that was searched, in their order. `logs` are those whose format is known; `notes` say what was left
    out, and why."""

    workloads: list[str] = field(default_factory=list)
    templates: list[str] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    python: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def detect(folder: Path) -> FoundPrompts:
    """Search a folder; KvtoolError where it is none."""
    if not folder.is_dir():
        raise KvtoolError(f"`{folder}` is not a folder")
    found = FoundPrompts()
    for count, name in enumerate(_files(folder, "", 0)):
        if count == MAX_FILES:
            found.notes.append(f"only the first {MAX_FILES:,} files were looked at")
            break
        if name.isprintable():  # no other name can be written into a file and read again
            _sort(folder, name, found)
    for names, what in ((found.workloads, "workload files"), (found.templates, "prompts"), (found.logs, "logs")):
        if len(names) > _MOST:
            found.notes.append(f"{len(names) - _MOST:,} more {what} were left out")
            del names[_MOST:]
    return found


def _files(folder: Path, inside: str, depth: int) -> Iterator[str]:
    """Files below a folder, by name, with `/` between the parts."""
    try:
        entries = sorted(os.scandir(folder / inside), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        name = f"{inside}/{entry.name}" if inside else entry.name
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            if depth < MAX_DEPTH and entry.name not in _NOISE and not entry.name.endswith(".egg-info"):
                yield from _files(folder, name, depth + 1)
        elif entry.is_file(follow_symlinks=False):
            yield name


def _sort(folder: Path, name: str, found: FoundPrompts) -> None:
    """Put a file where it belongs, or nowhere."""
    base = name.rpartition("/")[2]
    stem, suffix = os.path.splitext(base.lower())  # noqa: PTH122 - a name, not a path
    if suffix in (".yaml", ".yml"):
        if _WORKLOAD.search(_text(folder, name)):
            found.workloads.append(name)
    elif base.lower().endswith(_LOGS):
        _sort_log(folder, name, found)
    elif suffix in _JINJA:
        if not _OTHER_TEMPLATES.search(stem) and _text(folder, name):
            found.templates.append(name)
    elif suffix in _PLAIN and not _NOT_PROMPTS.match(base):
        if (_PROMPT_NAME.search(name) or suffix == ".prompt") and _text(folder, name):
            found.templates.append(name)
    elif suffix == ".py" and _PYTHON_PROMPT.search(_text(folder, name)):
        found.python.append(name)


def _sort_log(folder: Path, name: str, found: FoundPrompts) -> None:
    path = folder / name
    try:
        size = path.stat().st_size
        next(LogSource([str(path)], LogOptions(limit=1)).conversations(), None)
    except (KvtoolError, OSError):  # some other JSON lines
        return
    if size > MAX_LOG_BYTES:
        found.notes.append(f"{name} is a log of {size >> 20:,} MiB: too much to run with every change")
    else:
        found.logs.append(name)


def _text(folder: Path, name: str) -> str:
    """The text of a small file; empty for any other."""
    path = folder / name
    try:
        return read_text(path, shown=name) if path.stat().st_size <= _MAX_TEXT_BYTES else ""
    except (KvtoolError, OSError):
        return ""
