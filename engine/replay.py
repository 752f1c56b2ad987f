"""Replay recorded runs of vLLM and compare them block for block: ``python -m kvtool.engine.replay CASE.json...``.

A case file contains the submitted requests with their times, and the record of vLLM's own scheduler: cached tokens, physical block
ids, evictions and events in order, and the free queue at the end. Blocks are named by content ("r3:5" is the content of block 5 of
request r3; the earliest request with that chain gives the name), so the comparison does not depend on a hash function.

If a case has a record of vLLM's asynchronous scheduler with the same requests, it is compared too: totals, hits, admissions,
preemptions and evictions with their steps (nothing else was recorded). Files of hash and sizing vectors are compared as well.

Each file is judged by itself: it agrees, differs, or is refused with the reason.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.hashing import block_hasher, extend_hashes
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine_error import EngineError
from kvtool.engine.groups.planner import plan_cache
from kvtool.engine.groups.recorded_plan import recorded_layers, recorded_options
from kvtool.engine.recorded import replay_sglang
from kvtool.engine.recorded.recorded_groups import plan_of, request_of
from kvtool.engine.recorded.recorded_words import GroupedWords, PlainWords, recorded_cache
from kvtool.engine.recorded.replay_llama_cpp import is_llama_cpp, llama_cpp_differences
from kvtool.engine.recorded.replay_vectors import DIFFERENCES
from kvtool.engine.request import Request
from kvtool.engine.runner import DryRunner
from kvtool.engine.scheduler import Scheduler
from kvtool.engine.step import EngineStep, Sampled

Case = dict[str, Any]

ASYNCHRONOUS = "expected_async_scheduling"
RESOLVED = "resolved"
"""Results of vLLM's planner, in cases that describe layers."""

_MOST_BLOCKS = 10_000_000
"""Bound against hostile case files: a larger cache takes gigabytes of memory."""

OTHER_ENGINES = (
    (replay_sglang.recorded, replay_sglang.differences),
    (is_llama_cpp, llama_cpp_differences),
)
"""Tests for recorded runs of other engines, with their comparisons."""

RESETS = {"reset_prefix_cache": False, "reset_prefix_cache_running": True}
"""The actions of cases, and whether each preempts running requests; the first may override it (`reset_running_requests`)."""

Verdict = Literal["agree", "differ", "refused"]

DRAINING_STEPS = 2
"""vLLM's asynchronous loop continues after the last request: one step reports to the workers that it has ended, and both of the
last two steps, which schedule nothing, pass through the queue of batches in flight."""


@dataclass(slots=True)
class Observed:
    """The history of one request, in the words of the case files."""

    request: Request
    submitted_step: int = -1
    first_token_step: int = -1
    finish_step: int = -1
    block_ids: tuple[Any, ...] = ()
    said: dict[str, Any] = field(default_factory=dict)


def _config(case: Case) -> EngineConfig:
    params: dict[str, Any] = case["params"]
    if (params.get("num_blocks") or 0) > _MOST_BLOCKS:
        raise EngineError(
            f"a cache of {params['num_blocks']:,} blocks is more than the {_MOST_BLOCKS:,} that can be replayed"
        )
    known = {each.name: params[each.name] for each in fields(EngineConfig) if each.name in params}
    if "layers" in params:
        plan = plan_cache(recorded_layers(params), recorded_options(params))
        known |= {"plan": plan, "block_size": plan.hash_block_size}
    return EngineConfig(**known)


