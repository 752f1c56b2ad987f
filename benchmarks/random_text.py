"""Text that does not repeat, the usual user message: what a request of it costs beyond tokenizing, and what stays of it in memory.

Each request has a system prompt that all share and 700 words: of random letters, or words at random of this repository's own texts,
which have digits, signs, paths and code. Logs of each kind are profiled without advice, each by a process of its own; CPU seconds
beyond start-up are those beyond a log of one request, memory is that beyond the log before. `--large` profiles one log of so many
megabytes instead, by two processes.

    python benchmarks/random_text.py [--words letters real] [--requests 4000 12000] [--large 1000 [--jobs 1 2]]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import string
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from timing import machine, watch_process

PROFILE = (sys.executable, "-m", "kvtool", "profile", "--dry-run", "--no-advice")
WORDS = 700
SYSTEM_WORDS = 250
TOKENIZE = """
import json, sys
from kvtool.text.tokens.tokenizer import load_tokenizer
tokenizer = load_tokenizer(None, offline=True)
for line in open(sys.argv[1]):
    for message in json.loads(line)["messages"]:
        tokenizer.encode_ids(message["content"])
"""


@dataclass(frozen=True)
class Cost:
    """CPU seconds and the peak of resident memory of a process."""

    seconds: float
    peak_kib: float


def letters(rng: random.Random) -> str:
    """A word that nobody has."""
    return "".join(rng.choices(string.ascii_lowercase, k=rng.randint(3, 9)))


@cache
def vocabulary() -> list[str]:
    """Every word of the texts of this repository, as often as it is there."""
    root = Path(__file__).parents[1]
    found = [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("workloads/**/*")]
    return [word for path in sorted(found) if path.is_file() for word in path.read_text(encoding="utf-8").split()]


def real(rng: random.Random) -> str:
    """A word of a text that somebody wrote."""
    return rng.choice(vocabulary())


KINDS: dict[str, Callable[[random.Random], str]] = {"letters": letters, "real": real}


def write(path: Path, kind: str, *, requests: int | None = None, megabytes: float | None = None) -> tuple[int, float]:
    """A log of so many requests, or of so many megabytes; returns both."""
    rng = random.Random(7)

    def text(count: int) -> str:
        return " ".join(KINDS[kind](rng) for _ in range(count))

    system = {"role": "system", "content": f"You are the careful assistant of a shop.\n{text(SYSTEM_WORDS)}"}
    count = size = 0
    with path.open("w", encoding="utf-8") as file:
        while (count < requests) if requests is not None else (size < (megabytes or 0) * 1e6):
            size += file.write(json.dumps({"messages": [system, {"role": "user", "content": text(WORDS)}]}) + "\n")
            count += 1
    return count, size / 1e6


def cost(command: list[str]) -> Cost:
    """Run a command with its output thrown away; exits where it fails."""
    null = os.open(os.devnull, os.O_RDWR)
    actions = [(os.POSIX_SPAWN_DUP2, null, descriptor) for descriptor in (0, 1)]
    process = os.posix_spawnp(command[0], command, dict(os.environ), file_actions=actions)
    os.close(null)
    _, status, usage = os.wait4(process, 0)
    if os.waitstatus_to_exitcode(status):
        sys.exit(f"{' '.join(command)} failed")
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / (1 if sys.platform == "linux" else 1024))


def profile(path: Path) -> Cost:
    """What a profile of a log takes."""
    return cost([*PROFILE, str(path), "--jobs", "1"])


def tokenize(path: Path) -> Cost:
    """What encoding each message takes, once."""
    return cost([sys.executable, "-c", TOKENIZE, str(path)])


def large(kind: str, megabytes: float, jobs: list[str]) -> None:
    """One log of so many megabytes, once for each number of processes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.jsonl"
        count, size = write(path, kind, megabytes=megabytes)
        print(f"{kind}: {count:,} requests, {size:.1f} MB")
        print("--jobs   wall s    CPU s  s per MB  cores busy  MiB in all")
        for number in jobs:
            found = watch_process([*PROFILE, str(path), "--jobs", number])
            print(
                f"{number:>6} {found.wall:8.1f} {found.cpu:8.1f} {found.cpu / size:9.3f} {found.busy:11.2f} "
                f"{found.peak_mib:11.0f}",
                flush=True,
            )


def growing(kind: str, numbers: list[int]) -> None:
    """Logs of so many requests, and what each costs beyond a log of one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.jsonl"
        write(path, kind, requests=1)
        idle, idle_tokenizing = profile(path), tokenize(path)
        print(f"start-up (a log of one request): {idle.seconds:.2f} s of CPU, {idle.peak_kib / 1024:.0f} MiB")
        print("words    requests     MB   CPU s  s per MB  peak MiB  KiB a request  tokenizing alone, s per MB  ratio")
        before, peak_before = 1, idle.peak_kib
        for requests in numbers:
            count, size = write(path, kind, requests=requests)
            found = profile(path)
            own = (found.seconds - idle.seconds) / size
            kib = (found.peak_kib - peak_before) / (count - before)
            before, peak_before = count, found.peak_kib
            alone = (tokenize(path).seconds - idle_tokenizing.seconds) / size
            print(
                f"{kind:7} {count:9,} {size:6.1f} {found.seconds:7.2f} {own:9.3f} {found.peak_kib / 1024:9.0f} "
                f"{kib:14.1f} {alone:27.3f} {own / alone:6.1f}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--words", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--requests", nargs="+", type=int, default=[4_000, 12_000])
    parser.add_argument("--large", type=float, help="megabytes of one log, profiled once")
    parser.add_argument("--jobs", nargs="+", default=["2"], help="processes for that one")
    arguments = parser.parse_args()
    print(machine())
    for kind in arguments.words:
        if arguments.large is not None:
            large(kind, arguments.large, arguments.jobs)
        else:
            growing(kind, arguments.requests)


if __name__ == "__main__":
    main()
