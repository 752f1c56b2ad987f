"""Causes that KV events show, with the tokens that each one takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kvtool.measure.servers.causes.counter_causes import cause, own_change
from kvtool.measure.servers.causes.event_losses import Loss, LossSums
from kvtool.measure.servers.causes.server_evidence import ServerEvidence
from kvtool.measure.servers.server_values import number_at
from kvtool.results.documents.server_cause import CauseName, ServerCause
from kvtool.text.terminal.numbers import plural

_SOURCE = "KV events"
_CAUSES: dict[Loss, tuple[CauseName, str]] = {
    "groups": ("model groups", "{} were computed again while the full-attention layers still had them."),
    "concurrency": ("concurrency", "{} were computed twice in one step."),
    "salts": ("salts", "{} were cached for another `cache_salt`."),
    "adapters": ("adapters", "{} were cached for another LoRA adapter."),
    "reset": ("cache reset", "{} were lost when the cache was cleared."),
    "restart": ("restart", "{} were lost when the server restarted."),
    "routing": ("routing", "{} were computed again while another engine or server had them."),
}


CAUSES_OF_LOSSES: Mapping[Loss, CauseName] = {
    **{loss: name for loss, (name, _) in _CAUSES.items()},
    "capacity": "capacity",
    "recomputed": "request fields",
    "repeated": "prompts",
}
"""The cause of each loss; last blocks and first uses have none."""


def event_causes(evidence: ServerEvidence) -> Iterator[ServerCause]:
    """Yield the causes of all blocks that were computed again."""
    losses = evidence.losses
    if losses is None:
        return
    for loss, (name, why) in _CAUSES.items():
        if tokens := losses.tokens[loss]:
            change = own_change(name, evidence)
            yield cause(name, "counted", tokens, why.format(plural(tokens, "token")), evidence.kind, _SOURCE, change)
    yield from _capacity(evidence, losses)
    yield from _recomputed(evidence, losses)
    yield from _prompts(evidence, losses)


def _capacity(evidence: ServerEvidence, losses: LossSums) -> Iterator[ServerCause]:
    tokens = losses.tokens["capacity"]
    if not tokens:
        return
    why = f"{plural(tokens, 'token')} were evicted and computed again."
    more, blocks = losses.more_blocks, number_at(evidence.servers[0].labels, "num_gpu_blocks")
    if more:
        size = f" ({blocks + more:,} in all)" if blocks is not None and losses.caches == 1 else ""
        why += f" At most {plural(more, 'more block')}{size} would keep 90% of the evicted blocks."
    yield cause("capacity", "counted", tokens, why, evidence.kind, _SOURCE)


def _recomputed(evidence: ServerEvidence, losses: LossSums) -> Iterator[ServerCause]:
    """Blocks of one kind of layers that are held and computed again: the request does not read the cache."""
    if tokens := losses.tokens["recomputed"]:
        why = f"{plural(tokens, 'token')} were computed although this cache had them: the requests did not read it."
        yield cause("request fields", "counted", tokens, why, evidence.kind, _SOURCE)


def _prompts(evidence: ServerEvidence, losses: LossSums) -> Iterator[ServerCause]:
    tokens = losses.tokens["repeated"]
    if not tokens:
        return
    why = f"{plural(tokens, 'token')} repeat earlier prompts, but come after a difference."
    if losses.first_difference is not None:
        why += f" The first difference is mostly at token {losses.first_difference:,}."
    yield cause("prompts", "counted", tokens, why, evidence.kind, _SOURCE)
