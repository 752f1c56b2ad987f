from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

if not (Path(__file__).parents[1] / "kvtool" / "engine").is_dir():
    pytest.exit("kvtool/engine is no symbolic link: clone with git clone -c core.symlinks=true", returncode=2)

from hypothesis import HealthCheck, settings

from kvtool.__main__ import collect_seldom
from kvtool.cli.app import run
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.terminal import streams
from kvtool.text.tokens import tokenizer
from kvtool.text.tokens.backend import Backend
from kvtool.text.tokens.backends import open_backend
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.text.tokens.tokenizer_files import TokenizerFiles
from kvtool.workload.render import Renderer
from tests.engine_extra import MARKER, NEED_IT, is_here
from tests.golden import UPDATE, GoldenFiles, GoldenRun
from tests.tokenizers_made import byte_tokenizer_json

# As the command line does; Python's own habit takes a third of the time of parsing and of whatever else makes many objects.
collect_seldom()

# Without the extra `engine` the tests that need it are left out: these files, and single tests by their marker.
collect_ignore = [] if is_here() else list(NEED_IT)

# torch's threads wait by spinning: on a machine that is busy, tests of small models take fifty times as long with two of them.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Prepared tokenizers, and what `kvtool lint FOLDER` read, are kept in the user's cache: of tests nothing may stay there, or come
# from there. All processes of a run share one of their own; without any, each test would prepare the built-in tokenizer again.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="kvtool-tests-")
    atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)
# Triton's kernels run in its interpreter; it looks when it is imported, which nothing above does.
os.environ["TRITON_INTERPRET"] = "1"

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
"""Whether tests may take hours: 400 fresh examples, state machines of up to 20,000 steps, all kernels, many mutated inputs."""


def some(values: Sequence[Any], count: int) -> Sequence[Any]:
    """Return the first so many of a test's seeds or rows; nightly runs all."""
    return values if NIGHTLY else values[:count]


_slow_machines = [HealthCheck.too_slow]
settings.register_profile(
    "ci",
    deadline=None,
    max_examples=15,
    stateful_step_count=40,
    derandomize=True,
    suppress_health_check=_slow_machines,
)
settings.register_profile(
    "nightly", deadline=None, max_examples=400, stateful_step_count=50, suppress_health_check=_slow_machines
)
settings.load_profile("nightly" if NIGHTLY else "ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        UPDATE, action="store_true", help="write the golden files of the tests that run, and compare nothing"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARKER}: needs the extra `engine`, so torch")
    config.addinivalue_line("markers", "vllm: starts a real vLLM, of the environment behind $VLLM_PYTHON")
    config.addinivalue_line("markers", "llama: starts a real llama.cpp, of the environment behind $XLLAMACPP_PYTHON")
    config.pluginmanager.register(GoldenRun(GoldenFiles(update=config.getoption(UPDATE))))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file stays in one process, which makes its fixtures once, until the other process has nothing left to do."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getoption("dist") == "load" else None


def pytest_collection_finish() -> None:
    """What is there now stays: looking through it for cycles again and again took an eighth of the time of the tests."""
    gc.collect()
    gc.freeze()


def pytest_report_header() -> str:
    return "extra `engine`: " + ("installed" if is_here() else "not installed; tests that need it are left out")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if is_here():
        return
    for item in items:
        if item.get_closest_marker(MARKER) is not None:
            item.add_marker(pytest.mark.skip(reason="needs the extra `engine`"))


@pytest.fixture(scope="session")
def byte_spec() -> str:
    """A tokenizer.json: one token for each byte, so that tokens can be counted by hand; nothing is put around a text."""
    return byte_tokenizer_json()


@pytest.fixture(scope="session")
def byte_tokenizer(byte_spec: str) -> Tokenizer:
    """The tokenizer of `byte_spec`."""
    return Tokenizer(TokenizerFiles("bytes", "bytes", byte_spec.encode, {}, None))


@pytest.fixture(scope="session")
def bytes_json(byte_spec: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of that tokenizer as a file, for command lines: `-t bytes_json` loads at once."""
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    path.write_text(byte_spec, encoding="utf-8")
    return str(path)


@pytest.fixture(scope="session")
def byte_renderer(byte_tokenizer: Tokenizer) -> Renderer:
    """Messages are written one after the other, each with its role before it: `user:hello\\n`."""
    source = "{% for message in messages %}{{ message.role }}:{{ message.content }}\n{% endfor %}"
    return Renderer(lambda: byte_tokenizer, lambda tokenizer: ChatTemplate("plain", source, tokenizer.special_tokens))


@pytest.fixture(scope="session", autouse=True)
def _tokenizers_opened_once() -> Iterator[None]:
    """What follows from a tokenizer's file is made once in a process, also by tests with a cache folder of their own."""
    opened: dict[tuple[str, str], tuple[Backend, Mapping[str, object]]] = {}

    def once(files: TokenizerFiles) -> tuple[Backend, Mapping[str, object]]:
        key = files.name, files.digest
        if key not in opened:
            if len(opened) == 8:  # tests make some, too
                opened.clear()
            opened[key] = open_backend(files)
        return opened[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer, "open_backend", once)
        yield


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands print what they print to people, and not what a file or a log gets."""
    monkeypatch.setattr(streams, "stdout_is_terminal", lambda: True)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C is KeyboardInterrupt, whatever the process was started with."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def in_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> Command:
    """Runs a command of kvtool in an empty folder, with one token for each byte; gives exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)

    def start(*arguments: str) -> tuple[int, str, str]:
        code = run([*arguments, "-t", bytes_json])
        said = capsys.readouterr()
        return code, said.out, said.err

    return start
