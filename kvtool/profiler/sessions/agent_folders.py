"""Find the folders in which coding agents keep transcripts, and the transcripts in them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kvtool.errors import KvtoolError, Place

_SUFFIXES = tuple(f".jsonl{packed}" for packed in ("", ".gz", ".zst"))
_CHATS, _SESSION, _WHOLE = "chats", "session-", ".json"
"""A folder in which Gemini CLI keeps a session as one JSON object, and how the name of its file begins and ends."""
MOST_FILES = 1_000_000
"""Transcripts that are read at most."""


class AgentPlace(NamedTuple):
    """Where an agent keeps its transcripts: in `folders` below its home, or below that of a variable."""

    agent: str
    variable: str
    homes: tuple[str, ...]
    folders: tuple[str, ...]


AGENTS = (
    AgentPlace("Claude Code", "CLAUDE_CONFIG_DIR", (".claude", ".config/claude"), ("projects",)),
    AgentPlace("Codex", "CODEX_HOME", (".codex",), ("sessions", "archived_sessions")),
    AgentPlace("Gemini CLI", "GEMINI_CLI_HOME", (".gemini",), ("tmp",)),
    AgentPlace("Qwen Code", "QWEN_HOME", (".qwen",), ("projects",)),
    AgentPlace("Pi", "PI_CODING_AGENT_DIR", (".pi/agent",), ("sessions",)),
)
AGENT_NAMES = ", ".join(each.agent for each in AGENTS[:-1]) + f" and {AGENTS[-1].agent}"


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


def find_folders(named: Sequence[str], environment: Mapping[str, str]) -> list[TranscriptFolder]:
    """Return the named folders, else those of the agents on this machine. KvtoolError where there is none, or no transcript."""
    if named:
        found = [folder for path in dict.fromkeys(named) for folder in _named(path)]
    else:
        places = list(dict.fromkeys(_places(environment)))
        found = [_folder(agent, path) for agent, path in places if os.path.isdir(path)]  # noqa: PTH112
        if not found:
            raise KvtoolError(
                f"no folder of {AGENT_NAMES.replace(' and ', ' or ')} was found",
                hint="pass a folder of transcripts: kvtool sessions DIR",
                place=None,
            )
    if not any(folder.files or folder.unreadable for folder in found):
        raise KvtoolError(
            "the folder contains no transcript (.jsonl, or session-*.json of Gemini CLI)", place=Place(found[0].path)
        )
    return found


def _places(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    home = environment.get("HOME", "")
    for each in AGENTS:
        homes = [os.path.join(home, name) for name in each.homes] if home else []  # noqa: PTH118
        homes += [path for path in environment.get(each.variable, "").split(",") if path]
        for path in homes:
            for name in each.folders:
                yield each.agent, os.path.normpath(os.path.join(path, name))  # noqa: PTH118


def _named(path: str) -> list[TranscriptFolder]:
    """Return a folder that the user names; of a home those in which agents keep transcripts."""
    places = dict.fromkeys(_places({"HOME": path}))
    inner = [_folder(agent, place) for agent, place in places if os.path.isdir(place)]  # noqa: PTH112
    return inner or [_folder(None, path)]


def _folder(agent: str | None, path: str) -> TranscriptFolder:
    files: dict[str, TranscriptFile] = {}
    unreadable: list[tuple[str, str]] = []
    try:
        if Path(path).is_file():
            return TranscriptFolder(agent, path, (_file(path),), ())
        if not Path(path).is_dir():
            raise KvtoolError("there is no such folder", place=Place(path))
    except (OSError, ValueError) as error:
        raise KvtoolError("the folder cannot be read", place=Place(path)) from error

    def failed(error: OSError) -> None:
        unreadable.append((str(error.filename), error.strerror or "unreadable"))

    for folder, names, found in os.walk(path, onerror=failed):
        names[:] = sorted(name for name in names if not name.startswith("."))
        for name in found:
            if not _is_transcript(folder, name) or len(files) >= MOST_FILES:
                continue
            whole = os.path.join(folder, name)  # noqa: PTH118 - strings are enough, and there may be many
            try:
                files.setdefault(os.path.realpath(whole), _file(whole))
            except OSError as error:
                failed(error)
    return TranscriptFolder(agent, path, tuple(files.values()), tuple(unreadable))


def _is_transcript(folder: str, name: str) -> bool:
    if name.startswith("."):
        return False
    whole = name.startswith(_SESSION) and name.endswith(_WHOLE) and os.path.basename(folder) == _CHATS  # noqa: PTH119
    return whole or name.lower().endswith(_SUFFIXES)


def _file(path: str) -> TranscriptFile:
    status = Path(path).stat()
    return TranscriptFile(path, status.st_size, status.st_mtime_ns)
