"""Another engine in a process of its own, by its own Python: a question and an answer a line, in JSON."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


class PeerProcess:
    """A program of this folder, run by the interpreter of an environment that has the engine; `python` may have arguments."""

    def __init__(self, python: str, program: str, engine: str) -> None:
        self._engine = engine
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the process
        command = [*shlex.split(python), str(Path(__file__).with_name(program))]
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
            )
        except OSError as error:
            sys.exit(f"{python}: {error.strerror}")
        self.version: str = self._answer()[engine.lower()]

    def ask(self, command: dict[str, Any]) -> dict[str, Any]:
        """What the program answers; what it wrote to its standard error ends this one where it does not."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self._log.seek(0)
            sys.exit(f"{self._engine} failed:\n{self._log.read()[-2000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer
