"""Probe an agent: run it twice against a stub, and check that each request of a session begins with the request before it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from kvtool.config.command_line import flag
from kvtool.config.options.agent_options import ProbedAgent
from kvtool.errors import KvtoolError
from kvtool.profiler.agents.agent_run import SILENCE, AgentFolder, Ended, url_variables
from kvtool.profiler.agents.stub_server import KeptRequest, StubServer
from kvtool.profiler.steps.step_book import StepBook, common_characters, place_of_character
from kvtool.results.documents.agent_probe import AgentProbe, AgentRun, FirstRequests
from kvtool.results.steps import Steps
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.terminal.console import sanitize
from kvtool.text.terminal.numbers import plural
from kvtool.text.tokens.prompt import Prompt
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Turn

_RUNS = ("base", "again")
_PROMPTS = (
    "Read the README and say what the program does.",
    "Is there a test? Look at the files.",
    "Say it in one sentence.",
)
"""What the user says, turn by turn; later turns say the last one again, with its number."""
_NETWORK = "The agent's proxies lead to a closed port; a program that ignores them can reach other hosts."


@dataclass(frozen=True, slots=True)
class AgentProbeOptions:
    """Options of a probe: the commands of the first turn and of later ones, turns, and seconds for each command."""

    agent: str
    resume: str | None = None
    turns: int = ProbedAgent.turns
    timeout: float = ProbedAgent.timeout
    on_run: Callable[[str], None] | None = None


@dataclass(slots=True)
class _Sent:
    """A request of a run with its prompt."""

    turn: Turn
    prompt: Prompt


@dataclass(slots=True)
class _Run:
    name: str
    ended: list[Ended] = field(default_factory=list)
    sent: list[_Sent] = field(default_factory=list)


def probe_agent(options: AgentProbeOptions, load: Callable[[], Tokenizer]) -> AgentProbe:
    """Run an agent twice and compare its requests. KvtoolError where it cannot be run, or sends nothing that can be read."""
    runs = [_Run(name) for name in _RUNS]
    with StubServer() as stub, AgentFolder() as folder:
        url = f"http://127.0.0.1:{stub.port}"
        stub.folder = str(folder.repo)
        for run in runs:
            if options.on_run is not None:
                options.on_run(run.name)
            stub.run = run.name
            folder.clear()
            before = stub.traffic.any
            for number, command in enumerate(_commands(options)):
                prompt = _PROMPTS[number] if number < len(_PROMPTS) else f"{_PROMPTS[-1]} ({number + 1})"
                run.ended.append(folder.run(command, prompt, url, options.timeout, partial(_is_silent, stub, before)))
            _check(stub, run, [each for each in stub.traffic.requests if each.run == run.name])
        traffic = stub.traffic
        left_out = _read(runs, traffic.requests, folder, load)
    if traffic.unreadable:
        left_out["body that is no JSON"] = traffic.unreadable
    left_out |= {f"request to {sanitize(path)[:80]}": count for path, count in sorted(traffic.unknown.items())}
    steps = _steps(runs[0])
    return AgentProbe(
        protocols=sorted({each.protocol for each in traffic.requests}),
        runs=[_told(run) for run in runs],
        left_out=left_out,
        again=_first_requests(runs),
        steps=steps,
        notes=[*_notes(runs, traffic.refused), _NETWORK],
        verdict="broken" if steps.broken else "stable",
    )


def _commands(options: AgentProbeOptions) -> Sequence[str]:
    if options.resume is None:
        return [options.agent]
    return [options.agent, *[options.resume] * (max(options.turns, 2) - 1)]


def _is_silent(stub: StubServer, before: int) -> bool:
    """Return whether no request came since there were so many."""
    return stub.traffic.any == before


def _check(stub: StubServer, run: _Run, requests: Sequence[KeptRequest]) -> None:
    """Raise KvtoolError for a run without requests of a model."""
    if requests:
        return
    last = run.ended[-1]
    said = f": {sanitize(last.said)}" if last.said else ""
    if stub.traffic.unknown:
        path = sanitize(next(iter(stub.traffic.unknown)))[:80]
        hint = "kvtool knows Messages, Chat Completions, Responses and Gemini's generateContent"
        raise KvtoolError(f"the agent asked {path}, and kvtool does not know this API", hint=hint)
    if stub.traffic.unreadable:
        raise KvtoolError("the agent's request is no JSON object")
    names = ", ".join(url_variables(""))
    hint = f"configure its server with one of {names}, or with {{url}} in the command"
    if last.code is None:
        raise KvtoolError(f"the agent sent no request within {min(last.seconds, SILENCE):.0f} s{said}", hint=hint)
    raise KvtoolError(f"the agent ended with exit code {last.code} and sent no request{said}", hint=hint)


def _read(
    runs: Sequence[_Run], requests: Sequence[KeptRequest], folder: AgentFolder, load: Callable[[], Tokenizer]
) -> dict[str, int]:
    """Read the requests as those of a log, one session a run; return what of it is left out, by kind."""
    path = folder.root / "requests.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for each in requests:
            record = {"session_id": each.run, "url": each.path, "headers": dict(each.headers), "timestamp": each.at}
            file.write(json.dumps({**record, "body": each.body}) + "\n")
    source = LogSource([str(path)])
    renderer = Renderer(load, ChatTemplate.hosted)
    by_name = {run.name: run for run in runs}
    for conversation in source.conversations():
        while (turn := conversation.next_turn(None)) is not None:
            if turn.session in by_name:
                by_name[turn.session].sent.append(_Sent(turn, renderer.prompt(turn)))
    return dict(source.left_out.counts)


def _steps(run: _Run) -> Steps:
    """Compare the requests of a run, step by step. KvtoolError where no request goes on with another one."""
    book = StepBook()
    for number, sent in enumerate(run.sent, 1):
        book.add(sent.turn, sent.prompt, str(number))
    found = book.steps(None)
    if found is None:
        raise KvtoolError(
            f"the agent sent {plural(len(run.sent), 'request')}, and none goes on with another one",
            hint=f"give it tools that read, or a second turn: {flag('resume')} 'COMMAND {{prompt}}'",
        )
    breaks = [each.model_copy(update={"was": None, "now": None, "command": None}) for each in found.breaks]
    return found.model_copy(update={"breaks": breaks})


def _first_requests(runs: Sequence[_Run]) -> FirstRequests | None:
    """Compare the first requests with tools of both runs, or the first ones where none has any."""
    chosen = [next((each for each in run.sent if each.turn.tools), run.sent[0]) for run in runs if run.sent]
    if len(chosen) != len(runs):
        return None
    one, other = chosen
    if one.prompt.text is None or other.prompt.text is None:
        return None
    first, second = str.__str__(one.prompt.text), str.__str__(other.prompt.text)
    if first == second:
        return FirstRequests(tokens=len(other.prompt), kept_tokens=len(other.prompt), place=None)
    at = common_characters(first, second)
    place = place_of_character(other.turn, other.prompt.text, at)
    return FirstRequests(tokens=len(other.prompt), kept_tokens=other.prompt.token_at(at), place=place)


def _told(run: _Run) -> AgentRun:
    return AgentRun(
        name=run.name,
        requests=len(run.sent),
        seconds=round(sum(each.seconds for each in run.ended), 3),
        exit_codes=[each.code for each in run.ended],
    )


def _notes(runs: Sequence[_Run], refused: int) -> list[str]:
    notes = []
    stopped = sum(each.code is None for run in runs for each in run.ended)
    failed = sum(bool(each.code) for run in runs for each in run.ended)
    if stopped:
        notes.append(f"{plural(stopped, 'command')} did not end in time and was stopped.")
    if failed:
        notes.append(f"{plural(failed, 'command')} ended with an error.")
    if refused:
        notes.append(f"{plural(refused, 'request')} came after the limits of a probe.")
    return notes
