"""Work for tasks of tests: some of it ends the process that does it."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from kvtool.errors import KvtoolError


@dataclass(frozen=True)
class Squares:
    """Squares numbers. `deadly` end every process that tries them, `shaky` the first one; `wrong` are a mistake of the user's."""

    folder: str = ""
    deadly: frozenset[int] = frozenset()
    shaky: frozenset[int] = frozenset()
    wrong: frozenset[int] = frozenset()
    hungry: frozenset[int] = frozenset()
    seconds: float = 0.0

    def __call__(self, number: int) -> int:
        if self.folder:
            with (Path(self.folder) / f"tried-{number}").open("a") as tried:
                tried.write(f"{os.getpid()}\n")
        if number in self.deadly or (number in self.shaky and self.tried(number) == 1):
            os.kill(os.getpid(), signal.SIGKILL)
        if number in self.wrong:
            raise KvtoolError(f"{number} is no number", hint="another one")
        if number in self.hungry:
            raise MemoryError
        time.sleep(self.seconds)
        return number * number

    def tried(self, number: int) -> int:
        """How many times a number was tried."""
        return len(set((Path(self.folder) / f"tried-{number}").read_text().split()))


def squares(count: int) -> list[int]:
    """What comes of the first numbers."""
    return [number * number for number in range(count)]
