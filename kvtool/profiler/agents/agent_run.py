"""Run an agent's command alone: an empty home, a repository of its own, a clean environment, and nothing left when it has ended."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from kvtool.config.command_line import flag
from kvtool.errors import KvtoolError
from kvtool.profiler.agents.agent_commands import AgentCommand, filled
from kvtool.profiler.agents.circumstances import BASE, Circumstance
from kvtool.profiler.agents.private_network import PrivateNetwork
from kvtool.profiler.agents.stub_script import FILE

PROCESSES = Path("/proc")
"""Where Linux says which programs run, with the environment of each."""
_SILENCE = 20.0
"""Seconds after which an agent without any request is taken for one that talks to somebody else, on a machine with a free core."""
_MARK = "KVTOOL_PROBE_RUN"
_MOST_OUTPUT = 64 << 20
_KEPT_OUTPUT = 4_096
_TICK = 0.05
_MOST_ROUNDS = 100
"""Times that what is left of a run is ended: a program may start others meanwhile."""
_SHOWN_LINES, _SHOWN_WIDTH = 2, 160
_TEXTS = {
    FILE: "# Harbor\n\nA small program that prints the tide of a harbor.\n",
    "tide.py": 'print("high water at six")\n',
}
_WHEN = "2026-01-05T09:00:00+00:00"
_AUTHOR = {"NAME": "probe", "EMAIL": "probe@example.com", "DATE": _WHEN}
_USER = "probe"
KEY_VARIABLES = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")
_NO_HOST = "http://127.0.0.1:9"
"""The port for discarded data: nothing listens there, so what goes to another host is refused at once."""
_PROXIES = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), _NO_HOST),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
}
"""For where no network of its own keeps an agent from other hosts; some agents ask a proxy for the stub, too."""
_FAKETIME = ("/usr/lib", "*/faketime/libfaketime.so.1")


def slowed(seconds: float) -> float:
    """Return how long takes what needs so many seconds with a free core: other programs may keep the cores busy."""
    return seconds * max(os.getloadavg()[0] / (os.cpu_count() or 1), 1.0)


def is_silent(seconds: float) -> bool:
    """Return whether an agent that sent no request for so long had the time to start, or to go on."""
    return seconds > slowed(_SILENCE)


def url_variables(url: str) -> dict[str, str]:
    """Return the variables by which clients of the providers' APIs find their server."""
    return {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_BASE": f"{url}/v1",
        "ANTHROPIC_BASE_URL": url,
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_BASE": url,
    }


def faketime_library() -> str | None:
    """Return the library that gives a program another clock; None where it is not installed."""
    folder, pattern = _FAKETIME
    return next((str(path) for path in sorted(Path(folder).glob(pattern))), None)


