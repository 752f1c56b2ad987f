"""Causes that local servers write into their own logs: llama-server and Ollama say what was in a slot, and why it went."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kvtool.measure.servers.causes.counter_causes import cause
from kvtool.results.documents.server_cause import CauseName, ServerCause
from kvtool.text.files.compressed import open_bytes
from kvtool.text.terminal.numbers import plural
from kvtool.workload.logs.files.file_kinds import kind_of
from kvtool.workload.logs.formats.servers.server_lines import lines_of

_SERVERS: Mapping[str, str] = {"llama-log": "llama.cpp", "ollama-log": "Ollama"}
_SLOT = re.compile(r"\bslot +\w{1,30}: +id +(\d{1,9}) +\| +task +-?\d{1,9} +\| +(.*)")
_PAST = re.compile(r"\bn_past = (\d{1,9}), slot\.prompt\.tokens\.size\(\) = (\d{1,9})\b")
_FORCED = "forcing full prompt re-processing due to lack of cache data"
_LRU = "selected slot by LRU"
_MADE_ROOM = re.compile(r"making room for prompt cache entry, removing oldest entry")
_SHIFT = re.compile(r"\bslot context shift\b|\bcontext shift\b", re.IGNORECASE)
_OLLAMA = re.compile(r'\bmsg="loading cache slot" id=\d{1,9} cache=(\d{1,9}) prompt=(\d{1,9}) used=(\d{1,9})\b')
_MOST_SLOTS = 4096
_WHY: Mapping[CauseName, str] = {
    "model groups": "{tokens} in {requests} matched, but the model cannot go back to this place (windows or states).",
    "slots": "{requests} took the slot of another prompt, which lost {tokens}.",
    "prompts": (
        "{tokens} in {requests} come after a difference from the prompt in the slot."
        " The beginning changed, or the slot had another conversation."
    ),
}


@dataclass(slots=True)
class _Found:
    """Tokens and requests by cause, and prompts that were dropped from host memory."""

    tokens: Counter[CauseName] = field(default_factory=Counter)
    requests: Counter[CauseName] = field(default_factory=Counter)
    dropped: int = 0
    shifts: int = 0

    def lose(self, name: CauseName, tokens: int) -> None:
        """Count a request that lost tokens."""
        if tokens > 0:
            self.tokens[name] += tokens
            self.requests[name] += 1


def line_causes(paths: Sequence[str]) -> Iterator[ServerCause]:
    """Yield the causes that the lines of logs name."""
    for path in paths:
        kind = _kind(path)
        if kind is None:
            continue
        found = _Found()
        with open_bytes(path, path) as reader:
            texts = (line.text for line in lines_of(reader))
            (_read_llama if kind == "llama.cpp" else _read_ollama)(texts, found)
        for name, tokens in found.tokens.most_common():
            parts = {"requests": plural(found.requests[name], "request"), "tokens": plural(tokens, "token")}
            yield cause(name, "counted", tokens, _WHY[name].format(**parts), kind, "log")
        if found.dropped:
            why = f"Host memory was full, so the server dropped {plural(found.dropped, 'saved prompt')}."
            yield cause("capacity", "shown", None, why, kind, "log")
        if found.shifts:
            why = f"The context was full {plural(found.shifts, 'time')}, and its oldest tokens were dropped."
            yield cause("context", "shown", None, why, kind, "log")


def _kind(path: str) -> str | None:
    with open_bytes(path, path) as reader:
        found = kind_of(reader, path)
    return None if found is None else _SERVERS.get(found.name)


def _read_llama(texts: Iterator[str], found: _Found) -> None:
    """A slot first says what of its tokens the prompt begins with, then whether the memory can go back there."""
    past: dict[str, tuple[int, int]] = {}
    replaced: set[str] = set()
    for text in texts:
        found.dropped += _MADE_ROOM.search(text) is not None
        if (slot := _SLOT.search(text)) is None:
            continue
        name, said = slot[1], slot[2]
        if said.startswith(_LRU):
            replaced.add(name)
        elif (matched := _PAST.search(said)) is not None and len(past) < _MOST_SLOTS:
            past[name] = int(matched[1]), int(matched[2])
            if name in replaced:
                found.lose("slots", int(matched[2]) - int(matched[1]))
        elif said.startswith(_FORCED) and name in past:
            found.lose("model groups", past.pop(name)[0])
        elif _SHIFT.search(said):
            found.shifts += 1
        elif said.startswith("print_timing") or "prompt eval time" in said:
            replaced.discard(name)


def _read_ollama(texts: Iterator[str], found: _Found) -> None:
    for text in texts:
        if (loaded := _OLLAMA.search(text)) is not None:
            held, prompt, used = (int(each) for each in loaded.groups())
            found.lose("prompts", min(held, prompt) - used - 1)  # the last token is always computed
