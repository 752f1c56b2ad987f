"""The whole engine on a device against the same on the CPU in torch, and against itself along other ways."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
import torch

from benchmarks.device.checks import Check, checked
from benchmarks.device.references import relative_error
from kvtool.engine.attention.decode_plan import Int32
from kvtool.engine.clock import WallClock
from kvtool.engine.config import DecodeMode, EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.kv_dtype import AUTO, KV_CACHE_DTYPES
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.configs.rope_config import DefaultRope, Llama3Rope, YarnRope
from kvtool.engine.model.decoder import Decoder
from kvtool.engine.model.device import choose_kernels
from kvtool.engine.model.model_runner import ModelRunner
from kvtool.engine.model.random_weights import RandomWeights
from kvtool.engine.request import Request
from kvtool.kernels import torch_twins
from kvtool.kernels.protocol import Kernels
from kvtool.measure.bench.attention import SHORT

VOCABULARY = 512
BLOCK = 16
SAME = 1e-4
"""Relative error of fp32 logits that only the order of additions makes."""

_LLAMA = ModelConfig(VOCABULARY, 256, 512, 3, 8, 2, 64, rope=Llama3Rope(5e3, 8.0, 1.0, 4.0, 64), name="llama")
FAMILIES = (
    _LLAMA,
    replace(_LLAMA, name="mistral", head_dim=80, rope=DefaultRope(1e4)),
    replace(
        _LLAMA, name="qwen2", num_key_value_heads=8, qkv_bias=True, tie_word_embeddings=True, rope=DefaultRope(1e4)
    ),
    replace(_LLAMA, name="qwen3", head_dim=128, num_key_value_heads=4, qk_norm=True, rope=YarnRope(1e4, 4.0, 64, 1.1)),
)
KEPT_BOUND = 5e-3
"""After a cache in fewer bits: a key that differs by rounding may, now and then, be kept as the next number. (On a CPU, weights
that differ in their last bits move the logits of fp8_e5m2 by 1.1e-3, of the other types by less than 3e-4.)"""

_MODEL_BOUNDS = {torch.float16: 1e-2, torch.bfloat16: 8e-2}
"""Of a model in half precision, against fp32."""


@dataclass(frozen=True, slots=True)
class Way:
    """How the engine is run."""

    decode_attention: DecodeMode = "auto"
    prefix_caching: bool = True
    batched_tokens: int = 8192
    graphs: bool = True
    kv_cache_dtype: str = AUTO


@dataclass(frozen=True, slots=True)
class Run:
    tokens: list[list[int]]
    logits: list[list[torch.Tensor]] = field(repr=False)
    """float[vocab] of each request's outputs, on the CPU."""


def prompts(small: bool) -> list[Int32]:
    """Common beginnings of several lengths; one prompt is the beginning of another, and one comes twice."""
    rng = np.random.default_rng(0)
    scale = 1 if small else 8
    base = rng.integers(0, VOCABULARY, 96 * scale)
    lengths = ((48, 3), (32, 9)) if small else ((96, 5), (48, 30), (96, 41), (0, 70), (33, 1), (0, 3), (90, 9))
    made = [
        np.concatenate([base[: shared * scale], rng.integers(0, VOCABULARY, own)]).astype(np.int32)
        for shared, own in lengths
    ]
    return [*made, made[-1].copy()]


def generate(model: Decoder, way: Way, asked: Sequence[Int32], outputs: int) -> Run:
    """Greedy; all requests at once."""
    seen: dict[str, list[torch.Tensor]] = {str(index): [] for index in range(len(asked))}

    def keep(request: Request, logits: torch.Tensor) -> None:
        seen[request.id].append(logits.float().cpu())

    runner = ModelRunner(
        model,
        BLOCK,
        kv_cache_dtype=way.kv_cache_dtype,
        on_logits=keep,
        decode_attention=way.decode_attention,
        cuda_graphs=way.graphs,
    )
    config = EngineConfig(
        block_size=BLOCK, enable_prefix_caching=way.prefix_caching, max_num_batched_tokens=way.batched_tokens
    )
    engine = Engine(config, runner, WallClock())
    requests = [Request(str(index), len(ids), prompt_ids=ids, max_tokens=outputs) for index, ids in enumerate(asked)]
    for request in requests:
        engine.add(request)
    while engine.busy:
        engine.step()
    return Run([request.outputs for request in requests], list(seen.values()))