class Replay:
    """One case, run to its end."""

    def __init__(self, case: Case, *, asynchronous: bool = False) -> None:
        self.case = case
        self.asynchronous = asynchronous
        params = case["params"]
        self.config = replace(_config(case), async_scheduling=asynchronous)
        self.cache = recorded_cache(self.config)
        self.scheduler = Scheduler(self.config, self.cache)
        self.step = 0
        self.busy_until = 0
        """The step before which vLLM's loop has work."""
        self.seconds_per_step = float(params.get("step_s", 1.0))
        self.seen: dict[str, Observed] = {}
        self.events: list[list[Any]] = []
        self.finish_order: list[str] = []
        self.preemptions: list[list[Any]] = []
        self.actions: list[list[Any]] = []
        self.trace: list[dict[str, Any]] = []
        self.in_flight: tuple[EngineStep, Sequence[Sampled]] | None = None
        words = GroupedWords if self.config.plan is not None else PlainWords
        self.words = words(self.cache, self._label_contents())

    def _label_contents(self) -> dict[BlockHash, str]:
        labels: dict[BlockHash, str] = {}
        hasher = block_hasher(self.config.hash_algo, self.config.hash_seed)
        lookahead = self.config.plan.num_hash_lookahead if self.config.plan is not None else 0
        for spec in self.case["requests"]:
            whole = request_of(spec, 0.0, accepted=[], place=0)
            for token in spec["output_ids"]:
                whole.append_output(token)
            extend_hashes(whole, self.config.block_size, hasher, lookahead)
            for index, block_hash in enumerate(whole.block_hashes):
                labels.setdefault(block_hash, f"{spec['id']}:{index}")
        return labels

    def run(self) -> Self:
        if self.case["params"]["mode"] == "sequential":
            self._run_sequential()
        else:
            self._run_batched()
        return self

    def _run_sequential(self) -> None:
        for spec in self.case["requests"]:
            for action in self.case["actions"]:
                if action["before"] == spec["id"]:
                    self._act(action)
            self._submit(spec)
            while len(self.scheduler):
                self._engine_step()

    def _run_batched(self) -> None:
        waiting = sorted(self.case["requests"], key=lambda spec: int(spec["step"]))  # stable: file order within a step
        actions = list(self.case["actions"])
        while waiting or actions or len(self.scheduler):
            while actions and actions[0].get("step", 0) <= self.step:
                self._act(actions.pop(0))
            while waiting and waiting[0]["step"] <= self.step:
                self._submit(waiting.pop(0))
            if len(self.scheduler):
                self._engine_step()
            else:  # vLLM's loop idles; its steps are numbered on
                self.step += 1
                self.scheduler.num_steps = self.step

    def _submit(self, spec: dict[str, Any]) -> None:
        accepted = (self.case["params"].get("spec") or {}).get("accept", [])
        request = request_of(
            spec, self.step * self.seconds_per_step, accepted=accepted, place=self.case["requests"].index(spec)
        )
        self.seen[request.id] = Observed(request, submitted_step=self.step)
        self.scheduler.add(request)

    def _act(self, action: dict[str, Any]) -> None:
        name = action["action"]
        if name not in RESETS:
            raise EngineError(f"unknown action {name!r}")
        running = RESETS[name] or bool(action.get("reset_running_requests"))
        if running:
            self.preemptions += [[self.step, request.id] for request in reversed(self.scheduler.running)]
        self.actions.append([self.step, name, self.scheduler.reset_prefix_cache(reset_running=running)])
        self._take_events()

    def _engine_step(self) -> None:
        step = self.scheduler.schedule()
        self._take_events()
        self.preemptions += [[self.step, request.id] for request in step.preempted]
        self._trace(step)
        for request, _, _ in step.scheduled:
            self.seen[request.id].block_ids = tuple(self.words.table(request))
        if not self.asynchronous:
            self._update(step, DryRunner().run(step))
        else:
            if self.in_flight is not None:
                self._update(*self.in_flight)
            self.in_flight = step, DryRunner().run(step)
        self.step += 1
        self.busy_until = self.step + (DRAINING_STEPS if self.asynchronous else 0)

    def _update(self, step: EngineStep, tokens: Sequence[Sampled]) -> None:
        first = [item.request for item in step.scheduled if not item.request.outputs]
        said = {request.id: self.words.of_request(request) for request in first}
        finished = self.scheduler.update(step, tokens)
        for request in first:
            if request.outputs:
                self.seen[request.id].first_token_step = self.step
                self.seen[request.id].said = self.words.of_request(request) if self.words.late else said[request.id]
        for request in finished:
            self.seen[request.id].finish_step = self.step
            self.finish_order.append(request.id)
        self._take_events()

    def _trace(self, step: EngineStep) -> None:
        self.trace.append(
            {
                "t": self.step,
                "sched": {request.id: [start, count] for request, start, count in step.scheduled},
                "preempted": [request.id for request in step.preempted],
                "free_blocks": self.cache.num_free,
                "waiting": len(self.scheduler.waiting),
                **self.words.of_step(step),
            }
        )

    def _take_events(self) -> None:
        self.events += [self.words.event(self.step, event) for event in self.cache.take_events()]

    def differences(self) -> Iterator[str]:
        """Return every difference from vLLM's record, the most informative first."""
        expected = self.case[ASYNCHRONOUS if self.asynchronous else "expected"]
        yield from self._plan_differences()
        for want in expected["requests"]:
            seen = self.seen.get(want["id"])
            if seen is None:
                yield f"request {want['id']}: expected, never submitted"
                continue
            got = {
                "num_cached_tokens": max(seen.request.num_cached_tokens, 0),
                "admissions": [list(admission) for admission in seen.request.admissions],
                "num_preemptions": seen.request.num_preemptions,
                "submitted_step": seen.submitted_step,
                "first_token_step": seen.first_token_step,
                "finish_step": seen.finish_step,
                "block_ids": list(seen.block_ids),
                **seen.said,
            }
            for name, value in got.items():
                if name in want and want[name] != value:
                    yield f"request {want['id']}: {name} is {value}, vLLM has {want[name]}"
        if not self.asynchronous:
            yield from _sequence("kv_events", self.events, expected["kv_events"])
        evictions = [event[1:] for event in self.events if event[0] == "R"]
        if not self.asynchronous or self.config.plan is None:
            yield from _sequence("evictions", evictions, expected["evictions"])
            yield from _sequence("preemptions", self.preemptions, expected["preemptions"])
        if "actions" in expected:
            yield from _sequence("actions", self.actions, expected["actions"])
        if not self.asynchronous:
            yield from self._synchronous_differences(expected)
        for name, value in self._totals().items():
            if expected["totals"].get(name, value) != value:
                yield f"totals: {name} is {value}, vLLM has {expected['totals'][name]}"

    def _plan_differences(self) -> Iterator[str]:
        plan = self.config.plan
        resolved = self.case.get(RESOLVED)
        if plan is None or resolved is None:
            return
        recorded = asdict(plan_of(resolved, self.case["params"].get("dcp", 1)))
        size = plan.cache_block_size
        recorded["cache_block_size"] = resolved.get("cache_block_size", size)
        for name, value in (asdict(plan) | {"cache_block_size": size}).items():
            if recorded[name] != value:
                yield f"plan: {name} is {value}, vLLM has {recorded[name]}"

    def _synchronous_differences(self, expected: dict[str, Any]) -> Iterator[str]:
        yield from _sequence("final_free_queue", self.words.free_queue(), expected["final_free_queue"])
        yield from _sequence("finish_order", self.finish_order, expected["finish_order"])
        if expected.get("trace") is not None:
            yield from _sequence("trace", self.trace, expected["trace"])

    def _totals(self) -> dict[str, int]:
        return {
            **asdict(self.scheduler.stats),
            "evictions": self.cache.num_evictions,
            "stored_blocks": self.cache.num_stored,
            "preemptions": self.scheduler.num_preemptions,
            "engine_steps": max(self.step, self.busy_until),
            "peak_used_blocks": max(
                ((self.config.num_blocks or 0) - 1 - entry["free_blocks"] for entry in self.trace), default=0
            ),  # as vLLM sees it: between steps
            "cached_blocks_end": sum(block_hash is not None for block_hash in self.cache.hashes),
            "distinct_cached_hashes_end": len(self.cache.cached),
            "all_blocks_cleared": sum(event[0] == "C" for event in self.events),
        }


