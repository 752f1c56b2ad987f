"""Find the folders in which coding agents keep transcripts, and the transcripts in them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from kvtool.errors import KvtoolError, Place

_LINES = ("*.jsonl", "*.jsonl.gz", "*.jsonl.zst")
MOST_FILES = 1_000_000
"""Transcripts that are read at most."""


class AgentPlace(NamedTuple):
    """Where an agent keeps its transcripts: files of these names (patterns of the ends of paths), in `folders` below its home, or
    below that of a variable."""

    agent: str
    variable: str
    homes: tuple[str, ...]
    folders: tuple[str, ...]
    names: tuple[str, ...] = _LINES


_DATA = "XDG_DATA_HOME"
_VS_CODE = tuple(
    f"{config}/{program}/User/globalStorage"
    for config in (".config", "Library/Application Support")
    for program in ("Code", "Code - Insiders", "VSCodium", "Cursor")
)
AGENTS = (
    AgentPlace("Claude Code", "CLAUDE_CONFIG_DIR", (".claude", ".config/claude"), ("projects",)),
    AgentPlace("Codex", "CODEX_HOME", (".codex",), ("sessions", "archived_sessions")),
    AgentPlace("Gemini CLI", "GEMINI_CLI_HOME", (".gemini",), ("tmp",), (*_LINES, "*/chats/session-*.json")),
    AgentPlace("Qwen Code", "QWEN_HOME", (".qwen",), ("projects",)),
    AgentPlace("Pi", "PI_CODING_AGENT_DIR", (".pi/agent",), ("sessions",)),
    AgentPlace("opencode", _DATA, (".local/share",), ("opencode",), ("*/opencode.db",)),
    AgentPlace("Goose", _DATA, (".local/share",), ("goose/sessions",), (*_LINES, "*/sessions.db")),
    AgentPlace(
        "Cline and Roo",
        "CLINE_DIR",
        (".cline/data", *_VS_CODE),
        ("tasks", "saoudrizwan.claude-dev/tasks", "rooveterinaryinc.roo-cline/tasks"),
        ("*/api_conversation_history.json",),
    ),
)
AGENT_NAMES = ", ".join(each.agent for each in AGENTS)
_ALL_NAMES = tuple(dict.fromkeys(name for each in AGENTS for name in each.names))


class TranscriptFile(NamedTuple):
    """A transcript, with its size in bytes and the time of its last change in nanoseconds."""

    path: str
    size: int
    changed: int

    @property
    def state(self) -> str:
        """What changes when the file does."""
        return f"{self.size}-{self.changed}"


@dataclass(frozen=True, slots=True)
class TranscriptFolder:
    """A folder with transcripts. `agent` is None for one that the user named; `unreadable` are folders that could not be read."""

    agent: str | None
    path: str
    files: tuple[TranscriptFile, ...]
    unreadable: tuple[tuple[str, str], ...]
    names: tuple[str, ...] = _LINES
    """Patterns of the files that are transcripts."""


def find_folders(named: Sequence[str], environment: Mapping[str, str]) -> list[TranscriptFolder]:
    """Return the named folders, else those of the agents on this machine. KvtoolError where there is none, or no transcript."""
    if named:
        found = [folder for path in dict.fromkeys(named) for folder in _named(path)]
    else:
        places = list(dict.fromkeys(_places(environment)))
        found = [_folder(path, agent) for agent, path in places if os.path.isdir(path)]  # noqa: PTH112
        if not found:
            raise KvtoolError(
                f"no folder of transcripts was found ({AGENT_NAMES})",
                hint="pass a folder of transcripts: kvtool sessions DIR",
                place=None,
            )
    if not any(folder.files or folder.unreadable for folder in found):
        raise KvtoolError(
            f"the folder contains no transcript: {', '.join(dict.fromkeys(found[0].names))}", place=Place(found[0].path)
        )
    return found


def _places(environment: Mapping[str, str]) -> Iterator[tuple[AgentPlace, str]]:
    home = environment.get("HOME", "")
    for each in AGENTS:
        homes = [os.path.join(home, name) for name in each.homes] if home else []  # noqa: PTH118
        homes += [path for path in environment.get(each.variable, "").split(",") if path]
        for path in homes:
            for name in each.folders:
                yield each, os.path.normpath(os.path.join(path, name))  # noqa: PTH118


def _named(path: str) -> list[TranscriptFolder]:
    """Return a folder that the user names; of a home those in which agents keep transcripts."""
    places = dict.fromkeys(_places({"HOME": path}))
    inner = [_folder(place, agent) for agent, place in places if os.path.isdir(place)]  # noqa: PTH112
    return inner or [_folder(path)]


def _folder(path: str, of: AgentPlace | None = None) -> TranscriptFolder:
    agent, names = (None, _ALL_NAMES) if of is None else (of.agent, of.names)
    files: dict[str, TranscriptFile] = {}
    unreadable: list[tuple[str, str]] = []
    try:
        if Path(path).is_file():
            return TranscriptFolder(agent, path, (_file(path),), (), names)
        if not Path(path).is_dir():
            raise KvtoolError("there is no such folder", place=Place(path))
    except (OSError, ValueError) as error:
        raise KvtoolError("the folder cannot be read", place=Place(path)) from error

    def failed(error: OSError) -> None:
        unreadable.append((str(error.filename), error.strerror or "unreadable"))

    for folder, inner, found in os.walk(path, onerror=failed):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        for name in found:
            whole = os.path.join(folder, name)  # noqa: PTH118 - strings are enough, and there may be many
            if name.startswith(".") or len(files) >= MOST_FILES or not any(fnmatch(whole, each) for each in names):
                continue
            try:
                files.setdefault(os.path.realpath(whole), _file(whole))
            except OSError as error:
                failed(error)
    return TranscriptFolder(agent, path, tuple(files.values()), tuple(unreadable), names)


def _file(path: str) -> TranscriptFile:
    status = Path(path).stat()
    return TranscriptFile(path, status.st_size, status.st_mtime_ns)
