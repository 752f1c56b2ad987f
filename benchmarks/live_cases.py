"""The faults that `live_faults.py` makes on real servers: the traffic of each, and the cause that it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from benchmarks.faults import Case

SLOWEST = 240.0
"""Seconds that the traffic of one fault may take."""


@dataclass
class Live:
    """Running servers, and the requests that were sent with their answers."""

    urls: list[str]
    case: Case
    rows: list[dict[str, Any]] = field(default_factory=list)

    def ask(self, text: str | list[int], at: int = 0, *, logged: bool = True, **fields: Any) -> None:
        """Send one prompt."""
        body = {"model": "m", "prompt": text, "max_tokens": 2, "temperature": 0, "ignore_eos": True, **fields}
        answer = httpx.post(f"{self.urls[at]}/v1/completions", json=body, timeout=SLOWEST)
        answer.raise_for_status()
        if logged:
            self.rows.append({"request": body, "response": answer.json()})

    def ask_bytes(self, texts: Sequence[str], at: int = 0, **fields: Any) -> None:
        """Send prompts as tokens of the toy model of llama.cpp, whose tokenizer no file has: a token for each byte."""
        for text in texts:
            self.ask([1, *(3 + byte for byte in text.encode())], at, **fields)

    def ask_all(self, texts: Sequence[str], at: int = 0, **fields: Any) -> None:
        """Send prompts, one after the other."""
        for text in texts:
            self.ask(text, at, **fields)

    def reset(self, at: int = 0) -> None:
        """Empty the cache."""
        httpx.post(f"{self.urls[at]}/reset_prefix_cache", timeout=60).raise_for_status()


Traffic = Callable[[Live], None]


@dataclass(frozen=True)
class LiveFault:
    """A fault on a kind of server: the cause that it is, None where it is healthy, and what the user has.

    Has M: counters, E: KV events, L: a log; U: one URL for all servers, which take turns; R: one URL, at which the second server
    replaces the first within the span, as after a restart. W: `kvtool watch` runs beside the traffic, with KV events, or with
    counters alone of one URL for all servers (UW) and of a server that caches nothing.
    """

    server: str
    name: str
    expected: str | None
    has: str
    traffic: Traffic


FAULTS: list[LiveFault] = []


def live(server: str, name: str, expected: str | None, has: str) -> Callable[[Traffic], Traffic]:
    """Declare a fault."""

    def declare(traffic: Traffic) -> Traffic:
        FAULTS.append(LiveFault(server, name, expected, has, traffic))
        return traffic

    return declare


def _chats(on: Live, sessions: int = 3, turns: int = 3) -> list[str]:
    return on.case.chats(on.case.words(60, 90), sessions, turns)


@live("plain", "chats that hit", None, "E")
@live("plain", "chats that hit", None, "L")
@live("plain", "chats that hit", None, "M")
@live("plain", "chats that hit", None, "W")
@live("off", "prefix caching off", "caching off", "M")
@live("off", "prefix caching off", "caching off", "L")
@live("off", "prefix caching off", "caching off", "W")
def _(on: Live) -> None:
    on.ask_all(_chats(on))


@live("plain", "prompts that share nothing", None, "E")
@live("plain", "prompts that share nothing", None, "L")
@live("plain", "prompts that share nothing", None, "W")
def _(on: Live) -> None:
    on.ask_all([on.case.words(30, 90) for _ in range(10)])


@live("plain", "cache too small", "capacity", "E")
@live("plain", "cache too small", "capacity", "L")
@live("plain", "cache too small", "capacity", "W")
def _(on: Live) -> None:
    on.ask_all(on.case.chats(on.case.words(60, 90), sessions=12, turns=5))


@live("plain", "a salt for each request", "salts", "E")
@live("plain", "a salt for each request", "salts", "L")
@live("plain", "a salt for each request", "salts", "W")
def _(on: Live) -> None:
    for text in _chats(on):
        on.ask(text, cache_salt=on.case.words(1, 1))


@live("plain", "the time at the front", "prompts", "E")
@live("plain", "the time at the front", "prompts", "L")
@live("plain", "the time at the front", "prompts", "W")
def _(on: Live) -> None:
    system = on.case.words(80, 120)
    for _ in range(10):
        on.ask(f"It is 12:{on.case.rng.randint(10, 59)}:{on.case.rng.randint(10, 59)}. {system} {on.case.words(3, 9)}")


@live("plain", "tools in another order", "prompts", "W")
def _(on: Live) -> None:
    tools = [on.case.words(20, 40) for _ in range(5)]
    for _ in range(10):
        on.ask(f"{' '.join(on.case.rng.sample(tools, len(tools)))} {on.case.words(3, 9)}")


@live("plain", "log probabilities of prompts", "request fields", "E")
@live("plain", "log probabilities of prompts", "request fields", "L")
def _(on: Live) -> None:
    on.ask_all(_chats(on), prompt_logprobs=1)


@live("plain", "cache cleared again and again", "cache reset", "E")
@live("plain", "cache cleared again and again", "cache reset", "W")
def _(on: Live) -> None:
    for at, text in enumerate(_chats(on)):
        if at % 3 == 2:
            on.reset()
        on.ask(text)


@live("plain", "others fill the cache", "other traffic", "L")
@live("plain", "others fill the cache", "capacity", "W")
def _(on: Live) -> None:
    for at, text in enumerate(on.case.chats(on.case.words(60, 90), sessions=2, turns=6)):
        on.ask(text)
        if at % 2:
            for _ in range(3):
                on.ask(on.case.words(600, 700), logged=False)


@live("plain", "a router with other blocks", "chunk size", "M")
def _(on: Live) -> None:
    on.ask_all(_chats(on))


@live("llama", "chats that hit", None, "L")
@live("llamas", "one URL for two servers", "several servers", "U")
@live("llamas", "restart", "restart", "R")
def _(on: Live) -> None:
    on.ask_bytes(on.case.chats(on.case.words(15, 25), sessions=3, turns=3))


@live("llama", "caching off", "caching off", "L")
def _(on: Live) -> None:
    on.ask_bytes(on.case.chats(on.case.words(15, 25), sessions=2, turns=3), cache_prompt=False)


@live("llama", "the time at the front", "prompts", "L")
def _(on: Live) -> None:
    system = on.case.words(60, 80)
    on.ask_bytes([f"It is 12:{on.case.rng.randint(10, 59)}. {system} {on.case.words(3, 9)}" for _ in range(10)])


@live("windowed", "window layers keep only the end of a prompt", "model groups", "E")
@live("windowed", "window layers keep only the end of a prompt", "model groups", "M")
def _(on: Live) -> None:
    for _ in range(5):
        system = on.case.words(100, 150)
        on.ask_all([f"{system} {on.case.words(10, 20)}" for _ in range(2)])


@live("long", "prompts shorter than a block", "short prompts", "M")
@live("long", "prompts shorter than a block", "short prompts", "L")
def _(on: Live) -> None:
    system = on.case.words(10, 12)
    on.ask_all([f"{system} {on.case.words(2, 4)}" for _ in range(12)])


@live("two", "two replicas, no affinity", "routing", "E")
@live("two", "two replicas, no affinity", "routing", "L")
def _(on: Live) -> None:
    for text in _chats(on, sessions=4):
        on.ask(text, on.case.rng.randrange(2))


@live("two", "one URL for two servers", "several servers", "U")
@live("two", "one URL for two servers", "several servers", "UW")
def _(on: Live) -> None:
    on.ask_all(_chats(on))


@live("plain", "evictions of what nobody needs again", None, "E")
@live("plain", "evictions of what nobody needs again", None, "W")
def _(on: Live) -> None:
    for _ in range(5):
        on.ask_all(on.case.chats(on.case.words(60, 90), sessions=1, turns=8))


@live("plain", "tenants with prompts of their own", None, "E")
def _(on: Live) -> None:
    for _ in range(3):
        salt = on.case.words(1, 1)
        for text in on.case.chats(on.case.words(60, 90), sessions=1, turns=4):
            on.ask(text, cache_salt=salt)


@live("two", "replicas with affinity", None, "E")
@live("two", "replicas with affinity", None, "L")
def _(on: Live) -> None:
    for at in range(2):
        on.ask_all(_chats(on), at)
