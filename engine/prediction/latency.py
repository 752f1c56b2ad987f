"""Predict the time of a step on an accelerator: a roofline over the scheduled work.

Kernels run one after another, so their times add up. A kernel computes and moves bytes at the same time, the better the more of it
there is; measured kernels follow the root of the sum of squares (`_overlapped`) rather than the larger of the two:

    layers      2 FLOPs for each weight and token; every weight is read once
    head        2 FLOPs for each weight and request; every weight is read once
    attention   4 · layers · heads · head_dim FLOPs for each pair of a token and a token it attends to (the products with K and
                with V); the keys and values of each request's tokens are read once, those of its new tokens written as well
    MLP         its activations, 3 · intermediate_size numbers for each layer and token, do not fit in a cache
    overhead    the fixed time of each layer and each step

With tensor parallelism each accelerator has its part of the weights, FLOPs and K/V heads, and all of them add up their halves of
each layer twice (a ring: every accelerator sends 2 · (n - 1) / n of the bytes).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import hypot

from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.configs.geometry import Geometry
from kvtool.engine.prediction.accelerators import (
    ACCELERATORS,
    Accelerator,
    find_accelerator,
)
from kvtool.engine.prediction.decode_run import DecodeRun
from kvtool.engine.prediction.flash_attention import FlashAttention2

__all__ = ["ACCELERATORS", "Accelerator", "LatencyModel", "PrefillTimes", "find_accelerator"]

_MOST_CHUNKS = 1 << 16
"""Remembered times of prompt chunks, a bound on memory; further ones are computed each time."""


@dataclass(frozen=True, slots=True)
class LatencyModel:
    """The roofline of a model on an accelerator.

    The constants are the same for all accelerators and fitted on no serving run. They are read off kernel times of Llama-3.1-8B in
    bf16 that the project LLMServingSim publishes (its folder profiler/perf): vLLM's own kernels, one by one, on an RTX 4090 and on
    an RTX PRO 6000 Server Edition.

    - the accelerator's `compute_efficiency`: a layer's four matrix products with 1,024 and 2,048 tokens reach 0.78 and 0.82 of the
      peak on the server card.
    - `bandwidth_efficiency`: with 1 to 16 tokens they read the weights at 0.89 to 0.93 of the peak on both, with 24 to 128 at 0.85.
    - `layer_overhead`: the kernels of a layer that do nearly nothing for few tokens (two norms, rotary embedding, activation, and
      attention over 16 tokens) take 18 to 19 µs on both.
    - `step_overhead`: the sampler's kernels take 0.02 to 0.1 ms. Nothing is added for the host, for vLLM schedules a step and
      prepares its inputs while the one before runs: in the recorded run on the server card, the steps of the last request, which
      is alone, take 11.38 ms each, and the sum of their kernels is 11.42 ms. A host that is slower than its accelerator is not
      foreseen.
    - `FlashAttention2` has those of attention where vLLM attends with that.
    - `link_efficiency`, `link_latency`: NCCL's all-reduce between two of the server cards, over PCIe 5.0, reaches 0.56 of the
      link's bandwidth with 20 MB and takes 13 µs with 4 kB. Without NVLink, the host's limit holds (`accelerators.py`).
    - `request_overhead`: none, for one kernel attends for all requests. On CPUs, which take them one by one, `kvtool bench` finds
      one when it fits these constants to a machine.
    """

    geometry: Geometry
    accelerator: Accelerator
    dtype_bytes: int = 2
    bandwidth_efficiency: float = 0.90
    step_overhead: float = 0.05e-3
    layer_overhead: float = 18e-6
    tensor_parallel: int = 1
    link_efficiency: float = 0.56
    link_latency: float = 13e-6
    kv_token_bytes: float | None = None
    """Keys and values of a token in all layers, as the cache stores them; None: as many as the model's own type takes."""
    request_overhead: float = 0.0
    """Fixed time of each layer for each request, of any length."""
    whole_last_layer: bool = True
    """True if the last layer is computed for all tokens. The embedded engine stores all keys and values there, and computes the
    rest only for a request's last token, because the logits need nothing else."""

    # Terms of every step, computed once: many millions of steps are timed.
    _flop_seconds: float = field(init=False, repr=False, compare=False)
    _byte_seconds: float = field(init=False, repr=False, compare=False)
    _layer_weights: int = field(init=False, repr=False, compare=False)
    """Weights of the layers that are computed for all tokens."""
    _head_weights: int = field(init=False, repr=False, compare=False)
    _pair_seconds: float = field(init=False, repr=False, compare=False)
    """Seconds of a layer, for a token and one that it attends to."""
    _kv_seconds: float = field(init=False, repr=False, compare=False)
    """Seconds of a layer, to move the keys and values of a token."""
    _token_seconds: float = field(init=False, repr=False, compare=False)
    """Seconds of a layer, for each token more that a decode step attends to."""
    _decode_shift: float = field(init=False, repr=False, compare=False)
    """Tokens that a decode step attends to beyond those computed before."""
    _flash: FlashAttention2 | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ways, geometry = self.tensor_parallel, self.geometry
        if ways < 1:
            raise EngineError(f"tensor parallelism must be at least 1, not {ways}")
        if geometry.num_heads % ways:
            raise EngineError(
                f"{geometry.num_heads} attention heads of {geometry.name} cannot be split over {ways} accelerators"
            )
        if ways > 1 and not self.accelerator.link:
            raise EngineError(f"the speed of links between {self.accelerator.name} accelerators is unknown")
        flop_seconds = 1 / (self.accelerator.flops * self.accelerator.compute_efficiency)
        byte_seconds = 1 / (self.accelerator.bandwidth * self.bandwidth_efficiency)
        layers = geometry.num_layers - (not self.whole_last_layer)
        pair_seconds = 4.0 * geometry.num_heads * geometry.head_dim / ways * flop_seconds
        kv_seconds = self._kv_bytes() / geometry.num_layers * byte_seconds
        token_seconds = hypot(pair_seconds, kv_seconds)
        for name, value in (
            ("_flop_seconds", flop_seconds),
            ("_byte_seconds", byte_seconds),
            ("_layer_weights", layers * geometry.layer_parameters),
            ("_head_weights", geometry.vocab_size * geometry.hidden_size),
            ("_pair_seconds", pair_seconds),
            ("_kv_seconds", kv_seconds),
            ("_token_seconds", token_seconds),
            ("_decode_shift", 1 + (kv_seconds / token_seconds if token_seconds else 0.0) ** 2),
            ("_flash", self._flash_attention(flop_seconds)),
        ):
            object.__setattr__(self, name, value)

    def step_seconds(self, work: Iterable[tuple[int, int]]) -> float:
        """Return seconds of one step. `work` has, for each request, the tokens computed before and those computed now."""
        cut = not self.whole_last_layer
        pair_seconds, kv_seconds = self._pair_seconds, self._kv_seconds
        tokens = rows = 0
        attention = last_attention = 0.0
        if self._flash is not None:
            known = tuple(work)
            rows, tokens = len(known), sum(new for _, new in known)
            attention = self._flash.layer_seconds(known) if tokens else 0.0
            last_attention = attention * cut
        else:
            for before, new in work:
                tokens += new
                rows += 1
                pairs = new * before + new * (new + 1) // 2
                moved = (before + 2 * new) * kv_seconds
                attention += hypot(pairs * pair_seconds, moved)
                if cut:
                    last_attention += hypot((before + new) * pair_seconds, moved)
        return self._seconds(tokens, rows, attention, last_attention) if tokens else 0.0

    @property
    def longest_decodes(self) -> int:
        """The number of longest decoding contexts on which a step's time depends, beside the sum of all."""
        return 0 if self._flash is None else self._flash.longest

    def decode_run(self, requests: int, context: int, longest: Sequence[int] = ()) -> DecodeRun:
        """Return the run of steps in which `requests` with `context` computed tokens in all get a token each, and nothing else is
        computed.

        `longest` has the `longest_decodes` longest of the contexts. FlashAttention 2 is summed exactly. Elsewhere a request's
        attention takes hypot((c + 1) a, (c + 2) b) in a layer with c tokens computed before. That is a line in c but for at most
        hypot(a, b) / (8 (c + 1)): an eighth of one more token's time, divided by the context.
        """
        first, layers = self.mixed_seconds((), requests, context, longest), self.geometry.num_layers
        if self._flash is None:
            return DecodeRun(first, layers * self._token_seconds * requests)
        growth, bend, at = self._flash.decode_growth(requests, context, longest)
        return DecodeRun(first, layers * growth, layers * bend, at)

    def mixed_seconds(
        self, chunks: Sequence[tuple[int, int]], requests: int, context: int, longest: Sequence[int] = ()
    ) -> float:
        """Return `step_seconds` of `chunks` and of `requests` that decode, as in `decode_run`."""
        tokens, rows = requests + sum(new for _, new in chunks), requests + len(chunks)
        cut = not self.whole_last_layer
        if self._flash is not None:
            attention = self._flash.mixed_seconds(chunks, requests, context, longest)
            return self._seconds(tokens, rows, attention, attention * cut)
        pair_seconds, kv_seconds = self._pair_seconds, self._kv_seconds
        attention = last_attention = self._token_seconds * (context + requests * self._decode_shift)
        for before, new in chunks:
            moved = (before + 2 * new) * kv_seconds
            attention += hypot((new * before + new * (new + 1) // 2) * pair_seconds, moved)
            last_attention += hypot((before + new) * pair_seconds, moved)
        return self._seconds(tokens, rows, attention, last_attention * cut)

    def _seconds(self, tokens: int, rows: int, attention: float, last_attention: float) -> float:
        """Return a step of so many tokens for so many requests, with its attention in a layer and in one that is cut."""
        geometry = self.geometry
        cut = not self.whole_last_layer
        layers = geometry.num_layers - cut
        activations = 3 * geometry.intermediate_size * (layers * tokens + cut * rows) / self.tensor_parallel
        return (
            self.product_seconds(self._layer_weights, tokens)
            + (self._cut_products_seconds(tokens, rows) if cut else 0.0)
            + self.product_seconds(self._head_weights, rows)
            + layers * attention
            + last_attention
            + activations * self.dtype_bytes * self._byte_seconds
            + self._all_reduce_seconds(tokens)
            + geometry.num_layers * (self.layer_overhead + rows * self.request_overhead)
            + self.step_overhead
        )

    def _flash_attention(self, flop_seconds: float) -> FlashAttention2 | None:
        geometry, accelerator, ways = self.geometry, self.accelerator, self.tensor_parallel
        if not accelerator.flash_attention_2:
            return None
        return FlashAttention2(
            accelerator.bandwidth,
            flop_seconds,
            pair_flops=4.0 * geometry.num_heads * geometry.head_dim / ways,
            token_bytes=self._kv_bytes() / geometry.num_layers,
            kv_heads=max(geometry.num_kv_heads // ways, 1),
            multiprocessors=accelerator.flash_attention_2,
        )

    def _cut_products_seconds(self, tokens: int, rows: int) -> float:
        """Return the time of the last layer's products: queries, keys and values of all tokens, the rest for one a request."""
        geometry = self.geometry
        projected = geometry.hidden_size * geometry.head_dim * (geometry.num_heads + 2 * geometry.num_kv_heads)
        rest = self.product_seconds(geometry.layer_parameters - projected, rows)
        return self.product_seconds(projected, tokens) + rest

    def attention_seconds(self, pairs: float, kv_tokens: float) -> float:
        """Return the time of a step's attention in all layers: pairs of a token and one that it attends to, and the keys and
        values of so many tokens read; fewer than the pairs where requests read a prefix together."""
        geometry = self.geometry
        flops = 4.0 * geometry.num_layers * geometry.num_heads * geometry.head_dim / self.tensor_parallel
        return hypot(pairs * flops * self._flop_seconds, kv_tokens * self._kv_bytes() * self._byte_seconds)

    def product_seconds(self, weights: int, columns: int) -> float:
        """Return matrix products of `weights` numbers in all, with `columns` vectors each."""
        share = weights / self.tensor_parallel
        return hypot(2 * share * columns * self._flop_seconds, share * self.dtype_bytes * self._byte_seconds)

    def _kv_bytes(self) -> float:
        """Return keys and values of a token on one accelerator; more accelerators than K/V heads keep copies."""
        geometry = self.geometry
        whole = geometry.kv_bytes_per_token(self.dtype_bytes) if self.kv_token_bytes is None else self.kv_token_bytes
        return whole / min(self.tensor_parallel, geometry.num_kv_heads)

    def _all_reduce_seconds(self, tokens: int) -> float:
        """After attention and after the MLP of each layer, and after the embedding."""
        ways = self.tensor_parallel
        if ways == 1:
            return 0.0
        sent = 2.0 * (ways - 1) / ways * tokens * self.geometry.hidden_size * self.dtype_bytes
        each = self.link_latency + sent / self.accelerator.collective_bandwidth(self.link_efficiency)
        return (2 * self.geometry.num_layers + 1) * each

    def prefill_seconds(self, prompt_tokens: int, cached_tokens: int, max_num_batched_tokens: int) -> float:
        """Return TTFT of a request that runs alone: its uncached tokens, in chunks of the step's budget."""
        seconds = 0.0
        at = cached_tokens
        while at < prompt_tokens:
            new = min(max_num_batched_tokens, prompt_tokens - at)
            seconds += self.step_seconds([(at, new)])
            at += new
        return seconds


class PrefillTimes:
    """`prefill_seconds` of many requests with one budget: prompts of one length, of which nothing is cached, take equally long, and
    so do whole chunks that begin at the same token."""

    def __init__(self, model: LatencyModel, max_num_batched_tokens: int) -> None:
        self._model = model
        self._budget = max_num_batched_tokens
        self._whole: dict[int, float] = {}
        """Seconds of a whole chunk by where it begins."""
        self._uncached: dict[int, float] = {}
        """Seconds of a whole prompt by its tokens."""

    def seconds(self, prompt_tokens: int, cached_tokens: int) -> float:
        """Return TTFT of a request that runs alone, the chunks added up in the same order as there."""
        if cached_tokens:
            return self._added_up(prompt_tokens, cached_tokens)
        seconds = self._uncached.get(prompt_tokens)
        if seconds is None:
            seconds = self._added_up(prompt_tokens, 0)
            if len(self._uncached) < _MOST_CHUNKS:
                self._uncached[prompt_tokens] = seconds
        return seconds

    def _added_up(self, prompt_tokens: int, cached_tokens: int) -> float:
        seconds, at, budget, whole = 0.0, cached_tokens, self._budget, self._whole
        while at + budget <= prompt_tokens:
            known = whole.get(at)
            if known is None:
                known = self._model.step_seconds([(at, budget)])
                if len(whole) < _MOST_CHUNKS:
                    whole[at] = known
            seconds += known
            at += budget
        if at < prompt_tokens:
            seconds += self._model.step_seconds([(at, prompt_tokens - at)])
        return seconds