def _sequence(name: str, got: list[Any], want: list[Any]) -> Iterator[str]:
    for index, (mine, theirs) in enumerate(zip(got, want, strict=False)):
        if mine != theirs:
            yield f"{name}[{index}] is {mine}, vLLM has {theirs}"
            return
    if len(got) != len(want):
        yield f"{name} has {len(got)} entries, vLLM has {len(want)}"


def _load(path: Path) -> Case:
    """Read a JSON object; EngineError if the file contains none."""
    try:
        case = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise EngineError(error.strerror or str(error)) from error
    except (ValueError, RecursionError) as error:
        raise EngineError(f"not JSON ({error})") from error
    return case if isinstance(case, dict) else {}


def _check_workload(case: Case) -> Case:
    if not {"params", "requests", "actions", "expected"} <= case.keys():
        raise EngineError("not a recorded workload (params, requests, actions and expected are needed)")
    return case


def compare(path: Path) -> Iterator[tuple[bool, str | None]]:
    """Compare a file; return by scheduling (asynchronous or not) the first difference, or None if all agrees."""
    case = _load(path)
    if (differences := DIFFERENCES.get(case.get("kind", ""))) is not None:
        yield False, next(differences(case), None)
        return
    for recorded, differing in OTHER_ENGINES:
        if recorded(case):
            yield False, next(differing(case), None)
            return
    _check_workload(case)
    yield False, next(Replay(case).run().differences(), None)
    if ASYNCHRONOUS in case:
        yield True, next(Replay(case, asynchronous=True).run().differences(), None)


