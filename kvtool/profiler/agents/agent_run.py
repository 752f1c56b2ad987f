"""Run an agent's command alone: an empty home, a repository of its own, a clean environment, and nothing left when it has ended."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from kvtool.config.command_line import flag
from kvtool.errors import KvtoolError
from kvtool.profiler.agents.stub_script import FILE

SILENCE = 20.0
"""Seconds after which an agent without any request is taken for one that talks to somebody else."""
_MARK = "KVTOOL_PROBE_RUN"
_MOST_OUTPUT = 64 << 20
_KEPT_OUTPUT = 4_096
_TICK = 0.05
_SHOWN_LINES, _SHOWN_WIDTH = 2, 160
_TEXTS = {
    FILE: "# Harbor\n\nA small program that prints the tide of a harbor.\n",
    "tide.py": 'print("high water at six")\n',
}
_WHEN = "2026-01-05T09:00:00+00:00"
KEY_VARIABLES = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")
_NO_HOST = "http://127.0.0.1:9"
"""The port for discarded data: nothing listens there, so what goes to another host is refused at once."""


def url_variables(url: str) -> dict[str, str]:
    """Return the variables by which clients of the providers' APIs find their server."""
    return {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_BASE": f"{url}/v1",
        "ANTHROPIC_BASE_URL": url,
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_BASE": url,
    }


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended. `code` is None where it was stopped; `said` is the end of its output."""

    code: int | None
    seconds: float
    said: str


class AgentFolder:
    """The folder of the runs of a probe; use it as a context, it is removed at the end.

    Every run is in the same place, so that its path is no difference between two of them.
    """

    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="kvtool-agent-", ignore_cleanup_errors=True)
        self.root = Path(self._temporary.name).resolve()
        self._started = 0

    def __enter__(self) -> AgentFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _end_marked(self._mark)
        self._temporary.cleanup()

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def repo(self) -> Path:
        return self.root / "repo"

    @property
    def _mark(self) -> str:
        return self.root.name

    def clear(self) -> None:
        """Make home and repository new."""
        for name in ("home", "repo", "tmp"):
            shutil.rmtree(self.root / name, ignore_errors=True)
            (self.root / name).mkdir(mode=0o700)
        for name in ("config", "cache", "data", "state"):
            (self.home / name).mkdir()
        for name, text in _TEXTS.items():
            (self.repo / name).write_text(text, encoding="utf-8")
        git = shutil.which("git")
        if git is not None:
            who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in _AUTHOR.items()}
            for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "First"]):
                subprocess.run([git, *words], cwd=self.repo, env={**self.environment(""), **who}, check=False)  # noqa: S603 - fixed words

    def environment(self, url: str) -> dict[str, str]:
        """Return the whole environment of a run: nothing of the user's but where programs are."""
        home = str(self.home)
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": home,
            "XDG_CONFIG_HOME": f"{home}/config",
            "XDG_CACHE_HOME": f"{home}/cache",
            "XDG_DATA_HOME": f"{home}/data",
            "XDG_STATE_HOME": f"{home}/state",
            "TMPDIR": str(self.root / "tmp"),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "TERM": "dumb",
            "NO_COLOR": "1",
            "DO_NOT_TRACK": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            _MARK: self._mark,
            **url_variables(url),
            **dict.fromkeys(KEY_VARIABLES, "kvtool-probe"),
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), _NO_HOST),
            **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
        }

    def run(self, command: str, prompt: str, url: str, timeout: float, is_silent: Callable[[], bool]) -> Ended:
        """Run a command to its end; all that it started has ended, too. KvtoolError where it cannot be started.

        It is stopped after `timeout` seconds, and where `is_silent` still says so after `SILENCE`.
        """
        words = [_filled(word, self._values(prompt, url)) for word in words_of(command)]
        with (self.root / "output").open("w+b") as output:
            started = time.monotonic()
            process = self._start(words, url, output)
            try:
                stopped = _wait(process, output, started, timeout, is_silent)
            finally:
                _end_group(process.pid)
                code = process.wait()
                _end_marked(self._mark)
            seconds = time.monotonic() - started
            return Ended(None if stopped else code, seconds, _end_of(output))

    def _values(self, prompt: str, url: str) -> Mapping[str, str]:
        port = url.rpartition(":")[2]
        return {"prompt": prompt, "url": url, "port": port, "home": str(self.home), "repo": str(self.repo)}

    def _start(self, words: list[str], url: str, output: IO[bytes]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(  # noqa: S603 - the user asked for this command
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.repo,
                env=self.environment(url),
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise KvtoolError(
                f"{flag('agent')}: there is no command `{words[0]}`", hint="give its path, or install it"
            ) from error
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise KvtoolError(f"{flag('agent')}: `{words[0]}` does not start: {reason.lower()}") from error


_AUTHOR = {"NAME": "probe", "EMAIL": "probe@example.com", "DATE": _WHEN}


def words_of(command: str) -> list[str]:
    """Return the words of a command; a path of the current folder is made absolute. KvtoolError for a command without words."""
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
    return [_absolute(word, first=not number) for number, word in enumerate(words)]


def _absolute(word: str, *, first: bool) -> str:
    if word.startswith(("-", "/")) or (first and "/" not in word):
        return word
    with contextlib.suppress(OSError, ValueError):
        if Path(word).exists():
            return str(Path(word).absolute())
    return word


def _filled(word: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(f"{{{name}}}", value)
    return word


def _wait(
    process: subprocess.Popen[bytes], output: IO[bytes], started: float, timeout: float, is_silent: Callable[[], bool]
) -> bool:
    """Wait for the end; return whether it did not come within the limits."""
    while process.poll() is None:
        seconds = time.monotonic() - started
        if seconds > timeout or (seconds > SILENCE and is_silent()):
            return True
        if os.fstat(output.fileno()).st_size > _MOST_OUTPUT:
            return True
        time.sleep(_TICK)
    return False


def _end_group(number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(number, signal.SIGKILL)


def _end_marked(mark: str) -> None:
    """End what left the group of a run: on Linux it still has the mark of the probe in its environment."""
    wanted = f"{_MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)


def _end_of(output: IO[bytes]) -> str:
    """Return the last lines of an output; whoever shows them makes them safe."""
    size = os.fstat(output.fileno()).st_size
    output.seek(max(size - _KEPT_OUTPUT, 0))
    lines = [line.strip() for line in output.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return " | ".join(line[:_SHOWN_WIDTH] for line in lines[-_SHOWN_LINES:])
