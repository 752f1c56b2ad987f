"""Arrangements of hosted prompts that `optimize` finds, beside the cheapest of all that a person would try.

    python -m benchmarks.layouts [--seeds 60] [--first 81000] [--verbose]

A log is made from parts: instructions, questions and texts that change. Brute force writes it in every arrangement, with each
place of the texts, each set of marks with its time to live, each retention and each use of cache keys, and takes the cheapest by
`profile`. `optimize --allow P2 -o` gets the log in one of them.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from kvtool.cli.app import run
from kvtool.text.tokens import tokenizer

START = datetime(2026, 11, 17, 8, tzinfo=UTC)
CLAUDE = "claude-sonnet-5"
MODELS = (CLAUDE, CLAUDE, CLAUDE, "gpt-5.1", "gpt-5.1", "gpt-5.6", "gemini-3.5-flash", "gpt-4o")
RETAINED = ("gpt-5.1", "gpt-4o")
PLACES = ("rules", "end", "question", "last")
"""Among the instructions, in their end, before the question, after it; in the last two only the newest question has the text."""
KINDS = ("clock", "trace", "customer", "memory", "passages")
WORDS = (
    *("harbor", "tide", "pilot", "berth", "crane", "cargo", "ledger", "manifest", "anchor"),
    *("beacon", "channel", "dock", "ferry", "gauge", "hull", "jetty", "keel", "lantern"),
)


@dataclass(frozen=True)
class Arrangement:
    """Where the changing texts are, which places of a Claude request have a mark for how long, and what else a request asks for."""

    places: tuple[str, ...]
    marks: tuple[str, ...] = ()
    hour: bool = False
    retention: str | None = None
    keys: str = ""


@dataclass(frozen=True)
class MadeLog:
    """What a log is like; `bodies` writes the same one in any arrangement."""

    seed: int
    model: str
    kinds: tuple[str, ...]
    depth: int
    rules: int
    sessions: int
    turns: int
    gap: int
    given: Arrangement

    @classmethod
    def at_random(cls, seed: int) -> MadeLog:
        r = random.Random(seed)
        model = r.choice(MODELS)
        claude = model == CLAUDE
        kinds = tuple(r.sample(KINDS, r.choice([1, 1, 2])))
        rules = r.randint(230, 280) if model.startswith("gemini") else r.randint(90, 140)
        turns = r.choice([1, 1, 3, 4])
        marks = r.choice([(), ("system",), ("last",), ("system", "last")]) if claude else ()
        keys = r.choice(["", "", "session", "request"]) if model.startswith("gpt") else ""
        given = Arrangement(
            tuple(r.choice(PLACES[:3]) for _ in kinds), marks, bool(marks) and r.random() < 0.2, None, keys
        )
        sessions = r.randint(8, 14) if turns == 1 else r.choice([2, 3, 4])
        return cls(
            seed,
            model,
            kinds,
            r.randint(0, rules // 2),
            rules,
            sessions,
            turns,
            r.choice([15, 60, 240, 700, 1500]),
            given,
        )

    def arrangements(self) -> Iterator[Arrangement]:
        """Yield all that a person would try."""
        claude = self.model == CLAUDE
        marks = [(), ("system",), ("last",), ("system", "last")] if claude else [()]
        times = [False, True] if claude else [False]
        retentions = [None, "24h"] if self.model in RETAINED else [None]
        keys = dict.fromkeys([self.given.keys, "one" if self.given.keys else ""])
        few = PLACES[1:] if len(self.kinds) == 1 else ("end", "last")
        wanted = [dict.fromkeys([given, *few]) for given in self.given.places]
        for places, marked, hour, kept, key in product(product(*wanted), marks, times, retentions, keys):
            if not hour or marked:
                yield Arrangement(places, marked, hour, kept, key)

    def bodies(self, way: Arrangement) -> list[dict[str, Any]]:
        """Write the requests."""
        r = random.Random(self.seed)
        rules = [f"Rule {n}: for case {r.randint(1, 900)} follow {_words(r, 7)}." for n in range(self.rules)]
        said: dict[int, list[tuple[str, str]]] = {}
        kept: dict[tuple[str, int], list[str]] = {}
        now, found = START, []
        for turn in range(self.turns):
            for session in range(self.sessions):
                now += timedelta(seconds=self.gap + r.randint(0, 5))
                talk = said.setdefault(session, [])
                if turn:
                    talk.append(("assistant", f"Reply {turn}.{session}: {_words(r, 30)}."))
                talk.append(("user", f"Case {turn}.{session}: {_words(r, 18)}?"))
                texts = [_text(kind, r, kept.setdefault((kind, session), []), now) for kind in self.kinds]
                body = self._body(rules, talk, texts, way)
                if way.keys:
                    body["prompt_cache_key"] = {
                        "session": f"s{session}",
                        "request": f"q{turn}-{session}",
                        "one": "app",
                    }[way.keys]
                if way.retention:
                    body["prompt_cache_retention"] = way.retention
                found.append({"timestamp": now.isoformat(), "session_id": f"s{session}", "request": body})
        return found

    def _body(
        self, rules: Sequence[str], talk: Sequence[tuple[str, str]], texts: Sequence[str], way: Arrangement
    ) -> dict[str, Any]:
        at: dict[str, list[str]] = {place: [] for place in PLACES}
        for text, place in zip(texts, way.places, strict=True):
            at[place].append(text)
        lines = ["You answer for the harbor office.", *rules[: self.depth], *at["rules"], *rules[self.depth :]]
        asked = [text for _, text in talk]
        asked[-1] = "\n\n".join([*at["question"], asked[-1]])
        roles = [role for role, _ in talk]
        if self.model != CLAUDE:
            asked[-1] = "\n\n".join([asked[-1], *at["last"]])
            system = {"role": "system", "content": "\n".join([*lines, *at["end"]])}
            return {"model": self.model, "messages": [system, *_messages(roles, asked)]}
        mark = {"cache_control": {"type": "ephemeral", **({"ttl": "1h"} if way.hour else {})}}
        blocks = [{"type": "text", "text": "\n".join(lines), **(mark if "system" in way.marks else {})}]
        contents = [[{"type": "text", "text": text}] for text in asked]
        contents[-1][0] |= mark if "last" in way.marks else {}
        contents[-1] += [{"type": "text", "text": text} for text in at["last"]]
        system_blocks = [*blocks, *({"type": "text", "text": text} for text in at["end"])]
        return {"model": CLAUDE, "max_tokens": 60, "system": system_blocks, "messages": _messages(roles, contents)}


def _messages(roles: Sequence[str], contents: Sequence[object]) -> list[dict[str, object]]:
    return [{"role": role, "content": content} for role, content in zip(roles, contents, strict=True)]


def _words(r: random.Random, count: int) -> str:
    return " ".join(r.choices(WORDS, k=count))


def _text(kind: str, r: random.Random, kept: list[str], now: datetime) -> str:
    """A line of each request, a line of the session, or a block that grows in it or is another one each time."""
    match kind:
        case "clock":
            return f"Current time: {now.isoformat()}"
        case "trace":
            return f"Trace id: {r.getrandbits(80):020x}"
        case "customer":
            kept[:] = kept or [f"Customer: {_words(r, 3)}, contract {r.getrandbits(40):x}"]
            return kept[0]
        case "memory":
            kept.append(f"- The customer asked about {_words(r, 9)}.")
            return "\n".join(["<memory>", *kept, "</memory>"])
        case _:
            return "\n".join(["Relevant passages:", *(f"[{n}] {_words(r, 20)}." for n in range(1, 6))])


def document(*words: str) -> Mapping[str, Any]:
    """The JSON document of a command."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        run([*words, "--json"])
    found: Mapping[str, Any] = json.loads(out.getvalue())
    return found


