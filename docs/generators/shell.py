"""Runs the shell blocks of a page in a temporary folder that holds a copy of the example workloads."""

from __future__ import annotations

import contextlib
import functools
import io
import math
import os
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType

from kvtool.cli.app import run as kvtool
from kvtool.text.terminal import progress, streams
from kvtool.text.tokens import tokenizer

_SHELL_SIGNS = set("|&;<>$`(){}*?~")
_PROGRAM = "kvtool"


def clean_environment() -> dict[str, str]:
    """The variables of this process without those that change what kvtool prints or where it writes."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KVTOOL_", "GITHUB_", "CI_"))}
    for name in ("CI", "FORCE_COLOR", "CLICOLOR_FORCE", "PYTHONHASHSEED"):
        kept.pop(name, None)
    programs = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    return {**kept, "COLUMNS": "80", "NO_COLOR": "1", "PATH": programs, "PYTHONUTF8": "1"}


@contextlib.contextmanager
def plain_terminal() -> Iterator[None]:
    """80 columns, no colour, and nothing of what a user or a CI system has set."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(clean_environment())
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def one_tokenizer() -> Iterator[None]:
    """Tokenizers are read once for all commands inside: most commands of the pages take little more time than that."""
    once = functools.cache(tokenizer.load_tokenizer)
    tokenizer.load_tokenizer = once
    try:
        yield
    finally:
        tokenizer.load_tokenizer = once.__wrapped__


@contextlib.contextmanager
def no_progress() -> Iterator[None]:
    """No line of progress, however busy the machine is: pages show what is printed where nobody has to wait."""
    before, progress.LINE_EVERY = progress.LINE_EVERY, math.inf
    try:
        yield
    finally:
        progress.LINE_EVERY = before


@contextlib.contextmanager
def as_in_a_terminal() -> Iterator[None]:
    """Commands print what they print to people, and not what a file or a log gets."""
    before, streams.stdout_is_terminal = streams.stdout_is_terminal, lambda: True
    try:
        yield
    finally:
        streams.stdout_is_terminal = before


class Shell:
    """A folder and an environment. kvtool and scripts in Python run in this process, which saves its start; all else in bash."""

    def __init__(self, workloads: Path, extra: Mapping[str, str] | None = None) -> None:
        self._workloads = workloads
        self._environment = {**clean_environment(), **(extra or {})}
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Shell:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    @property
    def folder(self) -> Path:
        """Made when it is first needed: most pages run nothing."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="kvtool-docs-")
            shutil.copytree(self._workloads, Path(self._folder.name) / "workloads")
        return Path(self._folder.name)

    def write(self, name: str, text: str) -> None:
        """A file of the page."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def run(self, block: str) -> tuple[int, str]:
        """The exit code of the last command and what all of them printed, on both streams."""
        code, said = 0, []
        for command in commands(block):
            code, output = self._run(command)
            said.append(output)
        return code, "".join(said)

    def _run(self, command: str) -> tuple[int, str]:
        words = shlex.split(command)
        if words[0] == _PROGRAM and _SHELL_SIGNS.isdisjoint(command):
            return self._run_here(lambda: kvtool(words[1:]))
        if words[0] == "python" and words[1:] == [Path(words[-1]).name] and words[1].endswith(".py"):
            return self._run_here(lambda: 0 if runpy.run_path(words[1]) else 1)
        done = subprocess.run(  # noqa: S603 # the commands are ours
            ["bash", "-o", "pipefail", "-c", command],  # noqa: S607
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        return done.returncode, done.stdout.decode()

    def _run_here(self, command: Callable[[], int]) -> tuple[int, str]:
        said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        with plain_terminal(), no_progress(), as_in_a_terminal(), contextlib.chdir(self.folder):
            os.environ.update(self._environment)
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                code = command()
        said.flush()
        said.seek(0)
        return code, said.read()


def commands(block: str) -> list[str]:
    """The commands of a shell block: one on each line, or on several that end with a backslash; comments are left out."""
    joined = block.replace("\\\n", " ")
    return [text for line in joined.split("\n") if (text := _without_comment(line))]


def _without_comment(line: str) -> str:
    at = line.find(" #")
    return (line if at < 0 else line[:at]).strip() if not line.startswith("#") else ""
