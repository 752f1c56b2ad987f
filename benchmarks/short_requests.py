"""Many short chat requests of one template: what finding the causes and trying fixes costs where hardly anything can hit.

Each request is a system prompt of one to ten lines and a question. In `front` its first line has the time and the
number of the request and its second one the name of a user; in `middle` the user's name and the time stand in the fifth of nine
lines; `services` are forty templates, each with its own front. Whole `kvtool profile` of each, with causes and trials as by default
and without advice, each by a process of its own: CPU seconds and peak memory.

    python benchmarks/short_requests.py [--requests N] [--only NAME…]
"""

from __future__ import annotations

import argparse
import json
import random
import string
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from timing import machine, time_process

PROFILE = (sys.executable, "-m", "kvtool", "profile", "--dry-run", "--no-config")
NAMES = (
    "Ada",
    "Bo",
    "Chandra",
    "Dmitri",
    "Edda",
    "Farid",
    "Gwen",
    "Hana",
    "Ilse",
    "Jomo",
    "Kiri",
    "Lars",
    "Mei",
    "Noor",
)
SERVICES = 40
_START = datetime(2026, 1, 5, 8, tzinfo=UTC)


def words(rng: random.Random, count: int) -> str:
    """Words that nobody has."""
    return " ".join("".join(rng.choices(string.ascii_lowercase, k=rng.randint(3, 9))) for _ in range(count))


def lines(rng: random.Random, count: int) -> list[str]:
    """Rules of a system prompt, five to twelve words each."""
    return [f"{number}. {words(rng, rng.randint(5, 12))}." for number in range(1, count + 1)]


def request(system: list[str], question: str) -> dict[str, Any]:
    """A line of a log."""
    return {"messages": [{"role": "system", "content": "\n".join(system)}, {"role": "user", "content": question}]}


def front_of(rng: random.Random, number: int) -> list[str]:
    """The lines that differ: when, which request, and who asks."""
    clock = _START + timedelta(seconds=7 * number)
    first = f"Time: {clock.isoformat()}, request {rng.getrandbits(48):012x}"
    return [first, f"You speak with {rng.choice(NAMES)} {words(rng, 1).title()}."]


def front(count: int) -> Iterator[dict[str, Any]]:
    """One template whose first two lines differ."""
    rng = random.Random(11)
    rules = lines(rng, 8)
    for number in range(count):
        yield request([*front_of(rng, number), *rules], f"{words(rng, rng.randint(4, 20))}?")


def middle(count: int) -> Iterator[dict[str, Any]]:
    """One template in whose middle a line differs."""
    rng = random.Random(12)
    rules = lines(rng, 8)
    for number in range(count):
        clock = (_START + timedelta(seconds=7 * number)).isoformat()
        line = f"{rng.choice(NAMES)} {words(rng, 1).title()} asks at {clock}."
        yield request([*rules[:4], line, *rules[4:]], f"{words(rng, rng.randint(4, 20))}?")


def services(count: int) -> Iterator[dict[str, Any]]:
    """Templates of one to eight rules, each behind its own front."""
    rng = random.Random(13)
    rules = [[f"You are service {words(rng, 2)}.", *lines(rng, rng.randint(1, 8))] for _ in range(SERVICES)]
    for number in range(count):
        first, *rest = rng.choice(rules)
        yield request([*front_of(rng, number), first, *rest], f"{words(rng, rng.randint(4, 20))}?")


KINDS: dict[str, Callable[[int], Iterator[dict[str, Any]]]] = {"front": front, "middle": middle, "services": services}


def write(path: Path, kind: str, count: int) -> None:
    """A log of so many requests of a kind, the same for the same numbers."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in KINDS[kind](count))


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("--only", nargs="*", choices=KINDS, default=list(KINDS), metavar="NAME")
    parser.add_argument("--runs", type=int, default=1)
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.jsonl")
        write(path, "front", 1)
        idle = time_process([*PROFILE, str(path)], runs=3)
        print(f"start-up (a log of one request): {idle.cpu:.2f} s of CPU, {idle.peak_mib:.0f} MiB")
        print("log        requests     MB   no advice      peak   with advice      peak")
        for kind in options.only:
            write(path, kind, options.requests)
            size = path.stat().st_size / 1e6
            plain = time_process([*PROFILE, "--no-advice", str(path)], runs=options.runs, warm_up=0)
            advised = time_process([*PROFILE, str(path)], runs=options.runs, warm_up=0)
            print(
                f"{kind:10} {options.requests:8,} {size:6.1f} {plain.cpu:9.2f} s {plain.peak_mib:5.0f} MiB "
                f"{advised.cpu:11.2f} s {advised.peak_mib:5.0f} MiB",
                flush=True,
            )


if __name__ == "__main__":
    main()
