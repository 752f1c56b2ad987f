"""Logs of a hidden provider with random sessions and events: each miss is found with its cause, none is called proven that is not,
and all sums are exact. Some logs lack times or marks: then a cause may be unknown, but never a wrong one proven."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import kvtool
from kvtool.results.misses import CacheMisses, MissCause
from tests.conftest import some

START = datetime(2026, 11, 20, 9, tzinfo=UTC).timestamp()
TTL = {"5m": 300, "1h": 3600}
LOOKBACK = 20
"""Blocks before a mark at which it finds what is stored."""
CAUSES: dict[str, set[MissCause]] = {
    "expired": {"expired"},
    "model": {"model_changed"},
    "tools": {"tools_changed", "prompt_changed"},
    "system": {"system_changed", "prompt_changed", "not_marked"},
    "history": {"history_edited", "prompt_changed", "compaction", "not_marked"},
    "compaction": {"compaction", "history_edited", "prompt_changed"},
    "thinking": {"setting_changed"},
    "key": {"key_changed"},
    "lost": {"provider", "unknown"},
}
"""The right causes of each event: what is behind a change of text may be named by its place or by its kind."""
LACKS = (None, None, None, "times", "marks")


@dataclass
class Provider:
    """Keep prefixes by their ends: those at marks for a time to live, or every 128 tokens of at least 1,024."""

    marked: bool
    stored: dict[tuple[Any, ...], tuple[float, float]] = field(default_factory=dict)
    """By cache key and prefix, until when it is kept, and for how long after each use."""

    def read(self, key: tuple[Any, ...], blocks: list[tuple[str, str | None]], now: float, *, lost: bool) -> int:
        """Return the tokens that a request reads; store what it sends. A block is a text, and the time to live of its mark."""
        ends = [(at + 1, ttl) for at, (_, ttl) in enumerate(blocks) if ttl is not None or not self.marked]
        found = 0
        for last, _ in ends:
            for end in range(max(last - LOOKBACK, 1), last + 1):
                until, keep = self.stored.get((key, _texts(blocks, end)), (0.0, 0.0))
                if until > now and not lost:
                    found = max(found, sum(len(text) for text, _ in blocks[:end]))
                    self.stored[key, _texts(blocks, end)] = now + keep, keep
        for end, ttl in ends:
            keep = float(TTL[ttl]) if ttl is not None else 1e9
            self.stored[key, _texts(blocks, end)] = now + keep, keep
        return found if self.marked else found // 128 * 128 if found >= 1_024 else 0


def _texts(blocks: list[tuple[str, str | None]], end: int) -> tuple[str, ...]:
    return tuple(text for text, _ in blocks[:end])


@dataclass
class Session:
    name: str
    model: str
    system: str
    tool: str
    messages: list[tuple[str, str]] = field(default_factory=list)
    thinking: bool = False
    key: str | None = None
    now: float = 0.0
    sent: set[str] = field(default_factory=set)
    """The texts of its last prompt."""


class MadeLog:
    """A log, and the events that were made in it: by the number of the request, the kind and the tokens that it lost."""

    def __init__(self, seed: int, *, claude: bool) -> None:
        self.source, self.claude = random.Random(seed), claude
        self.lack = self.source.choice(LACKS) if claude else self.source.choice((None, None, "times"))
        self.ttl = self.source.choice(tuple(TTL))
        self.provider = Provider(marked=claude)
        self.lines: list[dict[str, Any]] = []
        self.events: dict[int, tuple[str, int]] = {}
        self.models = ("claude-sonnet-4-5", "claude-sonnet-4-6") if claude else ("gpt-5.1", "gpt-5.2")
        sessions = [self._session(at) for at in range(self.source.randint(2, 4))]
        for _ in range(self.source.randint(25, 40)):
            self._step(self.source.choice(sessions))

    def text(self, least: int, most: int) -> str:
        return "".join(self.source.choice("abcdefgh ") for _ in range(self.source.randint(least, most))) + "."

    def _session(self, at: int) -> Session:
        key = None if self.claude else f"key-{at}"
        made = Session(f"s{at}", self.models[0], self.text(2_000, 3_000), self.text(1_500, 2_000), key=key)
        made.now = 1_000.0 * at
        return made

    def _step(self, session: Session) -> None:
        kinds = ["tools", "system", "history", "compaction", "model", "lost"]
        kinds += ["expired", "thinking"] if self.claude else ["key"]
        event = self.source.choice(kinds) if session.messages and self.source.random() < 0.3 else None
        gap = self.source.uniform(5, 100)
        match event:
            case "expired":
                gap = TTL[self.ttl] + self.source.uniform(30, 5_000)
            case "model":
                session.model = next(each for each in self.models if each != session.model)
            case "tools":
                session.tool = self.text(1_500, 2_000)
            case "system":
                session.system = self.text(2_000, 3_000)
            case "history":
                at = self.source.randrange(len(session.messages))
                role, _ = session.messages[at]
                session.messages[at] = role, self.text(300, 900)
            case "compaction":
                session.messages = [("user", self.text(200, 400)), ("assistant", self.text(50, 90))]
            case "thinking":
                session.thinking = not session.thinking
            case "key":
                session.key = f"key-{self.source.random()}"
            case _:
                pass
        session.now += gap
        session.messages.append(("user", self.text(300, 900)))
        number = len(self.lines) + 1
        missed = self._send(session, number, lost=event == "lost")
        if event is not None:
            self.events[number] = event, missed
        session.messages.append(("assistant", self.text(50, 200)))

    def _send(self, session: Session, number: int, *, lost: bool) -> int:
        """Write a request; return how many tokens, of those in the request before of its session, it did not read."""
        ttl, last = self.ttl if self.claude else None, len(session.messages) - 1
        front = [(session.tool, None), (session.system, ttl)]
        rest = [(text, ttl if at == last else None) for at, (_, text) in enumerate(session.messages)]
        scope = (session.model, session.key)
        read = self.provider.read((*scope, session.thinking), [*front, *rest], session.now, lost=lost)
        if self.claude:  # thinking is a part of the key of messages, not of tools and system
            read = max(read, self.provider.read(scope, front, session.now, lost=lost))
        sizes = {text: len(text) for text, _ in (*front, *rest)}
        prompt = sum(sizes.values())
        self._write(session, number, prompt, read)
        repeated = sum(size for text, size in sizes.items() if text in session.sent)
        session.sent = set(sizes)
        return repeated - read

    def _write(self, session: Session, number: int, prompt: int, read: int) -> None:
        time = datetime.fromtimestamp(START + session.now, UTC).isoformat()
        mark = {"cache_control": {"type": "ephemeral", **({"ttl": "1h"} if self.ttl == "1h" else {})}}
        marked = mark if self.lack != "marks" else {}
        tool = {"name": "find", "description": session.tool}
        request: dict[str, Any] = {"model": session.model, "max_tokens": 9}
        if self.claude:
            written = prompt - read
            usage: dict[str, Any] = {
                "input_tokens": 0,
                "cache_read_input_tokens": read,
                "cache_creation_input_tokens": written,
                "cache_creation": {
                    f"ephemeral_{each}_input_tokens": written if each == self.ttl else 0 for each in TTL
                },
                "output_tokens": 1,
            }
            last = len(session.messages) - 1
            request["tools"] = [{**tool, "input_schema": {"type": "object"}}]
            request["system"] = [{"type": "text", "text": session.system, **marked}]
            request["messages"] = [
                {"role": role, "content": [{"type": "text", "text": text, **(marked if at == last else {})}]}
                for at, (role, text) in enumerate(session.messages)
            ]
            if session.thinking:
                request["thinking"] = {"type": "enabled", "budget_tokens": 1_024}
            answer: dict[str, Any] = {"id": f"msg_{number}", "role": "assistant", "type": "message", "usage": usage}
            answer["content"] = [{"type": "text", "text": "x"}]
        else:
            request["tools"] = [{"type": "function", "function": tool}]
            said = [("system", session.system), *session.messages]
            request["messages"] = [{"role": role, "content": text} for role, text in said]
            request["prompt_cache_key"] = session.key
            usage = {"prompt_tokens": prompt, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": read}}
            answer = {"id": f"chatcmpl-{number}", "object": "chat.completion", "usage": usage}
            answer["choices"] = [{"message": {"role": "assistant", "content": "x"}}]
        line = {"session_id": session.name, "request": request, "response": answer}
        self.lines.append(line if self.lack == "times" else {"timestamp": time, **line})


def found_in(made: MadeLog, path: Path, tokenizer: str) -> CacheMisses:
    path.write_text("".join(json.dumps(line) + "\n" for line in made.lines), encoding="utf-8")
    misses = kvtool.profile(str(path), tokenizer=tokenizer).misses
    assert misses is not None
    return misses


@pytest.mark.parametrize(
    "seed", some([391_714, 391_702, *range(1, 5)], 2)
)  # in the first two, sessions share framing alone
def test_events_are_found_and_nothing_false_is_proven(seed: int, tmp_path: Path, bytes_json: str) -> None:
    made = MadeLog(seed, claude=seed % 2 == 0)
    misses = found_in(made, tmp_path / "log.jsonl", bytes_json)
    by_request: dict[int, set[MissCause]] = {}
    for event in misses.events:
        number = int(event.request.partition(":")[0])
        by_request.setdefault(number, set()).add(event.cause)
        kind = made.events.get(number, ("none", 0))[0]
        assert event.certainty != "proven" or event.cause in CAUSES.get(kind, set()), (number, kind, event)
    needs = {"times": ("expired",), "marks": ()}.get(made.lack or "", ())
    expected = {number: kind for number, (kind, missed) in made.events.items() if missed > 200 and kind not in needs}
    missing = {number: (kind, by_request.get(number)) for number, kind in expected.items()}
    missing = {at: (kind, got) for at, (kind, got) in missing.items() if not CAUSES[kind] & (got or set())}
    assert len(missing) <= 0.02 * len(expected), (made.lack, missing)
    assert misses.promised - misses.read == sum(each.tokens for each in misses.by_cause.values())
    assert sum(event.tokens for event in misses.events) == misses.promised - misses.read
