"""Reading config.json, and the presets."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoConfig

from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.model.configs.geometry import Geometry
from kvtool.engine.model.configs.json_object import JsonObject
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.configs.presets import PRESETS, find_model
from kvtool.engine.model.configs.rope_config import DefaultRope, Llama3Rope
from kvtool.engine.model.parameter_shapes import parameter_shapes

# The files of these repositories, without the keys that no forward pass reads.
LLAMA_31_8B = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}
QWEN25_14B = {
    "architectures": ["Qwen2ForCausalLM"],
    "hidden_act": "silu",
    "hidden_size": 5120,
    "intermediate_size": 13824,
    "max_position_embeddings": 131072,
    "max_window_layers": 48,
    "model_type": "qwen2",
    "num_attention_heads": 40,
    "num_hidden_layers": 48,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "rope_theta": 1000000.0,
    "sliding_window": 131072,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "use_sliding_window": False,
    "vocab_size": 152064,
}
QWEN3_4B = {
    "architectures": ["Qwen3ForCausalLM"],
    "attention_bias": False,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 2560,
    "intermediate_size": 9728,
    "max_position_embeddings": 40960,
    "max_window_layers": 36,
    "model_type": "qwen3",
    "num_attention_heads": 32,
    "num_hidden_layers": 36,
    "num_key_value_heads": 8,
    "rms_norm_eps": 0.000001,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": None,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "use_sliding_window": False,
    "vocab_size": 151936,
}
MISTRAL_7B_V03 = {
    "architectures": ["MistralForCausalLM"],
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 32768,
    "model_type": "mistral",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "rope_theta": 1000000.0,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 32768,
}
FILES: dict[str, dict[str, object]] = {
    "llama-3.1-8b": LLAMA_31_8B,
    "qwen2.5-14b": QWEN25_14B,
    "qwen3-4b": QWEN3_4B,
    "mistral-7b": MISTRAL_7B_V03,
}
# Parameters of the published weights (the total of each repository's safetensors files; where the head is tied, without the copy
# that some of the files hold).
PUBLISHED = {
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.3-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "mistral-7b": 7_248_023_552,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-1.5b": 1_543_714_304,
    "qwen2.5-3b": 3_085_938_688,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-14b": 14_770_033_664,
    "qwen2.5-32b": 32_763_876_352,
    "qwen2.5-72b": 72_706_203_648,
    "qwen3-0.6b": 596_049_920,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-4b": 4_022_468_096,
    "qwen3-8b": 8_190_735_360,
    "qwen3-14b": 14_768_307_200,
    "qwen3-32b": 32_762_123_264,
}


def written(folder: Path, config: object) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


def test_a_published_file_is_its_preset(tmp_path: Path) -> None:
    for name in FILES:
        path = written(tmp_path, FILES[name])
        assert (
            ModelConfig.from_hf(path)
            == ModelConfig.from_hf(tmp_path)
            == ModelConfig.from_hf(str(path))
            == PRESETS[name]
        )
        assert (ModelConfig.from_hf(path).name, ModelConfig.from_hf(path).source) == (tmp_path.name, str(path))


def test_the_same_model_written_by_transformers_5(tmp_path: Path) -> None:
    """Its own spelling (`rope_parameters`, `dtype`, `layer_types`) says the same."""
    for name in FILES:
        written(tmp_path, FILES[name])
        new = tmp_path / "new"
        AutoConfig.from_pretrained(tmp_path).save_pretrained(new)
        saved = json.loads((new / "config.json").read_text())
        assert "rope_parameters" in saved
        assert "rope_scaling" not in saved
        assert ModelConfig.from_hf(new) == PRESETS[name]


def test_parameters_of_a_preset() -> None:
    """The published count, and the sum of what a checkpoint must have."""
    for name in PRESETS:
        geometry = find_geometry(name)
        assert geometry.parameters == pytest.approx(PUBLISHED[name], rel=3e-3)
        assert geometry.parameters == sum(math.prod(shape) for shape in parameter_shapes(PRESETS[name]).values())
        assert PRESETS[name].source.count("/") == 1


def test_every_preset_is_checked() -> None:
    assert PUBLISHED.keys() == PRESETS.keys()


def test_kv_bytes_are_those_that_the_models_are_known_for() -> None:
    """128 KiB a token for Llama 3.1 8B, 320 KiB for 70B, in bfloat16."""
    assert find_geometry("llama-3.1-8b").kv_bytes_per_token() == 128 << 10
    assert find_geometry("llama-3.3-70b").kv_bytes_per_token() == 320 << 10


@given(
    layers=st.integers(1, 3),
    kv_heads=st.integers(1, 3),
    group=st.integers(1, 3),
    half=st.integers(1, 4),
    flags=st.tuples(*[st.booleans()] * 5),
)
def test_a_geometry_counts_every_weight(
    layers: int, kv_heads: int, group: int, half: int, flags: tuple[bool, bool, bool, bool, bool]
) -> None:
    config = ModelConfig(17, 10, 12, layers, kv_heads * group, kv_heads, 2 * half)
    names = ("tie_word_embeddings", "qkv_bias", "output_bias", "mlp_bias", "qk_norm")
    config = dataclasses.replace(config, **dict(zip(names, flags, strict=True)))
    assert Geometry.of(config).parameters == sum(math.prod(shape) for shape in parameter_shapes(config).values())


def test_a_preset_by_name() -> None:
    for name, preset in [
        ("llama-3.1-8b", "llama-3.1-8b"),
        ("Llama-3.1-8B", "llama-3.1-8b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("meta-llama/Meta-Llama-3.1-70B-Instruct", "llama-3.1-70b"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama-3.3-70b"),
        ("Qwen/Qwen2.5-0.5B-Instruct", "qwen2.5-0.5b"),
        ("Qwen/Qwen3-8B-Base", "qwen3-8b"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b"),
        ("mistral-7b-v0.3", "mistral-7b"),
        ("mistral-7b", "mistral-7b"),
    ]:
        assert find_model(name) == PRESETS[preset]
        assert find_geometry(name) == find_geometry(preset)


def test_a_model_that_is_no_preset() -> None:
    """v0.1 of Mistral 7B has a sliding window."""
    for name in ["mistralai/Mistral-7B-v0.1", "gpt2", "", "Qwen/Qwen3-1T", "\x1b[2J"]:
        with pytest.raises(EngineError, match="unknown model") as caught:
            find_geometry(name)
        assert "\x1b" not in caught.value.message
        assert "llama-3.1-8b" in (caught.value.hint or "")


def test_a_close_name_is_suggested() -> None:
    with pytest.raises(EngineError, match=r"did you mean llama-3\.1-8b"):
        find_model("llama-31-8b")


def test_a_folder_comes_before_a_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "qwen3-8b").mkdir()
    written(tmp_path / "qwen3-8b", QWEN3_4B)
    monkeypatch.chdir(tmp_path)
    assert find_geometry("qwen3-8b").parameters == PUBLISHED["qwen3-4b"]
    assert find_geometry(str(tmp_path / "qwen3-8b" / "config.json")).name == "qwen3-8b"


def test_paths_that_lead_nowhere(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"the folder has no config\.json"):
        find_model(str(tmp_path))
    for name in (str(tmp_path / "nothing"), "./nothing", "nothing/config.json"):
        with pytest.raises(EngineError, match="no such file or folder"):
            find_model(name)


def test_presets_need_no_torch() -> None:
    """`kvtool size` and the accounting must stay quick to start."""
    code = "import sys, kvtool.engine.model.configs.geometry; assert not {'torch', 'transformers', 'numpy'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=False).returncode == 0


@pytest.mark.parametrize(
    ("family", "change", "expected"),
    [
        ("llama-3.1-8b", {"num_key_value_heads": None}, {"num_key_value_heads": 32}),
        ("llama-3.1-8b", {"attention_bias": True}, {"qkv_bias": True, "output_bias": True}),
        ("llama-3.1-8b", {"mlp_bias": True}, {"mlp_bias": True}),
        ("llama-3.1-8b", {"sliding_window": 4096}, {}),
        ("llama-3.1-8b", {"torch_dtype": "torch.float16"}, {"dtype": "float16"}),
        ("llama-3.1-8b", {"dtype": "float32"}, {"dtype": "float32"}),
        ("llama-3.1-8b", {"torch_dtype": None}, {"dtype": None}),
        ("llama-3.1-8b", {"rope_scaling": None}, {"rope": DefaultRope(5e5)}),
        ("llama-3.1-8b", {"rope_theta": 1e4}, {"rope": Llama3Rope(1e4, 8.0, 1.0, 4.0, 8192)}),
        ("llama-3.1-8b", {"rms_norm_eps": None}, {"rms_norm_eps": 1e-6}),
        ("llama-3.1-8b", {"head_dim": 64}, {"head_dim": 64}),
        ("llama-3.1-8b", {"architectures": None}, {}),
        ("llama-3.1-8b", {"max_position_embeddings": None}, {"max_position_embeddings": None}),
        ("qwen3-4b", {"attention_bias": True}, {"qkv_bias": True, "output_bias": True}),
        ("qwen2.5-14b", {"use_sliding_window": True}, {}),  # from layer 48 of 48 on
        ("qwen2.5-14b", {"use_sliding_window": True, "max_window_layers": 1, "sliding_window": None}, {}),
        ("qwen2.5-14b", {"layer_types": ["full_attention"] * 48}, {}),
        ("qwen2.5-14b", {"attention_bias": False}, {"qkv_bias": True}),
        ("mistral-7b", {"num_key_value_heads": None}, {"num_key_value_heads": 32}),
        ("mistral-7b", {"sliding_window": 4096}, {"windows": (4096,) * 32}),
        (
            "qwen2.5-14b",
            {"use_sliding_window": True, "max_window_layers": 28},
            {"windows": (None,) * 28 + (131_072,) * 20},
        ),
        (
            "qwen3-4b",
            {
                "use_sliding_window": True,
                "sliding_window": 512,
                "layer_types": ["full_attention", "sliding_attention"] * 18,
            },
            {"windows": (None, 512) * 18},
        ),
    ],
)
def test_what_a_key_means(family: str, change: dict[str, object], expected: dict[str, object], tmp_path: Path) -> None:
    found = ModelConfig.from_hf(written(tmp_path, FILES[family] | change))
    assert found == dataclasses.replace(PRESETS[family], **expected)  # type: ignore[arg-type]  # of whatever type


def test_what_cannot_be_run(tmp_path: Path) -> None:
    for family, change, message, hint in [
        ("llama-3.1-8b", {"architectures": ["GPT2LMHeadModel"]}, "architecture 'GPT2LMHeadModel'", "Qwen3ForCausalLM"),
        ("llama-3.1-8b", {"architectures": ["Qwen3ForSequenceClassification"]}, "is not supported", "kvtool runs"),
        ("llama-3.1-8b", {"architectures": [], "model_type": "mamba"}, "architecture 'mamba'", "kvtool runs"),
        ("llama-3.1-8b", {"architectures": None, "model_type": None}, "`architectures` is missing", "kvtool runs"),
        ("llama-3.1-8b", {"architectures": "Llama"}, "`architectures` must be a list of texts", None),
        ("llama-3.1-8b", {"hidden_size": None}, "`hidden_size` is missing", None),
        ("llama-3.1-8b", {"vocab_size": None}, "`vocab_size` is missing", None),
        ("llama-3.1-8b", {"num_hidden_layers": 0}, "num_hidden_layers must be at least 1, not 0", None),
        ("llama-3.1-8b", {"num_hidden_layers": -2}, "num_hidden_layers must be at least 1, not -2", None),
        ("llama-3.1-8b", {"num_attention_heads": 0}, "`num_attention_heads` 0", None),
        ("llama-3.1-8b", {"num_attention_heads": 33}, "4096 is not a multiple of `num_attention_heads` 33", None),
        ("llama-3.1-8b", {"num_key_value_heads": 5}, "32 attention heads cannot share 5 K/V heads", None),
        ("llama-3.1-8b", {"num_key_value_heads": 0}, "num_key_value_heads must be at least 1", None),
        ("llama-3.1-8b", {"head_dim": 65}, "head_dim must be even", None),
        ("llama-3.1-8b", {"hidden_size": 4096.0}, r"`hidden_size` must be a whole number, not 4096\.0", None),
        ("llama-3.1-8b", {"hidden_size": True}, "`hidden_size` must be a whole number, not true", None),
        ("llama-3.1-8b", {"rms_norm_eps": "x" * 200}, "`rms_norm_eps` must be a number, not .{60}…$", None),
        ("llama-3.1-8b", {"rms_norm_eps": math.nan}, "`rms_norm_eps` must be a finite number", None),
        ("llama-3.1-8b", {"rms_norm_eps": -1}, "rms_norm_eps must not be negative", None),
        ("llama-3.1-8b", {"rope_theta": 10**400}, "`rope_theta` must be a finite number", None),
        ("llama-3.1-8b", {"tie_word_embeddings": 1}, "`tie_word_embeddings` must be true or false", None),
        ("llama-3.1-8b", {"hidden_act": "gelu"}, "`hidden_act` 'gelu' is not supported", "silu"),
        ("llama-3.1-8b", {"quantization_config": {"quant_method": "gptq"}}, "quantized .'gptq'.", "bfloat16"),
        ("llama-3.1-8b", {"max_position_embeddings": 0}, "max_position_embeddings must be at least 1", None),
        ("llama-3.1-8b", {"rope_scaling": {"rope_type": "su"}}, "'su' is not supported", "llama3 and yarn"),
        ("qwen3-4b", {"head_dim": None}, "`head_dim` is missing", None),
        ("mistral-7b", {"num_hidden_layers": 10**12}, "more than any model has", None),
        ("mistral-7b", {"sliding_window": 0}, "a window must be at least 1, not 0", None),
        ("qwen3-4b", {"layer_types": ["full_attention"] * 3}, "`layer_types` has 3 entries for 36 layers", None),
        ("qwen3-4b", {"layer_types": ["sliding_attention"] * 36}, "`use_sliding_window` does not turn it on", None),
        (
            "qwen3-4b",
            {"layer_types": ["linear_attention"] * 36},
            "accounts for such layers, but cannot compute them",
            "sliding_attention",
        ),
    ]:
        path = written(tmp_path, FILES[family] | change)
        with pytest.raises(EngineError, match=message) as caught:
            ModelConfig.from_hf(path)
        assert caught.value.message.startswith(f"{path}: ")
        assert hint is None or hint in (caught.value.hint or "")


@pytest.mark.parametrize("key", ["sliding_window", "num_key_value_heads"])
def test_defaults_that_are_not_guessed(key: str, tmp_path: Path) -> None:
    """Transformers takes 4,096 and 8 for a Mistral file that does not say; both would surprise its owner."""
    path = written(tmp_path, {name: value for name, value in MISTRAL_7B_V03.items() if name != key})
    with pytest.raises(EngineError, match=key):
        ModelConfig.from_hf(path)


def test_a_broken_file(tmp_path: Path) -> None:
    for content, message in [
        (b"{", "not JSON"),
        (b"", "not JSON"),
        (b"\xff\xfe{}", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "`architectures` is missing"),
    ]:
        path = tmp_path / "config.json"
        path.write_bytes(content)
        with pytest.raises(EngineError, match=message) as caught:
            ModelConfig.from_hf(path)
        assert str(path) in caught.value.message


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="cannot read it: No such file"):
        ModelConfig.from_hf(tmp_path)


_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 70),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.text(max_size=3), max_size=2),
)


@given(
    family=st.sampled_from(sorted(FILES)),
    change=st.dictionaries(
        st.sampled_from(sorted({key for file in FILES.values() for key in file} | {"head_dim", "layer_types"})),
        st.one_of(_VALUES, st.dictionaries(st.sampled_from(sorted(LLAMA_31_8B["rope_scaling"])), _VALUES)),  # type: ignore[call-overload]  # a dict
        max_size=4,
    ),
)
def test_any_file_is_read_or_refused(
    family: str, change: dict[str, object], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("config")
    path = written(folder, FILES[family] | change)
    refusal = None
    try:
        config = ModelConfig.from_hf(path)
    except EngineError as error:
        refusal = error.message
    else:
        assert Geometry.of(config).parameters > 0
    assert refusal is None or (str(path) in refusal and refusal.isprintable())


def test_a_key_is_named_with_its_object() -> None:
    child = JsonObject({"rope_scaling": {"factor": "\x1b[2J"}}).child("rope_scaling")
    assert child is not None
    with pytest.raises(EngineError, match=r"`rope_scaling\.factor` must be a number, not \"\\u001b\[2J\""):
        child.number("factor")
