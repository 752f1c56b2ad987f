"""SIGINT and SIGTERM at random moments of commands that write: python -m tests.fuzz.interrupts --count 300 --seed N.

Whatever the moment: each file is as it was or whole, nothing lies beside them, an edited file has its undo patch, and the exit code
says how it ended. Nothing rests on how fast the machine is; only where in a command the signals come does.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from tests.fuzz import corpus
from tests.fuzz.commands import BYTES
from tests.fuzz.judge import json_faults
from tests.fuzz.session import begin
from tests.tokenizers_made import byte_tokenizer_json

Files = dict[str, bytes]

_COMMON = ("-t", BYTES, "--offline", "-q")
_WRITING = (
    (
        "profile",
        "w.yaml",
        "--dry-run",
        "-o",
        "o.json",
        "-o",
        "o.html",
        "-o",
        "o.md",
        "--events",
        "e.jsonl",
        "--metrics",
        "m.prom",
        *_COMMON,
    ),
    (
        "check",
        "w.yaml",
        "f.j2",
        "--update-baseline",
        "--baseline",
        "base.json",
        "-o",
        "o.xml",
        "-o",
        "o.sarif",
        *_COMMON,
    ),
    ("profile", "log.jsonl", "--dry-run", "--jobs", "2", "-o", "o.json", "-o", "o.html", *_COMMON),
    ("lint", "f.j2", "g.j2", "--fix", "--unsafe-fixes", "--undo", "u.patch", *_COMMON),
    ("optimize", "w.yaml", "--unsafe-fixes", "--write", "--undo", "u.patch", *_COMMON),
    ("init", ".", "--force", "-t", BYTES, "--offline", "-q"),
    *(
        (
            ("trace", "log.jsonl", "more.jsonl", "-o", "t", "--jobs", "2", *_COMMON),
            ("trace", "log.jsonl", "--export", "mooncake", "-o", "x.jsonl", *_COMMON),
        )
        if find_spec("pyarrow")
        else ()
    ),
    ("what-if", "log.jsonl", "--jobs", "2", "-o", "o.json", "-o", "o.html", "-o", "o.csv", *_COMMON),
    ("what-if", "log.jsonl", "--sweep", "capacity", "-o", "o.json", "-o", "o.svg", *_COMMON),
)
_EDITED = ("w.yaml", "f.j2", "g.j2")
_ENDED = {signal.SIGINT: {130}, signal.SIGTERM: {128 + signal.SIGTERM, -signal.SIGTERM}}
_MOST_SECONDS = 120
_SAID = "stderr"
"""The file that has what the command says."""


def given() -> Files:
    """What is there before: right inputs, and older files in the place of some outputs."""
    return {
        BYTES: byte_tokenizer_json().encode(),
        "w.yaml": corpus.WORKLOADS[0].encode(),
        "log.jsonl": corpus.LOGS["openai"] * 40,
        "more.jsonl": corpus.LOGS["anthropic"] * 40,
        "f.j2": corpus.FIXABLE.encode(),
        "g.j2": corpus.FIXABLE.replace("now", "clock").encode(),
        "o.json": b"an older file\n",
        "e.jsonl": b"an older file\n",
        "kvtool.toml": b'workloads = ["w.yaml"]\n',
    }


def ended(arguments: tuple[str, ...], number: signal.Signals, after: float) -> tuple[int, Files, float]:
    """Run a command in a forked child, send it a signal so many seconds after it began; exit code, files, and how long it took."""
    folder = Path(tempfile.mkdtemp(prefix="kvtool-fuzz-"))
    try:
        for name, data in given().items():
            (folder / name).write_bytes(data)
        (folder / ".git").mkdir()
        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            _command(arguments, folder, writer)
        os.close(writer)
        os.read(reader, 1)
        os.close(reader)
        start = time.monotonic()
        time.sleep(after)
        os.kill(pid, number)  # it is not waited for yet, so the number is its own
        code = _wait(pid)
        taken = time.monotonic() - start
        found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return code, found, taken


def _command(arguments: tuple[str, ...], folder: Path, writer: int) -> None:
    """In the child: as the script `kvtool` does it. Does not return."""
    code = 1
    try:
        os.chdir(folder)
        quiet = os.open(os.devnull, os.O_RDWR)
        for descriptor, opened in enumerate((quiet, quiet, os.open(_SAID, os.O_WRONLY | os.O_CREAT))):
            os.dup2(opened, descriptor)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv = ["kvtool", "--debug", *arguments]
        from kvtool.__main__ import main

        os.write(writer, b".")
        main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except KeyboardInterrupt:  # before the command line is there to catch it
        code = 130
    finally:
        os._exit(code)


def _wait(pid: int) -> int:
    """Its exit code; 1000 where it does not end."""
    for _ in range(_MOST_SECONDS * 100):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return 1000


def torn(code: int, found: Files, whole: Files, number: signal.Signals, normal: int) -> Iterator[str]:
    """What is wrong after a command was ended; where nothing ends it, it leaves the files `whole` and the exit code `normal`."""
    before = given()
    said = found.pop(_SAID, b"").decode("utf-8", "replace")
    if code not in _ENDED[number] | {normal}:
        yield f"exit code {code}: {said[-3000:]}"
    for name, data in before.items():
        if name not in found:
            yield f"{name} is lost"
        elif found[name] != data and name in _EDITED and found[name] != whole[name]:
            yield f"{name} is neither as it was nor as it will be"
    edited = [name for name in _EDITED if found.get(name) != before.get(name)]
    if edited and not found.get("u.patch"):
        yield f"{', '.join(edited)} edited, without a patch that undoes it"
    for name, data in found.items():
        if name not in before and name not in whole:
            yield f"{name} is left behind"
        elif name.endswith(".parquet"):
            if data[:4] != b"PAR1" or data[-4:] != b"PAR1":
                yield f"{name} is cut"
        elif name not in _EDITED and data != before.get(name):
            yield from _half(name, data.decode("utf-8", "replace"))


def _half(name: str, text: str) -> Iterator[str]:
    if name.endswith((".json", ".sarif")):
        yield from json_faults(name, text)
    elif not text.endswith("\n") and not name.endswith((".svg", ".xml")):
        yield f"{name} is cut: …{text[-20:]!r}"
    elif name.endswith(".html") and not text.rstrip().endswith("</html>"):
        yield f"{name} is cut"


def run(count: int, seed: int, numbers: tuple[signal.Signals, ...]) -> tuple[list[str], Counter[int]]:
    """Send `count` signals, each at a random moment of one of the commands; what is wrong, and the exit codes."""
    rng = random.Random(seed)
    ends = {line: _undisturbed(line) for line in _WRITING[:count]}
    wrong: list[str] = []
    codes: Counter[int] = Counter()
    for at in range(count):
        line = _WRITING[at % len(_WRITING)]
        number = rng.choice(numbers)
        normal, whole, seconds = ends[line]
        after = rng.uniform(0, 1.2 * seconds)
        code, found, _ = ended(line, number, after)
        codes[code] += 1
        wrong += [
            f"{line[0]}, {number.name} after {after:.3f} of {seconds:.3f} s: {said}"
            for said in torn(code, found, whole, number, normal)
        ]
    return wrong, codes


def _undisturbed(line: tuple[str, ...]) -> tuple[int, Files, float]:
    """What a command leaves where a signal comes that ends nothing."""
    found = ended(line, signal.SIGCONT, 0.0)
    assert found[0] in (0, 1), (line, found[0])
    return found


def main() -> int:
    """The exit code is 1 where something is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.interrupts", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--count", type=int, default=60, help="signals [60]")
    parser.add_argument("--seed", type=int, default=0, help="of everything random [0]")
    asked = parser.parse_args()
    begin(byte_tokenizer_json())
    wrong, codes = run(asked.count, asked.seed, (signal.SIGINT, signal.SIGTERM))
    print("\n".join(wrong))
    print(f"{asked.count} signals, {len(wrong)} wrong, exit codes {dict(codes)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
