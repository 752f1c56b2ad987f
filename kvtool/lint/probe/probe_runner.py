"""Runs a prompt builder once, in given circumstances, and gives back what it made; bounded in time and in output."""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from kvtool.config.options.lint_options import Probing
from kvtool.errors import KvtoolError
from kvtool.lint.probe.probe_hook import VARIABLE

MAX_OUTPUT = 64 << 20
_SHOWN_ROOT = b"/kvtool-probe"
"""What means the temporary folder, whose name is another one in every probe."""
_KEPT_ERRORS = 16 << 10
_CHUNK = 1 << 16
_GRACE = 0.5
"""Seconds that what a command left after may keep its output open."""
_MOST_ENTRIES = 10_000
_FUNCTION = re.compile(r"([^\s:]{1,500}):([A-Za-z_][\w.]{0,200})")
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_ERROR_LINES, _ERROR_WIDTH = 3, 200


class RunError(KvtoolError):
    """A run gave no prompt: it failed, hung, printed nothing or too much."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The surroundings of a run: all None is a plain run, but that Python's clock stays at `clock` (seconds since 1970).

    `variables` are set on top of the environment. `shift` (seconds) is for `faketime`, where a command is no Python. `moved` runs
    it in another folder that holds links to everything in the current one; `listing` is `sorted` or `reversed`.
    """

    clock: float | None = None
    shift: int = 0
    hash_seed: int = 0
    variables: Mapping[str, str] = field(default_factory=dict)
    moved: bool = False
    listing: str | None = None
    user: str | None = None
    host: str | None = None
    random: int | None = None


@dataclass(frozen=True, slots=True)
class ProbeOutput:
    """The output of a builder: text as it was printed, or the value that a function returned as JSON."""

    data: bytes
    is_value: bool
    hooked: bool
    """Whether a Python process was prepared, so that clock, listings and randomness were as asked."""


