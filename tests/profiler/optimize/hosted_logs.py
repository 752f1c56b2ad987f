"""Logs of hosted models that are made up: rules, lines that change with each request, sessions, and marks where there are any."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

Place = Literal["rules", "system", "last", "after"]
"""Where a changing line is: among the rules, after them, after the last question, or in a message of its own after that."""

MARK = {"cache_control": {"type": "ephemeral"}}
MODELS = {"anthropic": "claude-sonnet-5", "openai-5.6": "gpt-5.6", "gemini": "gemini-3.5-flash", "openai": "gpt-4o"}
_WORDS = (
    "order", "parcel", "invoice", "refund", "login", "section", "handbook", "please", "check", "agent", "topic",
    "answer",
)  # fmt: skip
START = datetime(2026, 11, 20, 9, tzinfo=UTC)


@dataclass
class HostedLog:
    """What a log is like; `bodies` makes the same one each time, with its changing lines wherever they are wanted."""

    provider: str
    seed: int
    marks: tuple[str, ...] = ()
    lines: dict[str, int] = field(default_factory=lambda: {"time": 1})
    """Names of changing lines, and how many rules are before each."""
    rules: int = 60
    sessions: int = 1
    turns: int = 1
    gap: int = 40
    tools: int = 0

    @classmethod
    def at_random(cls, seed: int) -> HostedLog:
        r = random.Random(seed)
        provider = r.choice(["anthropic", "anthropic", "anthropic", *MODELS])
        turns = r.choice([1, 1, 3, 5])
        marks: tuple[str, ...] = ()
        if provider == "anthropic":
            marks = r.choice([("system",), ("system", "last"), ("tools", "system"), ("last",)])
        rules = 270 if provider == "gemini" else r.randint(80, 160)
        return cls(
            provider,
            seed,
            marks,
            {name: r.randint(0, rules // 2) for name in r.sample(["time", "request", "build"], r.choice([1, 1, 2]))},
            rules=rules,
            sessions=r.randint(8, 16) if turns == 1 else r.choice([1, 2, 4]),
            turns=turns,
            gap=r.choice([20, 60, 200]),
            tools=3 if "tools" in marks or r.random() < 0.3 else 0,
        )

    def bodies(self, place: Place = "rules") -> list[dict[str, Any]]:
        r = random.Random(self.seed)
        rules = [
            f"Rule {n}: agents must answer questions about topic {n} by section {r.randint(1, 900)} of {made_text(r, 6)}."
            for n in range(self.rules)
        ]
        history: dict[int, list[tuple[str, str]]] = {}
        found, now = [], START
        for turn in range(self.turns):
            for session in range(self.sessions):
                now += timedelta(seconds=self.gap)
                said = history.setdefault(session, [])
                if said:
                    said.append(("assistant", f"Answer {turn} of {session}: {made_text(r, 25)}"))
                said.append(("user", f"Question {turn} of {session}: {made_text(r, 20)}"))
                values = {name: _value(r, name, now) for name in self.lines}
                body = self._body(rules, said, values, place)
                body["timestamp"] = now.isoformat()
                if self.turns > 1:
                    body["session_id"] = f"s{session}"
                found.append(body)
        return found

    def _body(
        self, rules: list[str], said: list[tuple[str, str]], values: dict[str, str], place: Place
    ) -> dict[str, Any]:
        kept, moved = list(rules), []
        for name, at in sorted(self.lines.items(), key=lambda line: -line[1]):
            if place == "rules":
                kept.insert(at, values[name])
            else:
                moved.append(values[name])
        system = "\n".join(["You are a support agent.", *kept])
        if self.provider != "anthropic":
            system = "\n".join([system, *moved]) if place == "system" else system
            messages: list[dict[str, Any]] = [{"role": "system", "content": system}]
            messages += [{"role": role, "content": text} for role, text in said]
            if place == "last":
                messages[-1]["content"] = "\n".join([messages[-1]["content"], *moved])
            messages += [{"role": "system", "content": text} for text in moved if place == "after"]
            return {"model": MODELS[self.provider], "messages": messages}
        blocks = [_block(system, marked="system" in self.marks)]
        blocks += [_block(text) for text in moved if place == "system"]
        messages = [{"role": role, "content": [_block(text)]} for role, text in said]
        messages[-1]["content"] = [_block(said[-1][1], marked="last" in self.marks)]
        messages[-1]["content"] += [_block(text) for text in moved if place == "last"]
        body: dict[str, Any] = {"model": MODELS["anthropic"], "max_tokens": 50, "system": blocks, "messages": messages}
        if self.tools:
            body["tools"] = [
                {"name": f"tool_{n}", "description": "finds orders " * 12, "input_schema": {"type": "object"}}
                for n in range(self.tools)
            ]
            body["tools"][-1] |= MARK if "tools" in self.marks else {}
        return body


def _block(text: str, *, marked: bool = False) -> dict[str, Any]:
    return {"type": "text", "text": text, **(MARK if marked else {})}


def made_text(r: random.Random, words: int) -> str:
    return " ".join(r.choice(_WORDS) for _ in range(words))


def _value(r: random.Random, name: str, now: datetime) -> str:
    if name == "time":
        return f"Current time: {now.isoformat()}"
    return f"Request id: {r.getrandbits(64):016x}" if name == "request" else f"Build: {r.getrandbits(40):010x}"
