"""The flags that choose the engine: KV cache types, parallelism, real models, the audit, events and metrics."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer as Backend

from kvtool.cli.app import run
from kvtool.engine.blocks.vllm_hashing import VllmHasher, event_hash
from kvtool.engine.kv_dtype import KV_CACHE_DTYPES
from kvtool.engine.model.checkpoint import SINGLE_FILE
from kvtool.engine.model.configs.model_config import ModelConfig
from kvtool.engine.model.model_runner import ModelRunner
from kvtool.engine.model.parameter_shapes import parameter_shapes
from kvtool.engine.model.weights import DTYPES
from kvtool.engine.step import EngineStep
from kvtool.measure.measure_options import MODEL_DTYPES
from kvtool.profiler.profiler import Profiler
from kvtool.profiler.run.workload_runs import WorkloadRuns
from kvtool.text.terminal.console import cell_width
from kvtool.text.terminal.progress import Progress

Capture = pytest.CaptureFixture[str]
Shown = Callable[..., str]
Document = Callable[..., dict[str, Any]]

BLOCK_MIB = 2
"""Of Llama-3.1-8B in bf16, with 16 tokens."""
# Between two uses of a prefix there are six prompts of five blocks: 20 blocks reuse none, 38 all of them.
TOKENS = """\
version: 1
groups:
  - name: gen
    generate: {prefixes: 6, per_prefix: 4, prefix_tokens: 64, suffix_tokens: 16, output_tokens: 4}
