"""Profiles a log with the settings of the servers that ran it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kvtool.config.asked_run import RunOptions
from kvtool.config.option import made
from kvtool.config.options.run_options import Reading
from kvtool.errors import KvtoolError
from kvtool.measure.servers.causes.server_evidence import ServerEvidence
from kvtool.measure.servers.session_recording import REQUESTS, recorded_file
from kvtool.profiler.opening import open_workload
from kvtool.profiler.profiler import ReportOptions
from kvtool.profiler.reconcile.observed import ObservedRun
from kvtool.profiler.reconcile.reconciling import options_of_server, reconcile
from kvtool.profiler.reported.server_run import as_server
from kvtool.results.documents.reconciliation import ReplayDocument
from kvtool.results.report import Report
from kvtool.text.terminal.progress import Progress
from kvtool.text.tokens.tokenizer import Tokenizers

_RULES = {"SGLang": "sglang", "llama.cpp": "llamacpp", "Ollama": "llamacpp", "TensorRT-LLM": "trtllm"}
"""Cache rules of servers that are not vLLM."""


class UnknownRulesError(KvtoolError):
    """Nobody knows what a server keeps, so nothing is predicted for it."""


def log_report(
    evidence: ServerEvidence,
    logs: Sequence[str],
    given: Mapping[str, object],
    *,
    reading: Reading,
    offline: bool,
    progress: Progress,
) -> Report:
    """Return the profile of a log by the rules and with the settings of the servers.

    Several caches count as one of their size: what they hit less is lost to the routing. UnknownRulesError where nobody knows them.
    """
    first = evidence.servers[0]
    said: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    if (rules := _RULES.get(evidence.kind or "")) is not None:
        said["rules"] = rules
    options = replace(made(RunOptions, inputs=tuple(logs), **said), reading=reading)
    if first.facts is not None and rules is None:
        try:
            options = as_server(options, first.facts, hashed=False).options
        except KvtoolError as error:
            if given.get("model") is not None:
                raise
            raise UnknownRulesError(error.message) from None
        blocks = options.serving.num_gpu_blocks
        if blocks is not None and evidence.caches > 1:
            options = replace(options, serving=replace(options.serving, num_gpu_blocks=blocks * evidence.caches))
    options.check()
    opened = open_workload(options, Tokenizers(offline=offline), keep_going=True)
    profiler = opened.profiler(ReportOptions(edits="none"), progress)
    return opened.accounted(profiler)


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
