"""The forward pass against transformers' LlamaForCausalLM, over every way in which the scheduler can cut the work."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM

from kvtool.engine.attention.cpu_plan import CpuPlan
from kvtool.engine.batch import Batch
from kvtool.engine.engine_error import EngineError
from kvtool.engine.model import kv_store
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.configs.rope_config import DefaultRope
from kvtool.engine.model.decoder import Decoder
from kvtool.engine.model.kv_store import KVStore
from kvtool.engine.model.model_runner import ModelRunner
from kvtool.engine.model.random_weights import RandomWeights
from kvtool.engine.request import Request
from kvtool.engine.step import EngineStep, Scheduled

BLOCK = 4
CONFIG = ModelConfig(
    vocab_size=131,
    hidden_size=48,
    intermediate_size=80,
    num_hidden_layers=3,
    num_attention_heads=6,
    num_key_value_heads=2,
    head_dim=16,  # 6 x 16 is not the hidden size
    rms_norm_eps=1e-6,
    rope=DefaultRope(5_000.0),
)
TIED = dataclasses.replace(CONFIG, tie_word_embeddings=True)


def checkpoint(config: ModelConfig) -> dict[str, torch.Tensor]:
    state = dict(RandomWeights(config, seed=1))
    random = torch.Generator().manual_seed(2)
    for name, weight in state.items():
        if weight.ndim == 1:  # norms of ones would hide a norm that is applied in the wrong place
            state[name] = 0.5 + torch.rand(weight.shape, generator=random)
    return state


def load_hf(config: ModelConfig) -> LlamaForCausalLM:
    hf = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=config.num_hidden_layers,
            num_attention_heads=config.num_attention_heads,
            num_key_value_heads=config.num_key_value_heads,
            head_dim=config.head_dim,
            rms_norm_eps=config.rms_norm_eps,
            rope_parameters={"rope_type": "default", "rope_theta": config.rope.theta},
            tie_word_embeddings=config.tie_word_embeddings,
        )
    )
    missing, unexpected = hf.load_state_dict(checkpoint(config), strict=False)
    assert missing == (["lm_head.weight"] if config.tie_word_embeddings else [])
    assert not unexpected
    return hf.eval()


@pytest.fixture(scope="module")
def hf() -> LlamaForCausalLM:
    return load_hf(CONFIG)


@pytest.fixture(scope="module")
def model() -> Decoder:
    return Decoder(CONFIG, checkpoint(CONFIG))


def hf_logits(hf: LlamaForCausalLM, tokens: list[int]) -> torch.Tensor:
    """[len(tokens), vocab]"""
    with torch.inference_mode():
        return hf(torch.tensor([tokens])).logits[0]


def prompt(length: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, CONFIG.vocab_size, length).tolist()


class Bench:
    """A runner, requests on scattered blocks, and the logits that each request got."""

    def __init__(self, model: Decoder, num_blocks: int | None = None) -> None:
        self.runner = ModelRunner(model, BLOCK, num_blocks, on_logits=self._keep)
        self.free = np.random.default_rng(7).permutation(np.arange(1, 250)).tolist()
        self.logits: dict[Request, list[torch.Tensor]] = {}

    def _keep(self, request: Request, logits: torch.Tensor) -> None:
        self.logits.setdefault(request, []).append(logits.clone())

    def request(
        self,
        tokens: list[int],
        *,
        prefix: Request | None = None,
        prefix_blocks: int = 0,
        room: int = 0,
        forced: list[int] | None = None,
    ) -> Request:
        """A request with `room` for outputs; its first blocks may be another one's."""
        request = Request("r", len(tokens), prompt_ids=np.array(tokens, dtype=np.int32), output_ids=forced)
        shared = prefix.block_ids[:prefix_blocks] if prefix else []
        need = -(-(len(tokens) + room) // BLOCK) - len(shared)
        request.block_ids = shared + [self.free.pop() for _ in range(need)]
        return request

    def run(self, *items: tuple[Request, int, int]) -> list[int | None]:
        step = EngineStep(0, tuple(Scheduled(*item) for item in items))
        tokens = self.runner.run(step)
        for (request, _, _), token in zip(items, tokens, strict=True):
            if token is not None:
                request.append_output(token)
        return tokens

    def prefill(self, *requests: Request) -> list[int | None]:
        return self.run(*((request, 0, request.num_tokens) for request in requests))

    def decode(self, *requests: Request) -> list[int | None]:
        return self.run(*((request, request.num_tokens - 1, 1) for request in requests))


def assert_same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert expected.std() > 0.1  # logits that the tolerance can tell apart
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("config", [CONFIG, TIED], ids=["untied", "tied"])
def test_logits_of_every_position(config: ModelConfig) -> None:
    hf = load_hf(config)
    tokens = prompt(45)
    request = Request("r", len(tokens), prompt_ids=np.array(tokens, dtype=np.int32))
    request.block_ids = [9, 3, 11, 5, 2, 8, 1, 7, 6, 4, 12, 10]
    batch = Batch.build(EngineStep(0, (Scheduled(request, 0, len(tokens)),)), BLOCK)
    batch = dataclasses.replace(batch, logits_at=torch.arange(len(tokens)))
    model = Decoder(config, hf.state_dict())
    assert_same(model.forward(batch, KVStore(config, BLOCK)), hf_logits(hf, tokens))


def test_prompts_side_by_side(model: Decoder, hf: LlamaForCausalLM) -> None:
    bench = Bench(model)
    prompts = [prompt(length, seed=length) for length in (1, 4, 17, 33)]
    requests = [bench.request(tokens) for tokens in prompts]
    bench.prefill(*requests)
    for request, tokens in zip(requests, prompts, strict=True):
        assert_same(bench.logits[request][0], hf_logits(hf, tokens)[-1])


@settings(max_examples=15, deadline=None)
@given(cuts=st.sets(st.integers(1, 49), max_size=6))
def test_a_prompt_may_be_cut_anywhere(cuts: set[int], model: Decoder, hf: LlamaForCausalLM) -> None:
    bench = Bench(model)
    tokens = prompt(50)
    request = bench.request(tokens)
    edges = [0, *sorted(cuts), 50]
    for start, stop in itertools.pairwise(edges):
        [token] = bench.run((request, start, stop - start))
        assert (token is None) == (stop < 50)
    [logits] = bench.logits[request]
    assert_same(logits, hf_logits(hf, tokens)[-1])


def test_a_long_chunk_after_a_long_prefix(model: Decoder, hf: LlamaForCausalLM) -> None:
    """Longer than a tile of queries, with a prefix before it."""
    bench = Bench(model)
    tokens = prompt(730)
    request = bench.request(tokens)
    bench.run((request, 0, 101))
    bench.run((request, 101, 629))
    assert_same(bench.logits[request][0], hf_logits(hf, tokens)[-1])


def test_a_prefix_computed_by_another_request(model: Decoder, hf: LlamaForCausalLM) -> None:
    bench = Bench(model)
    first = prompt(30)
    owner = bench.request(first)
    bench.prefill(owner)
    tokens = first[: 5 * BLOCK] + prompt(9, seed=5)
    hit = bench.request(tokens, prefix=owner, prefix_blocks=5)
    bench.run((hit, 5 * BLOCK, 9))
    assert_same(bench.logits[hit][0], hf_logits(hf, tokens)[-1])


def test_a_prefix_computed_in_the_same_step(model: Decoder, hf: LlamaForCausalLM) -> None:
    """vLLM registers blocks when it schedules them, so the next request of the step already hits them."""
    bench = Bench(model)
    first = prompt(30)
    owner = bench.request(first)
    tokens = first[: 6 * BLOCK] + prompt(7, seed=6)
    hit = bench.request(tokens, prefix=owner, prefix_blocks=6)
    bench.run((owner, 0, 30), (hit, 6 * BLOCK, 7))
    assert_same(bench.logits[owner][0], hf_logits(hf, first)[-1])
    assert_same(bench.logits[hit][0], hf_logits(hf, tokens)[-1])


def test_prefill_chunk_hit_and_decode_in_one_step(model: Decoder, hf: LlamaForCausalLM) -> None:
    bench = Bench(model)
    running = bench.request(prompt(19, seed=1), room=3)
    chunked = bench.request(prompt(40, seed=2))
    bench.run((running, 0, 19), (chunked, 0, 13))
    fresh = bench.request(prompt(11, seed=3))
    hit_tokens = prompt(19, seed=1)[: 3 * BLOCK] + prompt(6, seed=4)
    hit = bench.request(hit_tokens, prefix=running, prefix_blocks=3)
    tokens = bench.run((running, 19, 1), (chunked, 13, 15), (hit, 12, 6), (fresh, 0, 11))
    assert [token is None for token in tokens] == [False, True, False, False]
    bench.run((fresh, 11, 1), (chunked, 28, 12))
    assert_same(bench.logits[running][1], hf_logits(hf, [*prompt(19, seed=1), running.outputs[0]])[-1])
    assert_same(bench.logits[hit][0], hf_logits(hf, hit_tokens)[-1])
    assert_same(bench.logits[fresh][0], hf_logits(hf, prompt(11, seed=3))[-1])
    assert_same(bench.logits[chunked][0], hf_logits(hf, prompt(40, seed=2))[-1])


def test_tokens_without_logits_leave_keys_and_values_of_every_layer(model: Decoder, hf: LlamaForCausalLM) -> None:
    bench = Bench(model)
    kv = bench.runner.kv
    for cache in (*kv.k, *kv.v):
        cache.fill_(math.nan)
    chunked, whole = bench.request(prompt(30, seed=1)), bench.request(prompt(14, seed=2))
    bench.run((chunked, 0, 11))
    assert not bench.logits
    bench.run((chunked, 11, 12), (whole, 0, 14))
    for request, stop in ((chunked, 23), (whole, 14)):
        assert request.prompt_ids is not None
        with torch.inference_mode():
            expected = hf(torch.from_numpy(request.prompt_ids[:stop])[None].long(), use_cache=True).past_key_values
        for layer in range(CONFIG.num_hidden_layers):
            for cache, values in ((kv.k, expected.layers[layer].keys), (kv.v, expected.layers[layer].values)):
                stored = cache[layer][request.block_ids].transpose(1, 2).flatten(0, 1)  # [tokens, Hkv, D]
                torch.testing.assert_close(stored[:stop], values[0].transpose(0, 1), rtol=0, atol=1e-4)
                assert stored[stop:].isnan().all()


def test_logits_of_some_tokens_are_those_of_a_pass_over_all(model: Decoder) -> None:
    """Also where tokens in the middle of a request, or none at all, get logits."""
    bench = Bench(model)
    items = [
        (bench.request(prompt(length, seed=length)), start, length - start) for length, start in ((33, 0), (21, 9))
    ]
    bench.run((items[1][0], 0, 9))
    batch = Batch.build(EngineStep(0, tuple(Scheduled(*item) for item in items)), BLOCK)
    owner = (0,) * 33 + (1,) * 12

    def logits(at: list[int]) -> torch.Tensor:
        wanted = dataclasses.replace(batch, logits_at=torch.tensor(at).long(), sampled=tuple(owner[t] for t in at))
        with torch.inference_mode():
            return model.forward(wanted, bench.runner.kv)

    full = logits(list(range(45)))
    assert full.std() > 0.1
    for at in ([32, 44], [44], [0, 7, 32, 33, 40], []):
        torch.testing.assert_close(logits(at), full[at], rtol=0, atol=1e-5)


def test_the_last_layer_attends_for_tokens_with_logits_only(model: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    queries: list[int] = []

    attend = CpuPlan.attend

    def counted(plan: CpuPlan, layer: int, q: torch.Tensor, *caches: torch.Tensor) -> torch.Tensor:
        queries.append(len(q))
        return attend(plan, layer, q, *caches)

    monkeypatch.setattr(CpuPlan, "attend", counted)
    bench = Bench(model)
    chunked, whole = bench.request(prompt(30)), bench.request(prompt(14))
    bench.run((chunked, 0, 11))
    bench.run((chunked, 11, 12), (whole, 0, 14))
    assert queries == [11, 11, 26, 26, 1]  # the first chunk gets no logits: its last layer does not attend at all


def test_greedy_generation(model: Decoder, hf: LlamaForCausalLM) -> None:
    bench = Bench(model)
    prompts = [prompt(length, seed=length) for length in (6, 15)]
    requests = [bench.request(tokens, room=24) for tokens in prompts]
    bench.prefill(*requests)
    for _ in range(23):
        bench.decode(*requests)
    for request, tokens in zip(requests, prompts, strict=True):
        expected = list(tokens)
        for _ in range(24):
            expected.append(int(hf_logits(hf, expected)[-1].argmax()))
        assert request.outputs == expected[len(tokens) :]
        assert len(set(request.outputs)) > 4  # not one token over and over


def test_forced_outputs(model: Decoder, hf: LlamaForCausalLM) -> None:
    """The forced tokens come back, later logits build on them, and only the first token and free ones get logits."""
    bench = Bench(model)
    forced = bench.request(prompt(10), room=4, forced=[90, 91, 92])
    free = bench.request(prompt(9, seed=1), room=4)
    tokens = [bench.prefill(forced, free), bench.decode(forced, free), bench.decode(free, forced)]
    assert [tokens[0][0], tokens[1][0], tokens[2][1]] == [90, 91, 92]
    assert len(bench.logits[forced]) == 1
    assert [int(logits.argmax()) for logits in bench.logits[free]] == free.outputs
    assert_same(bench.logits[forced][0], hf_logits(hf, prompt(10))[-1])

    known = [*prompt(10), 90, 91]
    reader = bench.request([*known, 5], prefix=forced, prefix_blocks=3)
    bench.run((reader, 12, 1))
    assert_same(bench.logits[reader][0], hf_logits(hf, [*known, 5])[-1])


def test_the_pool_grows_and_keeps_what_it_holds(
    model: Decoder, hf: LlamaForCausalLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kv_store, "_INITIAL_TOKENS", 8 * BLOCK)
    bench = Bench(model)
    bench.free = [100, *range(7, 0, -1)]
    first = prompt(28)
    owner = bench.request(first)
    bench.prefill(owner)
    assert bench.runner.kv.num_blocks == 8
    tokens = [*first, 3, 1]
    hit = bench.request(tokens, prefix=owner, prefix_blocks=7)
    assert hit.block_ids[-1] == 100
    bench.run((hit, 28, 2))
    assert bench.runner.kv.num_blocks == 128
    assert_same(bench.logits[hit][0], hf_logits(hf, tokens)[-1])


@pytest.mark.parametrize(("limit", "sizes"), [(None, [8, 16, 16, 64]), (50, [8, 16, 16, 50]), (5, [5])])
def test_growth_stops_at_the_limit(limit: int | None, sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_store, "_INITIAL_TOKENS", 8 * BLOCK)
    store = KVStore(CONFIG, BLOCK, limit)
    seen = []
    for need, _ in zip((5, 9, 16, 50), sizes, strict=False):
        store.reserve(need)
        assert {tensor.shape[0] for tensor in (*store.k, *store.v)} == {store.num_blocks}
        seen.append(store.num_blocks)
    assert seen == sizes
    if limit is not None:
        with pytest.raises(AssertionError, match=f"{limit + 1} blocks in a pool of {limit}"):
            store.reserve(limit + 1)


def test_an_empty_step() -> None:
    assert ModelRunner(Decoder.random(CONFIG), BLOCK).run(EngineStep(0, ())) == []


@pytest.mark.parametrize("token", [-1, CONFIG.vocab_size])
def test_a_token_outside_the_vocabulary(token: int, model: Decoder) -> None:
    bench = Bench(model)
    with pytest.raises(EngineError, match=f"token {token} is not in the model's vocabulary of 131"):
        bench.prefill(bench.request([1, token, 2]))


def test_random_weights_depend_on_the_seed_only() -> None:
    one, same, other = (RandomWeights(TIED, seed) for seed in (3, 3, 4))
    assert one.keys() == same.keys() == other.keys()
    for name, weight in one.items():
        assert torch.equal(weight, same[name])
        assert weight.ndim == 1 or not torch.equal(weight, other[name])


def test_a_state_dict_must_fit() -> None:
    for change, message in [
        (lambda state: state.pop("model.norm.weight"), r"lacks model\.norm\.weight"),
        (lambda state: state.update({"model.extra": torch.ones(1)}), r"has the unknown model\.extra"),
        (
            lambda state: state.update({"lm_head.weight": torch.ones(2, 3)}),
            r"lm_head\.weight is \[2, 3\], not \[131, 48\]",
        ),
    ]:
        state = checkpoint(CONFIG)
        change(state)
        with pytest.raises(EngineError, match=message):
            Decoder(CONFIG, state)


def test_an_impossible_geometry() -> None:
    for change, message in [
        ({"num_key_value_heads": 4}, "6 attention heads cannot share 4 K/V heads evenly"),
        ({"head_dim": 15}, "head_dim must be even"),
        ({"vocab_size": 0}, "vocab_size must be at least 1"),
    ]:
        with pytest.raises(EngineError, match=message):
            dataclasses.replace(CONFIG, **change)


def test_the_embedded_default_runs() -> None:
    bench = Bench(Decoder.random(ModelConfig.tiny(500)))
    [token] = bench.prefill(bench.request([1, 2, 499]))
    assert token is not None
    assert 0 <= token < 500