"""
SMALL, LARGE = "40MiB", "400MiB"
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "dtype": "float32",
    "head_dim": 8,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
    "vocab_size": 300,
}
TINY_BLOCK_BYTES = 2 * 2 * 16 * 2 * 8 * 2


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "w.yaml").write_text(TOKENS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS", "PYTHONHASHSEED"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def shown(folder: Path, bytes_json: str, capsys: Capture) -> Shown:
    """Runs `kvtool profile w.yaml` with more flags; the report, with its lines joined to one."""

    def start(*flags: str, code: int = 0, name: str = "w.yaml") -> str:
        assert run(["profile", name, "--quiet", "-t", bytes_json, *flags]) == code
        out, err = capsys.readouterr()
        assert err == ""
        return " ".join(out.split())

    return start


@pytest.fixture
def document(folder: Path, bytes_json: str, capsys: Capture) -> Document:
    """The same, as JSON."""

    def start(*flags: str, code: int = 0, name: str = "w.yaml") -> dict[str, Any]:
        assert run(["profile", name, "--quiet", "--json", "-t", bytes_json, *flags]) == code
        out, err = capsys.readouterr()
        assert err == ""
        found: dict[str, Any] = json.loads(out)
        return found

    return start


def refused(arguments: list[str], capsys: Capture, code: int = 2) -> str:
    """What is said on stderr; nothing is on stdout."""
    assert run(arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert "Traceback" not in err
    assert "a bug in kvtool" not in err
    return err


def put_config(folder: Path, **change: object) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG | change))


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(1)
    shapes = parameter_shapes(ModelConfig.from_hf(folder))
    return {name: torch.randn(shape, generator=random) * 0.3 for name, shape in shapes.items()}


@pytest.fixture
def checkpoint(folder: Path) -> Path:
    """A folder with a tiny model, weights and all."""
    put_config(folder / "tiny")
    save_file(tensors(folder / "tiny"), folder / "tiny" / SINGLE_FILE)
    return folder / "tiny"


MEASURED = ("--model", "tiny", "--measure-budget", "60")


# KV cache dtypes


@pytest.mark.parametrize(
    ("name", "blocks"),
    [("auto", 20), ("bf16", 20), ("fp16", 20), ("fp8", 40), ("fp8_e5m2", 40), ("int8", 20 * 2 * 128 // 132)],
)
def test_blocks_follow_the_dtype(name: str, blocks: int, shown: Shown, document: Document) -> None:
    flags = ("--capacity", SMALL, "--kv-cache-dtype", name, "--dry-run")
    found = document(*flags)
    assert found["config"]["capacity_blocks"] == blocks
    gain = found["kv_cache_dtype"]
    text = shown(*flags)
    if blocks == 20:
        assert gain is None
        assert "instead of" not in text
        assert found["totals"]["hit_rate"] == 0
        return
    assert gain == {
        "dtype": found["config"]["kv_cache_dtype"],
        "native_dtype": "bf16",
        "blocks": blocks,
        "native_blocks": 20,
        "hit_rate": found["totals"]["hit_rate"],
        "native_hit_rate": 0.0,
    }
    assert found["totals"]["hit_rate"] == 18 * 64 / (24 * 80)
    assert f"KV cache in {gain['dtype']}: {blocks} blocks instead of 20 in bf16; hit rate 60.0% instead of 0.0%" in text
    assert f"cache of {blocks} blocks" in text


def test_what_the_dtype_does_not_decide_is_not_told(document: Document) -> None:
    for flags in ([], ["--capacity", "25"], ["--capacity", "400 tokens"]):
        assert document("--kv-cache-dtype", "fp8", "--dry-run", *flags)["kv_cache_dtype"] is None


def test_bytes_of_the_kv_cache_are_those_of_the_dtype(document: Document) -> None:
    native, small = (document("--dry-run", "--kv-cache-dtype", name)["kv_cache"] for name in ("auto", "int8"))
    assert native["bytes_per_block"] == BLOCK_MIB << 20
    assert small["bytes_per_block"] == (BLOCK_MIB << 20) * 132 // 256
    assert small["filled_blocks"] == native["filled_blocks"]
    assert small["reused_bytes"] == native["reused_bytes"] * 132 // 256


@pytest.mark.parametrize("flags", [["--rules", "block-lru"], ["--concurrency", "2"]])
def test_the_gain_however_requests_run(flags: list[str], document: Document) -> None:
    gain = document("--capacity", SMALL, "--kv-cache-dtype", "fp8", "--dry-run", *flags)["kv_cache_dtype"]
    assert (gain["blocks"], gain["native_blocks"]) == (40, 20)
    assert gain["native_hit_rate"] < gain["hit_rate"]


def test_a_dtype_of_the_workload_file(folder: Path, document: Document) -> None:
    options = "engine: {kv_cache_dtype: fp8, tensor_parallel: 2, capacity: 40MiB}\n"
    (folder / "w.yaml").write_text(TOKENS + options, encoding="utf-8")
    found = document("--dry-run")
    assert (found["config"]["kv_cache_dtype"], found["config"]["tensor_parallel"]) == ("fp8_e4m3", 2)
    assert found["kv_cache_dtype"]["native_blocks"] == 20
    found = document("--dry-run", "--kv-cache-dtype", "auto", "--tensor-parallel", "1")
    assert (found["config"]["kv_cache_dtype"], found["config"]["tensor_parallel"]) == ("bf16", 1)
    assert found["kv_cache_dtype"] is None


def test_only_the_smaller_dtype_fits(document: Document) -> None:
    """There is nothing to compare with, and that is no mistake."""
    found = document("--dry-run", "--gpu-memory", "19.5GiB", "--kv-cache-dtype", "fp8", "--max-model-len", "15000")
    assert found["config"]["capacity_blocks"] * 16 >= 15_000
    assert found["kv_cache_dtype"] is None


def test_the_price_in_logits(checkpoint: Path, shown: Shown, document: Document) -> None:
    flags = ("--capacity", f"{20 * TINY_BLOCK_BYTES // 1024}KiB", "--kv-cache-dtype", "fp8", *MEASURED)
    found = document(*flags)
    assert (found["kv_cache_dtype"]["blocks"], found["kv_cache_dtype"]["native_blocks"]) == (40, 20)
    error = found["ttft"]["measured"]["kv_cache_dtype_error"]
    assert (error["requests"], error["tokens"]) == (24, 24)
    assert 0.001 < error["relative_error"] < 0.3
    assert error["max_difference"] > 0
    assert found["ttft"]["measured"]["audit"] is None
    text = shown(*flags)
    assert "Logits with a KV cache in fp8_e4m3: " in text
    assert "of 24 first tokens changed" in text


# The audit


def test_reuse_flips_nothing(checkpoint: Path, shown: Shown, document: Document) -> None:
    found = document("--audit", *MEASURED)
    audit = found["ttft"]["measured"]["audit"]
    assert (audit["requests"], audit["tokens"], audit["flips"]) == (24, 24, [])
    assert 0 <= audit["max_difference"] < 1e-3
    assert found["verdict"] == "pass"
    assert "Reuse audit: 24 requests, largest logit difference" in (text := shown("--audit", *MEASURED))
    assert "no token changes" in text


def test_a_broken_reuse_fails(
    checkpoint: Path, shown: Shown, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy = ModelRunner.run

    def spoiled(self: ModelRunner, step: EngineStep) -> list[int | None]:
        for request, start, _ in step.scheduled:
            if start == request.num_cached_tokens > 0:
                for cache in (*self.kv.k, *self.kv.v):
                    cache[request.block_ids[:4]] = float("nan") if request.id.endswith("9") else 9.0
        return healthy(self, step)

    monkeypatch.setattr(ModelRunner, "run", spoiled)
    found = document("--audit", *MEASURED, code=1)
    assert found["verdict"] == "fail"
    assert (audit := found["ttft"]["measured"]["audit"])["flips"]
    assert audit["max_difference"] is None  # JSON has no infinity
    text = shown("--audit", *MEASURED, code=1)
    assert "FAIL 1 gate (audit: reuse changed a token)" in text
    assert "an error: fp32 must be exact" in text
    assert re.search(r"Flip in \S+ at position 80: token \d+ became \d+, margin", text)
    assert document("--audit", *MEASURED, "--dtype", "bfloat16")["verdict"] == "none"  # there rounding may flip tokens
    assert document(*MEASURED)["verdict"] == "none"


def test_an_audit_needs_real_runs(folder: Path, capsys: Capture) -> None:
    for flags in (["--dry-run"], ["--measure-budget", "0"]):
        assert "--audit compares the logits of real runs" in refused(["profile", "w.yaml", "--audit", *flags], capsys)


# Events


def events_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_events_of_a_small_cache(folder: Path, document: Document) -> None:
    found = document("--dry-run", "--capacity", "20", "--events", "e.jsonl")
    events = events_of(folder / "e.jsonl")
    assert {event["type"] for event in events} == {"BlockStored", "BlockRemoved"}
    removed = [event for event in events if event["type"] == "BlockRemoved"]
    assert len(removed) == found["totals"]["evictions"] > 0
    stored = sum(len(event["block_hashes"]) for event in events if event["type"] == "BlockStored")
    assert stored - len(removed) == found["kv_cache"]["filled_blocks"]
    assert sorted(path.name for path in folder.iterdir()) == ["e.jsonl", "w.yaml"]


SALTED = '{"prompt": "A prompt of more than three blocks, one byte a token.", "cache_salt": "tenant-a"}\n'


def test_events_are_private_and_say_so(folder: Path, bytes_json: str, capsys: Capture) -> None:
    (folder / "log.jsonl").write_text(SALTED, encoding="utf-8")
    flags = ["profile", "log.jsonl", "-t", bytes_json, "--dry-run", "--events", "e.jsonl"]
    assert run(flags) == 0
    said = "written: e.jsonl (KV events; prompts as token ids: --events-no-tokens leaves them out)\n"
    assert capsys.readouterr().err == said
    assert stat.S_IMODE((folder / "e.jsonl").stat().st_mode) == 0o600
    assert '"tenant-a"' in (folder / "e.jsonl").read_text(encoding="utf-8")
    assert run([*flags, "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_events_without_tokens(folder: Path, bytes_json: str, capsys: Capture) -> None:
    (folder / "log.jsonl").write_text(SALTED, encoding="utf-8")
    flags = ["profile", "log.jsonl", "-t", bytes_json, "--dry-run", "--events"]
    assert run([*flags, "with.jsonl"]) == 0
    capsys.readouterr()
    assert run([*flags, "without.jsonl", "--events-no-tokens"]) == 0
    assert capsys.readouterr().err == ""
    assert stat.S_IMODE((folder / "without.jsonl").stat().st_mode) == 0o600
    [whole], [rest] = events_of(folder / "with.jsonl"), events_of(folder / "without.jsonl")
    assert (len(whole["token_ids"]), whole["extra_keys"]) == (48, [["tenant-a"], None, None])
    assert rest == whole | {"token_ids": None, "extra_keys": [None, None, None]}


def test_events_of_hashes_hold_no_prompt(folder: Path, bytes_json: str, capsys: Capture) -> None:
    trace = '{"timestamp": 0, "input_length": 1024, "output_length": 1, "hash_ids": [1, 2]}\n'
    (folder / "trace.jsonl").write_text(trace, encoding="utf-8")
    assert run(["profile", "trace.jsonl", "--dry-run", "--events", "e.jsonl"]) == 0
    assert capsys.readouterr().err == ""


def test_no_tokens_of_no_events(folder: Path, capsys: Capture) -> None:
    assert "--events-no-tokens says what --events leaves out" in refused(
        ["profile", "w.yaml", "--events-no-tokens"], capsys
    )


@pytest.mark.parametrize("seed", [None, "7"])
def test_hashes_are_those_of_a_server(
    seed: str | None, folder: Path, bytes_json: str, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed is not None:
        monkeypatch.setenv("PYTHONHASHSEED", seed)
    text = "A prompt of more than three blocks, one byte a token."
    (folder / "p.txt").write_text(text, encoding="utf-8")
    found = document("--dry-run", "--events", "e.jsonl", "--hash-algo", "sha256_cbor", name="p.txt")
    assert found["config"]["hash_algo"] == "sha256_cbor"
    ids = np.array(Backend.from_file(bytes_json).encode(text).ids, np.int32)
    [event] = events_of(folder / "e.jsonl")
    chain = VllmHasher("sha256_cbor", seed).chain(ids, 16, None, None, None)
    assert event["block_hashes"] == [event_hash(one) for one in chain]
    assert event["token_ids"] == ids[:48].tolist()
    assert (event["parent_block_hash"], event["block_size"]) == (None, 16)


VECTORS = Path(__file__).resolve().parents[3] / "shared" / "oracle" / "vllm-0.33" / "hash_vectors.json"


@pytest.mark.skipif(not VECTORS.is_file(), reason="no recorded vLLM hashes beside this checkout")
@pytest.mark.parametrize("salt", [None, "tenant-a"])
@pytest.mark.parametrize("algorithm", ["sha256", "sha256_cbor", "xxhash_cbor"])
def test_hashes_are_those_that_vllm_gave(
    algorithm: str, salt: str | None, folder: Path, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = json.loads(VECTORS.read_text(encoding="utf-8"))
    variant = "plain" if salt is None else f"cache_salt={salt}"
    (vector,) = [one for one in recorded["vectors"] if (one["algo"], one["variant"]) == (algorithm, variant)]
    if vector["seed"].startswith("PYTHONHASHSEED="):
        monkeypatch.setenv("PYTHONHASHSEED", vector["seed"].partition("=")[2])
    else:
        monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    prompt = {"prompt": recorded["token_ids"]} | ({} if salt is None else {"cache_salt": salt})
    (folder / "log.jsonl").write_text(json.dumps(prompt) + "\n", encoding="utf-8")
    size = str(recorded["block_size"])
    document("--dry-run", "--events", "e.jsonl", "--hash-algo", algorithm, "--block-size", size, name="log.jsonl")
    [event] = events_of(folder / "e.jsonl")
    assert event["block_hashes"] == vector["event_int64"]
    assert len(event["block_hashes"]) > 1


def test_only_the_main_pass_writes_events(folder: Path, document: Document) -> None:
    plain, others = ("--dry-run", "--events", "a.jsonl"), ("--concurrency", "1", "--kv-cache-dtype", "fp8")
    document(*plain, "--capacity", "40")
    document("--dry-run", "--events", "b.jsonl", "--capacity", "40MiB", *others)
    assert events_of(folder / "a.jsonl") == events_of(folder / "b.jsonl")


@pytest.mark.parametrize("flag", ["--events", "--metrics"])
@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("none/e.out", "cannot write none/e.out: No such file or directory"),
        (".", "cannot write .: it is a directory"),
        ("w.yaml", "w.yaml is an input, too"),
        ("-", "needs a file"),
    ],
)
def test_a_path_that_cannot_be_written(
    flag: str, path: str, said: str, folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Profiler, "run", lambda _: pytest.fail("work was begun"))
    assert said in refused(["profile", "w.yaml", flag, path], capsys)
    assert [each.name for each in folder.iterdir()] == ["w.yaml"]
    assert (folder / "w.yaml").read_text(encoding="utf-8") == TOKENS


def test_one_file_cannot_be_both(folder: Path, capsys: Capture) -> None:
    err = refused(["profile", "w.yaml", "--events", "x", "--metrics", "./x"], capsys)
    assert "--metrics ./x is the file of --events, too" in err


def test_bad_input_leaves_files_as_they_were(folder: Path, bytes_json: str, capsys: Capture) -> None:
    (folder / "bad.jsonl").write_text(f'{{"prompt": "{"good " * 20}"}}\n' * 3 + "not json\n", encoding="utf-8")
    (folder / "m.prom").write_text("of yesterday", encoding="utf-8")
    before = sorted(path.name for path in folder.iterdir())
    flags = ["--dry-run", "-t", bytes_json, "--events", "e.jsonl", "--metrics", "m.prom"]
    assert "bad.jsonl:4" in refused(["profile", "bad.jsonl", *flags], capsys)
    assert sorted(path.name for path in folder.iterdir()) == before
    assert (folder / "m.prom").read_text(encoding="utf-8") == "of yesterday"


def test_block_lru_has_no_events(folder: Path, capsys: Capture) -> None:
    err = refused(["profile", "w.yaml", "--rules", "block-lru", "--events", "e.jsonl"], capsys)
    assert "--rules block-lru has none" in err


def test_ctrl_c_leaves_whole_lines(
    folder: Path, bytes_json: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    advance = Progress.advance

    def interrupted(self: Progress, number: int = 1) -> None:
        advance(self, number)
        if self._done == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "advance", interrupted)
    assert run(["profile", "w.yaml", "-t", bytes_json, "--dry-run", "--json", "--events", "e", "--metrics", "m"]) == 130
    totals = json.loads(capsys.readouterr().out)["totals"]
    assert len(events_of(folder / "e")) == totals["requests"] == 5
    assert samples(folder / "m")["vllm:prompt_tokens_total"] == totals["prompt_tokens"]


# Metrics

_SAMPLE = re.compile(r'([a-z_:]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*)\} ([-+.e\d]+|NaN|[+-]Inf)')


def samples(path: Path) -> dict[str, float]:
    """Values by name, with the labels that tell samples of one name apart; every line must be in the text format."""
    found: dict[str, float] = {}
    typed = set()
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# TYPE "):
            typed.add(line.split()[2])
        if line.startswith("#"):
            assert re.match(r"# (HELP|TYPE) vllm:[a-z_]+ \S", line)
            continue
        parts = _SAMPLE.fullmatch(line)
        assert parts is not None, line
        name, labels, value = parts.groups()
        assert name in typed or re.sub("_(bucket|sum|count)$", "", name) in typed
        own = re.sub(r'(model_name|engine)="[^"]*",?', "", labels).rstrip(",")
        found[f"{name}{{{own}}}" if own else name] = float(value)
    return found


@pytest.mark.parametrize("flags", [[], ["--capacity", "30"], ["--concurrency", "3"], ["--rules", "block-lru"]])
def test_metrics_agree_with_the_report(flags: list[str], folder: Path, document: Document) -> None:
    found = document("--dry-run", "--metrics", "m.prom", *flags)
    values, totals = samples(folder / "m.prom"), found["totals"]
    assert values["vllm:prompt_tokens_total"] == values["vllm:prefix_cache_queries_total"] == totals["prompt_tokens"]
    assert values["vllm:prefix_cache_hits_total"] == values["vllm:prompt_tokens_cached_total"] == totals["hit_tokens"]
    assert values["vllm:num_preemptions_total"] == totals["preemptions"]
    assert values["vllm:generation_tokens_total"] == 24 * 4
    assert values["vllm:time_to_first_token_seconds_count"] == totals["requests"] == 24
    assert values['vllm:time_to_first_token_seconds_bucket{le="+Inf"}'] == 24
    assert ("vllm:kv_cache_usage_perc" in values) == ("--capacity" in flags)


def test_metrics_of_a_model_with_an_odd_name(folder: Path, document: Document) -> None:
    name = 'a "model" \udc80'
    put_config(folder / name)
    document("--dry-run", "--metrics", "m.prom", "--model", name)
    assert r'model_name="a \"model\" ?"' in (folder / "m.prom").read_text(encoding="utf-8")


# Real models


def test_a_folder_is_what_is_measured(checkpoint: Path, shown: Shown, document: Document) -> None:
    found = document(*MEASURED)
    assert found["config"]["measured_model"] == found["config"]["model"] == "tiny"
    measured = found["ttft"]["measured"]
    assert (measured["requests"], measured["complete"]) == (24, True)
    text = shown(*MEASURED)
    assert "measured on this machine (cpu, torch kernels) with tiny, one at a time" in text
    assert "predicted for tiny on h100" in text


def test_random_weights_need_a_config_only(folder: Path, shown: Shown, document: Document, capsys: Capture) -> None:
    put_config(folder / "tiny")
    found = document(*MEASURED, "--load-format", "dummy", "--dtype", "bfloat16")
    assert (found["config"]["load_format"], found["config"]["dtype"]) == ("dummy", "bfloat16")
    assert found["ttft"]["measured"]["complete"]
    assert "measured on this machine (cpu, torch kernels) with tiny with random weights" in shown(
        *MEASURED, "--load-format", "dummy"
    )
    assert document("--model", "tiny", "--dry-run")["ttft"]["measured"] is None
    assert "--load-format dummy needs no weights" in refused(["profile", "w.yaml", *MEASURED], capsys)


def test_a_model_of_the_workload_file(folder: Path, document: Document, capsys: Capture) -> None:
    put_config(folder / "tiny")
    assert "for a --model, which is not given" in refused(["profile", "w.yaml", "--load-format", "dummy"], capsys)
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
        assert "profile --dry-run needs no forward pass" in said


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
        (["--hash-algo", "md5"], "'native', 'sha256', 'sha256_cbor', 'xxhash', 'xxhash_cbor'"),
        (["--load-format", "gguf"], "'auto', 'dummy'"),
        (["--tensor-parallel", "0"], "--tensor-parallel must be at least 1, not 0"),
        (["--tensor-parallel", "3"], "cannot be cut for 3 accelerators"),
        (["--accelerator", "l4", "--tensor-parallel", "x"], "--tensor-parallel"),
        (["--model", "nothing/at-all"], "unknown model `nothing/at-all`"),
    ],
)
def test_names_that_do_not_exist(flags: list[str], said: str, folder: Path, capsys: Capture) -> None:
    assert said in refused(["profile", "w.yaml", "--dry-run", *flags], capsys)


def test_dtypes_are_those_that_can_be_loaded() -> None:
    assert set(MODEL_DTYPES) == {"auto", *DTYPES}


# Parallelism and scheduling


def test_tensor_parallelism(shown: Shown, document: Document) -> None:
    flags = ("--dry-run", "--gpu-memory", "24GiB")
    one, two = (document(*flags, "--tensor-parallel", ways) for ways in ("1", "2"))
    assert two["config"]["tensor_parallel"] == 2
    assert two["config"]["capacity_blocks"] > 2 * one["config"]["capacity_blocks"]
    assert two["ttft"]["predicted"]["off"]["p50"] != one["ttft"]["predicted"]["off"]["p50"]
    assert two["totals"] == one["totals"]
    assert "predicted for llama-3.1-8b on 2 x h100, roofline estimate" in shown(*flags, "--tensor-parallel", "2")


def test_a_smaller_cache_is_read_faster(document: Document) -> None:
    """Predictions know the dtype."""
    native, small = (
        document("--dry-run", "--kv-cache-dtype", name)["ttft"]["predicted"]["on"]["p50"] for name in ("auto", "fp8")
    )
    assert small < native


@pytest.mark.parametrize("flags", [[], ["--concurrency", "4"]])
def test_asynchronous_scheduling_without_pressure(flags: list[str], shown: Shown, document: Document) -> None:
    one, other = (document("--dry-run", *flags, *more) for more in ([], ["--async-scheduling"]))
    assert (one["config"]["async_scheduling"], other["config"]["async_scheduling"]) == (False, True)
    for key in ("totals", "fates", "groups"):
        assert one[key] == other[key]
    assert "asynchronous scheduling" in shown("--dry-run", "--async-scheduling", *flags)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_report_fits_its_width(width: int, checkpoint: Path, bytes_json: str, capsys: Capture) -> None:
    flags = [
        "--kv-cache-dtype",
        "int8",
        "--capacity",
        "40KiB",
        "--audit",
        "--tensor-parallel",
        "2",
        "--async-scheduling",
    ]
    assert run(["profile", "w.yaml", "-q", "-t", bytes_json, *MEASURED, *flags, "--width", str(width)]) == 0
    out = capsys.readouterr().out
    assert width * 2 // 3 < max(map(cell_width, out.splitlines())) <= width
    assert "KV cache in int8" in " ".join(out.split())


# kvtool size


@pytest.mark.parametrize("width", [60, 80, 120])
def test_size_fits_its_width(width: int, folder: Path, capsys: Capture) -> None:
    assert run(["size", "llama-3.1-8b", "--max-model-len", "8192", "--width", str(width)]) == 0
    out = capsys.readouterr().out
    assert max(map(cell_width, out.splitlines())) <= width
    assert re.search(r"^  h100 .* \d[\d,]+ +[\d.]+$", out, re.MULTILINE)


def test_size_and_profile_agree(folder: Path, document: Document, capsys: Capture) -> None:
    flags = ["--kv-cache-dtype", "fp8", "--tensor-parallel", "2"]
    assert run(["size", "llama-3.1-8b", "--json", "--accelerator", "l4", *flags]) == 0
    [row] = json.loads(capsys.readouterr().out)["accelerators"]
    memory = f"{row['memory_bytes'] / 2**30}GiB"
    found = document("--dry-run", "--accelerator", "l4", "--gpu-memory", memory, *flags)
    assert found["config"]["capacity_blocks"] == row["usable_blocks"]


def test_size_of_a_folder(checkpoint: Path, capsys: Capture) -> None:
    assert run(["size", "tiny", "--json", "--max-model-len", "100"]) == 0
    rows = json.loads(capsys.readouterr().out)["accelerators"]
    assert {row["bytes_per_block"] for row in rows} == {TINY_BLOCK_BYTES}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["size"], "missing argument 'MODEL'"),
        (["size", "llama-9"], "unknown model `llama-9`"),
        (["size", "llama-3.1-8b", "--kv-cache-dtype", "int3"], f"one of {', '.join(KV_CACHE_DTYPES)}"),
        (["size", "llama-3.1-8b", "--accelerator", "h1000"], "unknown accelerator `h1000`"),
        (["size", "llama-3.1-8b", "--gpu-memory-utilization", "2"], "--gpu-memory-utilization is in (0, 1], not 2.0"),
        (["size", "llama-3.1-8b", "--block-size", "0"], "--block-size must be at least 1, not 0"),
        (["size", "llama-3.1-8b", "--tensor-parallel", "3"], "cannot be cut for 3 accelerators"),
    ],
)
def test_sizes_that_cannot_be(arguments: list[str], said: str, folder: Path, capsys: Capture) -> None:
    assert said in refused(arguments, capsys)


# Advice

LONG = "You are the agent of a shop; be short, be kind, be right, and say so when you do not know. "
SESSIONS = """\
version: 1
vars: {{now: {{datetime: 1m}}, n: {{counter: 1}}}}
groups:
  - name: chat
    sessions: {{count: 3, turns: 4, output_tokens: 20}}
    messages:
      - {{role: system, text: "{system}"}}
      - {{role: user, text: "{user}"}}
