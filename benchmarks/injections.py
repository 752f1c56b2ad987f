"""Single changes put into recorded agent conversations: are they seen, and under their own name?

Each change is put into one request of a conversation whose earlier requests stay as they are; a `SessionWatch` reads them in order.
"seen": it says that something changed; "misnamed": it gives (also) another kind than that of the change. Then the conversations as
they were recorded: no request that only goes on from an earlier one may be given a change. Which ones do is found by comparing
messages and characters alone; the others are counted, not judged.

    python benchmarks/injections.py DATA [--seed N...] [--each 200] [--json FILE] [--examples N]

DATA is a folder with tau_bench, lmcache_agent and bfcl in it.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
from injected import INJECTIONS, Case, Injection
from session_watch import SessionWatch
from timing import machine

from kvtool.diagnose.compare.change import Change
from kvtool.diagnose.compare.messages import message_key
from kvtool.text.traced import Traced
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.turn import Turn

LIVE_PROXY = "best published figures of a live proxy: 1,772 seen of 2,000, 0 misnamed, 0 false alarms of 3,622"
_SPEAKER = re.compile(r"^(user|assistant|tool): ", re.MULTILINE)
_FEWEST_TOOLS, _MOST_TOOLS = 4, 12


def recorded(data: Path) -> Iterator[list[Turn]]:
    """The requests of each session in the data, in the order they were sent."""
    yield from _sessions([data / "tau_bench" / "gpt-4o-airline.json"])
    for path in sorted((data / "tau_bench").glob("*-few_shot.jsonl")):
        yield from _displayed(path)
    for name in ("taubench", "miniswe", "magagent"):
        yield from _sessions(sorted((data / "lmcache_agent" / name).glob("*.jsonl")))


def _sessions(paths: Sequence[Path]) -> Iterator[list[Turn]]:
    found: dict[str, list[Turn]] = {}
    for conversation in LogSource([str(path) for path in paths]).conversations():
        while (turn := conversation.next_turn(None)) is not None:
            found.setdefault(f"{turn.group}\0{turn.session or turn.id}", []).append(turn)
    yield from found.values()


def _displayed(path: Path) -> Iterator[list[Turn]]:
    """tau-bench's few-shot files: a conversation as one text, with the speaker at the beginning of each message."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        display = json.loads(line)["messages_display"]
        marks = list(_SPEAKER.finditer(display))
        ends = [*(mark.start() for mark in marks[1:]), len(display)]
        messages = [
            {"role": mark[1], "content": Traced(display[mark.end() : end].rstrip("\n"))}
            for mark, end in zip(marks, ends, strict=True)
        ]
        answers = [at for at, message in enumerate(messages) if at and message["role"] == "assistant"]
        yield [
            Turn(path.stem, messages=messages[:at], session=f"{path.stem}:{number}", index=index)
            for index, at in enumerate(answers)
        ]


def tool_sets(data: Path) -> list[list[Any]]:
    """Sets of tools, in the form of the chat API, from the function calling benchmark."""
    sets = []
    for line in (data / "bfcl" / "BFCL_v4_live_multiple.json").read_text(encoding="utf-8").splitlines():
        functions = {each["name"]: each for each in json.loads(line)["function"]}
        if _FEWEST_TOOLS <= len(functions) <= _MOST_TOOLS:
            sets.append([{"type": "function", "function": each} for each in functions.values()])
    return sets


def _shared(before: Turn, after: Turn) -> int:
    """Characters of text, or messages, that two requests have in common from the start: compared one by one."""
    if before.text is not None and after.text is not None:
        a, b = (np.frombuffer(str.__str__(turn.text).encode("utf-32-le"), np.uint32) for turn in (before, after))
        most = min(len(a), len(b))
        return int(np.append(a[:most] != b[:most], True).argmax())
    same = takewhile(
        lambda pair: message_key(pair[0]) == message_key(pair[1]),
        zip(before.messages or [], after.messages or [], strict=False),
    )
    return sum(1 for _ in same)


def _length(turn: Turn) -> int:
    return len(turn.text) if turn.text is not None else len(turn.messages or [])


def chains(session: list[Turn]) -> dict[int, list[int]]:
    """The exact test: for each request that only goes on, the earlier ones that are its beginning (or of which it is one).

    It only goes on if one of them is as long as what it shares with any request before it.
    """
    found: dict[int, list[int]] = {}
    for at, turn in enumerate(session):
        shared = [_shared(one, turn) for one in session[:at]]
        most = min(max(shared, default=0), _length(turn))
        whole = [one for one in range(at) if shared[one] == min(_length(session[one]), _length(turn))]
        if most and any(shared[one] == most for one in whole):
            found[at] = whole
    return found