class ProbeRunner:
    """Runs one builder as often as it is asked to. Use it as a context: its temporary folder is removed at the end."""

    def __init__(self, spec: str, *, timeout: float = Probing.probe_timeout) -> None:
        self.spec = spec
        self._timeout = timeout
        self._folder = Path.cwd()
        self._function = _function_of(spec)
        self._command = [] if self._function else _command_of(spec)
        self._temporary = tempfile.TemporaryDirectory(prefix="kvtool-probe-", ignore_cleanup_errors=True)
        root = Path(self._temporary.name).resolve()
        self._root = root
        self._mark = root / "mark"
        self._value = root / "value.json"
        (root / "site").mkdir()
        own = Path(__file__)
        shutil.copyfile(own.with_name("probe_hook.py"), root / "site" / "sitecustomize.py")
        shutil.copyfile(own.with_name("probe_call.py"), root / "call.py")
        self.faketime = shutil.which("faketime")

    def __enter__(self) -> ProbeRunner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._temporary.cleanup()

    def run(self, how: Circumstances) -> ProbeOutput:
        """One run. Raises RunError where it gives no prompt, KvtoolError where it cannot be started at all."""
        self._mark.unlink(missing_ok=True)
        self._value.unlink(missing_ok=True)
        folder = self._elsewhere() if how.moved else self._folder
        command = self._prepared(how)
        try:
            data, errors, code = _execute(command, folder, self._environment(how), self._timeout)
        finally:
            if how.moved:
                shutil.rmtree(folder, ignore_errors=True)
        hooked = self._mark.exists()
        data, errors = (part.replace(str(self._root).encode(), _SHOWN_ROOT) for part in (data, errors))
        if code:
            raise RunError(f"`{self.spec}` failed {_exit(code)}{_last_lines(errors)}", hint=self._failure_hint(errors))
        if self._function:
            data = self._value.read_bytes() if self._value.exists() else b""
            data = data.replace(str(self._root).encode(), _SHOWN_ROOT)
            if len(data) > MAX_OUTPUT:
                raise _too_much(self.spec)
        if not data.strip():
            raise RunError(
                f"`{self.spec}` {'returned' if self._function else 'printed'} nothing",
                hint="print the prompt to standard output: text, or a chat body as JSON",
            )
        return ProbeOutput(data, self._function is not None, hooked)

    def _prepared(self, how: Circumstances) -> list[str]:
        if self._function:
            module, name = self._function
            return [_python(), str(self._root / "call.py"), module, name, str(self._folder), str(self._value)]
        command = [self._absolute(word, first=not index) for index, word in enumerate(self._command)]
        if how.shift and self.faketime is not None and how.clock is None:
            return [self.faketime, "-f", f"{how.shift:+d}s", *command]
        return command

    def _absolute(self, word: str, *, first: bool) -> str:
        """A word of the command, a relative path made absolute: it must mean the same from another folder."""
        if word.startswith(("-", "/")) or (first and "/" not in word):
            return word
        path = self._folder / word
        with contextlib.suppress(OSError, ValueError):
            if path.exists():
                return str(path)
        return word

    def _environment(self, how: Circumstances) -> dict[str, str]:
        settings = {
            "mark": str(self._mark),
            "clock": None if how.clock is None else round(how.clock * 1e6) * 1000,  # nanoseconds
            "listing": how.listing,
            "user": how.user,
            "host": how.host,
            "random": how.random,
        }
        env = dict(os.environ)
        paths = [str(self._root / "site"), *filter(None, [env.get("PYTHONPATH")])]
        env |= {
            VARIABLE: json.dumps(settings, sort_keys=True),
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONHASHSEED": str(how.hash_seed),
            "PYTHONIOENCODING": "utf-8",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        if how.moved and "PWD" in env:
            env["PWD"] = str(self._elsewhere_path())
        return env | dict(how.variables)

    def home(self) -> str:
        """An empty folder for another user's home."""
        folder = self._root / "home"
        folder.mkdir(exist_ok=True)
        return str(folder)

    def _elsewhere_path(self) -> Path:
        return self._root / "elsewhere" / "other"

    def _elsewhere(self) -> Path:
        """Another folder with links to what the current one holds, so that relative paths still lead somewhere."""
        folder = self._elsewhere_path()
        folder.mkdir(parents=True)
        with os.scandir(self._folder) as entries:
            for count, entry in enumerate(entries):
                if count >= _MOST_ENTRIES:
                    break
                with contextlib.suppress(OSError):
                    (folder / entry.name).symlink_to(entry.path)
        return folder

    def _failure_hint(self, errors: bytes) -> str | None:
        if self._function and b"ModuleNotFoundError" in errors:
            return f"kvtool called the function with its own {Path(_python()).name}, or that of $VIRTUAL_ENV, from this folder"
        return None


def _function_of(spec: str) -> tuple[str, str] | None:
    """Module (or path of a file) and function, where the spec is `module:function`."""
    found = _FUNCTION.fullmatch(spec.strip())
    if found is None:
        return None
    module, name = found[1], found[2]
    if module.endswith(".py"):
        path = Path(module)
        if not path.is_file():
            raise KvtoolError(
                f"no such file `{module}`", hint="give --probe a command, module:function or file.py:function"
            )
        return str(path.resolve()), name
    return (module, name) if _MODULE.fullmatch(module) else None


def _command_of(spec: str) -> list[str]:
    try:
        words = shlex.split(spec)
    except ValueError as error:
        raise KvtoolError(f"--probe `{spec}`: {str(error).lower()}", hint="quote the command as in a shell") from None
    if not words:
        raise KvtoolError(
            "--probe needs a command or module:function", hint="for example: --probe 'python build_prompt.py'"
        )
    return words


def _python() -> str:
    """The Python of the active virtual environment, where the user's modules are, else kvtool's own."""
    active = os.environ.get("VIRTUAL_ENV")
    python = Path(active, "bin", "python") if active else None
    return str(python) if python is not None and python.is_file() else sys.executable


def _execute(command: list[str], folder: Path, env: dict[str, str], timeout: float) -> tuple[bytes, bytes, int]:
    """Output, the end of the error output, and the exit code. The whole process group is gone when this returns."""
    try:
        process = subprocess.Popen(  # noqa: S603 # the user asked for it with --probe
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=env,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise _not_started(command, error) from error
    try:
        data, errors, ended = _drain(process, time.monotonic() + timeout)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    shown = shlex.join(command)
    if len(data) > MAX_OUTPUT:
        raise _too_much(shown)
    if not ended:
        raise RunError(
            f"`{shown}` did not end within {timeout:g} s, so kvtool stopped it{_last_lines(errors)}",
            hint="raise --probe-timeout; the command gets no input",
        )
    return data, errors, code


def _drain(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bytes, bool]:
    """Read both streams until they and the process have ended; False where the deadline came, or too much output."""
    parts: list[bytes] = []
    size = kept = 0
    errors: deque[bytes] = deque()
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ)
        gone: float | None = None
        while selector.get_map() or process.poll() is None:
            now = time.monotonic()
            if gone is None and process.poll() is not None:
                gone = now
            if gone is not None and now > gone + _GRACE:
                break
            if now > deadline:
                return b"".join(parts), b"".join(errors), False
            for key, _ in selector.select(0.05) if selector.get_map() else ():
                chunk = os.read(key.fd, _CHUNK)
                if not chunk:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    parts.append(chunk)
                    size += len(chunk)
                else:
                    errors.append(chunk)
                    kept += len(chunk)
                    while kept - len(errors[0]) > _KEPT_ERRORS:
                        kept -= len(errors.popleft())
            if size > MAX_OUTPUT:
                break
            if not selector.get_map():
                time.sleep(0.005)
    return b"".join(parts), b"".join(errors), True


def _not_started(command: list[str], error: Exception) -> KvtoolError:
    name = command[0]
    if isinstance(error, FileNotFoundError):
        return KvtoolError(f"--probe: no such command `{name}`", hint=_suggestion(name))
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return KvtoolError(f"--probe: cannot start `{name}`: {reason.lower()}", hint=_suggestion(name))


def _suggestion(name: str) -> str:
    if name.endswith(".py"):
        return f"use --probe 'python {name}'"
    return "give --probe a command that prints the prompt, or module:function"


def _too_much(shown: str) -> RunError:
    return RunError(f"`{shown}` printed more than {MAX_OUTPUT >> 20} MiB", hint="print one prompt and nothing else")


def _exit(code: int) -> str:
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"(signal {signal.Signals(-code).name})"
    return f"with exit code {code}"


def _last_lines(errors: bytes) -> str:
    """The last lines of the error output, as part of a message; whoever shows it makes it safe."""
    lines = [line.strip() for line in errors.decode("utf-8", "replace").splitlines() if line.strip(" \t^~")]
    shown = " | ".join(line[:_ERROR_WIDTH] for line in lines[-_ERROR_LINES:])
    return f": {shown}" if shown else ""
