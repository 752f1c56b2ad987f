"""A run beside a server, reconciled with what the engine predicts of it: how many requests agree, and why the others do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from kvtool.config.asked_run import RunOptions
from kvtool.config.command_line import flags
from kvtool.config.option import made
from kvtool.engine.config import EngineConfig
from kvtool.errors import KvtoolError
from kvtool.measure.servers.kv_events.event_batches import StoredBlocks
from kvtool.measure.servers.metrics import metric_names as names
from kvtool.measure.servers.server_facts import ServerFacts
from kvtool.profiler.layer_group_notes import described_groups, group_notes
from kvtool.profiler.reconcile.cause_trials import CauseTrials, NamedCauses
from kvtool.profiler.reconcile.compared_events import compared, seeded
from kvtool.profiler.reconcile.evidence import RunEvidence
from kvtool.profiler.reconcile.followed_steps import Followed, StepFollower
from kvtool.profiler.reconcile.observed import ObservedRun
from kvtool.profiler.reconcile.recorded_prompts import SentPrompts, asked_of
from kvtool.profiler.reconcile.served_steps import TrackedRequest, steps_of
from kvtool.profiler.reconcile.twin import Ask, Twin, TwinRun
from kvtool.profiler.reported.server_run import as_server
from kvtool.profiler.run_description import run_config
from kvtool.results.documents.reconciliation import ComparedEvents, FirstTokens, FoundCause, ReplayDocument
from kvtool.text.terminal.numbers import plural
from kvtool.text.tokens.tokenizer import Tokenizers
from kvtool.version import __version__

_RULES = {
    "llama.cpp": "keeps one prompt in each server slot, and reuses its beginning",
    "SGLang": "keeps a tree of tokens, and evicts its leaves",
    "Ollama": "runs llama.cpp, which keeps one prompt in each server slot",
}


def options_of_server(facts: ServerFacts, inputs: Sequence[str], **given: object) -> RunOptions:
    """Return how the engine is run in the place of this server: what it says of itself, and before it what is given by options'
    names.

    KvtoolError where its hits cannot be predicted, though it is a server of the kind that is."""
    options = made(
        RunOptions, inputs=tuple(inputs), **{name: value for name, value in given.items() if value is not None}
    )
    options.check()
    return as_server(options, facts).options


def reconcile(observed: ObservedRun, options: RunOptions, tokenizers: Tokenizers) -> ReplayDocument:
    """Reconcile a run. Raise KvtoolError where a prompt cannot be read, or none was answered. Of a server with other rules only
    what it reports.
    """
    if (other := observed.other_server) is not None:
        return reported_only(observed, other)
    asked = asked_of(observed.answered, options, tokenizers, observed.date)
    plan = asked.opened.planned.plan
    if observed.textless not in (None, plan.engine.block_size):
        raise KvtoolError(
            f"recorded without text, with blocks of {observed.textless} tokens: other block sizes are unknown",
            hint=" ".join(flags(block_size=observed.textless)),
        )
    evidence = RunEvidence.of(observed, asked)
    twin = Twin(plan.engine, plan.latency, at_once=observed.at_once)
    base = twin.run(evidence.base)
    led = None if _all_agree(evidence, base) else followed(evidence, twin)
    if led is not None:
        base = led.run(twin.config, twin.latency, _by_number(evidence), events=False)
        evidence.notes.append("the KV events show when each request reached the scheduler")
    elif observed.at_once > 1 and not _all_agree(evidence, base):
        evidence.notes.append("no KV events show the order of requests in the server: the prediction assumes one order")
    evidence.count_hits(base)
    named = CauseTrials(evidence, asked, twin, base, ordered=led is not None).causes()
    return _document(
        observed, asked, evidence, twin, led, base, named, timed=options.predicting.calibration is not None
    )


def _document(
    observed: ObservedRun,
    asked: SentPrompts,
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
    assumed = [
        f"{name.replace('_', ' ')}: unknown"
        for name in _assumed(observed.facts, served=asked.opened.planned.served is not None)
    ]
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
        notes=[
            *observed.notes,
            *observed.facts.notes,
            *evidence.notes,
            *_group_notes(asked),
            *_not_empty(observed),
            *_unreported_reads(asked, events),
        ],
    )


def _group_notes(asked: SentPrompts) -> list[str]:
    plan = asked.opened.planned.plan
    if plan.served is None or plan.served.plan is None:
        return []
    return group_notes(plan.served, plan.engine.prefix_cache_retention_interval)


def _not_empty(observed: ObservedRun) -> list[str]:
    if observed.trace is None or observed.trace.began_empty:
        return []
    if not observed.trace.events:
        return ["no KV event came while these requests ran"]
    return ["the cache was not empty before the first event: the events remove older blocks"]


def _unreported_reads(asked: SentPrompts, events: ComparedEvents | None) -> list[str]:
    """Return why events differ where every hit is as predicted: /v1/responses of vLLM 0.32 has no field for the tokens of an
    answer.
    """
    if events is None or events.agree == events.recorded or asked.known_answers.issuperset(asked.asks):
        return []
    return ["the server does not report the tokens of its answers, so the hash of a block with answer tokens differs"]


def _left_out(asked: SentPrompts) -> Mapping[str, int]:
    return Counter(asked.left_out.values())


def _assumed(facts: ServerFacts, *, served: bool) -> list[str]:
    """Return what nobody reports; `served`: the server's model is known."""
    found = [name for name, fact in facts.facts.items() if fact.assumed and name in _DECIDES]
    layers = not served and facts.facts["kv_cache_size_tokens"].assumed
    return [*found, *(["windows and states of the model"] if layers else [])]


