"""Count the steps of sessions, and write down those that do not begin with the step before."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING

from kvtool.accounting.book import Book
from kvtool.accounting.misses.advised_change import TEXT_CAUSES
from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.codes.structure.kv115 import TOOLS_CHANGED
from kvtool.diagnose.compare.passages import value_around
from kvtool.diagnose.prompt_layout import Layout
from kvtool.diagnose.tool_places import in_tools, tool_place
from kvtool.profiler.pair_command import PairCommand
from kvtool.profiler.steps.threads import Threads, ThreadStep
from kvtool.results.steps import BrokenStep, Steps
from kvtool.text.message import Message, role_of
from kvtool.text.tokens.prompt import Prompt
from kvtool.text.traced import Traced
from kvtool.workload.jobs import Job
from kvtool.workload.turn import RequestName, Turn

if TYPE_CHECKING:
    from kvtool.accounting.ledger.ledger import LedgerEntry
    from kvtool.accounting.misses.miss_book import MissBook
    from kvtool.accounting.servers.server import ServedRequest

_MOST_BREAKS = 50
_TEMPLATE = "chat template"


class StepBook(Book):
    """Compare each request with the one that it goes on with.

    Requests made of one record of a conversation are left out: their record is one list, so nothing says what was sent. So are
    prompts that the log does not contain in whole.
    """

    def __init__(self, misses: MissBook | None = None) -> None:
        """Create the book. `misses` has each request first: a text that cost a request reads breaks its step."""
        self._misses = misses
        self._threads = Threads()
        self._sessions: set[int] = set()
        self._thread_of: dict[int, int] = {}
        self._steps = self._broken = self._lost = self._read_past = 0
        self._breaks: list[tuple[int, int, BrokenStep, tuple[RequestName | None, RequestName | None]]] = []

    def leave_out(self, job: Job) -> None:
        self._enter(job, 0)

    def end(self, job: Job, entry: LedgerEntry | None, served: ServedRequest) -> None:
        del entry
        self._enter(job, served.hit)

    def steps(self, pair: PairCommand | None) -> Steps | None:
        """Return the counts, with commands by `pair`; None where no request goes on with another one."""
        if not self._steps:
            return None
        breaks = [
            each.model_copy(
                update=dict(zip(("was", "now", "command"), (pair or PairCommand()).shown(*names), strict=True))
            )
            for _, _, each, names in sorted(self._breaks, key=lambda kept: (-kept[0], -kept[1]))
        ]
        return Steps(
            sessions=len(self._sessions),
            steps=self._steps,
            broken=self._broken,
            lost_tokens=self._lost,
            read_past=self._read_past,
            breaks=breaks,
        )

    def _enter(self, job: Job, hit: int) -> None:
        """Enter a request: it read what its server reports, else what the rules predict."""
        if job.prompt is None or not _is_as_sent(job.turn):
            return
        latest = None if self._misses is None else self._misses.latest
        if latest is None or latest.request.job is not job:
            self.add(job.turn, job.prompt, job.request.id, hit)
            return
        request = latest.request
        read = request.read * len(job.ids) // max(request.prompt, 1)
        past = None if TEXT_CAUSES & latest.causes else request.read_past
        self.add(job.turn, job.prompt, job.request.id, read, past)

    def add(
        self, turn: Turn, prompt: Prompt, name: str, read: int = 0, read_past: Callable[[int], bool] | None = None
    ) -> None:
        """Enter a request as it was sent, which read so many tokens from a cache; a server may have reported that, and whether it
        `read_past` a token."""
        if not turn.messages or not isinstance(prompt.text, Traced):
            return
        end = _end_of_messages(prompt.text)
        text = str.__getitem__(prompt.text, slice(end))
        step = ThreadStep.of(turn, self._threads.new_number(), text, prompt.token_at(end))
        if not step.messages:
            return
        before = self._threads.find(turn.session, step)
        thread = step.number if before is None else self._thread_of.pop(before.number, before.number)
        self._thread_of[step.number] = thread
        if before is not None:
            self._steps += 1
            self._sessions.add(thread)
            if not str.startswith(prompt.text, before.text):
                self._break(turn, prompt, name, before, step, read, read_past)
        self._threads.put(turn.session, step, before)

    def _break(
        self,
        turn: Turn,
        prompt: Prompt,
        name: str,
        before: ThreadStep,
        step: ThreadStep,
        read: int,
        read_past: Callable[[int], bool] | None,
    ) -> None:
        assert prompt.text is not None
        text = str.__str__(prompt.text)
        at = common_characters(before.text, text)
        kept = min(prompt.token_at(at), before.tokens)
        if read_past is not None and read_past(kept):
            self._read_past += 1
            return
        lost = max(min(before.tokens, len(prompt)) - max(kept, read), 0)
        self._broken += 1
        self._lost += lost
        place = place_of_character(turn, prompt.text, at)
        kind = value_around(before.text, (at, at), text, (at, at)).kind
        if kind is OTHER and before.frame[1] != step.frame[1] and in_tools(place):
            kind = TOOLS_CHANGED
        broken = BrokenStep(
            request=name,
            session=turn.session,
            was=None,
            now=None,
            command=None,
            place=place,
            code=kind.code,
            what=kind.name,
            kept_tokens=kept,
            lost_tokens=lost,
        )
        keep = heapq.heappush if len(self._breaks) < _MOST_BREAKS else heapq.heappushpop
        keep(self._breaks, (lost, -self._broken, broken, (before.name, turn.name)))


def _is_as_sent(turn: Turn) -> bool:
    """Return whether a request is what was sent, and not made of a conversation's record."""
    return turn.call.incomplete is None and (turn.name is None or (turn.name.known and not turn.name.request))


def _end_of_messages(text: Traced) -> int:
    """Return where the last text of a message ends: what comes after it, a template writes."""
    end = len(text)
    for length, origin, _ in reversed(text.marks):
        if origin is not None and origin.part != _TEMPLATE:
            return end
        end -= length
    return len(text)


def common_characters(one: str, other: str) -> int:
    """Return how many characters both begin with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def place_of_character(turn: Turn, text: Traced, at: int) -> str:
    """Return the field of the request that a character of its prompt is in."""
    plain = str.__str__(text)
    if (tool := tool_place(turn.tools, plain, at)) is not None:
        return tool
    origin, offset = text.at(at) if at < len(text) else (None, 0)
    if origin is not None and origin.part != _TEMPLATE and (origin.pointer or origin.part):
        line = origin.lines.number(offset) if origin.pointer else 0
        return f"{origin.part}, line {line}" if line > 1 else origin.part
    messages = turn.messages or []
    layout = Layout(turn, plain)
    if turn.tools and not layout.next_message(at) and at < len(plain):
        return "tools"
    index = min(layout.next_message(at), len(messages) - 1)
    return _part_of(messages[index]) or f"messages[{index}] ({role_of(messages[index])})"


def _part_of(message: Message) -> str:
    """Return what the record calls a message; empty where no text of it says so."""
    content = message.get("content")
    for part in content if isinstance(content, list) else [content]:
        text = part.get("text") if isinstance(part, dict) else part
        origin = text.at(0)[0] if isinstance(text, Traced) and text else None
        if origin is not None and origin.pointer:
            return origin.part
    return ""