class Judged(NamedTuple):
    """The result for a file, with the first difference or the reason for its refusal."""

    asynchronous: bool
    verdict: Verdict
    detail: str | None = None

    def line(self, name: str) -> str:
        words = f"{'async   ' if self.asynchronous else ''}{self.verdict:<8}{name}"
        return words if self.detail is None else f"{words}: {self.detail}"


def judge(path: Path) -> Iterator[Judged]:
    """Compare one file; refuse a file that cannot be read or replayed, for any reason."""
    try:
        for asynchronous, difference in compare(path):
            yield Judged(asynchronous, "agree" if difference is None else "differ", difference)
    except EngineError as error:
        yield Judged(False, "refused", error.message)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError) as error:
        yield Judged(False, "refused", f"malformed case ({error!r})")


def main(arguments: list[str]) -> int:
    """Return 1 if a file differs; else 2 if one is refused, and 0 if all agree."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: python -m kvtool.engine.replay CASE.json...", file=sys.stderr)
        return 0 if arguments else 2
    counts: Counter[tuple[bool, Verdict]] = Counter()
    for name in arguments:
        for judged in judge(Path(name)):
            counts[judged[:2]] += 1
            print(judged.line(name))
    print(_summary(counts))
    if counts[False, "differ"] or counts[True, "differ"]:
        return 1
    if refused := counts[False, "refused"]:
        print(f"error: {refused} of {len(arguments)} files cannot be compared", file=sys.stderr)
    return 2 if refused else 0


def _summary(counts: Counter[tuple[bool, Verdict]]) -> str:
    def agreeing(asynchronous: bool) -> str:
        agree = counts[asynchronous, "agree"]
        return f"{agree} of {agree + counts[asynchronous, 'differ']}"

    summary = f"{agreeing(False)} agree"
    if any(asynchronous for asynchronous, _ in counts):
        summary += f", {agreeing(True)} with asynchronous scheduling"
    refused = counts[False, "refused"]
    return f"{summary}, {refused} refused" if refused else summary


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