@dataclass(frozen=True)
class Found:
    """Costs of a log as it is, in the cheapest arrangement, as `optimize` promised and as its log costs by another run."""

    log: MadeLog
    now: Decimal
    best: Decimal
    way: Arrangement
    promised: Decimal
    rerun: Decimal

    @property
    def reached(self) -> Decimal:
        """The share of the best saving; 1 where there is none."""
        return (self.now - self.promised) / (self.now - self.best) if self.now > self.best else Decimal(1)

    @property
    def holds(self) -> bool:
        """Whether 95 % of the best are reached, less 1 % of the cost, for which no change is advised, and a rerun shows them."""
        enough = self.now - self.promised >= (self.now - self.best) * Decimal("0.95") - self.now / 100
        return enough and self.promised == self.rerun


def compare(seed: int, folder: Path) -> Found:
    """Try all arrangements of a log, and optimize it."""
    log, given, better = MadeLog.at_random(seed), folder / f"{seed}.jsonl", folder / f"{seed}.better.jsonl"

    def cost(path: Path) -> Decimal:
        return Decimal(document("profile", str(path), "--no-advice")["money"]["predicted"])

    def written(way: Arrangement, path: Path) -> Path:
        path.write_text("".join(json.dumps(body) + "\n" for body in log.bodies(way)))
        return path

    now = cost(written(log.given, given))
    tried = {way: cost(written(way, folder / "tried.jsonl")) for way in log.arrangements()}
    way = min(tried, key=lambda each: tried[each])
    edited = document("optimize", str(given), "--allow", "P2", "-o", str(better))["edited_log"]
    if edited is None or not edited["allowed"]:
        return Found(log, now, min(now, tried[way]), way, now, now)
    return Found(log, now, min(now, tried[way]), way, Decimal(edited["cost"]["after"]), cost(better))


def main() -> None:
    """Print each log and the sums."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--first", type=int, default=81000)
    parser.add_argument("--verbose", action="store_true")
    asked = parser.parse_args()
    tokenizer.load_tokenizer = cache(tokenizer.load_tokenizer)  # loading it takes as long as all else
    found: list[Found] = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(asked.first, asked.first + asked.seeds):
            one = compare(seed, Path(folder))
            found.append(one)
            if asked.verbose or not one.holds:
                log = replace(one.log, seed=seed)
                costs = f"now {one.now} best {one.best} promised {one.promised} rerun {one.rerun}"
                said = "ok " if one.holds else "NOT"
                print(f"{said} {seed} {one.reached:.1%} {costs}\n    {log}\n    best: {one.way}", flush=True)
    saved, most = sum(one.now - one.promised for one in found), sum(one.now - one.best for one in found)
    honest = sum(one.promised == one.rerun for one in found)
    print(
        f"{sum(one.holds for one in found)} of {len(found)} logs hold; {saved / most:.1%} of the best saving; {honest} honest"
    )


if __name__ == "__main__":
    main()
