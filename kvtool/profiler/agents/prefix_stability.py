"""Probe an agent: run it against a stub, twice as it is and then with one thing changed in each run, and compare its requests."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from kvtool.config.command_line import flag
from kvtool.config.options.agent_options import ProbedAgent
from kvtool.errors import KvtoolError
from kvtool.profiler.agents.agent_commands import AgentCommand, command_of, is_tested, recipes, version_of
from kvtool.profiler.agents.agent_run import (
    PROCESSES,
    AgentFolder,
    Ended,
    faketime_library,
    is_silent,
    slowed,
    url_variables,
)
from kvtool.profiler.agents.circumstances import AGAIN, BASE, Circumstance, chosen
from kvtool.profiler.agents.compared_runs import (
    AgentRequests,
    check_steps,
    compare_runs,
    prefix_hash,
    read_runs,
    steps_of,
)
from kvtool.profiler.agents.own_script import StubScript
from kvtool.profiler.agents.priced_losses import check_model, priced
from kvtool.profiler.agents.private_network import LOOPBACK, open_network
from kvtool.profiler.agents.stub_server import LateServer, StubServer, StubTraffic
from kvtool.profiler.pair_command import PairCommand
from kvtool.results.documents.agent_probe import AgentProbe, AgentRun, SkippedRun
from kvtool.text.terminal.console import sanitize
from kvtool.text.terminal.numbers import plural
from kvtool.text.tokens.tokenizer import Tokenizer

_PROMPTS = (
    "Read the README and say what the program does.",
    "Is there a test? Look at the files.",
    "Say it in one sentence.",
)
"""What the user says, turn by turn; later turns say the last one again, with its number."""
_OPEN_NETWORK = "The agent's proxies lead to a closed port; a program that ignores them can reach other hosts."
_NO_PROCESSES = "This system has no /proc, so a program that left the agent's process group may still run."
_SETTLES = 0.5
"""Seconds in which an agent learns the tools of an MCP server that answers, on a machine with a free core."""
_MOST_OF_TURN = 100
"""Requests of a command after which it is stopped: the script of the stub needs three."""


@dataclass(frozen=True, slots=True)
class AgentProbeOptions:
    """Options of a probe.

    `agent` is a recipe's name, or the command of the first turn; `resume` is that of later turns, `other` another version's. Their
    paths count from `folder`. `timeout` and `latency` are in seconds; `keep` is the folder that the requests are kept in. Losses
    have the price of `price_model`, else of the model that the agent asks for.
    """

    agent: str
    resume: str | None = None
    turns: int = ProbedAgent.turns
    timeout: float = ProbedAgent.timeout
    vary: str | None = None
    fast: bool = False
    other: str | None = None
    latency: float = ProbedAgent.latency
    keep: str | None = None
    folder: Path = Path()
    on_run: Callable[[str], None] | None = None
    script: StubScript = field(default_factory=StubScript)
    price_model: str | None = None


def probe_agent(options: AgentProbeOptions, load: Callable[[], Tokenizer]) -> AgentProbe:
    """Run an agent and compare its requests. KvtoolError where it cannot be run, or sends nothing that can be read."""
    check_model(options.price_model)
    agent = command_of(options.agent, options.resume, options.other, options.folder)
    asked = chosen(options.vary, fast=options.fast)
    if options.vary is None and agent.other is None:
        asked = [how for how in asked if not how.other]
    impossible = {how.group or how.name: why for how in asked if (why := _impossible(how, agent))}
    skipped = [SkippedRun(name=name, reason=why) for name, why in impossible.items()]
    keep = None if options.keep is None else _kept_folder(options.keep)
    with ExitStack() as stack:
        network = open_network()
        if network is not None:
            stack.callback(network.close)
        stub = stack.enter_context(StubServer(None if network is None else network.port))
        stub.script = options.script
        folder = stack.enter_context(AgentFolder(f"http://{LOOPBACK}:{stub.port}", agent, network))
        folder.prepare(BASE)
        known = agent.name in recipes()  # whatever another program does with --version is not asked for
        version = version_of(agent.first, folder.environment()) if known else None
        runs: list[AgentRequests] = []
        for how in (BASE, AGAIN, *(how for how in asked if not _impossible(how, agent))):
            if options.on_run is not None:
                options.on_run(how.name)
            run = _run(options, agent, how, stub, folder)
            if len(runs) < 2 or run.kept:  # what fails only where something is changed is said
                _check(stub.traffic, run)
                runs.append(run)
            else:
                skipped.append(SkippedRun(name=how.name, reason=_silence_told(run)))
        left_out = read_runs(runs, keep or folder.root, load)
    traffic = stub.traffic
    if traffic.unreadable:
        left_out["body that is no JSON"] = traffic.unreadable
    left_out |= {f"unknown request: {sanitize(path)[:80]}": count for path, count in sorted(traffic.unknown.items())}
    found = judged(runs, left_out, None if keep is None else PairCommand())
    model = options.price_model or runs[0].first.turn.call.model
    return found.model_copy(
        update={
            **priced(found.circumstances, model),
            "agent": sanitize(agent.name),
            "version": version,
            "skipped": skipped,
            "notes": _notes(runs, traffic.refused, options.agent, version, private=network is not None),
        }
    )


def probe_function(
    make: Callable[[str], Callable[[str], object]], load: Callable[[], Tokenizer], turns: int = ProbedAgent.turns
) -> AgentProbe:
    """Probe an agent in this process: `make(url)` returns what takes one prompt. It is made anew for each of two runs."""
    runs: list[AgentRequests] = []
    with StubServer() as stub, AgentFolder("", AgentCommand("", ())) as folder:
        folder.prepare(BASE)
        stub.folder = str(folder.repo)
        for how in (BASE, AGAIN):
            stub.run = how.name
            started = time.monotonic()
            turn = make(f"http://{LOOPBACK}:{stub.port}")
            for number in range(turns):
                stub.turn = number
                turn(_prompt(number))
            ended = Ended(0, time.monotonic() - started, "")
            runs.append(AgentRequests(how, [each for each in stub.traffic.requests if each.run == how.name], [ended]))
            _check(stub.traffic, runs[-1])
        left_out = read_runs(runs, folder.root, load)
    return judged(runs, left_out)


def judged(runs: Sequence[AgentRequests], left_out: dict[str, int], pair: PairCommand | None = None) -> AgentProbe:
    """Return what runs come to: the first two are equal, and each other one changes one thing. They are read already."""
    steps = {run.how.name: steps_of(run, pair) for run in runs}
    check_steps(steps[BASE.name], runs[0])
    rows = compare_runs(runs, steps, _resumed(runs[0]))
    broken = steps[BASE.name].broken or any(row.broken and row.judged for row in rows)
    return AgentProbe(
        agent="",
        version=None,
        protocols=sorted({each.protocol for run in runs for each in run.kept}),
        runs=[_told(run) for run in runs],
        left_out=left_out,
        steps=steps[BASE.name],
        circumstances=rows,
        skipped=[],
        prefix=prefix_hash(runs[0]),
        notes=[],
        verdict="broken" if broken else "stable",
    )


def _run(
    options: AgentProbeOptions, agent: AgentCommand, how: Circumstance, stub: StubServer, folder: AgentFolder
) -> AgentRequests:
    """Run the turns of a circumstance."""
    folder.prepare(how)
    stub.folder, stub.final = str(folder.repo), agent.final
    stub.latency = options.latency
    stub.late = LateServer(folder.ready, slowed(_SETTLES)) if how.waits else None
    first, later = agent.other if how.other and agent.other is not None else (agent.first, agent.later)
    turns = max(options.turns, 2) if later is not None and how.session else 1
    run = AgentRequests(how)
    start = len(stub.traffic.requests)
    if agent.prepare is not None:
        stub.run = ""
        folder.run(agent.prepare, 0, "", options.timeout, is_silent)
    for turn in range(turns):
        stub.run, stub.turn = how.name, turn
        words = first if not turn or later is None else later
        is_over = partial(_is_over, stub.traffic, stub.traffic.any, options.latency)
        run.ended.append(folder.run(words, turn, _prompt(turn), options.timeout, is_over))
    run.kept = [each for each in stub.traffic.requests[start:] if each.run == how.name]
    return run


def _silence_told(run: AgentRequests) -> str:
    last = run.ended[-1]
    ended = "was stopped" if last.code is None else f"ended with exit code {last.code}"
    return f"the agent {ended} and sent no request{f': {sanitize(last.said)}' if last.said else ''}"


def _prompt(turn: int) -> str:
    return _PROMPTS[turn] if turn < len(_PROMPTS) else f"{_PROMPTS[-1]} ({turn + 1})"


def _is_over(traffic: StubTraffic, before: int, latency: float, seconds: float) -> bool:
    """Return whether a command sent far more than its turn needs, or nothing for a while: after its start, or the last answer."""
    idle = min(seconds, time.monotonic() - traffic.latest - latency)
    return traffic.any - before > _MOST_OF_TURN or is_silent(idle)


def _impossible(how: Circumstance, agent: AgentCommand) -> str | None:
    """Say why a circumstance cannot be tried; None where it can."""
    if how.servers and not agent.takes_servers:
        return "the command does not use the file {mcp}, which names MCP servers"
    if how.other and agent.other is None:
        return f"there is no other version: give it with {flag('other')}"
    if how.commits and shutil.which("git") is None:
        return "git is not installed"
    if how.days:
        return agent.clock or (None if faketime_library() else "libfaketime is not installed")
    return None


def _kept_folder(path: str) -> Path:
    """Make the folder for the requests, for nobody else to read. KvtoolError where it cannot be made."""
    folder = Path(path)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise KvtoolError(f"{flag('keep')}: cannot make the folder `{path}`: {reason}") from error
    return folder


def _check(traffic: StubTraffic, run: AgentRequests) -> None:
    """Raise KvtoolError for a run without requests of a model."""
    if run.kept:
        return
    last = run.ended[-1]
    said = f": {sanitize(last.said)}" if last.said else ""
    if traffic.unknown:
        path = sanitize(next(iter(traffic.unknown)))[:80]
        hint = "kvtool knows Messages, Chat Completions, Responses and Gemini's generateContent"
        raise KvtoolError(f"the agent sent {path}, and kvtool does not know this API", hint=hint)
    if traffic.unreadable:
        raise KvtoolError("the agent's request is no JSON object")
    names = ", ".join(url_variables(""))
    hint = f"configure its server with one of {names}, or with {{url}} in the command"
    if last.code is None:
        raise KvtoolError(f"the agent sent no request of a model within {last.seconds:.0f} s{said}", hint=hint)
    raise KvtoolError(f"the agent ended with exit code {last.code} and sent no request of a model{said}", hint=hint)


def _resumed(run: AgentRequests) -> list[str]:
    """Return the numbers of the requests that continue the session in a new turn: in each turn, the first like its first one."""
    wanted = bool(run.first.turn.tools)
    found: dict[int, str] = {}
    for number, sent in enumerate(run.sent, 1):
        name = sent.turn.name
        turn = run.kept[name.record - 1].turn if name is not None and name.record else 0
        if bool(sent.turn.tools) == wanted:
            found.setdefault(turn, str(number))
    return [number for turn, number in found.items() if turn]


def _told(run: AgentRequests) -> AgentRun:
    return AgentRun(
        name=run.how.name,
        requests=len(run.sent),
        seconds=round(sum(each.seconds for each in run.ended), 3),
        exit_codes=[each.code for each in run.ended],
    )


def _notes(runs: Sequence[AgentRequests], refused: int, agent: str, version: str | None, *, private: bool) -> list[str]:
    notes = []
    ended: list[Ended] = [each for run in runs for each in run.ended]
    stopped = sum(each.code is None for each in ended)
    failed = sum(bool(each.code) for each in ended)
    if stopped:
        notes.append(
            f"{plural(stopped, 'command')} did not end within the limits, so kvtool ended {'it' if stopped == 1 else 'them'}."
        )
    if failed:
        notes.append(f"{plural(failed, 'command')} ended with an error.")
    if refused:
        notes.append(f"{plural(refused, 'request')} came after the limits of a probe.")
    if not PROCESSES.is_dir():
        notes.append(_NO_PROCESSES)
    recipe = recipes().get(agent)
    if recipe is not None and version is not None and not is_tested(version, recipe.tested):
        notes.append(f"The recipe was tried with versions {' to '.join(recipe.tested)}, not with {version}.")
    return notes if private else [*notes, _OPEN_NETWORK]
