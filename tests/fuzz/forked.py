"""Many command lines in forked children of one warm process: each in a folder of its own, with limits of memory and CPU time."""

from __future__ import annotations

import gc
import os
import pickle
import resource
import select
import shutil
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kvtool.__main__ import collect_seldom

CPU_SECONDS = 20
"""What one command line may take; the inputs are small."""
MEMORY_BYTES = 1 << 30
_WALL_SECONDS = 400.0
"""Of one command line: only what waits for something that never comes takes so long, however busy the machine is."""
_BATCH = 40
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class Job:
    """A command line, the files that it finds, and which of those that it may write are looked at."""

    kind: str
    number: int
    arguments: tuple[str, ...]
    files: Mapping[str, bytes]
    mutated: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    stdin: bytes = b""
    program: str = "kvtool"
    """`kvtool`, or `replay`, which is `python -m kvtool.engine.replay`."""


@dataclass
class Ran:
    """What came of a job. `signal` is set where it did not end by itself."""

    job: Job
    code: int | None = None
    signal: int | None = None
    out: str = ""
    err: str = ""
    written: dict[str, bytes] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    """Files that are there and were neither given nor asked for."""
    changed: dict[str, bytes] = field(default_factory=dict)
    """Files that were given and are not what they were: what they are now."""
    seconds: float = 0.0
    peak_bytes: int = 0


def environment() -> dict[str, str]:
    """What the warm process and its children see: no network, no threads, no colour, whatever the shell says."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KVTOOL_", "GITHUB_", "CI"))}
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS"):
        kept.pop(name, None)
    return kept | {
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "KVTOOL_OFFLINE": "1",
        "TERM": "dumb",
        "LC_ALL": "C.UTF-8",
        "GIT_CEILING_DIRECTORIES": tempfile.gettempdir(),
    }


def run_jobs(jobs: Sequence[Job], *, batch: int = _BATCH) -> Iterator[Ran]:
    """Run them in order. A child that dies takes only the job with it that it was at; the rest goes to the next child."""
    gc.collect()
    gc.freeze()
    done = 0
    while done < len(jobs):
        for ran in _one_child(jobs[done : done + batch]):
            done += 1
            yield ran


def _one_child(jobs: Sequence[Job]) -> Iterator[Ran]:
    """Fork a child for these jobs; ends early where it dies, with a `Ran` that says so."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if not pid:
        os.close(reader)
        code = 1
        try:
            _serve(jobs, writer)
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    count = 0
    try:
        while count < len(jobs):
            found = _receive(reader)
            if found is None:
                break
            count += 1
            yield found
    finally:
        os.close(reader)
        if count < len(jobs):
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    if count < len(jobs):
        died = os.waitstatus_to_exitcode(status)
        yield Ran(jobs[count], signal=-died if died < 0 else 0)


def _receive(reader: int) -> Ran | None:
    """The next outcome; None where there is none, for the child is dead or waits for ever."""

    def read(count: int) -> bytes:
        data = b""
        while len(data) < count:
            if not select.select([reader], [], [], _WALL_SECONDS)[0]:
                return b""
            piece = os.read(reader, count - len(data))
            if not piece:
                return b""
            data += piece
        return data

    head = read(_LENGTH.size)
    if not head:
        return None
    found = pickle.loads(read(_LENGTH.unpack(head)[0]))
    assert isinstance(found, Ran)
    return found


def _serve(jobs: Sequence[Job], writer: int) -> None:
    """In the child: run the jobs, tell of each as soon as it is over."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    collect_seldom()
    room = _status("VmSize") + MEMORY_BYTES + (MEMORY_BYTES >> 1)
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    home = tempfile.mkdtemp(prefix="kvtool-fuzz-")
    streams = [os.open(Path(home, name), os.O_RDWR | os.O_CREAT) for name in ("in", "out", "err")]
    for descriptor, stream in zip((0, 1, 2), streams, strict=True):
        os.dup2(stream, descriptor)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(os.dup(descriptor), mode, encoding="utf-8", errors="strict" if mode == "w" else "surrogateescape")
        for descriptor, mode in ((0, "r"), (1, "w"), (2, "w"))
    )
    try:
        for number, job in enumerate(jobs):
            folder = Path(home, str(number))
            folder.mkdir()
            data = pickle.dumps(_run(job, folder, streams))
            os.write(writer, _LENGTH.pack(len(data)))
            view = memoryview(data)
            while view:
                view = view[os.write(writer, view) :]
            os.chdir("/")
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _run(job: Job, folder: Path, streams: Sequence[int]) -> Ran:
    for name, data in job.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (folder / ".git").mkdir(exist_ok=True)
    os.chdir(folder)
    for stream in streams:
        os.ftruncate(stream, 0)
        os.lseek(stream, 0, os.SEEK_SET)
    os.pwrite(streams[0], job.stdin, 0)
    ran = Ran(job)
    Path("/proc/self/clear_refs").write_text("5")  # the peak of memory begins anew
    before = time.process_time()
    resource.setrlimit(resource.RLIMIT_CPU, (int(before) + CPU_SECONDS + 1, resource.RLIM_INFINITY))
    try:
        ran.code = _program(job)
        sys.stdout.flush()
        sys.stderr.flush()
    except KeyboardInterrupt:
        ran.code = 130
    except BaseException as error:
        ran.code = 3
        ran.err = f"Traceback of the edge: {error!r}"
    ran.seconds = time.process_time() - before
    ran.peak_bytes = _status("VmHWM")
    ran.out = _content(streams[1])
    ran.err += _content(streams[2])
    _look_around(ran, folder)
    return ran


def _program(job: Job) -> int:
    if job.program == "replay":
        from kvtool.engine.replay import main

        return main(list(job.arguments))
    from kvtool.cli.app import run

    return run(job.arguments)


def _content(stream: int) -> str:
    return os.pread(stream, os.fstat(stream).st_size, 0).decode("utf-8", "replace")


def _look_around(ran: Ran, folder: Path) -> None:
    """Take note of what the job wrote, left and changed."""
    left: list[str] = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or name.startswith(".git/"):
            continue
        if name in ran.job.files and name not in ran.job.outputs:
            if (now := path.read_bytes()) != ran.job.files[name]:
                ran.changed[name] = now
        elif name in ran.job.outputs:
            ran.written[name] = path.read_bytes()
        else:
            left.append(name)
    ran.left = tuple(left)


def _status(name: str) -> int:
    """A size that the kernel tells of this process, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(name)
