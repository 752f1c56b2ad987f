"""Loading safetensors: what is right is loaded bit for bit, what is wrong is named."""

from __future__ import annotations

import dataclasses
import json
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from kvtool.engine.batch import Batch
from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.checkpoint import INDEX_FILE, SINGLE_FILE, Checkpoint
from kvtool.engine.model.configs.geometry import Geometry
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.decoder import Decoder
from kvtool.engine.model.kv_store import KVStore
from kvtool.engine.model.parameter_shapes import parameter_shapes
from kvtool.engine.model.random_weights import RandomWeights
from kvtool.engine.model.weights import free_memory, load_model
from kvtool.engine.request import Request
from kvtool.engine.step import EngineStep, Scheduled

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "attention_bias": True,
    "dtype": "float32",
    "head_dim": 8,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "vocab_size": 101,
}
UNTIED_SHARDS = 3


def put_config(folder: Path, **change: object) -> ModelConfig:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG | change))
    return ModelConfig.from_hf(folder)


def put_single(folder: Path, state: Mapping[str, torch.Tensor]) -> Path:
    save_file({name: weight.contiguous() for name, weight in state.items()}, folder / SINGLE_FILE)
    return folder


def put_shards(folder: Path, state: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """Shards in which a layer's tensors are scattered; returns the index's map."""
    names = sorted(state)
    shard_of = {
        name: f"model-{i % UNTIED_SHARDS + 1:05}-of-{UNTIED_SHARDS:05}.safetensors" for i, name in enumerate(names)
    }
    for shard in set(shard_of.values()):
        save_file({n: state[n].contiguous() for n in names if shard_of[n] == shard}, folder / shard)
    (folder / INDEX_FILE).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": shard_of}))
    return shard_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a config.json only."""
    put_config(tmp_path)
    return tmp_path


@pytest.fixture
def state(folder: Path) -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(1)
    shapes = parameter_shapes(ModelConfig.from_hf(folder))
    return {name: torch.randn(shape, generator=random) * 0.3 for name, shape in shapes.items()}


def logits(model: Decoder) -> torch.Tensor:
    """Of the last of 21 tokens, in float32."""
    ids = torch.arange(21, dtype=torch.int32).numpy() * 5 % 101
    request = Request("r", 21, prompt_ids=ids)
    request.block_ids = [3, 1, 2]
    batch = Batch.build(EngineStep(0, (Scheduled(request, 0, 21),)), 8)
    with torch.inference_mode():
        return model.forward(batch, KVStore(model.config, 8, dtype=model.dtype))[0].float()


def test_one_file_and_shards_are_the_same(folder: Path, state: dict[str, torch.Tensor]) -> None:
    expected = logits(Decoder(ModelConfig.from_hf(folder), state))
    put_shards(folder, state)
    assert torch.equal(logits(load_model(folder)), expected)
    assert torch.equal(logits(load_model(folder / "config.json")), expected)
    put_single(folder, {name: weight * 2 for name, weight in state.items()})  # comes first, as in transformers
    assert not torch.equal(logits(load_model(str(folder))), expected)


@pytest.mark.parametrize("tied", [True, False])
def test_every_tensor_counts(tied: bool, folder: Path) -> None:
    """Each one that changes changes the logits: none is left out or overwritten by another."""
    config = put_config(folder, tie_word_embeddings=tied)
    random = torch.Generator().manual_seed(2)
    state = {name: torch.randn(shape, generator=random) * 0.3 for name, shape in parameter_shapes(config).items()}
    before = logits(Decoder(config, state))
    for name, weight in state.items():
        after = logits(Decoder(config, state | {name: weight * 1.5 + 0.1}))
        assert not torch.equal(after, before), name


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("asked", "loaded"), [("float32", torch.float32), ("bf16", torch.bfloat16), ("half", torch.float16)]
)
def test_dtypes(
    asked: str, loaded: torch.dtype, stored: torch.dtype, folder: Path, state: dict[str, torch.Tensor]
) -> None:
    put_single(folder, {name: weight.to(stored) for name, weight in state.items()})
    model = load_model(folder, dtype=asked)
    assert model.dtype == loaded
    expected = logits(Decoder(ModelConfig.from_hf(folder), state))
    difference = (logits(model) - expected).abs().max()
    exact = stored == loaded == torch.float32
    assert (difference == 0) if exact else (0 < difference < 0.15 * expected.abs().max())


def test_auto_is_the_configs_dtype_then_the_files(folder: Path, state: dict[str, torch.Tensor]) -> None:
    put_single(folder, {name: weight.to(torch.float16) for name, weight in state.items()})
    assert load_model(folder).dtype == torch.float32
    put_config(folder, dtype=None, torch_dtype="bfloat16")
    assert load_model(folder).dtype == torch.bfloat16
    put_config(folder, dtype=None)
    assert load_model(folder).dtype == torch.float16
    assert load_model(folder, load_format="dummy").dtype == torch.float32
    put_config(folder, dtype="float8_e4m3fn")
    assert load_model(folder, dtype="bfloat16").dtype == torch.bfloat16
    with pytest.raises(EngineError, match="`dtype` 'float8_e4m3fn' is not supported"):
        load_model(folder)


class _OneAtATime(Mapping[str, torch.Tensor]):
    """A state dict that gives a tensor only after all before it are gone."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.shapes = shapes
        self.given: dict[str, weakref.ref[torch.Tensor]] = {}

    def __len__(self) -> int:
        return len(self.shapes)

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    def __getitem__(self, name: str) -> torch.Tensor:
        assert name not in self.given
        assert not any(tensor() is not None for tensor in self.given.values())
        weight = torch.ones(self.shapes[name])
        self.given[name] = weakref.ref(weight)
        return weight


@pytest.mark.parametrize("tied", [True, False])
def test_weights_are_taken_one_by_one(tied: bool, folder: Path) -> None:
    config = put_config(folder, tie_word_embeddings=tied)
    state = _OneAtATime(parameter_shapes(config))
    Decoder(config, state)
    assert state.given.keys() == state.shapes.keys()


def test_what_may_be_left_over(folder: Path, state: dict[str, torch.Tensor]) -> None:
    """A tied head that is spelled out, and frequencies that old files hold."""
    put_config(folder, tie_word_embeddings=True)
    old = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)}
    put_single(folder, state | old)
    with_head = logits(load_model(folder))
    del state["lm_head.weight"]
    put_single(folder, state)
    assert torch.equal(logits(load_model(folder)), with_head)


