"""Logs of conversations in which an application writes a block of its own into instructions or questions."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from tests.profiler.optimize.hosted_logs import MARK, MODELS, START, made_text

BlockPlace = Literal["rules", "first", "question", "last", "instructions"]
"""Among the rules, before the first or the last question, after the last question, or after the rules."""


@dataclass
class BlockLog:
    """What a log is like; `bodies` makes the same one each time, with its blocks wherever they are wanted."""

    provider: str
    seed: int
    kind: str
    place: BlockPlace
    marks: tuple[str, ...]
    sessions: int
    turns: int
    gap: int
    rules: int
    lines: int

    @classmethod
    def at_random(cls, seed: int) -> BlockLog:
        r = random.Random(seed)
        provider = r.choice(["anthropic", "anthropic", "openai-5.6", "gemini", "openai"])
        kind = r.choice(["passages", "memory", "persona", "files"])
        place: BlockPlace = r.choice(["rules", "first", "question"])
        marks = r.choice([("system",), ("system", "last"), ("last",), ()]) if provider == "anthropic" else ()
        sessions, turns, gap = r.choice([2, 3, 4]), r.choice([4, 5]), r.choice([20, 60, 200])
        rules = 270 if provider == "gemini" else r.randint(80, 140)
        return cls(provider, seed, kind, place, marks, sessions, turns, gap, rules, r.randint(3, 8))

    def bodies(self, place: BlockPlace | None = None) -> list[dict[str, Any]]:
        r = random.Random(self.seed)
        rules = [
            f"Rule {n}: agents must answer questions about topic {n} by section {r.randint(1, 900)} of {made_text(r, 6)}."
            for n in range(self.rules)
        ]
        lines: dict[int, list[str]] = {}
        said: dict[int, list[tuple[str, str]]] = {}
        found, now = [], START
        for turn in range(self.turns):
            for session in range(self.sessions):
                now += timedelta(seconds=self.gap)
                talk = said.setdefault(session, [])
                if turn:
                    talk.append(("assistant", f"Answer {turn} of {session}: {made_text(r, 25)}."))
                talk.append(("user", f"Question {turn} of {session}: {made_text(r, 14)}?"))
                block = self._block(r, lines.setdefault(session, []), turn)
                request = self._request(rules, talk, block, place or self.place)
                found.append({"timestamp": now.isoformat(), "session_id": f"s{session}", "request": request})
        return found

    def _block(self, r: random.Random, lines: list[str], turn: int) -> str:
        """Make a block that is constant in a session, grows in it, changes in part, or is another one each time."""
        match self.kind:
            case "persona":
                lines[:] = lines or [f"{name}: {made_text(r, 6)}" for name in ("Name", "Plan", "Region", "Tone")]
            case "memory":
                lines.append(f"- The customer said that {made_text(r, 8)}.")
            case "files":
                lines[:] = lines or [f"src/{n}_{r.getrandbits(20):x}.py: open" for n in range(self.lines)]
                lines[r.randrange(len(lines))] = f"src/turn_{turn}_{r.getrandbits(20):x}.py: open"
            case _:
                passages = (f"[{n + 1}] {made_text(r, 18).capitalize()}." for n in range(self.lines))
                return "\n".join(["Relevant passages:", *passages])
        return "\n".join([f"<{self.kind}>", *lines, f"</{self.kind}>"])

    def _request(self, rules: list[str], talk: list[tuple[str, str]], block: str, place: BlockPlace) -> dict[str, Any]:
        third = len(rules) // 3
        kept = [*rules[:third], "", block, "", *rules[third:]] if place == "rules" else rules
        system = "\n".join(["You are a support agent.", *kept, *(["", block] if place == "instructions" else [])])
        asked = [text for _, text in talk]
        if place in ("first", "question"):
            at = 0 if place == "first" else -1
            asked[at] = f"{block}\n\n{asked[at]}"
        roles = [role for role, _ in talk]
        if self.provider != "anthropic":
            if place == "last":
                asked[-1] += f"\n\n{block}"
            messages = [{"role": role, "content": text} for role, text in zip(roles, asked, strict=True)]
            return {"model": MODELS[self.provider], "messages": [{"role": "system", "content": system}, *messages]}
        contents: list[list[dict[str, Any]]] = [[{"type": "text", "text": text}] for text in asked]
        contents[-1][-1] |= MARK if "last" in self.marks else {}
        contents[-1] += [{"type": "text", "text": block}] if place == "last" else []
        return {
            "model": MODELS["anthropic"],
            "max_tokens": 50,
            "system": [{"type": "text", "text": system, **(MARK if "system" in self.marks else {})}],
            "messages": [{"role": role, "content": each} for role, each in zip(roles, contents, strict=True)],
        }
