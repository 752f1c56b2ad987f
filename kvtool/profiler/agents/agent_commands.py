"""The commands of an agent: those that a user gives, or a recipe's. A recipe is a table of the TOML file beside this module."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kvtool.config.command_line import flag
from kvtool.diagnose.word_lists import read_words
from kvtool.errors import KvtoolError
from kvtool.profiler.agents.circumstances import McpServer

_NUMBERS = re.compile(r"\d+(?:\.\d+)+")
_VERSION = 20.0
"""Seconds for an agent to say its version."""
_SERVER = '"{name}": {"command": "{python}", "args": ["{script}", "{name}", "{delay}", "{ready}"]}'
_FILE, _SERVERS = "mcp.json", '{"mcpServers": {{servers}}}'
_ELF, _INTERPRETER = b"\x7fELF\x02\x01", 3

_SCRIPTS = (".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".rb", ".sh")
_FEW_WORDS = 3
"""Words of a command, among which a script is named: `npx tsx agent.ts`."""


@dataclass(frozen=True, slots=True)
class AgentCommand:
    """How an agent is run: the words of its first turn and of later ones (None: it has one turn), variables, files in its home.

    `server` is an MCP server in its configuration, with `between` two of them; `takes_servers` says that it reads them. `other` is
    another version's first and later words. `clock` says why its clock cannot be changed. `final` is the shell command that ends a
    session, where a text does not; `prepare` is run in each new home before the first turn.
    """

    name: str
    first: tuple[str, ...]
    later: tuple[str, ...] | None = None
    other: tuple[tuple[str, ...], tuple[str, ...] | None] | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    server: str = _SERVER
    between: str = ", "
    takes_servers: bool = False
    clock: str | None = None
    final: str | None = None
    prepare: tuple[str, ...] | None = None

    def files_of(self, values: Mapping[str, str], servers: Sequence[McpServer]) -> dict[str, str]:
        """Return the text of each file in the home, by its path there."""
        script = str(Path(__file__).with_name("mcp_server.py"))
        named = [
            {"name": each.name, "python": sys.executable, "script": script, "delay": f"{each.delay:g}"}
            | {"ready": values["ready"]}
            for each in servers
        ]
        usual = ", ".join(filled(_SERVER, each) for each in named)
        own = self.between.join(filled(self.server, each) for each in named)
        return {_FILE: filled(_SERVERS, {"servers": usual})} | {
            name: filled(text, {**values, "servers": own}) for name, text in self.files.items()
        }


@dataclass(frozen=True, slots=True)
class Recipe:
    """An agent that kvtool knows, with the versions (oldest and newest) that it was tried with."""

    name: str
    title: str
    install: str
    tested: tuple[str, str]
    table: Mapping[str, Any]

    @property
    def program(self) -> str:
        return str(self.table.get("program", self.name))

    def command(self, program: str | None = None) -> AgentCommand:
        """Return its commands, with another path of its program where there is one."""
        table = self.table
        start = program or self.program
        later = table.get("later")
        return AgentCommand(
            self.name,
            (start, *shlex.split(table["first"])),
            None if later is None else (start, *shlex.split(later)),
            variables=table.get("variables", {}),
            files=table.get("files", {}),
            server=table.get("server", _SERVER),
            between=table.get("between", ", "),
            takes_servers="{servers}" in json.dumps(table.get("files", {})) or "{mcp}" in table["first"],
            clock=table.get("clock"),
            final=table.get("final"),
            prepare=(start, *shlex.split(table["prepare"])) if "prepare" in table else None,
        )


def recipes() -> dict[str, Recipe]:
    """Return all recipes by name."""
    return {
        name: Recipe(name, table["title"], table["install"], tuple(table["tested"]), table)
        for name, table in read_words(str(Path(__file__).with_name("recipes.toml"))).items()
    }


def command_of(agent: str, resume: str | None = None, other: str | None = None, folder: Path = Path()) -> AgentCommand:
    """Return what `--agent`, `--resume` and `--other` say: names and paths for a recipe, else commands. KvtoolError for neither.

    Paths count from `folder`.
    """
    recipe = recipes().get(agent)
    if recipe is not None:
        made = recipe.command()
        if resume is not None:
            made = replace(made, later=words_of(resume, folder))
        if other is None:
            return made
        older = recipe.command(words_of(other, folder)[0])
        return replace(made, other=(older.first, older.later))
    first = words_of(agent, folder)
    later = None if resume is None else words_of(resume, folder)
    return AgentCommand(
        _name_of(first),
        first,
        later,
        other=None if other is None else (words_of(other, folder), None),
        takes_servers=any("{mcp}" in word for word in first),
        clock=_clock(first[0]),
    )


def _name_of(words: Sequence[str]) -> str:
    """Return the name of an agent: of the script that a language's program runs, else of the program."""
    return next((Path(word).name for word in words[:_FEW_WORDS] if word.endswith(_SCRIPTS)), Path(words[0]).name)


def version_of(words: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """Return the version that a program says of itself; None where it says none."""
    try:
        ended = subprocess.run(  # noqa: S603 - the user asked for this program
            [words[0], "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_VERSION,
            env=dict(environment),
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    found = _NUMBERS.search(ended.stdout) or _NUMBERS.search(ended.stderr)
    return None if found is None else found[0]


def is_tested(version: str, tested: tuple[str, str]) -> bool:
    """Return whether a version is within a range of two."""
    number, oldest, newest = (tuple(map(int, each.split("."))) for each in (version, *tested))
    return oldest <= number <= newest


def words_of(command: str, folder: Path = Path()) -> tuple[str, ...]:
    """Return the words of a command; a path from `folder` is made absolute. KvtoolError for a command without words."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise KvtoolError(
            f"{flag('agent')} `{command}`: {str(error).lower()}", hint="quote the command as in a shell"
        ) from None
    if not words:
        raise KvtoolError(
            f"{flag('agent')} needs a command", hint=f"for example: {flag('agent')} 'my-agent -p {{prompt}}'"
        )
    return tuple(_absolute(word, folder, first=not number) for number, word in enumerate(words))


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with each `{name}` replaced."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _absolute(word: str, folder: Path, *, first: bool) -> str:
    if word.startswith(("-", "/")) or (first and "/" not in word):
        return word
    with contextlib.suppress(OSError, ValueError):
        if (folder / word).exists():
            return str((folder / word).absolute())
    return word


def _clock(program: str) -> str | None:
    """Say why libfaketime cannot change the clock of a program; None where it can."""
    path = shutil.which(program)
    return "the program loads no libraries, so its clock cannot be changed" if path and _is_static(path) else None


def _is_static(path: str) -> bool:
    """Return whether a file is a program of Linux that names no loader."""
    with contextlib.suppress(OSError):
        with Path(path).open("rb") as file:
            head = file.read(4_096)
        if head.startswith(_ELF) and len(head) >= 64:
            start, size, count = (int.from_bytes(head[at : at + width], "little") for at, width in _ELF_FIELDS)
            kinds = (int.from_bytes(head[start + n * size :][:4], "little") for n in range(min(count, 64)))
            return _INTERPRETER not in kinds
    return False


_ELF_FIELDS = ((32, 8), (54, 2), (56, 2))
"""Where a 64-bit head says its program headers begin, how long one is, and how many there are."""
