"""Requests in the text logs of llama-server and Ollama: what a slot had, what the prompt had in common, and what was computed.

llama-server changed its lines between releases: some say the common tokens, others only shares, and at the default level only the
timings and the end of a request are there. Each line fills in what it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kvtool.workload.logs.formats.servers.server_lines import ServerLine

SLOT = re.compile(r"(?:^\[(\d{1,6})\] .{0,40})?\bslot +[\w()]{1,30}: +id +(\d{1,9}) +\| +task +-?\d{1,9} +\|")
OLLAMA = re.compile(r'\bmsg="loading cache slot" id=\d{1,9} cache=(\d{1,9}) prompt=(\d{1,9}) used=(\d{1,9})\b')
_CHECKED = re.compile(r"checking sim = [\d.]{1,9} \((\d{1,9})/\d{1,9}\)")
_SELECTED = re.compile(r"selected slot by (\w{1,20})(?:.*\bf_keep = (\d(?:\.\d{1,9})?))?")
_PROMPT = re.compile(r"\bnew prompt\b.*?\b(?:task\.n_tokens|n_prompt_tokens) = (\d{1,9})\b")
_PAST = re.compile(r"\bn_past = (\d{1,9}), slot\.prompt\.tokens\.size\(\) = (\d{1,9})\b")
_KEPT = re.compile(r"\b(?:kv cache rm|memory_seq_rm) \[(\d{1,9}), end\)")
"""Older releases print the timings after the end of a request, so this line says first what is kept."""
_FORCED = "forcing full prompt re-processing"
# a line of its own may begin with what a router or a journal puts there
_COMPUTED = re.compile(r"(?:^|[\]:|])\s*prompt eval time = .{1,40} ms / +(\d{1,9}) tokens")
_ANSWERED = re.compile(r"(?:^|[\]:|])\s*eval time = .{1,40} ms / +(\d{1,9}) tokens")
_ENDED = re.compile(r"stop processing: n_(?:tokens|past) = (\d{1,9}), truncated = 0")
_SAVED = re.compile(r"\bprompt with length +(\d{1,9}), lcp = +(\d{1,9}), f_keep = (\d\.\d{1,9})")
_LOADED = re.compile(r"\bfound better prompt with f_keep = (\d\.\d{1,9})")
_MOST_SLOTS = 4096


@dataclass(slots=True)
class SlotCall:
    """A request. None is what no line says."""

    line: ServerLine | None = None
    """The line that says what was computed, with what is before that."""
    front: str = ""
    prompt: int | None = None
    computed: int | None = None
    answered: int | None = None
    held: int | None = None
    """Tokens in the slot before."""
    matched: int | None = None
    """Those of them with which the prompt begins."""
    error: float = 0.0
    """What `matched` may be off, where it comes from a rounded share."""
    replaced: bool = False
    """True if the slot was the least recently used one: it had another prompt."""
    forced: bool = False
    """True if a line says that nothing was reusable."""

    @property
    def cached(self) -> int | None:
        """Return the prompt's tokens that were not computed."""
        return None if self.prompt is None or self.computed is None else max(self.prompt - self.computed, 0)


def slot_calls(lines: Iterable[ServerLine]) -> Iterator[SlotCall]:
    """Yield the requests of a log, each at its end; at the end of the log those that have none."""
    reader = _SlotReader()
    for line in lines:
        if (used := OLLAMA.search(line.text)) is not None:
            had, prompt, reused = (int(each) for each in used.groups())
            yield SlotCall(line, line.text[: used.start()], prompt, prompt - reused, None, had, reused)
        elif (call := reader.read(line)) is not None:
            yield call
    yield from reader.calls.values()


class _SlotReader:
    """Requests that are under way, by their slot."""

    def __init__(self) -> None:
        self.calls: dict[str, SlotCall] = {}
        self._slot = ""
        self._held: dict[str, int] = {}
        self._checked: dict[str, int] = {}
        self._saved: dict[str, tuple[int, int]] = {}
        self._loaded: tuple[int, int] | None = None

    def read(self, line: ServerLine) -> SlotCall | None:
        """Read a line; return the request that is over with it."""
        found = SLOT.search(line.text)
        if found is None:
            self._read_other(line.text)
            self._fill(line, 0)  # timings may be on lines of their own
            return None
        self._slot, said = f"{found[1]} {found[2]}", line.text[found.end() :]
        if len(self.calls) >= _MOST_SLOTS or len(self._held) >= _MOST_SLOTS:
            return None
        if (common := _CHECKED.search(said)) is not None:
            self._checked[self._slot] = int(common[1])
        elif (chosen := _SELECTED.search(said)) is not None:
            return self._choose(chosen[1], chosen[2])
        elif (prompt := _PROMPT.search(said)) is not None:
            return self._begin(int(prompt[1]))
        elif (ended := _ENDED.search(said)) is not None:
            return self._end(int(ended[1]))
        self._fill(line, found.end())
        return None

    def _read_other(self, text: str) -> None:
        """Read what the server says of saved prompts."""
        if (entry := _SAVED.search(text)) is not None and len(self._saved) < _MOST_SLOTS:
            self._saved[entry[3]] = int(entry[1]), int(entry[2])
        elif (better := _LOADED.search(text)) is not None:
            self._loaded = self._saved.get(better[1])

    def _choose(self, how: str, kept: str | None) -> SlotCall | None:
        old = self.calls.pop(self._slot, None)
        call = self.calls[self._slot] = SlotCall(held=self._held.get(self._slot), replaced=how == "LRU")
        if how == "LCP" and self._slot in self._checked:
            call.matched = self._checked[self._slot]
        elif kept is not None and call.held is not None:
            call.matched, call.error = round(float(kept) * call.held), call.held / 1000
        self._checked.clear()
        self._saved.clear()
        self._loaded = None
        return old

    def _begin(self, prompt: int) -> SlotCall | None:
        old = self.calls.get(self._slot)
        if old is not None and (old.prompt is not None or old.computed is not None):
            del self.calls[self._slot]
        else:
            old = None
        call = self.calls.setdefault(self._slot, SlotCall(held=self._held.get(self._slot)))
        call.prompt = prompt
        if self._loaded is not None:
            call.held, call.matched = self._loaded
            call.error, call.replaced, self._loaded = 0.0, False, None
        return old

    def _fill(self, line: ServerLine, begin: int) -> None:
        if (call := self.calls.get(self._slot)) is None:
            return
        said = line.text[begin:]
        if (past := _PAST.search(said)) is not None:
            call.matched, call.held, call.error = int(past[1]), int(past[2]), 0.0
        elif (kept := _KEPT.search(said)) is not None:
            if call.prompt is not None and call.computed is None and int(kept[1]) <= call.prompt:
                call.line, call.front = line, line.text[: begin + kept.start()]
                call.computed = call.prompt - int(kept[1])
        elif _FORCED in said:
            call.forced = True
        elif (computed := _COMPUTED.search(said)) is not None:
            call.line, call.front, call.computed = line, line.text[: begin + computed.start()], int(computed[1])
        elif (answered := _ANSWERED.search(said)) is not None:
            call.answered = int(answered[1])

    def _end(self, tokens: int) -> SlotCall | None:
        self._held[self._slot] = tokens
        if (call := self.calls.pop(self._slot, None)) is None:
            return None
        if call.prompt is None and call.answered is not None:
            call.prompt = tokens + 1 - call.answered  # the answer's last token has no KV
        return call
