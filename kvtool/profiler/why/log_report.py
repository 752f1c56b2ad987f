"""Profiles a log with the settings of the servers that ran it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from kvtool.config.asked_run import RunOptions
from kvtool.config.command_line import flag
from kvtool.config.option import made
from kvtool.config.options.run_options import Reading
from kvtool.diagnose.diagnosis_thresholds import THRESHOLDS
from kvtool.engine.rules.rule_sets import find_rule_set
from kvtool.errors import EXIT_NOT_AVAILABLE, KvtoolError
from kvtool.measure.servers.causes.server_evidence import ServerEvidence
from kvtool.measure.servers.server_facts import Fact, ServerFacts
from kvtool.measure.servers.session_recording import REQUESTS, recorded_file
from kvtool.profiler.engines.left_out_layers import left_out_of
from kvtool.profiler.opening import open_workload
from kvtool.profiler.planned_run import PlannedRun
from kvtool.profiler.profiler import ReportOptions
from kvtool.profiler.reconcile.observed import ObservedRun
from kvtool.profiler.reconcile.reconciling import options_of_server, reconcile
from kvtool.profiler.reported.server_run import as_server
from kvtool.profiler.why.served_models import ServedModels
from kvtool.results.documents.reconciliation import ReplayDocument
from kvtool.results.money import Reported
from kvtool.results.report import Report
from kvtool.text.terminal.numbers import plural
from kvtool.text.terminal.progress import Progress
from kvtool.text.tokens.tokenizer import Tokenizers
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.turn import Source
from kvtool.workload.yaml.yaml_source import YamlSource

_MOST_DOUBLINGS = 4
_MOST_NAMES = 3
_PART = 0.1
"""Part of the evicted tokens that may still be evicted in a cache that is enough."""
_RULES = {"SGLang": "sglang", "llama.cpp": "llamacpp", "Ollama": "llamacpp", "TensorRT-LLM": "trtllm"}
"""Cache rules of servers that are not vLLM."""
_FULL_ATTENTION = "The prediction assumes full attention in all layers"


class UnknownRulesError(KvtoolError):
    """Nobody knows what a server keeps, so nothing is predicted for it."""


@dataclass(frozen=True, slots=True)
class LogReport:
    """The profile of a log. `enough` are blocks that keep most of what was evicted, with the hit rate of a rerun with them."""

    report: Report
    enough: tuple[int, float] | None = None
    notes: tuple[str, ...] = ()
    """What the prediction leaves out."""
    assumed: str = ""
    """What the prediction assumes of an unknown model."""
    unknown: str = ""
    """Why nothing is predicted: the report is then that of full attention, and no model hits more."""


def log_report(
    evidence: ServerEvidence,
    logs: Sequence[str],
    given: Mapping[str, object],
    *,
    reading: Reading,
    offline: bool,
    progress: Progress,
) -> LogReport:
    """Return the profile of a log by the rules and with the settings of the servers.

    Several caches count as one of their size: what they hit less is lost to the routing. UnknownRulesError where nobody knows them.
    """
    options, unknown = _options(evidence, logs, given, reading)
    tokenizers = Tokenizers(offline=offline)
    source = open_workload(options, tokenizers, keep_going=True).source
    notes = _leave_out(source, evidence)
    assumed = ""

    def report_with(options: RunOptions, *, advice: bool) -> Report:
        nonlocal assumed
        opened = open_workload(options, tokenizers, source=source, keep_going=True)
        assumed = _assumed(opened.planned, evidence)
        report = opened.accounted(opened.profiler(ReportOptions(advice=advice, edits="none"), progress))
        if report.reported is None:
            report = report.model_copy(update={"reported": _reported(opened.source)})
        return report

    try:
        report = report_with(options, advice=True)
    except KvtoolError as error:
        if given.get("tokenizer") is not None or error.exit_code != EXIT_NOT_AVAILABLE:
            raise
        own = replace(options, rendering=replace(options.rendering, tokenizer=None))
        if not _has_only_ids(open_workload(own, tokenizers, source=source, keep_going=True).source):
            raise UnknownRulesError(error.message, hint=error.hint) from None  # a tokenizer that only the server has
        options = own  # it tokenizes answers only, and their length is reported
        report = report_with(options, advice=True)
    evicted, blocks = report.fates.get("evicted", 0), options.serving.num_gpu_blocks
    if blocks is None or evicted < THRESHOLDS.error_share * report.totals.prompt_tokens:
        return LogReport(report, notes=notes, assumed=assumed, unknown=unknown)
    for _ in range(_MOST_DOUBLINGS):
        blocks *= 2
        larger = replace(options, serving=replace(options.serving, num_gpu_blocks=blocks))
        again = report_with(larger, advice=False)
        if again.fates.get("evicted", 0) <= _PART * evicted:
            return LogReport(report, (blocks, again.totals.hit_rate), notes)
    return LogReport(report, notes=notes)


def _leave_out(source: YamlSource | LogSource, evidence: ServerEvidence) -> tuple[str, ...]:
    """Leave out the requests of a log that the servers cannot have had, and say so: they are no evidence about the servers.

    UnknownRulesError where all are such.
    """
    if not isinstance(source, LogSource) or not evidence.models:
        return ()
    source.is_asked = ServedModels(evidence.models).may_serve
    requests = sum(1 for _ in source.conversations())
    if not source.others:
        return ()
    named = ", ".join(name for name, _ in source.others.most_common(_MOST_NAMES))
    if not requests:
        raise UnknownRulesError(
            f"its requests are for {named}, and the server has {', '.join(sorted(evidence.models))}"
        )
    count = plural(source.others.total(), "request")
    return (f"{count} of the log are for models that the server does not have ({named}). They do not count.",)


def _assumed(planned: PlannedRun, evidence: ServerEvidence) -> str:
    """Return what the rules of a server that is not vLLM assume of its model."""
    if (rules := _RULES.get(evidence.kind or "")) is None:
        return ""
    if planned.model is None:
        return f"The model's layers are unknown. {_FULL_ATTENTION}: add {flag('model')} NAME."
    kinds_known = "sliding_window" in {each.name for each in fields(find_rule_set(rules).options)}
    lack = left_out_of(planned.run_model.served(), kinds_known=kinds_known)
    return "" if lack is None else f"{lack}. {_FULL_ATTENTION}."


def _has_only_ids(source: Source) -> bool:
    """Return whether all prompts of a log are token ids, which need no tokenizer."""
    for conversation in source.conversations():
        while (turn := conversation.next_turn(None)) is not None:
            if turn.token_ids is None:
                return False
    return True


def _reported(source: Source) -> Reported | None:
    """Return the sums of usage in a log, whatever rules its server has; None where no answer reports any."""
    requests = prompt = cached = 0
    for conversation in source.conversations():
        while (turn := conversation.next_turn(None)) is not None:
            usage = turn.call.usage
            if usage is not None and usage.prompt is not None and usage.cached is not None:
                requests, prompt, cached = requests + 1, prompt + usage.prompt, cached + min(usage.cached, usage.prompt)
    if not requests:
        return None
    rate = cached / prompt if prompt else 0.0
    return Reported(requests=requests, prompt_tokens=prompt, cached_tokens=cached, hit_rate=rate)


def _options(
    evidence: ServerEvidence, logs: Sequence[str], given: Mapping[str, object], reading: Reading
) -> tuple[RunOptions, str]:
    """Return the options of a run like that of the servers, and why their hits are not predicted: "" where they are."""
    said: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    if (rules := _RULES.get(evidence.kind or "")) is not None:
        said["rules"] = rules
        said |= evidence.servers[0].settings
    options = replace(made(RunOptions, inputs=tuple(logs), **said), reading=reading)
    server = evidence.servers[0] if evidence.servers else None
    facts, unknown = None if server is None else server.facts, ""
    if server is not None and facts is not None and rules is None:
        try:
            options = as_server(options, facts, hashed=False).options
        except KvtoolError as error:
            if given.get("model") is not None:
                raise
            unknown = f"{error.message}. Hint: add {flag('model')} FOLDER (the model's config.json) to predict the log."
            if facts.refused or server.hit_unit is None:
                raise UnknownRulesError(unknown) from None
            options = as_server(options, _of_full_attention(facts, server.hit_unit), hashed=False).options
        blocks = options.serving.num_gpu_blocks
        if blocks is not None and evidence.caches > 1:
            options = replace(options, serving=replace(options.serving, num_gpu_blocks=blocks * evidence.caches))
    options.check()
    return options, unknown


def _of_full_attention(facts: ServerFacts, unit: int) -> ServerFacts:
    """Return a server of full attention whose hits end at the same units, with an endless cache."""
    unsaid = ("model", "num_gpu_blocks", "kv_cache_size_tokens", "speculative_config", "drafts")
    known = {name: Fact(name, None, "assumed") if name in unsaid else fact for name, fact in facts.facts.items()}
    return replace(facts, facts={**known, "block_size": Fact("block_size", unit, "/metrics")}, several=None)


def recorded_logs(folders: Sequence[str]) -> list[str]:
    """Return the files with the requests of recorded sessions."""
    return [path for folder in folders if (path := recorded_file(folder, REQUESTS)) is not None]


def recorded_replay(folder: str, given: Mapping[str, object], *, offline: bool) -> ReplayDocument | None:
    """Compare a recorded session request by request; None where it has no requests, or its server cannot be predicted."""
    if recorded_file(folder, REQUESTS) is None:
        return None
    observed = ObservedRun.recorded(folder)
    try:
        options = options_of_server(observed.facts, [folder], **given)
        return reconcile(observed, options, Tokenizers(offline=offline))
    except KvtoolError:
        return None  # the profile of its requests says why
