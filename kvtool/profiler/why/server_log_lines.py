"""Causes that local servers write into their own logs: llama-server and Ollama say what was in a slot, and why it went."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kvtool.measure.servers.causes.counter_causes import cause
from kvtool.results.documents.server_cause import CauseName, ServerCause
from kvtool.text.files.compressed import open_bytes
from kvtool.text.terminal.numbers import plural
from kvtool.workload.logs.files.file_kinds import kind_of
from kvtool.workload.logs.formats.servers.server_lines import ServerLine, lines_of
from kvtool.workload.logs.formats.servers.slot_lines import SlotCall, slot_calls

_SERVERS: Mapping[str, str] = {"llama-log": "llama.cpp", "ollama-log": "Ollama"}
_MADE_ROOM = re.compile(r"\bsrv .*\bremoving oldest entry\b")
_SHIFT = re.compile(r"\bslot context shift\b|\bcontext shift\b", re.IGNORECASE)
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
            for call in slot_calls(_counted(lines_of(reader), found)):
                _lose(call, found)
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


def _counted(lines: Iterable[ServerLine], found: _Found) -> Iterator[ServerLine]:
    """Count what is said of no request."""
    for line in lines:
        found.dropped += _MADE_ROOM.search(line.text) is not None
        found.shifts += _SHIFT.search(line.text) is not None
        yield line


def _lose(call: SlotCall, found: _Found) -> None:
    """Count what a request lost: of the tokens that matched, and of those after the first difference."""
    if (matched := call.matched) is None:
        return
    reused = 0 if call.forced else matched if call.cached is None else call.cached
    if matched - reused > 1 + call.error:  # the last token of a prompt is always computed
        found.lose("model groups", matched - reused)
    if call.held is None:
        return
    if call.replaced:
        found.lose("slots", call.held - matched)
    elif call.prompt is not None:
        found.lose("prompts", min(call.held, call.prompt) - matched - 1)