Change = Callable[[dict[str, torch.Tensor]], object]
WRONG: dict[str, tuple[Change, str]] = {
    "missing": (
        lambda state: state.pop("model.layers.1.mlp.up_proj.weight"),
        r"lacks model\.layers\.1\.mlp\.up_proj\.weight$",
    ),
    "missing bias": (
        lambda state: state.pop("model.layers.0.self_attn.q_proj.bias"),
        r"lacks .*0\.self_attn\.q_proj\.bias$",
    ),
    "missing head": (lambda state: state.pop("lm_head.weight"), r"lacks lm_head\.weight$"),
    "missing layer": (
        lambda state: [state.pop(name) for name in list(state) if "layers.1" in name],
        r"lacks (model\.layers\.1\.\S+, ){3}model\.layers\.1\.\S+ and \d+ more$",
    ),
    "extra": (
        lambda state: state.update({"model.layers.2.mlp.up_proj.weight": torch.ones(40, 24)}),
        r"has the unknown model\.layers\.2\.mlp\.up_proj\.weight$",
    ),
    "hostile name": (lambda state: state.update({"\x1b[2J": torch.ones(1)}), r"has the unknown '\\x1b\[2J'$"),
    "misshapen": (
        lambda state: state.update({"model.norm.weight": torch.ones(23)}),
        r"model\.norm\.weight is \[23\], not \[24\] as the config says",
    ),
    "transposed": (
        lambda state: state.update({"model.layers.0.mlp.down_proj.weight": torch.ones(40, 24)}),
        r"down_proj\.weight is \[40, 24\], not \[24, 40\]",
    ),
    "scalar": (lambda state: state.update({"model.norm.weight": torch.ones(())}), r"norm\.weight is \[\], not \[24\]"),
    "integers": (
        lambda state: state.update({"model.norm.weight": torch.ones(24, dtype=torch.int32)}),
        r"model\.norm\.weight has the unsupported dtype I32",
    ),
}


