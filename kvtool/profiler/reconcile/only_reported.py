"""A run beside a server whose cache follows other rules than the engine's: what it reports, and no prediction."""

from __future__ import annotations

from kvtool.profiler.reconcile.evidence import RunEvidence
from kvtool.profiler.reconcile.first_tokens import first_tokens
from kvtool.profiler.reconcile.observed import ObservedRun
from kvtool.profiler.reconcile.twin import TwinRun
from kvtool.results.documents.reconciliation import FoundCause, ReplayDocument
from kvtool.version import __version__

_RULES = {
    "llama.cpp": "keeps one prompt in each slot, and reuses what a new one begins with",
    "SGLang": "keeps a tree of tokens, and evicts its leaves",
    "Ollama": "runs llama.cpp, which keeps one prompt in each slot",
}


def only_reported(observed: ObservedRun, server: str) -> ReplayDocument:
    """Sums of what its answers and counters say. `server` is the kind of it."""
    evidence = RunEvidence(observed, observed.answered, [], [])
    evidence.count()
    causes = []
    if evidence.traffic is not None:
        causes.append(FoundCause(cause="other traffic", requests=0, why=evidence.traffic))
    if evidence.restarted:
        why = "the counters began anew between the two scrapes"
        causes.append(FoundCause(cause="restart", requests=0, why=why))
    if evidence.replicas:
        why = "the counters are not those of one server: several stand behind this URL"
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
        not_predicted=f"{server} {_RULES.get(server, 'has a cache of its own')}: blocks as vLLM has them say nothing of it",
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
