"""--model with a folder: checkpoints, random weights, and names that do not exist."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import save_file

from kvtool.engine.kv_dtype import KV_CACHE_DTYPES
from kvtool.engine.model.checkpoint import SINGLE_FILE
from kvtool.engine.model.weights import DTYPES
from kvtool.measure.measure_options import MODEL_DTYPES
from kvtool.profiler.run.workload_runs import WorkloadRuns
from tests.cli.engine_flags.conftest import MEASURED, TOKENS, Capture, Document, Shown, put_config, refused, tensors

# Real models


def test_a_folder_is_what_is_measured(checkpoint: Path, shown: Shown, document: Document) -> None:
    found = document(*MEASURED)
    assert found["config"]["measured_model"] == found["config"]["model"] == "tiny"
    measured = found["ttft"]["measured"]
    assert (measured["requests"], measured["complete"]) == (24, True)
    text = shown(*MEASURED)
    assert "measured on this machine (cpu, torch kernels) with tiny, one at a time" in text
    assert "predicted: tiny on h100" in text


def test_random_weights_need_a_config_only(folder: Path, shown: Shown, document: Document, capsys: Capture) -> None:
    put_config(folder / "tiny")
    found = document(*MEASURED, "--load-format", "dummy", "--dtype", "bfloat16")
    assert (found["config"]["load_format"], found["config"]["dtype"]) == ("dummy", "bfloat16")
    assert found["ttft"]["measured"]["complete"]
    assert "measured on this machine (cpu, torch kernels) with tiny with random weights" in shown(
        *MEASURED, "--load-format", "dummy"
    )
    assert document("--model", "tiny", "--dry-run")["ttft"]["measured"] is None
    assert "--load-format dummy, which needs no weights" in refused(["profile", "w.yaml", *MEASURED], capsys)


def test_a_model_of_the_workload_file(folder: Path, document: Document, capsys: Capture) -> None:
    put_config(folder / "tiny")
    assert "--load-format dummy needs a --model" in refused(["profile", "w.yaml", "--load-format", "dummy"], capsys)
    (folder / "w.yaml").write_text(TOKENS + "engine: {model: tiny}\n", encoding="utf-8")
    assert document("--load-format", "dummy", "-n", "2", *MEASURED[2:])["config"]["measured_model"] == "tiny"


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def without(name: str) -> Callable[[Path], None]:
    def save(path: Path) -> None:
        state = tensors(path.parent)
        del state[name]
        save_file(state, path)

    return save


def with_config(**change: object) -> Callable[[Path], None]:
    return lambda path: put_config(path.parent, **change)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (cut, "damaged, cut off or not safetensors"),
        (without("model.norm.weight"), "model.norm.weight"),
        (with_config(vocab_size=301), "not [301, 32] as the config says"),
        (with_config(architectures=["GPT2LMHeadModel"]), "the architecture 'GPT2LMHeadModel' is not supported"),
        (with_config(rope_parameters={"rope_type": "odd", "rope_theta": 1e4}), "'odd'"),
        (with_config(num_key_value_heads=3), "num_key_value_heads"),
        (with_config(num_hidden_layers=0), "num_hidden_layers"),
        (with_config(dtype="int4"), "int4"),
        (lambda path: (path.parent / "config.json").write_text("{"), "config.json"),
        (lambda path: (path.parent / "config.json").unlink(), "the folder has no config.json"),
    ],
)
def test_bad_checkpoints(
    spoil: Callable[[Path], None], said: str, checkpoint: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told before the accounting, which may take long."""
    monkeypatch.setattr(WorkloadRuns, "run", lambda *_, **__: pytest.fail("work was begun"))
    spoil(checkpoint / SINGLE_FILE)
    assert said in refused(["profile", "w.yaml", *MEASURED, "--events", "e"], capsys)
    assert not (checkpoint.parent / "e").exists()


def test_a_folder_without_a_forward_pass(folder: Path, document: Document, capsys: Capture) -> None:
    """Its cache is accounted for, beside real runs of the embedded model; a real run of it is refused where it is asked for."""
    put_config(folder / "tiny", quantization_config={"quant_method": "gptq"})
    found = document("--model", "tiny", "-n", "2")
    assert (found["config"]["model"], found["config"]["measured_model"]) == ("tiny", "embedded")
    for flags in (MEASURED, ["--model", "tiny", "--audit"], ["--model", "tiny", "--load-format", "dummy"]):
        said = refused(["profile", "w.yaml", *flags], capsys)
        assert "which is not supported: the model is for accounting only" in said
        assert "profile --dry-run, which needs no forward pass" in said


def test_a_model_larger_than_memory(checkpoint: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvtool.engine.model.weights.free_memory", lambda _: 1000)
    assert "of cpu memory are free" in refused(["profile", "w.yaml", *MEASURED], capsys)
    err = refused(["profile", "w.yaml", "--model", "llama-3.1-405b", "--load-format", "dummy"], capsys)
    assert "llama-3.1-405b takes 756.0 GiB in bfloat16" in err


# Names


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--kv-cache-dtype", "int3"], f"one of {', '.join(KV_CACHE_DTYPES)}"),
        (["--dtype", "int3"], ", ".join(MODEL_DTYPES)),
        (["--hash-algo", "md5"], "one of native, sha256, sha256_cbor, xxhash, xxhash_cbor"),
        (["--load-format", "gguf"], "one of auto, dummy"),
        (["--tensor-parallel", "0"], "--tensor-parallel must be at least 1, not 0"),
        (["--tensor-parallel", "3"], "cannot be split over 3 accelerators"),
        (["--accelerator", "l4", "--tensor-parallel", "x"], "--tensor-parallel"),
        (["--model", "nothing/at-all"], "unknown model `nothing/at-all`"),
    ],
)
def test_names_that_do_not_exist(flags: list[str], said: str, folder: Path, capsys: Capture) -> None:
    assert said in refused(["profile", "w.yaml", "--dry-run", *flags], capsys)


def test_dtypes_are_those_that_can_be_loaded() -> None:
    assert set(MODEL_DTYPES) == {"auto", *DTYPES}