@dataclass
class Score:
    """Of one kind of change."""

    cases: int = 0
    seen: int = 0
    named: int = 0
    misnamed: int = 0
    wrong: list[tuple[Case, list[Change]]] = field(default_factory=list)

    def add(self, case: Case, changes: list[Change], injection: Injection) -> None:
        self.cases += 1
        self.seen += bool(changes)
        fitting = [bool({change.kind.key, change.kind.code} & injection.expected) for change in changes]
        self.named += bool(fitting) and all(fitting)
        self.misnamed += not all(fitting)
        if not fitting or not all(fitting):
            self.wrong.append((case, changes))


@dataclass
class Result:
    """Of one seed."""

    scores: dict[str, Score]
    appended: int = 0
    alarms: int = 0
    other: int = 0
    other_named: int = 0
    false: list[tuple[Turn, list[Change]]] = field(default_factory=list)


def inject(sessions: list[list[Turn]], tools: list[list[Any]], seed: int, each: int) -> dict[str, Score]:
    """`each` changes of every kind, into conversations and requests drawn at random."""
    rng = random.Random(seed)
    linked = [chains(session) for session in sessions]
    eligible = [
        (index, at)
        for index, links in enumerate(linked)
        for at, before in links.items()
        if _length(sessions[index][at]) > max(_length(sessions[index][one]) for one in before)
    ]
    scores = {injection.name: Score() for injection in INJECTIONS}
    for injection in INJECTIONS:
        score = scores[injection.name]
        for _ in range(50 * each):
            if score.cases == each:
                break
            index, at = rng.choice(eligible)
            chosen = rng.choice(tools)
            turns = [replace(sessions[index][one], tools=chosen) for one in (*linked[index][at], at)]
            turns.sort(key=_length)  # a request that was sent twice, or sent again shorter, does not grow
            case = injection.inject(turns[:-1], turns[-1], rng)
            if case is None or _shared(case.earlier[-1], case.changed) == _length(case.earlier[-1]):
                continue  # not here, or at the very end, where it is text that was added
            watch = SessionWatch()
            for turn in case.earlier:
                watch.see(turn)
            score.add(case, watch.see(case.changed), injection)
    return scores


def as_recorded(sessions: list[list[Turn]], result: Result) -> None:
    """Read the conversations as they are."""
    for session in sessions:
        watch = SessionWatch()
        links = chains(session)
        for at, turn in enumerate(session):
            changes = watch.see(turn)
            if at in links:
                result.appended += 1
                result.alarms += bool(changes)
                if changes:
                    result.false.append((turn, changes))
            elif at:
                result.other += 1
                result.other_named += bool(changes)


def _show(change: Change) -> str:
    place = f"{change.part.kind} {change.part.index} [{change.start}, {change.stop})"
    return f"{change.kind.key} {place} {change.before[:160]!r} -> {change.after[:160]!r}"


def report(result: Result, examples: int) -> None:
    print(f"{'change':16} {'cases':>6} {'seen':>6} {'named':>6} {'misnamed':>9}")
    total: Counter[str] = Counter()
    for name, score in result.scores.items():
        print(f"{name:16} {score.cases:6,} {score.seen:6,} {score.named:6,} {score.misnamed:9,}")
        total.update(cases=score.cases, seen=score.seen, named=score.named, misnamed=score.misnamed)
    print(f"{'all':16} {total['cases']:6,} {total['seen']:6,} {total['named']:6,} {total['misnamed']:9,}")
    print(f"as recorded: {result.appended:,} requests only went on, {result.alarms:,} were given a change; "
          f"{result.other:,} did not, {result.other_named:,} were given one")  # fmt: skip
    for name, score in result.scores.items():
        for case, changes in score.wrong[:examples]:
            print(
                f"{name}: {'; '.join(map(_show, changes[:3])) or 'nothing'}  ({case.changed.group}, {case.changed.id})"
            )
    for turn, changes in result.false[:examples]:
        print(f"false alarm: {'; '.join(map(_show, changes[:3]))}  ({turn.group}, {turn.id})")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--seed", type=int, nargs="+", default=[0])
    parser.add_argument("--each", type=int, default=200, help="changes of each kind for a seed")
    parser.add_argument("--json", type=Path, help="write the counts of every seed to this file")
    parser.add_argument("--examples", type=int, default=0, help="print so many wrong cases of each kind")
    options = parser.parse_args(arguments)
    sessions, tools = list(recorded(options.data)), tool_sets(options.data)
    print(machine())
    print(f"{len(sessions):,} sessions, {sum(map(len, sessions)):,} requests; {LIVE_PROXY}")
    rows = []
    for seed in options.seed:
        began = time.perf_counter()
        result = Result(inject(sessions, tools, seed, options.each))
        as_recorded(sessions, result)
        seconds = time.perf_counter() - began
        print(f"\nseed {seed}, {seconds:.1f} s")
        report(result, options.examples)
        kinds = {
            name: {"cases": score.cases, "seen": score.seen, "named": score.named, "misnamed": score.misnamed}
            for name, score in result.scores.items()
        }
        rows.append(
            {"seed": seed, "seconds": seconds, "kinds": kinds, "appended": result.appended, "alarms": result.alarms,
             "other": result.other, "other_named": result.other_named}
        )  # fmt: skip
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
