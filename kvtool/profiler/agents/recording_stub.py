"""Record what an agent sends that somebody else starts: the stub alone, on an address of loopback, until Ctrl-C."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
from pathlib import Path
from typing import IO

from kvtool.config.command_line import flag
from kvtool.errors import KvtoolError
from kvtool.profiler.agents.agent_run import url_variables
from kvtool.profiler.agents.private_network import LOOPBACK
from kvtool.profiler.agents.stub_server import KeptRequest, StubServer
from kvtool.text.terminal.numbers import plural

_NAMES = ("localhost", LOOPBACK)


def until_interrupted() -> None:
    """Wait for Ctrl-C."""
    threading.Event().wait()


def record(address: str, path: str) -> int:
    """Write each request that comes as a line of a log, until Ctrl-C; return how many came.

    KvtoolError for an address that is not of loopback or is in use, and for a file that is there already.
    """
    with (
        listening(address) as port,
        _new_file(path) as file,
        StubServer(port, on_request=lambda each: _write(file, each)) as stub,
    ):
        print(_told(stub.port, path), file=sys.stderr)
        with contextlib.suppress(KeyboardInterrupt):
            until_interrupted()
        return len(stub.traffic.requests)


def listening(address: str) -> socket.socket:
    """Return a socket that listens on `[HOST:]PORT`. KvtoolError where it cannot."""
    host, _, number = address.rpartition(":")
    if host not in ("", *_NAMES) or not (number.isascii() and number.isdecimal() and int(number) < 1 << 16):
        hint = f"for example: {flag('record')} {LOOPBACK}:8899"
        raise KvtoolError(f"{flag('record')} {address[:80]!a} is no port of this machine", hint=hint)
    try:
        return socket.create_server((LOOPBACK, int(number)))
    except OSError as error:
        raise KvtoolError(f"{flag('record')}: cannot listen on port {number}: {error.strerror}") from error


def _new_file(path: str) -> IO[str]:
    """Make a file that nobody else may read."""
    try:
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8")
    except FileExistsError as error:
        raise KvtoolError(f"`{path}` is there already", hint="give the name of a new file") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise KvtoolError(f"cannot write `{path}`: {reason}") from error


def _write(file: IO[str], each: KeptRequest) -> None:
    record = {"url": each.path, "headers": dict(each.headers), "timestamp": each.at, "body": each.body}
    file.write(json.dumps(record) + "\n")
    file.flush()


def _told(port: int, path: str) -> str:
    variables = " ".join(f"{name}={value}" for name, value in url_variables(f"http://{LOOPBACK}:{port}").items())
    return f"recording into {Path(path).name}; Ctrl-C ends it\nstart the agent with: {variables}"


def recorded(count: int, path: str) -> str:
    """Say what came, and what to do with it."""
    return f"{plural(count, 'request')} recorded; next: kvtool profile {path}"