@pytest.mark.parametrize("sharded", [False, True], ids=["one file", "shards"])
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_tensor(name: str, sharded: bool, folder: Path, state: dict[str, torch.Tensor]) -> None:
    change, message = WRONG[name]
    change(state)
    (put_shards if sharded else put_single)(folder, state)
    with pytest.raises(EngineError, match=message) as caught:
        load_model(folder)
    assert caught.value.message.startswith(str(folder))
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("keep", [0, 5, 300, -1])
@pytest.mark.parametrize("sharded", [False, True], ids=["one file", "a shard"])
def test_a_truncated_file(keep: int, sharded: bool, folder: Path, state: dict[str, torch.Tensor]) -> None:
    put_shards(folder, state) if sharded else put_single(folder, state)
    file = folder / ("model-00002-of-00003.safetensors" if sharded else SINGLE_FILE)
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(EngineError, match="damaged, cut off or not safetensors") as caught:
        load_model(folder)
    assert caught.value.message.startswith(str(file))


def test_no_weights(folder: Path) -> None:
    with pytest.raises(EngineError, match=r"neither model\.safetensors nor model\.safetensors\.index\.json") as caught:
        load_model(folder)
    assert "--load-format dummy" in (caught.value.hint or "")


def test_a_missing_shard(folder: Path, state: dict[str, torch.Tensor]) -> None:
    put_shards(folder, state)
    (folder / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(EngineError, match=r"names the missing file 'model-00002-of-00003.safetensors'$"):
        load_model(folder)
    (folder / "model-00003-of-00003.safetensors").unlink()
    with pytest.raises(EngineError, match=r"00002.* \(2 of 3 shards are missing\)$"):
        load_model(folder)


def test_an_index_and_shards_that_disagree(folder: Path, state: dict[str, torch.Tensor]) -> None:
    shard_of = put_shards(folder, state)

    def fails(change: Mapping[str, object], message: str) -> None:
        (folder / INDEX_FILE).write_text(json.dumps({"weight_map": shard_of | change}))
        with pytest.raises(EngineError, match=message) as caught:
            load_model(folder)
        assert caught.value.message.startswith(str(folder))

    fails({"model.norm.weight": "nothing.safetensors"}, r"index\.json names the missing file 'nothing\.safetensors'")
    fails({"more": "model-00001-of-00003.safetensors"}, r"model-00001-of-00003\.safetensors lacks 'more'")
    fails({"model.norm.weight": "../model.safetensors"}, "is not the name of a file in its folder")
    fails({"model.norm.weight": "/etc/passwd"}, "is not the name of a file in its folder")
    fails({"model.norm.weight": 3}, "`weight_map` must be an object of texts")
    other = next(shard for shard in sorted(shard_of.values()) if shard != shard_of["lm_head.weight"])
    fails({"lm_head.weight": other}, "lacks 'lm_head.weight'|although the index does not name it, 'lm_head.weight'")


def test_a_tensor_in_two_shards(folder: Path, state: dict[str, torch.Tensor]) -> None:
    shard_of = put_shards(folder, state)
    twice = {"model.norm.weight": state["model.norm.weight"]}
    save_file(twice, folder / "model-00004-of-00004.safetensors")
    (folder / INDEX_FILE).write_text(json.dumps({"weight_map": shard_of | {"x": "model-00004-of-00004.safetensors"}}))
    with pytest.raises(EngineError, match=r"model\.norm\.weight is also in another shard"):
        load_model(folder)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"weight_map": []}', '{"weight_map": {"a": null}}'])
def test_a_broken_index(content: str, folder: Path) -> None:
    (folder / INDEX_FILE).write_text(content)
    with pytest.raises(EngineError, match=r"index\.json: ") as caught:
        load_model(folder)
    assert caught.value.message.startswith(str(folder))


def test_an_empty_index(folder: Path) -> None:
    (folder / INDEX_FILE).write_text('{"weight_map": {}}')
    with pytest.raises(EngineError, match=r"lacks model\.embed_tokens\.weight, "):
        load_model(folder)