_DECIDES = ("block_size", "num_gpu_blocks", "max_num_batched_tokens", "max_num_seqs", "async_scheduling", "hash_algo")
"""What decides hits or their hashes."""


def _config(asked: SentPrompts, facts: ServerFacts) -> dict[str, str | int | float | bool | None]:
    """Return what the prediction rests on, without what only times and reports of prompts need."""
    told = run_config(asked.opened.planned, asked.opened.name, asked.opened.renderer)
    kept = (
        *("tokenizer", "tokenizer_fingerprint", "chat_template", "block_size", "capacity_blocks", "hash_algo"),
        *("enable_prefix_caching", "max_model_len", "max_num_batched_tokens", "max_num_seqs", "async_scheduling"),
        "kv_cache_dtype",
        *(("model", "model_from") if told["model_from"] != "assumed" else ()),
    )
    groups = described_groups(
        asked.opened.planned.served, asked.opened.planned.plan.engine.prefix_cache_retention_interval
    )
    return {
        "server": facts.server,
        "server_version": facts.version,
        "model_name": facts.model,
        **{name: told[name] for name in kept},
        **groups,
    }


def _events(observed: ObservedRun, evidence: RunEvidence, twin: Twin, led: Followed | None) -> ComparedEvents | None:
    """Return the events of a run beside those of the engine, which begins with an empty cache as theirs must."""
    if observed.trace is None:
        return None
    config = seeded(twin.config, observed.trace)
    if config is None and observed.trace.several:
        return None  # the content of a block tells nothing of its group
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


def first_tokens(observed: ObservedRun, base: TwinRun, *, predicted: bool) -> FirstTokens | None:
    """Return the times to the first token; `predicted`: whether the engine has a calibration of this server. None where nobody
    measured any.
    """
    measured: tuple[list[float], list[float]] = ([], [])
    engine: tuple[list[float], list[float]] = ([], [])
    for each in observed.exchanges:
        if not each.answered or each.first is None or each.sent is None or each.usage is None:
            continue
        warm = bool(each.usage.cached)
        measured[warm].append(max(each.first - each.sent, 0.0))
        if predicted and each.number in base.ttft:
            engine[warm].append(base.ttft[each.number])
    server, queue = _mean(observed, names.TTFT), _mean(observed, names.QUEUE)
    if not any(measured) and server is None:
        return None
    return FirstTokens(
        measured_cold=_median(measured[0]),
        measured_warm=_median(measured[1]),
        predicted_cold=_median(engine[0]),
        predicted_warm=_median(engine[1]),
        server_mean=server,
        queue_mean=queue,
    )


def _median(seconds: Sequence[float]) -> float | None:
    return median(seconds) if seconds else None


def _mean(observed: ObservedRun, name: str) -> float | None:
    if observed.counted is None:
        return None
    found = observed.counted.histograms.get(name)
    return None if found is None else found.mean


def reported_only(observed: ObservedRun, server: str) -> ReplayDocument:
    """Return sums of what its answers and counters say. `server` is the kind of it."""
    evidence = RunEvidence(observed, observed.answered, [], [])
    evidence.count()
    causes = []
    if evidence.traffic is not None:
        causes.append(FoundCause(cause="other traffic", requests=0, why=evidence.traffic))
    if evidence.restarted:
        why = "the counters restarted between the two scrapes"
        causes.append(FoundCause(cause="restart", requests=0, why=why))
    if evidence.replicas:
        why = "the counters are not those of one server: this URL has several servers"
        causes.append(FoundCause(cause="replicas", requests=0, why=why))
    facts = observed.facts
    return ReplayDocument(
        version=__version__,
        requests=len(observed.exchanges),
        answered=len(evidence.answered),
        refused=observed.refused,
        failed=len(observed.failed),
        left_out=[],
        agree=0,
        prompt_tokens=evidence.prompt_tokens,
        predicted_cached_tokens=None,
        reported_cached_tokens=evidence.reported_tokens,
        not_predicted=f"{server} {_RULES.get(server, 'has a cache of its own')}: vLLM's blocks do not describe it",
        unreported=evidence.unreported,
        disagree=[],
        causes=causes,
        counters_agree=evidence.counters_agree,
        events=None,
        times=first_tokens(observed, TwinRun(), predicted=False),
        at_once=observed.at_once,
        partial=observed.partial,
        stopped=observed.stopped,
        config={"server": server, "server_version": facts.version, "model_name": facts.model},
        assumed=[],
        notes=[*observed.notes, *facts.notes, *evidence.notes],
    )


def followed(evidence: RunEvidence, twin: Twin) -> Followed | None:
    """Return the requests before each step, where requests ran together and the events show all of it; else None.

    Every request was answered or refused, each has one prompt, and nobody else stored anything.
    """
    observed = evidence.observed
    trace = observed.trace
    if (
        trace is None
        or twin.at_once == 1
        or evidence.traffic is not None
        or evidence.other_tokens
        or evidence.restarted
    ):
        return None
    if len(evidence.sent) != len(evidence.answered) or observed.partial or observed.failed:
        return None
    groups = twin.config.plan.groups if twin.config.plan is not None else ()
    if any(group.block_size != twin.config.block_size for group in groups):
        return None  # their blocks have other hashes
    served = steps_of(trace)
    if served is None:
        return None
    asks = {ask.number: ask for ask in evidence.sent}
    last: dict[str, int] = {}
    for place, event in enumerate(trace.events):
        if isinstance(event, StoredBlocks) and event.session_id is not None:
            last[event.session_id] = place
    requests = []
    for each in evidence.answered:
        session = each.session_id or ""
        first = trace.admitted.get(session)
        requests.append(TrackedRequest(asks[each.number], each.sent, each.done, first, last.get(session)))
    return StepFollower(twin.config, served, requests).follow()
