"""What more processes win on a fleet's logs: `kvtool trace` and a sweep with one process and with several.

`python -m benchmarks.fleet_jobs [--files 100] [--mb 50] [--jobs 2] [--runs 3]` makes logs of chats, traces them in turns,
sees that all traces are equal byte for byte, and prints wall and CPU seconds, ratios, and the memory of the command itself for
these logs and for four times as many. Wall seconds mean something on cores that nobody else uses: `disturbed` says how much
they were used.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

_WORDS = ("shelf", "reader", "atlas", "loan", "return", "note", "library", "fenwick", "the", "of", "and", "is")
_START = 1_770_000_000
_TURNS = 4


@dataclass
class Way:
    """One way of doing it, and what its runs took."""

    name: str
    flags: list[str]
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    peak_mib: float = 0.0
    digests: set[str] = field(default_factory=set)


def make_logs(folder: Path, files: int, mb: float) -> int:
    """Conversations whose requests hold all that was said before; returns the bytes that were written."""
    rng = random.Random(files)
    folder.mkdir()

    def text(words: int) -> str:
        return " ".join(rng.choices(_WORDS, k=words))

    systems = [text(300) for _ in range(5)]
    total, clock = 0, float(_START)
    for number in range(files):
        lines: list[str] = []
        size = 0
        while size < mb * 1e6 / files:
            messages = [{"role": "system", "content": rng.choice(systems)}]
            session = f"{number}-{len(lines)}"
            for _ in range(_TURNS):
                messages = [*messages, {"role": "user", "content": text(60)}]
                answer = {"role": "assistant", "content": text(80)}
                clock += 0.1
                row = {"timestamp": clock, "session_id": session, "messages": messages}
                lines.append(json.dumps({**row, "response": {"choices": [{"message": answer}]}}) + "\n")
                size += len(lines[-1])
                messages = [*messages, answer]
        (folder / f"part-{number:04}.jsonl").write_text("".join(lines))
        total += size
    return total


def ran(command: list[str]) -> tuple[float, float, float, bytes]:
    """Wall seconds, CPU seconds with those of all processes that it waited for, MiB of the largest of them, and what it printed."""
    began = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"{' '.join(command)} failed")
        out.seek(0)
        printed = out.read()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - began, cpu, usage.ru_maxrss / 1024, printed


def digest_of(folder: Path) -> str:
    """Of all files below a folder and their names."""
    digest = hashlib.blake2b()
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def trace(logs: Path, blocks: Path, way: Way) -> None:
    """Trace all logs once."""
    shutil.rmtree(blocks, ignore_errors=True)
    command = ["kvtool", "trace", str(logs), "-o", str(blocks), "-q", "--json", *way.flags]
    wall, cpu, peak, _ = ran(command)
    way.wall.append(wall)
    way.cpu.append(cpu)
    way.peak_mib = max(way.peak_mib, peak)
    way.digests.add(digest_of(blocks))


def sweep(blocks: Path, way: Way) -> None:
    """Sweep the policies once."""
    flags = ["--sweep", "policy", "--rules", "block-lru", "--json", "-q"]
    wall, cpu, peak, printed = ran(["kvtool", "what-if", str(blocks), *flags, *way.flags])
    way.wall.append(wall)
    way.cpu.append(cpu)
    way.peak_mib = max(way.peak_mib, peak)
    way.digests.add(hashlib.blake2b(printed).hexdigest())


def told(title: str, ways: list[Way], mb: float | None = None) -> None:
    """A table of the ways; ratios are those of medians to the first."""
    print(f"\n{title}")
    first = statistics.median(ways[0].wall)
    for way in ways:
        wall, cpu = statistics.median(way.wall), statistics.median(way.cpu)
        rate = "" if mb is None else f" · {mb / cpu:5.2f} MB per CPU second"
        print(
            f"  {way.name:14} {wall:7.2f} s · {cpu:7.2f} s CPU · {first / wall:4.2f} x · {way.peak_mib:6.0f} MiB{rate}"
        )
    assert len(set.union(*(way.digests for way in ways))) == 1, "the results differ"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--mb", type=float, default=50.0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before the first run")
    with tempfile.TemporaryDirectory() as work:
        logs, blocks = Path(work) / "logs", Path(work) / "blocks"
        mb = make_logs(logs, asked.files, asked.mb) / 1e6

        def ways() -> list[Way]:
            return [Way("one process", ["--jobs", "1"]), Way("processes", ["--jobs", str(asked.jobs)])]

        tracing = ways()
        for _ in range(asked.runs):
            for way in tracing:
                trace(logs, blocks, way)
        told(f"trace: {asked.files} files, {mb:.0f} MB, {asked.jobs} processes", tracing, mb)
        sweeping = ways()
        for _ in range(asked.runs):
            for way in sweeping:
                sweep(blocks, way)
        told("what-if --sweep policy over the traces", sweeping)
        more = Path(work) / "more"
        larger = make_logs(more, 4 * asked.files, 4 * asked.mb) / 1e6
        four = [Way("processes", ["--jobs", str(asked.jobs)])]
        trace(more, blocks, four[0])
        told(f"trace: {4 * asked.files} files, {larger:.0f} MB", four, larger)
        ratio = four[0].peak_mib / tracing[1].peak_mib
        print(f"\nmemory of the command for four times the requests: {ratio:.2f} x")


if __name__ == "__main__":
    main()
