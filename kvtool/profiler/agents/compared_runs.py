"""Compare the runs of an agent: each step with the step before it, and each run with the first one."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import xxhash

from kvtool.config.command_line import flag
from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.errors import KvtoolError
from kvtool.profiler.agents.agent_run import Ended
from kvtool.profiler.agents.chance import Chance
from kvtool.profiler.agents.circumstances import AGAIN, BASE, RESUME, Circumstance
from kvtool.profiler.agents.stub_server import KeptRequest
from kvtool.profiler.pair_command import PairCommand
from kvtool.profiler.steps.step_book import StepBook, place_of_character
from kvtool.results.documents.agent_probe import VariedRun
from kvtool.results.steps import BrokenStep, Steps
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.terminal.numbers import plural
from kvtool.text.tokens.prompt import Prompt
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.workload.logs.logs import LogOptions, LogSource
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Turn

_MOST_BREAKS = 8
"""Broken steps of a circumstance that are named."""
_TOOL = re.compile(r"^tools\[\d+\] (\S+?)(?:\.\S*)?$")
_MESSAGE = re.compile(r"^(messages|contents|input)\[\d+\]")
_NONE = Steps(sessions=0, steps=0, broken=0, lost_tokens=0)


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request of a run with its prompt; `turn` is the number of the command that sent it."""

    turn: Turn
    prompt: Prompt


@dataclass(slots=True)
class AgentRequests:
    """A run: what it changes, how its commands ended, what they sent, and what of that could be read."""

    how: Circumstance
    kept: Sequence[KeptRequest] = ()
    ended: list[Ended] = field(default_factory=list)
    sent: list[SentRequest] = field(default_factory=list)

    @property
    def first(self) -> SentRequest:
        """Return the first request with tools, or the first one where none has any."""
        return next((each for each in self.sent if each.turn.tools), self.sent[0])


def read_runs(runs: Sequence[AgentRequests], folder: Path, load: Callable[[], Tokenizer]) -> dict[str, int]:
    """Read the requests of each run as a log of one session, written into `folder`; return what is left out, by kind."""
    left_out: Counter[str] = Counter()
    renderer = Renderer(load, ChatTemplate.hosted)
    for run in runs:
        path = folder / f"{run.how.name.replace(' ', '-')}.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for each in run.kept:
                record = {"session_id": run.how.name, "url": each.path, "headers": dict(each.headers)}
                file.write(json.dumps({**record, "timestamp": each.at, "body": each.body}) + "\n")
        source = LogSource([str(path)], LogOptions(on_bad_line="skip"))
        try:
            for conversation in source.conversations():
                while (turn := conversation.next_turn(None)) is not None:
                    run.sent.append(SentRequest(turn, renderer.prompt(turn)))
        except KvtoolError as error:  # none of them is one
            raise KvtoolError(f"the agent's requests are none that its API takes: {error.message}") from None
        left_out.update(source.left_out.counts)
        left_out["body that no API takes"] += source.skipped
    return {kind: count for kind, count in left_out.items() if count}


def steps_of(run: AgentRequests, pair: PairCommand | None) -> Steps:
    """Compare the requests of a run, step by step; `pair` makes commands of names, None where no file is kept."""
    book = StepBook()
    for number, sent in enumerate(run.sent, 1):
        book.add(sent.turn, sent.prompt, str(number))
    found = book.steps(pair) or _NONE
    if pair is not None:
        return found
    breaks = [each.model_copy(update={"was": None, "now": None, "command": None}) for each in found.breaks]
    return found.model_copy(update={"breaks": breaks})


def check_steps(steps: Steps, run: AgentRequests) -> None:
    """Raise KvtoolError where no request goes on with another one."""
    if not steps.steps:
        raise KvtoolError(
            f"the agent sent {plural(len(run.sent), 'request')}, and none goes on with another one",
            hint=f"give it tools that read, or a second turn: {flag('resume')} 'COMMAND {{prompt}}'",
        )


def compare_runs(
    runs: Sequence[AgentRequests], steps: Mapping[str, Steps], resumed: Sequence[str] = ()
) -> list[VariedRun]:
    """Compare each run with the first one; `steps` are by the name of the run, `resumed` are the requests that begin a turn."""
    base, again = runs[0], runs[1]
    text = _text(base.first)
    rows = [_row(again, Chance(text, text), steps[BASE.name], steps[AGAIN.name])]
    if resumed:
        breaks = [each for each in steps[BASE.name].breaks if each.request in resumed]
        rows.append(_session_row(RESUME, base, len(resumed), breaks))
    chance = Chance(text, _text(again.first))
    by_chance = _joined(steps[BASE.name], steps[AGAIN.name])
    return rows + [_row(run, chance, by_chance, steps[run.how.name]) for run in runs[2:]]


def prefix_hash(run: AgentRequests) -> str:
    """Return a hash of the prompt of the first request."""
    return xxhash.xxh3_64_hexdigest(_text(run.first).encode(errors="surrogatepass"))


def _row(run: AgentRequests, chance: Chance, before: Steps, now: Steps) -> VariedRun:
    """Compare the first request by what chance does not explain, and the steps with those that break before."""
    first = run.first
    found = chance.first_change(_text(first))
    breaks = _new_breaks(before, now)
    row = _session_row(run.how, run, now.steps, breaks)
    if found is None or first.prompt.text is None:
        return row
    at, kind = found
    kind = run.how.kind if kind is OTHER else kind
    kept = first.prompt.token_at(at)
    return row.model_copy(
        update={
            "kept_tokens": kept,
            "lost_tokens": row.lost_tokens + row.tokens - kept,
            "place": place_of_character(first.turn, first.prompt.text, at),
            "code": kind.code,
            "what": kind.name,
        }
    )


def _session_row(how: Circumstance, run: AgentRequests, steps: int, breaks: Sequence[BrokenStep]) -> VariedRun:
    tokens = len(run.first.prompt)
    return VariedRun(
        name=how.name,
        when=how.when,
        tokens=tokens,
        kept_tokens=tokens,
        place=None,
        code=None,
        what=None,
        steps=steps,
        broken=len(breaks),
        breaks=sorted(breaks, key=lambda each: -each.lost_tokens)[:_MOST_BREAKS],
        judged=how.judged,
        lost_tokens=sum(each.lost_tokens for each in breaks),
    )


def _new_breaks(before: Steps, now: Steps) -> list[BrokenStep]:
    """Return the steps that break at a place more often than before; a session with more steps may have that many more."""
    more = max(now.steps - before.steps, 0)
    known = Counter(_field(each.place) for each in before.breaks)
    allowed = {place: count + more for place, count in known.items()}
    found: list[BrokenStep] = []
    for each in sorted(now.breaks, key=lambda each: int(each.request)):
        left = allowed.get(_field(each.place), 0)
        if left:
            allowed[_field(each.place)] = left - 1
        else:
            found.append(each)
    return found


def _field(place: str) -> str:
    """Return a place without numbers and fields of tools, which another tool before it changes, and without those of messages.

    An agent that rewrites its history does so at the first of its turns in one run, and at the last in another.
    """
    return _MESSAGE.sub(r"\1", _TOOL.sub(r"tools \1", place))


def _joined(one: Steps, other: Steps) -> Steps:
    """Return steps that break in either of two runs, each place as often as in the run where it does more often."""
    return one.model_copy(update={"breaks": [*one.breaks, *_new_breaks(one, other)]})


def _text(sent: SentRequest) -> str:
    return str.__str__(sent.prompt.text) if sent.prompt.text is not None else ""