def test_a_checkpoint_reads_nothing_ahead(folder: Path, state: dict[str, torch.Tensor]) -> None:
    """Names, shapes and dtypes come from the headers."""
    put_shards(folder, state)
    checkpoint = Checkpoint(folder)
    assert checkpoint.shapes == {name: tuple(weight.shape) for name, weight in state.items()}
    assert set(checkpoint.dtypes.values()) == {torch.float32}
    assert (len(checkpoint), set(checkpoint)) == (len(state), set(state))
    assert all(torch.equal(checkpoint[name], weight) for name, weight in state.items())


def test_a_model_larger_than_memory(
    folder: Path, state: dict[str, torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    put_single(folder, state)
    needed = 4 * Geometry.of(ModelConfig.from_hf(folder)).parameters
    assert needed == 4 * sum(weight.numel() for weight in state.values())
    load_model(folder, available_memory=needed)
    load_model(folder, dtype="float16", available_memory=needed // 2)
    for load_format in ("auto", "dummy"):
        with pytest.raises(EngineError, match=r"GiB in float32, and 0\.0 GiB of cpu memory are free") as caught:
            load_model(folder, load_format=load_format, available_memory=needed - 1)  # type: ignore[arg-type]  # a literal
        assert "--dtype bfloat16" in (caught.value.hint or "")
    with pytest.raises(EngineError, match="in float16") as caught:
        load_model(folder, dtype="fp16", available_memory=needed // 2 - 1)
    assert "--dtype" not in (caught.value.hint or "")


def test_a_model_larger_than_this_machine(folder: Path) -> None:
    """Found out without taking any of its memory, however absurd the config."""
    with pytest.raises(EngineError, match=r"llama-3\.1-405b takes 756\.0 GiB in bfloat16"):
        load_model("llama-3.1-405b", load_format="dummy", available_memory=1 << 39)
    put_config(folder, num_hidden_layers=10**12)
    with pytest.raises(EngineError, match="GiB in float32"):
        load_model(folder, load_format="dummy")


def test_free_memory_is_that_of_the_machine() -> None:
    assert 1 << 20 < free_memory(torch.device("cpu")) < 1 << 50


def test_a_dummy_needs_no_weights(folder: Path) -> None:
    one, same, other = (load_model(folder, load_format="dummy", seed=seed) for seed in (0, 0, 1))
    assert torch.equal(logits(one), logits(same))
    assert not torch.equal(logits(one), logits(other))
    assert logits(one).std() > 0.1
    assert one.config == ModelConfig.from_hf(folder)


def test_a_preset_has_no_weights() -> None:
    with pytest.raises(EngineError, match=r"qwen3-8b is a preset without weights.* 'Qwen/Qwen3-8B'") as caught:
        load_model("Qwen/Qwen3-8B")
    assert "--load-format dummy" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dtype": "int4"}, "unknown dtype 'int4'"),
        ({"device": "tpu9"}, "this machine has no device 'tpu9'"),
        ({"device": "cuda:99"}, "this machine has no device 'cuda:99'"),
    ],
)
def test_arguments_that_cannot_be(arguments: dict[str, str], message: str, folder: Path) -> None:
    with pytest.raises(EngineError, match=message):
        load_model(folder, load_format="dummy", **arguments)  # type: ignore[arg-type]  # whichever it is


def test_random_weights_look_like_normal_numbers() -> None:
    """Also where a weight is larger than the pool that it is cut from: its rows still differ."""
    config = dataclasses.replace(ModelConfig.tiny(70_000), hidden_size=64, num_hidden_layers=1)
    weights = RandomWeights(config, seed=5)
    embedding = weights["model.embed_tokens.weight"]
    assert tuple(embedding.shape) == (70_000, 64)
    assert embedding.numel() > 4_194_301
    assert len(torch.unique(embedding[:, 0])) > 65_000
    assert float(embedding.std()) == pytest.approx(0.02, rel=0.02)
    gate, up = (weights[f"model.layers.0.mlp.{name}_proj.weight"] for name in ("gate", "up"))
    assert float(gate.std()) == pytest.approx(64**-0.5, rel=0.02)
    assert not torch.equal(gate, up)
    assert torch.equal(weights["model.norm.weight"], torch.ones(64))