"""


def test_the_gain_in_sessions_is_that_of_the_edit(folder: Path, document: Document) -> None:
    before = SESSIONS.format(system=r"Now: {{ now }}.\n" + LONG, user="And {{ n }}?")
    after = SESSIONS.format(system=LONG, user=r"And {{ n }}?\nNow: {{ now }}.")
    (folder / "before.yaml").write_text(before, encoding="utf-8")
    (folder / "after.yaml").write_text(after, encoding="utf-8")
    told, made = (document("--dry-run", name=f"{name}.yaml") for name in ("before", "after"))
    [finding] = [finding for finding in told["findings"] if finding["rerun"] is not None]
    assert finding["line"] == 7
    assert finding["rerun"]["group_before"] == told["groups"][0]["hit_rate"]
    assert finding["rerun"]["group_after"] == made["groups"][0]["hit_rate"] > told["groups"][0]["hit_rate"]


def test_a_line_that_is_all_there_is(folder: Path, shown: Shown, document: Document) -> None:
    """Moving it wins nothing: it is told what a person may do, as severe as what it costs."""
    variable = "topic: {choice: [amber, birch, cedar, delta, ember, fjord, grove, haven]}"
    text = (
        f"version: 1\nvars: {{{variable}}}\ngroups:\n  - {{name: g, requests: 8, text: 'On {{{{ topic }}}}: {LONG}'}}\n"
    )
    (folder / "line.yaml").write_text(text, encoding="utf-8")
    found = document("--dry-run", name="line.yaml")
    [finding] = [finding for finding in found["findings"] if finding["line"] == 4]
    assert (finding["severity"], finding["rerun"]) == ("warning", None)
    assert finding["fix"].endswith("part the line, so that the value stands apart from the text that is shared")
    assert "With fixes" not in shown("--dry-run", name="line.yaml")


def test_tenants_are_information(folder: Path, document: Document) -> None:
    groups = "".join(
        f"  - {{name: {name}, requests: 4, tenant: {name}, text: '{LONG}{{{{ n }}}}'}}\n" for name in ("a", "b")
    )
    (folder / "t.yaml").write_text(f"version: 1\nvars: {{n: {{counter: 1}}}}\ngroups:\n{groups}", encoding="utf-8")
    found = document("--dry-run", name="t.yaml")
    [finding] = [finding for finding in found["findings"] if finding["code"] == "KV302"]
    assert finding["severity"] == "info"
    assert finding["tokens_lost"] > 0.1 * found["groups"][1]["prompt_tokens"]


def test_groups_without_times_among_those_with_some(folder: Path, shown: Shown) -> None:
    timed = TOKENS + "    arrival: {process: uniform, rate: 5}\n"
    untimed = TOKENS.splitlines()[-1]
    (folder / "w.yaml").write_text(f"{timed}  - name: bulk\n{untimed}\n", encoding="utf-8")
    note = "no arrival times, so all at second 0: bulk"
    assert note in shown("--dry-run")
    assert note not in shown("--dry-run", "--rules", "block-lru")
    assert note not in shown("--dry-run", "-g", "gen")
