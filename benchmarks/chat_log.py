"""A day of a company's chat: what profiling its log costs with one process and with two, and how much memory it takes.

Four services with system prompts and tools of their own, conversations of one to six turns, each request with all that was said
before, requests of many conversations mixed; 3,500 tokens a request. One service writes the time into its system prompt. Words are
those of the tokenizer's vocabulary, the frequent ones more often, so that a token has as many letters as in English.

    python benchmarks/chat_log.py [--requests 20000] [--jobs 1 2] [--seed 5] [--no-advice] [--write FILE]
"""

from __future__ import annotations

import argparse
import io
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

from timing import machine, watch_process

from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.tokens.tokenizer import load_tokenizer
from kvtool.workload.ahead.ahead import TurnReader, TurnWriter
from kvtool.workload.jobs import Prepared
from kvtool.workload.logs.logs import LogSource

T = TypeVar("T")
SERVICES = ("helpdesk", "search", "drafting", "triage")
OPEN = 200
"""Conversations that go on at the same time."""
TURNS = (1, 2, 3, 4, 5, 6)
SYSTEM_WORDS = 900
DOCUMENT_WORDS = 1_000
QUESTION_WORDS = 90
ANSWER_WORDS = 160
SAMPLED = 1_000


class Words:
    """Text of the tokenizer's own words, seeded."""

    def __init__(self, seed: int) -> None:
        tokenizer = load_tokenizer(None, offline=True)
        written = (tokenizer.token_text(token) for token in range(tokenizer.vocab_size))
        self._words = [word[1:] for word in written if word[:1] == "Ġ" and word[1:].isascii() and word[1:].isalpha()]
        self._weights = list(accumulate(1 / (rank + 50) for rank in range(len(self._words))))
        self.rng = random.Random(seed)

    def text(self, count: int) -> str:
        """About so many words, in sentences of one line each."""
        count = self.rng.randint(count // 2, count * 3 // 2)
        words = self.rng.choices(self._words, cum_weights=self._weights, k=count)
        lines: list[str] = []
        while words:
            length = self.rng.randint(6, 24)
            lines.append(" ".join(words[:length]).capitalize() + ".")
            del words[:length]
        return "\n".join(lines)


@dataclass
class Service:
    """One program that sends requests."""

    name: str
    system: str
    tools: list[Any]

    def prompt(self, second: int) -> str:
        """What stands in front; of one service with the time."""
        clock = (
            f"\nIt is {second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}." if self.name == "triage" else ""
        )
        return f"You are the {self.name} assistant.{clock}\n{self.system}"


@dataclass
class Talk:
    """A conversation that goes on."""

    service: Service
    left: int
    document: str
    messages: list[dict[str, str]] = field(default_factory=list)


def requests(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """The bodies of so many requests, in their order."""
    words = Words(seed)
    rng = words.rng
    services = [Service(name, words.text(SYSTEM_WORDS), _tools(words, name)) for name in SERVICES]
    talks: list[Talk] = []
    for number in range(count):
        while len(talks) < OPEN:
            talks.append(Talk(rng.choice(services), rng.choice(TURNS), words.text(DOCUMENT_WORDS)))
        talk = rng.choice(talks)
        question = words.text(QUESTION_WORDS)
        talk.messages.append({"role": "user", "content": question if talk.messages else f"{talk.document}\n{question}"})
        system = {"role": "system", "content": talk.service.prompt(number * 86_400 // count)}
        yield {
            "id": f"req-{number}",
            "service": talk.service.name,
            "timestamp": 1_780_000_000 + number * 86_400 / count,
            "tools": talk.service.tools,
            "messages": [system, *talk.messages],
        }
        talk.messages.append({"role": "assistant", "content": words.text(ANSWER_WORDS)})
        talk.left -= 1
        if not talk.left:
            talks.remove(talk)


def _tools(words: Words, name: str) -> list[Any]:
    schema = {"type": "object", "properties": {"text": {"type": "string"}, "limit": {"type": "integer"}}}
    return [
        {"type": "function", "function": {"name": f"{name}_{i}", "description": words.text(40), "parameters": schema}}
        for i in range(3)
    ]


def write(path: Path, count: int, seed: int) -> float:
    """The log; returns its megabytes."""
    with path.open("w", encoding="utf-8") as file:
        return sum(file.write(json.dumps(body) + "\n") for body in requests(count, seed)) / 1e6


def parts(path: Path, most: int) -> dict[str, float]:
    """CPU seconds that the steps before the accounting take for the first requests of a log, each by itself."""
    tokenizer = load_tokenizer(None, offline=True)
    template = ChatTemplate.load(None, tokenizer)
    seconds = dict.fromkeys(("read and parse", "render", "tokenize", "hand over, writing", "hand over, reading"), 0.0)

    def timed(name: str, work: Callable[[], T]) -> T:
        began = time.process_time()
        result = work()
        seconds[name] += time.process_time() - began
        return result

    conversations = LogSource([str(path)]).conversations()
    for _ in range(most):
        turn = timed("read and parse", lambda: next(conversations).next_turn(None))
        assert turn is not None
        assert turn.messages is not None
        messages, tools = turn.messages, turn.tools
        text = timed("render", lambda: template.render(messages, tools))  # noqa: B023 - called at once
        prompt = timed("tokenize", lambda: tokenizer.encode(text, add_special_tokens=False))  # noqa: B023 - called at once
        stream = io.BytesIO()
        prepared = Prepared(prompt, "", [0])
        timed("hand over, writing", lambda: TurnWriter(stream).turn(turn, prepared))  # noqa: B023 - called at once
        stream.seek(0)
        timed("hand over, reading", TurnReader(stream, tokenizer.offsets).turn)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--jobs", nargs="+", default=["1", "2"])
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--no-advice", action="store_true", help="try no fixes: one pass over the log")
    parser.add_argument("--write", type=Path, help="only write the log")
    asked = parser.parse_args()
    if asked.write is not None:
        print(f"{write(asked.write, asked.requests, asked.seed):.1f} MB")
        return
    print(machine())
    profile = [sys.executable, "-m", "kvtool", "profile", "--dry-run"] + (["--no-advice"] if asked.no_advice else [])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.jsonl"
        size = write(path, asked.requests, asked.seed)
        print(f"{asked.requests:,} requests, {size:.1f} MB, {'no fixes tried' if asked.no_advice else 'fixes tried'}")
        print("--jobs   wall s    CPU s  CPU s a GB  cores busy  MiB in all  first hit rate after s")
        for jobs in asked.jobs:
            found = watch_process([*profile, str(path), "--jobs", jobs])
            first = "" if found.first_rate is None else f"{found.first_rate:.1f}"
            print(
                f"{jobs:>6} {found.wall:8.1f} {found.cpu:8.1f} {found.cpu / size * 1e3:11.0f} {found.busy:11.2f} "
                f"{found.peak_mib:11.0f} {first:>23}",
                flush=True,
            )
        most = min(asked.requests, SAMPLED)
        print(f"CPU seconds a GB before the accounting, from the first {most:,} requests")
        for name, seconds in parts(path, most).items():
            print(f"  {name:20} {seconds / most * asked.requests / size * 1e3:6.0f}")


if __name__ == "__main__":
    main()