def compared(
    name: str, dtype: torch.dtype, found: Run, expected: Run, bound: float, *, same_tokens: bool = True
) -> Check:
    """Logits as far as both runs chose the same tokens, the first other one included; `same_tokens`: that must be all."""
    ours, theirs, differ = [], [], 0
    for index, (a, b) in enumerate(zip(found.tokens, expected.tokens, strict=True)):
        agreed = next((n for n, (x, y) in enumerate(zip(a, b, strict=True)) if x != y), len(a))
        differ += agreed < len(a)
        stop = min(agreed + 1, len(a))
        ours += found.logits[index][:stop]
        theirs += expected.logits[index][:stop]
    note = f"{differ} of {len(found.tokens)} answers differ" if differ and same_tokens else ""
    return Check("engine", SHORT[dtype], name, relative_error(torch.stack(ours), torch.stack(theirs)), bound, note)


def weights(config: ModelConfig) -> Mapping[str, torch.Tensor]:
    """Random, the norms' too: one that is applied in the wrong place, or not at all, must show."""
    made = dict(RandomWeights(config))
    generator = torch.Generator().manual_seed(1)
    for name, weight in made.items():
        if name.endswith("norm.weight"):
            made[name] = torch.empty_like(weight).uniform_(0.5, 1.5, generator=generator)
    return made


def engine_checks(device: torch.device, *, small: bool = False, kernels: Kernels | None = None) -> Iterator[Check]:
    """All checks, the most telling first. `kernels`: others than the device's own, to try them on the CPU."""
    chosen = choose_kernels(device)
    if kernels is None and device.type == "cuda" and not chosen.triton:
        yield Check("engine", "fp32", "kernels", 0.0, 0.0, chosen.shortfall)
    families = [_tiny(FAMILIES[-1])] if small else FAMILIES
    asked, outputs = prompts(small), 3 if small else 12
    for config in families:
        check = _Family(config, device, kernels, asked, outputs)
        yield from checked("engine", torch.float32, config.name, device, check.against_cpu)
        for name, way in _ways(small).items():
            yield from checked(
                "engine", torch.float32, f"{config.name}, {name}", device, partial(check.another, name, way)
            )
    check = _Family(families[0], device, kernels, asked, outputs)
    for kept in ("int8",) if small else KV_CACHE_DTYPES[1:]:
        run = partial(check.kept_as, kept)
        yield from checked("engine", torch.float32, f"{kept} cache", device, run)
    for dtype in (torch.float16,) if small else _MODEL_BOUNDS:
        yield from checked("engine", dtype, "against fp32", device, partial(check.in_half_precision, dtype))


def _tiny(config: ModelConfig) -> ModelConfig:
    return replace(
        config, vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=1, head_dim=16,
    )  # fmt: skip


def _ways(small: bool) -> dict[str, Way]:
    """Each must give what the first does."""
    ways = {
        "no cache": Way(prefix_caching=False),
        "flat": Way("flat"),
        "prefix-aware": Way("prefix-aware"),
        "chunked": Way(batched_tokens=67),
        "no graphs": Way(graphs=False),
    }
    return {name: ways[name] for name in ("prefix-aware",)} if small else ways


class _Family:
    """One model on the device and on the CPU."""

    def __init__(
        self,
        config: ModelConfig,
        device: torch.device,
        kernels: Kernels | None,
        asked: Sequence[Int32],
        outputs: int,
    ) -> None:
        self._config = config
        self._device = device
        self._kernels = kernels
        self._asked = asked
        self._outputs = outputs
        self._weights = weights(config)

    def against_cpu(self) -> Iterator[Check]:
        yield compared(f"{self._config.name} against the CPU", torch.float32, self._first, self._reference, SAME)

    def another(self, name: str, way: Way) -> Iterator[Check]:
        found = self._run(way)
        yield compared(f"{self._config.name}, {name}", torch.float32, found, self._first, SAME)

    def kept_as(self, kept: str) -> Iterator[Check]:
        found, expected = self._run(Way(kv_cache_dtype=kept)), self._on_cpu(kept)
        yield compared(f"{kept} cache", torch.float32, found, expected, KEPT_BOUND, same_tokens=False)

    def in_half_precision(self, dtype: torch.dtype) -> Iterator[Check]:
        found = self._run(Way(), dtype)
        yield compared("against fp32", dtype, found, self._reference, _MODEL_BOUNDS[dtype], same_tokens=False)

    @cached_property
    def _first(self) -> Run:
        return self._run(Way())

    def _run(self, way: Way, dtype: torch.dtype = torch.float32) -> Run:
        model = Decoder(self._config, self._weights, device=self._device, dtype=dtype, kernels=self._kernels)
        return generate(model, way, self._asked, self._outputs)

    @cached_property
    def _reference(self) -> Run:
        return self._on_cpu(AUTO)

    def _on_cpu(self, kept: str) -> Run:
        model = Decoder(self._config, self._weights, kernels=torch_twins)
        return generate(model, Way(kv_cache_dtype=kept), self._asked, self._outputs)
