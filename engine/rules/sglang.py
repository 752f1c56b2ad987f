"""SGLang's rules: RadixAttention's tree of pages, requests one at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kvtool.engine.engine_error import EngineError
from kvtool.engine.rules.rule_set import EngineCache, EngineQueue, OtherSetting, RuleRequest, RuleSet, Rung, Served
from kvtool.engine.rules.sglang_hybrid import HybridCache
from kvtool.engine.rules.sglang_memory import RadixMemory
from kvtool.engine.rules.sglang_options import SglangOptions
from kvtool.engine.rules.sglang_request import RadixRequest
from kvtool.engine.rules.sglang_tree import PageTree


class SglangCache:
    """SGLang's prefix cache under requests that run alone, one after the other."""

    def __init__(self, options: SglangOptions) -> None:
        self.options = options
        self.memory = RadixMemory(options)
        lasting = options.max_total_tokens is None and options.page_size == 1
        self._everything = None if lasting else PageTree()
        """All prefixes ever computed, if the pool is limited."""

    def serve(self, asked: RuleRequest) -> Served:
        """Look a request up, run it alone to its end, and keep its prompt and answer."""
        if not len(asked.prompt):
            return Served(0)
        self.options.check_fits(len(asked.prompt), len(asked.answer))
        memory = self.memory
        evicted = memory.num_evicted
        request = RadixRequest(asked, memory.tree.root)
        memory.match(request)
        memory.tree.lock(request.node)
        present = self._prefill(request)
        memory.decode_alone(request, request.num_answer - 1)
        memory.release(request)
        assert request.cached is not None
        return Served(request.cached, memory.num_evicted - evicted, self._loss(request, present))

    def _prefill(self, request: RadixRequest) -> int:
        """Compute a prompt, chunk by chunk: how many of its tokens the tree had then."""
        chunk = self.options.chunked_prefill_size or request.num_prompt
        present = 0
        while request.computed < request.num_prompt:
            request.target = min(request.computed + chunk, request.num_prompt)
            self.memory.prefill([request])
            present = self.memory.publish(request)
        return present

    def _loss(self, request: RadixRequest, present: int) -> str:
        """Return the reason for a smaller hit: `present` tokens of its prompt, in whole pages, were in the pool when it was
        computed."""
        if self._everything is not None:
            _, present = self._everything.extend(self._everything.root, request.scope, request.text, 0)
            present = min(present, request.num_prompt)
        pages = self.memory.tree.pages_of
        assert request.cached is not None
        if request.cached < pages(min(present, request.num_prompt - 1)):
            return "evicted"
        assert request.cached is not None
        if request.cached < pages(present):
            return "last token"
        return "page" if request.cached < present else ""

    @property
    def num_tokens(self) -> int:
        """Tokens in the tree now."""
        return self.memory.tree.num_tokens


def _cache(options: SglangOptions) -> EngineCache:
    return HybridCache(options) if options.is_hybrid else SglangCache(options)


def _queue(options: SglangOptions) -> EngineQueue:
    if options.is_hybrid:
        raise EngineError(
            "this model has windows or states; SGLang's rules follow such requests one at a time",
            hint="remove --concurrency",
        )
    from kvtool.engine.rules.sglang_queue import SglangQueue

    return SglangQueue(options)


def _limited(options: SglangOptions, tokens: int) -> SglangOptions:
    return replace(options, max_total_tokens=tokens)


def _remedies(options: SglangOptions) -> tuple[OtherSetting[SglangOptions], ...]:
    found = []
    if options.max_total_tokens is not None:
        tokens = 2 * options.max_total_tokens
        what = f"double the cache: --max-total-tokens {tokens}"
        found.append(OtherSetting("evicted", what, replace(options, max_total_tokens=tokens)))
        found += [
            OtherSetting(
                "evicted",
                f"keep frequently used tokens: --radix-eviction-policy {policy}",
                replace(options, radix_eviction_policy=policy),
            )
            for policy in ("lfu", "slru")
            if policy != options.radix_eviction_policy
        ]
    if options.schedule_policy == "fcfs":
        what = "run requests with cached prefixes first: --schedule-policy lpm"
        found.append(OtherSetting("in_flight", what, replace(options, schedule_policy="lpm")))
    if options.page_size > 1:
        what = "use pages of one token: --page-size 1"
        found.append(
            OtherSetting(
                "partial_block", what, replace(options, page_size=1), "some attention backends need larger pages"
            )
        )
    return tuple(found)


SGLANG: Final = RuleSet(
    name="sglang",
    engine="SGLang 0.5.23",
    status="driven",
    evidence="compared with SGLang's own radix cache, queue and admission, without a GPU",
    not_modelled=(
        "overlap of scheduling and computing",
        "HiCache's host and storage tiers",
        "EAGLE's bigram keys",
        "windows and states in a pool with a limit, of requests that run together, or of one model that has both",
        "the eviction policy tlru",
        "the schedule policies hrrn, lof, random and routing-key",
    ),
    options=SglangOptions(),
    make=_cache,
    unit=lambda options: options.page_size,
    ladder=(
        Rung("window", lambda options: replace(options, sliding_window=None)),
        Rung("no_state", lambda options: replace(options, mamba_radix_cache_strategy=None)),
    ),
    remedies=_remedies,
    queue=_queue,
    queue_ladder=(Rung("evicted", lambda options: replace(options, max_total_tokens=None)),),
    limited=_limited,
)
