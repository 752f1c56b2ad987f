"""A network of its own for the runs of an agent: nothing but loopback, so that no request can leave the machine.

On Linux only. A small program in a new network namespace brings loopback up, opens a port and hands it over; it ends when the
probe does. Run as a program, this file is that one: `python private_network.py DESCRIPTOR`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

LOOPBACK = "127.0.0.1"
_PATIENCE = 10.0
"""Seconds until the port must be there."""
_SET_FLAGS, _UP = 0x8914, 0x41
"""SIOCSIFFLAGS, and IFF_UP with IFF_RUNNING."""


class PrivateNetwork:
    """`port` listens in it; `close` ends it once nothing runs in it any more."""

    def __init__(self, process: subprocess.Popen[bytes], ours: socket.socket, port: socket.socket) -> None:
        self._process, self._ours = process, ours
        self._name = _network_of(process.pid)
        self.port = port

    def contains(self, process: int) -> bool:
        """Return whether a process is in it that an agent started, whichever group and environment it gave itself."""
        return process != self._process.pid and self._name is not None and _network_of(process) == self._name

    def inside(self, words: Sequence[str]) -> list[str]:
        """Return the command that runs `words` in the network."""
        user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        return [_path("nsenter"), "--target", str(self._process.pid), *user, "--net", "--", *words]

    def close(self) -> None:
        """End it; the port stays until it is closed itself."""
        self._ours.close()
        self._process.wait()


def open_network() -> PrivateNetwork | None:
    """Make a network; None where this system does not allow it."""
    if not sys.platform.startswith("linux") or not (_path("unshare") and _path("nsenter")):
        return None
    ours, theirs = socket.socketpair()
    user = [] if os.geteuid() == 0 else ["--map-current-user", "--keep-caps"]
    with theirs:
        number = str(theirs.fileno())
        process = subprocess.Popen(  # noqa: S603 - fixed words
            [_path("unshare"), *user, "--net", "--", sys.executable, "-I", "-S", __file__, number],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
        )
    ours.settimeout(_PATIENCE)
    with contextlib.suppress(OSError):
        data, numbers, _, _ = socket.recv_fds(ours, 1, 1)
        if data and numbers:
            return PrivateNetwork(process, ours, socket.socket(fileno=numbers[0]))
    ours.close()
    process.kill()
    process.wait()
    return None


def _network_of(process: int) -> str | None:
    """Return the name of a process's network; None where it may not be read."""
    with contextlib.suppress(OSError):
        return str(Path(f"/proc/{process}/ns/net").readlink())
    return None


def _path(program: str) -> str:
    return shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin") or ""


def _serve(number: int) -> None:
    """Bring loopback up, hand a port over, and wait until the other end is closed."""
    import fcntl

    with socket.socket(fileno=number) as parent, socket.socket(socket.AF_INET, socket.SOCK_STREAM) as port:
        fcntl.ioctl(port, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP))
        port.bind((LOOPBACK, 0))
        port.listen(64)
        socket.send_fds(parent, [b"1"], [port.fileno()])
        parent.recv(1)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
