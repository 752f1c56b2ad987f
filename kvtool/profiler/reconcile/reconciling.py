"""A run beside a server, reconciled with what the engine predicts of it: how many requests agree, and why the others do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kvtool.config.asked_run import RunOptions
from kvtool.config.command_line import flags
from kvtool.config.option import made
from kvtool.engine.config import EngineConfig
from kvtool.errors import KvtoolError
from kvtool.measure.servers.server_facts import ServerFacts
from kvtool.profiler.reconcile.cause_trials import CauseTrials, NamedCauses
from kvtool.profiler.reconcile.compared_events import compared, seeded
from kvtool.profiler.reconcile.evidence import RunEvidence
from kvtool.profiler.reconcile.first_tokens import first_tokens
from kvtool.profiler.reconcile.followed_steps import Followed
from kvtool.profiler.reconcile.following import followed
from kvtool.profiler.reconcile.observed import ObservedRun
from kvtool.profiler.reconcile.only_reported import only_reported
from kvtool.profiler.reconcile.recorded_prompts import AskedThere, asked_of
from kvtool.profiler.reconcile.twin import Ask, Twin, TwinRun
from kvtool.results.documents.reconciliation import ComparedEvents, FoundCause, ReplayDocument
from kvtool.text.terminal.numbers import plural
from kvtool.text.tokens.tokenizer import Tokenizers
from kvtool.version import __version__


def options_beside(facts: ServerFacts, inputs: Sequence[str], **given: object) -> RunOptions:
    """How the engine is run in the place of this server: what it says of itself, and before it what is given by options' names.

    KvtoolError where its hits cannot be predicted, though it is a server of the kind that is."""
    if facts.other_server is None:
        facts.check()
    said: dict[str, object] = {**facts.options()}
    said |= {name: value for name, value in given.items() if value is not None}
    options = made(RunOptions, inputs=tuple(inputs), **said)
    options.check()
    return options


def reconcile(observed: ObservedRun, options: RunOptions, tokenizers: Tokenizers) -> ReplayDocument:
    """KvtoolError where a prompt cannot be read, or none was answered. Of a server with other rules only what it reports."""
    if (other := observed.other_server) is not None:
        return only_reported(observed, other)
    asked = asked_of(observed.answered, options, tokenizers, observed.date)
    plan = asked.opened.planned.plan
    if observed.textless not in (None, plan.engine.block_size):
        raise KvtoolError(
            f"recorded without text, with blocks of {observed.textless} tokens: nothing is known of others",
            hint=" ".join(flags(block_size=observed.textless)),
        )
    evidence = RunEvidence.of(observed, asked)
    twin = Twin(plan.engine, plan.latency, at_once=observed.at_once)
    base = twin.run(evidence.base)
    led = None if _all_agree(evidence, base) else followed(evidence, twin)
    if led is not None:
        base = led.run(twin.config, twin.latency, _by_number(evidence), events=False)
        evidence.notes.append("when each request came to the scheduler is taken from the KV events")
    evidence.count_hits(base)
    named = CauseTrials(evidence, asked, twin, base).causes()
    return _document(
        observed, asked, evidence, twin, led, base, named, timed=options.predicting.calibration is not None
    )


def _document(
    observed: ObservedRun,
    asked: AskedThere,
    evidence: RunEvidence,
    twin: Twin,
    led: Followed | None,
    base: TwinRun,
    named: NamedCauses,
    *,
    timed: bool,
) -> ReplayDocument:
    counted = Counter(each.cause for each in named.requests)
    found = {one.cause: one.why for one in named.run}
    for each in named.requests:
        found.setdefault(each.cause, each.why)
    events = _events(observed, evidence, twin, led)
    assumed = [f"{name.replace('_', ' ')}: nobody says it" for name in _assumed(observed.facts)]
    return ReplayDocument(
        version=__version__,
        requests=len(observed.exchanges),
        answered=len(evidence.answered),
        refused=observed.refused,
        failed=len(observed.failed),
        left_out=sorted({f"{reason} ({plural(count, 'request')})" for reason, count in _left_out(asked).items()}),
        agree=len(evidence.answered) - len(named.requests),  # those that the engine would never run are named, too
        prompt_tokens=evidence.prompt_tokens,
        predicted_cached_tokens=sum(base.cached.get(each.number, 0) for each in evidence.answered),
        reported_cached_tokens=evidence.reported_tokens,
        not_predicted=None,
        unreported=evidence.unreported,
        disagree=named.requests,
        causes=[FoundCause(cause=cause, requests=counted[cause], why=why) for cause, why in found.items()],
        counters_agree=evidence.counters_agree,
        events=events,
        times=first_tokens(observed, base, predicted=timed),
        at_once=observed.at_once,
        partial=observed.partial,
        stopped=observed.stopped,
        config=_config(asked, observed.facts),
        assumed=assumed,
        notes=[*observed.notes, *observed.facts.notes, *evidence.notes, *_not_empty(observed), *_untold(asked, events)],
    )


def _not_empty(observed: ObservedRun) -> list[str]:
    if observed.trace is None or observed.trace.began_empty:
        return []
    return ["the cache was not empty when the events begin: blocks of others are removed among them"]


def _untold(asked: AskedThere, events: ComparedEvents | None) -> list[str]:
    """Why events differ where every hit is as predicted: /v1/responses of vLLM 0.32 has no field for the tokens of an answer."""
    if events is None or events.agree == events.recorded or asked.known_answers.issuperset(asked.asks):
        return []
    return [
        "the server does not say the tokens of its answers: a block that ends in one has another hash than predicted"
    ]


def _left_out(asked: AskedThere) -> Mapping[str, int]:
    return Counter(asked.left_out.values())


def _assumed(facts: ServerFacts) -> list[str]:
    return [name for name, fact in facts.facts.items() if fact.assumed and name in _DECIDES]


_DECIDES = ("block_size", "num_gpu_blocks", "max_num_batched_tokens", "max_num_seqs", "async_scheduling", "hash_algo")
"""What decides hits or their hashes."""


def _config(asked: AskedThere, facts: ServerFacts) -> dict[str, str | int | float | bool | None]:
    """What the prediction rests on, without what only times and reports of prompts need."""
    told = asked.opened.planned.describe(asked.opened.name, asked.opened.renderer)
    kept = (
        *("tokenizer", "tokenizer_fingerprint", "chat_template", "block_size", "capacity_blocks", "hash_algo"),
        *("enable_prefix_caching", "max_model_len", "max_num_batched_tokens", "max_num_seqs", "async_scheduling"),
        *("kv_cache_dtype",),
    )
    return {
        "server": facts.server,
        "server_version": facts.version,
        "model_name": facts.model,
        **{name: told[name] for name in kept},
    }


def _events(observed: ObservedRun, evidence: RunEvidence, twin: Twin, led: Followed | None) -> ComparedEvents | None:
    """The events of a run beside those of the engine, which begins with an empty cache as theirs must."""
    if observed.trace is None:
        return None
    config = seeded(twin.config, observed.trace)
    hashed = config or _native(twin.config)
    if led is not None:
        run = led.run(hashed, twin.latency, _by_number(evidence), events=True)
    else:
        run = Twin(hashed, twin.latency, at_once=twin.at_once).run(evidence.base, events=True)
    in_order = twin.at_once == 1 or led is not None
    return compared(run.events, observed.trace, by_hash=config is not None, in_order=in_order)


def _all_agree(evidence: RunEvidence, run: TwinRun) -> bool:
    usages = ((each.number, each.usage) for each in evidence.answered)
    return all(usage is not None and run.cached.get(number) == usage.cached for number, usage in usages)


def _by_number(evidence: RunEvidence) -> dict[int, Ask]:
    return {ask.number: ask for ask in evidence.sent}


def _native(config: EngineConfig) -> EngineConfig:
    return replace(config, hash_algo="native")
