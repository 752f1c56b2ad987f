"""Nodes of a Ray cluster on this machine, a core each, which can be killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

_PATIENCE = 120.0
_STARTED = "Ray runtime started"


class Node:
    """`ray start --block` and all that it begins; without an address it is the head of a new cluster."""

    def __init__(self, folder: Path, address: str | None = None) -> None:
        with socket.socket() as tried:
            tried.bind(("127.0.0.1", 0))
            port = tried.getsockname()[1]
        self.address = address or f"127.0.0.1:{port}"
        which = (
            ["--head", f"--port={port}", "--include-dashboard=false"] if address is None else [f"--address={address}"]
        )
        self._log = folder / f"node-{port}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    Path(sys.executable).parent / "ray",
                    "start",
                    "--block",
                    "--num-cpus=1",
                    "--disable-usage-stats",
                    *which,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + _PATIENCE
        while _STARTED not in self._log.read_text(encoding="utf-8", errors="replace"):
            if self._process.poll() is not None or time.monotonic() > end:
                self.kill()
                raise OSError(f"no node of Ray could be started: {self._log.read_text(errors='replace')[-500:]}")
            time.sleep(0.2)

    def kill(self) -> None:
        """As a machine goes away: nothing of it says goodbye."""
        doomed = [self._process.pid]
        for each in doomed:  # grows on the way
            with suppress(OSError):
                doomed += map(int, Path(f"/proc/{each}/task/{each}/children").read_text().split())
        for each in doomed:
            with suppress(OSError):
                os.kill(each, signal.SIGKILL)
        self._process.wait()
