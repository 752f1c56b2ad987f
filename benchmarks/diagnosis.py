"""What finding causes and trying fixes costs: accounting alone, the same with causes, and a whole profile with every pass of it.

Seconds are CPU seconds, with those of processes that it starts: other work on the machine changes them less. The tokenizer has seen
the text before. Each workload runs in a process of its own.

    python benchmarks/diagnosis.py [--tau FILE] [--only NAME…] [LOG…]

FILE is a list of trajectories with their messages (tau-bench's `gpt-4o-airline.json`); each LOG counts as part of one workload.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import string
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from timing import machine

from kvtool.config.asked_run import RunOptions
from kvtool.profiler.opening import open_workload
from kvtool.profiler.profiler import ReportOptions
from kvtool.profiler.run.purposes import explained_run
from kvtool.profiler.run.run_setup import RunSetup
from kvtool.text.terminal.progress import Progress, Share
from kvtool.text.tokens.tokenizer import Tokenizers
from kvtool.workload.jobs import JobMaker

CHARACTERS = 10_000_000
"""Of the chat log: requests are taken until they have as many."""


def words(rng: random.Random, count: int) -> str:
    """Words that no one has, with a line end after every twelfth."""
    made = ["".join(rng.choices(string.ascii_lowercase, k=rng.randint(2, 9))) for _ in range(count)]
    return "\n".join(" ".join(made[at : at + 12]) for at in range(0, count, 12))


def short(count: int) -> Iterator[dict[str, Any]]:
    """Requests of 60 to 300 tokens with the time first, two thirds of each the same in all."""
    rng = random.Random(1)
    start = datetime(2026, 1, 5, 8, tzinfo=UTC)
    shared = [words(rng, size) for size in (20, 40, 80)]
    for number in range(count):
        clock = (start + timedelta(seconds=7 * number)).isoformat()
        yield {"prompt": f"Now: {clock}\n{rng.choice(shared)}\nQuestion {number}: {words(rng, rng.randint(5, 25))}"}


def one_line() -> Iterator[dict[str, Any]]:
    """A megabyte without a line end, twice, with another number first."""
    text = words(random.Random(2), 160_000).replace("\n", " ")[:1_000_000]
    for number in (17, 94):
        yield {"prompt": f"run {number} {text}"}


def long(count: int) -> Iterator[dict[str, Any]]:
    """Requests of 200 KB with a UUID first."""
    rng = random.Random(3)
    shared = words(rng, 31_000)[:200_000]
    for number in range(count):
        name = uuid.UUID(int=rng.getrandbits(128), version=4)
        yield {"prompt": f"Request {name}\n{shared}\nQuestion {number}: {words(rng, 12)}"}


def chat(path: Path) -> Iterator[dict[str, Any]]:
    """A request for every turn of an assistant in recorded trajectories, as a chat API gets it."""
    left = CHARACTERS
    for trajectory in json.loads(path.read_text(encoding="utf-8")):
        messages = trajectory["traj"]
        for at, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            yield {"messages": messages[:at], "session_id": f"{trajectory['task_id']}-{trajectory['trial']}"}
            left -= len(json.dumps(messages[:at]))
            if left < 0:
                return


def cpu_seconds() -> float:
    """Of this process and of those that it waited for."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


class Passes(Progress):
    """Notes how long each stage took."""

    def __init__(self) -> None:
        super().__init__(None)
        self.seconds: list[tuple[str, float]] = []
        self._name, self._began = "", cpu_seconds()

    def stage(self, name: str, total: int | None = None, share: Share | None = None) -> None:
        super().stage(name, total, share)
        now = cpu_seconds()
        if self._name:
            self.seconds.append((self._name, now - self._began))
        self._name, self._began = name, now


def measure(paths: list[str]) -> dict[str, Any]:
    """One workload in this process."""
    opened = open_workload(RunOptions(inputs=paths), Tokenizers(offline=False))

    def account(*, explain: bool) -> tuple[float, int]:
        began = cpu_seconds()
        maker = JobMaker(opened.renderer, seed=0)
        accountant = explained_run(RunSetup(opened.planned.plan, maker, Progress(None)), explain=explain)
        result = accountant.run(opened.source)
        return cpu_seconds() - began, sum(group.prompt_tokens for group in result.ledger.totals())

    first, tokens = account(explain=False)
    plain = min(account(explain=False)[0] for _ in range(2))
    causes = min(account(explain=True)[0] for _ in range(2))
    passes = Passes()
    began, clock = cpu_seconds(), time.perf_counter()
    profile = opened.profiler(ReportOptions(), passes).run()
    whole, wall = cpu_seconds() - began, time.perf_counter() - clock
    passes.stage("")
    return {
        "requests": profile.totals.requests,
        "tokens": tokens,
        "first": first,
        "plain": plain,
        "causes": causes,
        "whole": whole,
        "wall": wall,
        "passes": passes.seconds,
        "found": [finding.code for finding in profile.findings][:6],
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1 << 20),
    }


def show(name: str, found: dict[str, Any], *, size: int) -> None:
    count = found["requests"]
    print(f"\n{name}: {size / 1e6:.1f} MB, {count:,} requests, {found['tokens']:,} tokens; {', '.join(found['found'])}")
    print(f"  accounting, new text   {found['first']:7.2f} s  {count / found['first']:9,.0f} requests/s")
    print(f"  accounting only        {found['plain']:7.2f} s  {count / found['plain']:9,.0f} requests/s")
    print(f"  with causes            {found['causes']:7.2f} s  {count / found['causes']:9,.0f} requests/s  "
          f"{found['causes'] / found['plain']:5.2f} x accounting only")  # fmt: skip
    print(f"  profile, {len(found['passes']):2} passes     {found['whole']:7.2f} s  {count / found['whole']:9,.0f} requests/s  "
          f"{found['wall']:.2f} s on the clock  peak {found['peak']:,.0f} MiB")  # fmt: skip
    print("    " + ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in found["passes"]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("logs", nargs="*")
    parser.add_argument("--tau", type=Path)
    parser.add_argument("--only", nargs="*", help="names of workloads, or their beginnings")
    parser.add_argument("--measure", action="store_true", help="the logs in this process, as JSON")
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.logs)))
        return
    made: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
        "20,000 short requests": lambda: short(20_000),
        "one line of 1 MB, twice": one_line,
        "200 requests of 200 KB": lambda: long(200),
    }
    tau = arguments.tau
    if tau is not None:
        made["chat of tau-bench"] = lambda: chat(tau)
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        workloads = {"logs": arguments.logs} if arguments.logs else {}
        for number, name in enumerate(made):
            workloads[name] = [str(Path(folder) / f"{number}.jsonl")]
        for name, paths in workloads.items():
            if arguments.only and not any(name.startswith(each) for each in arguments.only):
                continue
            if name in made:
                with Path(paths[0]).open("w", encoding="utf-8") as file:
                    file.writelines(json.dumps(record) + "\n" for record in made[name]())
            size = sum(Path(path).stat().st_size for path in paths)
            command = [sys.executable, __file__, "--measure", *paths]
            show(name, json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout), size=size)


if __name__ == "__main__":
    main()