def _shared_clocks() -> set[Path]:
    """Return the files that libfaketime shares between processes; those of a process that was killed stay."""
    return set(Path("/dev/shm").glob("*faketime_*"))  # noqa: S108 - where it makes them


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended. `code` is None where it was stopped; `said` is the end of its output."""

    code: int | None
    seconds: float
    said: str


class AgentFolder:
    """The folder of the runs of a probe; use it as a context, it is removed at the end.

    Every run is in the same place, so that its path is no difference between two of them, unless the circumstance is another one.
    """

    def __init__(self, url: str, agent: AgentCommand, network: PrivateNetwork | None = None) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="kvtool-agent-", ignore_cleanup_errors=True)
        self.root = Path(self._temporary.name).resolve()
        self._url, self._agent, self._network = url, agent, network
        self._how = BASE

    def __enter__(self) -> AgentFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_all()
        self._temporary.cleanup()

    @property
    def home(self) -> Path:
        return self.root / self._how.home

    @property
    def repo(self) -> Path:
        return self.root / self._how.folder

    @property
    def ready(self) -> Path:
        """The file whose making lets a late MCP server answer."""
        return self.root / "ready"

    @property
    def _mark(self) -> str:
        return self.root.name

    def prepare(self, how: Circumstance) -> None:
        """Make home and repository new, as a circumstance has them."""
        for path in (self.home, self.repo, self.root / "tmp"):
            _remove(path)
        self._how = how
        for path in (self.home, self.repo, self.root / "tmp"):
            path.mkdir(mode=0o700, parents=True)
        for name in ("config", "cache", "data", "state"):
            (self.home / name).mkdir()
        for name, text in self._agent.files_of(self._values(""), how.servers).items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        for name, text in _TEXTS.items():
            (self.repo / name).write_text(text, encoding="utf-8")
        self._git(["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "First"])

    def environment(self) -> dict[str, str]:
        """Return the whole environment of a run: nothing of the user's but where programs are."""
        home = str(self.home)
        url = self._url
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": home,
            "USER": _USER,
            "LOGNAME": _USER,
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
            "OTEL_SDK_DISABLED": "true",
            "PYTHONDONTWRITEBYTECODE": "1",
            _MARK: self._mark,
            **url_variables(url),
            **dict.fromkeys(KEY_VARIABLES, "kvtool-probe"),
            **({} if self._network is not None else _PROXIES),
            **{name: filled(value, self._values("")) for name, value in self._agent.variables.items()},
            **self._how.variables,
        }

    def run(
        self, words: Sequence[str], turn: int, prompt: str, timeout: float, is_over: Callable[[float], bool]
    ) -> Ended:
        """Run the words of a turn (from 0) to their end; all that they started has ended, too. KvtoolError if they do not start.

        They are stopped after `timeout` seconds, and where `is_over` says so after some seconds.
        """
        if self._how.commits and prompt:
            self._commit(turn)
        self.ready.unlink(missing_ok=True)
        values = self._values(prompt)
        shared = _shared_clocks()
        with (self.root / "output").open("w+b") as output:
            started = time.monotonic()
            process = self._start([filled(word, values) for word in words], turn, output)
            try:
                stopped = _wait(process, output, started, timeout, is_over)
            finally:
                _end_group(process.pid)
                code = process.wait()
                self._end_all()
                for path in _shared_clocks() - shared:
                    if not (PROCESSES / path.name.rpartition("_")[2]).exists():  # named by its process
                        path.unlink(missing_ok=True)
            seconds = time.monotonic() - started
            return Ended(None if stopped else code, seconds, _end_of(output))

    def _end_all(self) -> None:
        """End what left the group of a run, until nothing of it is there."""
        for _ in range(_MOST_ROUNDS):
            found = [int(each.name) for each in PROCESSES.glob("[0-9]*") if self._is_of_run(each)]
            for number in found:
                with contextlib.suppress(OSError):
                    os.kill(number, signal.SIGKILL)
            if not found:
                return
            time.sleep(_TICK)

    def _is_of_run(self, folder: Path) -> bool:
        """Return whether a process is in the network of the runs, or has their mark in its environment; a zombie has neither."""
        if self._network is not None and self._network.contains(int(folder.name)):
            return True
        with contextlib.suppress(OSError):
            return f"{_MARK}={self._mark}".encode() in (folder / "environ").read_bytes().split(b"\0")
        return False

    def _values(self, prompt: str) -> Mapping[str, str]:
        port = self._url.rpartition(":")[2]
        home = str(self.home)
        places = {"home": home, "repo": str(self.repo), "mcp": f"{home}/mcp.json"}
        places["ready"] = str(self.ready)
        return {"url": self._url, "port": port, **places, "prompt": prompt}

    def _clock(self, turn: int) -> list[str]:
        """Return the words that give the words after them another clock; only they themselves load its library."""
        library = faketime_library() if self._how.days else None
        if library is None:
            return []
        days = f"FAKETIME=+{self._how.days * (turn + 1)}d"
        return ["env", f"LD_PRELOAD={library}", days, "FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1"]

    def _commit(self, turn: int) -> None:
        """Make another commit on another branch, and leave a file that is in none."""
        if not turn:
            self._git(["checkout", "-q", "-b", "feature/tide"])
        (self.repo / f"note_{turn}.txt").write_text("low water at noon\n", encoding="utf-8")
        self._git(["add", "."], ["commit", "-q", "-m", f"Note {turn}"])
        (self.repo / f"draft_{turn}.txt").write_text("to do\n", encoding="utf-8")

    def _git(self, *commands: Sequence[str]) -> None:
        git = shutil.which("git")
        if git is None:
            return
        who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in _AUTHOR.items()}
        env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.home), **who}
        for words in commands:
            subprocess.run([git, *words], cwd=self.repo, env=env, check=False, capture_output=True)  # noqa: S603 - fixed words

    def _start(self, words: list[str], turn: int, output: IO[bytes]) -> subprocess.Popen[bytes]:
        if shutil.which(words[0]) is None and "/" not in words[0]:
            raise KvtoolError(f"{flag('agent')}: there is no command `{words[0]}`", hint="give its path, or install it")
        try:
            if shutil.which(words[0]) is not None:
                words = [*self._clock(turn), *words]
                words = words if self._network is None else self._network.inside(words)
            return subprocess.Popen(  # noqa: S603 - the user asked for this command
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.repo,
                env=self.environment(),
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise KvtoolError(
                f"{flag('agent')}: there is no command `{words[0]}`", hint="give its path, or install it"
            ) from error
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise KvtoolError(f"{flag('agent')}: `{words[0]}` does not start: {reason.lower()}") from error


def _wait(
    process: subprocess.Popen[bytes],
    output: IO[bytes],
    started: float,
    timeout: float,
    is_over: Callable[[float], bool],
) -> bool:
    """Wait for the end; return whether it did not come within the limits."""
    while process.poll() is None:
        seconds = time.monotonic() - started
        if seconds > timeout or is_over(seconds) or os.fstat(output.fileno()).st_size > _MOST_OUTPUT:
            return True
        time.sleep(_TICK)
    return False


def _end_group(number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(number, signal.SIGKILL)


def _remove(path: Path) -> None:
    """Remove a folder, also where nobody may write in one within it, as in a cache of Go's modules."""
    for folder, names, _ in os.walk(path):
        for each in (Path(folder, name) for name in names):
            if not each.is_symlink():
                with contextlib.suppress(OSError):
                    each.chmod(0o700)
    shutil.rmtree(path, ignore_errors=True)


def _end_of(output: IO[bytes]) -> str:
    """Return the last lines of an output, those that speak of an error if there are any; whoever shows them makes them safe."""
    size = os.fstat(output.fileno()).st_size
    output.seek(max(size - _KEPT_OUTPUT, 0))
    lines = [line.strip() for line in output.read().decode("utf-8", "replace").splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return " | ".join(line[:_SHOWN_WIDTH] for line in (errors or lines)[-_SHOWN_LINES:])
