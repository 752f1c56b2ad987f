"""Flag > variable > workload file > configuration file > default: for every option, and in what `kvtool config` says of it."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run
from kvtool.cli.commands.profile import ProfileCommand
from kvtool.config.option import PREFIX, Argument, Option, walk
from kvtool.profiler.opening import open_workload
from kvtool.profiler.run_description import run_config
from kvtool.text.tokens.tokenizer import Tokenizers
from kvtool.workload.yaml.schema import EngineOptions
from tests.files import write

GROUPS = 'groups: [{name: a, text: "one and two", requests: 2, arrival: {process: uniform, rate: 1/s}}]\n'
TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"


@dataclass(frozen=True, slots=True)
class Case:
    """An option: its key in the report, its default, and what each place says of it and the report then has."""

    name: str
    key: str
    default: object
    config: tuple[str, object]
    workload: tuple[str, object]
    variable: tuple[str, object]
    flag: tuple[str, object]
    needs: str = ""
    """What a variable has to say for it to mean anything."""


def switch(name: str, default: bool | None, needs: str) -> Case:
    return Case(name, name, default, ("false", False), ("true", True), ("0", False), ("", True), needs=needs)


def numbers(name: str, default: object, key: str = "", needs: str = "") -> Case:
    values = [(str(number), number) for number in (64, 48, 32, 96)]
    return Case(name, key or name, default, *values, needs=needs)


CASES = [
    numbers("block_size", 16),
    numbers("max_model_len", None),
    numbers("max_num_batched_tokens", 8192),
    numbers("max_num_seqs", 256),
    numbers("concurrency", None),
    Case("tensor_parallel", "tensor_parallel", 1, ("2", 2), ("4", 4), ("8", 8), ("1", 1)),
    numbers("replicas", 1),
    numbers("seed", 0),
    Case(
        "model", "model", "llama-3.1-8b", *[(n, n) for n in ("qwen2.5-7b", "mistral-7b", "qwen3-8b", "llama-3.1-70b")]
    ),
    Case("accelerator", "accelerator", "h100", *[(n, n) for n in ("a100-80g", "l4", "h200", "b200")]),
    Case(
        "capacity",
        "capacity_blocks",
        None,
        ("320 tokens", 20),
        ("300 blocks", 300),
        ("1k", 1000),
        ("77", 77),
    ),
    Case("num_gpu_blocks", "capacity_blocks", None, ("21", 20), ("301", 300), ("1001", 1000), ("78", 77)),
    Case(
        "kv_cache_dtype",
        "kv_cache_dtype",
        "bf16",
        ("fp8_e4m3", "fp8_e4m3"),
        ("fp8_e5m2", "fp8_e5m2"),
        ("int8", "int8"),
        ("fp16", "fp16"),
    ),
    Case(
        "enable_prefix_caching",
        "enable_prefix_caching",
        True,
        ("false", False),
        ("true", True),
        ("0", False),
        ("", True),
    ),
    Case(
        "routing",
        "routing",
        "round-robin",
        *[(name, name) for name in ("random", "sticky", "prefix-aware", "round-robin")],
        needs="replicas=2",
    ),
    Case("ttl", "ttl_seconds", None, ("5m", 300), ("1h", 3600), ("30s", 30), ("90", 90)),
    Case("rules", "rules", "vllm", *[(name, name) for name in ("sglang", "trtllm", "block-lru", "llamacpp")]),
    Case(
        "prefix_cache_retention_interval",
        "prefix_cache_retention_interval",
        0,
        *[("544", 544), ("1088", 1088), ("none", None), ("1632", 1632)],
        needs="model=qwen3-next-80b",
    ),
    Case(
        "prefix_match_unit",
        "prefix_match_unit",
        None,
        *[(text, int(text)) for text in ("16", "32", "272", "136")],
        needs="model=qwen3-next-80b",
    ),
    switch("disable_hybrid_kv_cache_manager", None, "model=gpt-oss-20b"),
    Case(
        "mamba_ssm_cache_dtype",
        "mamba_ssm_cache_dtype",
        None,
        *[(name, name) for name in ("float32", "float16", "bfloat16", "float32")],
        needs="model=qwen3-next-80b",
    ),
    Case(
        "speculative_config",
        "num_speculative_tokens",
        None,
        *[(json.dumps({"method": "ngram", "num_speculative_tokens": count}), count) for count in (1, 2, 3, 4)],
        needs="model=qwen3-next-80b",
    ),
    numbers("page_size", 1, needs="rules=sglang"),
    Case(
        "mamba_radix_cache_strategy",
        "mamba_radix_cache_strategy",
        None,
        *[(name, name) for name in ("no_buffer", "extra_buffer", "no_buffer", "extra_buffer")],
        needs="rules=sglang",
    ),
    numbers("max_total_tokens", None, needs="rules=sglang"),
    Case(
        "radix_eviction_policy",
        "radix_eviction_policy",
        "lru",
        *[(name, name) for name in ("lfu", "slru", "priority", "lru")],
        needs="rules=sglang",
    ),
    numbers("protected_threshold", 2, needs="rules=sglang"),
    Case(
        "schedule_policy",
        "schedule_policy",
        "fcfs",
        *[(name, name) for name in ("lpm", "dfs-weight", "fcfs", "lpm")],
        needs="rules=sglang concurrency=2",
    ),
    numbers("chunked_prefill_size", None, needs="rules=sglang"),
    numbers("max_running_requests", None, needs="rules=sglang"),
    numbers("parallel", None, needs="rules=llamacpp"),
    numbers("ctx_size", 131_072, needs="rules=llamacpp"),
    switch("kv_unified", None, "rules=llamacpp"),
    numbers("cache_ram", 8192, needs="rules=llamacpp"),
    switch("cache_idle_slots", True, "rules=llamacpp"),
    Case(
        "slot_prompt_similarity",
        "slot_prompt_similarity",
        0.1,
        *[(text, float(text)) for text in ("0.25", "0.5", "0.75", "1")],
        needs="rules=llamacpp",
    ),
    numbers("cache_reuse", 0, needs="rules=llamacpp"),
    switch("swa_full", False, "rules=llamacpp"),
    numbers("ctx_checkpoints", 32, needs="rules=llamacpp"),
    numbers("batch_size", 2048, needs="rules=llamacpp"),
    numbers("ubatch_size", 512, needs="rules=llamacpp"),
    numbers("sliding_window", None, needs="rules=llamacpp"),
    Case(
        "tokens_per_block",
        "tokens_per_block",
        32,
        *[(text, int(text)) for text in ("64", "16", "8", "128")],
        needs="rules=trtllm",
    ),
    numbers("max_tokens", None, needs="rules=trtllm"),
    switch("enable_partial_reuse", True, "rules=trtllm"),
    switch("copy_on_partial_reuse", True, "rules=trtllm"),
    numbers("retention_priority", 35, needs="rules=trtllm"),
    numbers("decode_retention_priority", 35, needs="rules=trtllm"),
    Case("provider", "provider", None, *[(name, name) for name in ("openai", "deepseek", "gemini", "anthropic")]),
]


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_json: str) -> dict[str, Any]:
    """What the next `kvtool profile` of the test would run with; nothing is run."""
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}

    def instead(command: ProfileCommand) -> int:
        options = command.options()
        options.check()
        opened = open_workload(options, Tokenizers(offline=True))
        _ = opened.renderer.tokenizer, opened.renderer.chat_template
        found.clear()
        found.update(run_config(opened.planned, opened.name, opened.renderer))
        return 0

    monkeypatch.setattr(ProfileCommand, "run", instead)
    monkeypatch.setenv("KVTOOL_TOKENIZER", bytes_json)
    monkeypatch.setenv("KVTOOL_CHAT_TEMPLATE", write("chat.jinja", TEMPLATE))
    return found


def origin(name: str, *arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Where `kvtool config` says that the option comes from."""
    capsys.readouterr()
    assert run(["config", "w.yaml", "--json", *arguments]) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    full = name if name == "seed" else f"engine.{name}"
    (row,) = [row for row in settings if row["name"] == full]
    return f"{row['path']}:{row['line']}" if row["path"] else row["said_by"] or row["from"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_option_goes_by_the_same_order(
    case: Case, told: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    top = case.name == "seed"
    workload, config = "version: 1\n" + GROUPS, "\n"
    for need in case.needs.split():
        needed, _, said = need.partition("=")
        monkeypatch.setenv(f"KVTOOL_{needed.upper()}", said)
    flag = f"--{case.name.replace('_', '-')}"
    variable = f"KVTOOL_{case.name.upper()}"

    def expect(expected: object, where: str, *arguments: str) -> None:
        write("w.yaml", workload)
        write("kvtool.toml", config)
        assert run(["profile", "w.yaml", *arguments]) == 0, capsys.readouterr().err
        assert told[case.key] == expected
        assert origin(case.name, *arguments, capsys=capsys) == where

    expect(case.default, "default")
    text, value = case.config
    written = text if text.replace(".", "").isdigit() or text == "false" else json.dumps(text)
    config = f"{case.name} = {written}\n" if top else f"[engine]\n{case.name} = {written}\n"
    expect(value, "kvtool.toml:1" if top else "kvtool.toml:2")
    text, value = case.workload
    text = f"'{text}'" if text.startswith("{") else text
    workload = (
        f"version: 1\n{case.name}: {text}\n{GROUPS}"
        if top
        else f"version: 1\nengine: {{{case.name}: {text}}}\n{GROUPS}"
    )
    expect(value, "w.yaml:2")
    monkeypatch.setenv(variable, "")
    expect(value, "w.yaml:2")  # an empty variable is not given
    text, value = case.variable
    monkeypatch.setenv(variable, text)
    expect(value, variable)
    text, value = case.flag
    expect(value, flag, *([flag, text] if text else [flag]))


def test_every_engine_option_is_in_the_table() -> None:
    elsewhere = {
        "gpu_memory",  # hides and is hidden: below
        "gpu_memory_utilization",
        "tokenizer",
        "chat_template",
        "enable_chunked_prefill",  # no flag, as in vLLM V1
    }
    assert {case.name for case in CASES} == set(EngineOptions.model_fields) - elsewhere | {"seed"}


def test_files_and_sizes_of_memory(told: dict[str, Any], monkeypatch: pytest.MonkeyPatch, bytes_json: str) -> None:
    write("w.yaml", "version: 1\n" + GROUPS)
    write("conf/t.jinja", TEMPLATE + "x")
    write("conf/tok.json", Path(bytes_json).read_bytes())
    write(
        "conf/kvtool.toml",
        '[engine]\ntokenizer = "tok.json"\nchat_template = "t.jinja"\ngpu_memory = "40GiB"\ngpu_memory_utilization = 0.9\n',
    )
    monkeypatch.delenv("KVTOOL_TOKENIZER")
    monkeypatch.delenv("KVTOOL_CHAT_TEMPLATE")
    monkeypatch.setenv("KVTOOL_CONFIG", "conf/kvtool.toml")
    assert run(["profile", "w.yaml"]) == 0
    assert (told["tokenizer"], told["chat_template"]) == ("conf/tok.json", "conf/t.jinja")
    blocks = told["capacity_blocks"]
    monkeypatch.setenv("KVTOOL_GPU_MEMORY_UTILIZATION", "0.8")
    assert run(["profile", "w.yaml"]) == 0
    assert told["capacity_blocks"] < blocks
    monkeypatch.setenv("KVTOOL_CHAT_TEMPLATE", "chat.jinja")
    assert run(["profile", "w.yaml", "-t", bytes_json]) == 0
    assert (told["tokenizer"], told["chat_template"]) == (bytes_json, "chat.jinja")
    assert run(["profile", "w.yaml", "--no-config", "-t", bytes_json, "--gpu-memory", "40GiB"]) == 0
    assert told["capacity_blocks"] > 0


HIDING = [
    ("--capacity 50", "gpu_memory: 40GiB", "", "", 50),
    ("--num-gpu-blocks 51", "gpu_memory: 40GiB", "", "", 50),
    ("", "num_gpu_blocks: 51", "capacity = 9", "", 50),
    ("", "", "num_gpu_blocks = 9", "KVTOOL_CAPACITY=50", 50),
    ("", "", "capacity = 9", "KVTOOL_NUM_GPU_BLOCKS=51", 50),
    ("", "capacity: 50", 'gpu_memory = "40GiB"\ngpu_memory_utilization = 0.5', "", 50),
    ("", "", 'gpu_memory = "40GiB"', "KVTOOL_CAPACITY=50", 50),
    ("--capacity 50", "", "", "KVTOOL_GPU_MEMORY=40GiB KVTOOL_GPU_MEMORY_UTILIZATION=0.5", 50),
    ("--capacity 50", "", "concurrency = 4", "KVTOOL_PROVIDER=openai", 50),
    ("", "capacity: 50", 'provider = "openai"', "", 50),
    ("--provider openai", "", 'capacity = "50"\nblock_size = 32\nconcurrency = 4', "KVTOOL_REPLICAS=4", None),
    ("", "provider: openai", "capacity = 50\nreplicas = 4\nrouting = 'sticky'", "", None),
    ("--replicas 2", "capacity: 50", "concurrency = 4", "", 50),
    ("--concurrency 4 --capacity 50", "", "replicas = 3\nrouting = 'sticky'\nttl = '5m'", "", 50),
    ("--concurrency 4 --capacity 50", "", "provider = 'openai'", "", 50),
    ("--ttl 5m --capacity 50", "", "concurrency = 4", "", 50),
    ("--capacity 50", "", "gpu_memory = '40GiB'\ngpu_memory_utilization = 0.5", "", 50),
    ("", "{capacity: 50, concurrency: 4}", "replicas = 3\nrouting = 'sticky'\nttl = '5m'", "", 50),
]


@pytest.mark.parametrize(("flags", "workload", "config", "variables", "blocks"), HIDING)
def test_what_is_said_above_hides_what_contradicts_it_below(
    told: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    flags: str,
    workload: str,
    config: str,
    variables: str,
    blocks: int | None,
) -> None:
    engine = workload if workload.startswith("{") else f"{{{workload}}}"
    write("w.yaml", f"version: 1\nengine: {engine}\n{GROUPS}")
    write("kvtool.toml", f"[engine]\n{config}\n")
    for variable in variables.split():
        monkeypatch.setenv(*variable.split("="))
    assert run(["profile", "w.yaml", *flags.split()]) == 0
    assert told["capacity_blocks"] == blocks


SAID = {
    "capacity": ("77", "capacity_blocks", 77),
    "provider": ("openai", "provider", "openai"),
    "replicas": ("3", "replicas", 3),
    "ttl": ("5m", "ttl_seconds", 300),
    "concurrency": ("4", "concurrency", 4),
    "block_size": ("32", "block_size", 32),
}
"""What is said of an option, and what the report then has."""
PARTED = [
    ("capacity", "provider", None),
    ("provider", "capacity", None),
    ("provider", "replicas", 1),
    ("provider", "concurrency", None),
    ("provider", "block_size", 128),
    ("replicas", "provider", None),
    ("replicas", "concurrency", None),
    ("ttl", "concurrency", None),
    ("concurrency", "provider", None),
    ("concurrency", "replicas", 1),
    ("concurrency", "ttl", None),
]
"""What is said above, what is then not heard below, and what the report has of that."""
PLACES = ("flag", "variable", "workload", "configuration")


@pytest.mark.parametrize(("above", "below"), list(combinations(PLACES, 2)))
@pytest.mark.parametrize(("upper", "lower", "left"), PARTED)
def test_what_contradicts_what_is_said_above_is_not_heard(
    told: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    upper: str,
    lower: str,
    left: object,
    above: str,
    below: str,
) -> None:
    """From whichever two places; and said alone, the lower one is heard.

    But rules that the workload itself asks for go with nothing else that a run is told, short of other rules: that is refused.
    """

    def heard(*options: tuple[str, str]) -> tuple[object, object] | None:
        """What the report has of both options where each of these is said in its place; None where they are refused."""
        places = {place: name for name, place in options}
        flags = [f"--{name.replace('_', '-')}={SAID[name][0]}" for name, place in options if place == "flag"]
        for name in (upper, lower):
            monkeypatch.delenv(f"KVTOOL_{name.upper()}", raising=False)
        if "variable" in places:
            name = places["variable"]
            monkeypatch.setenv(f"KVTOOL_{name.upper()}", SAID[name][0])
        name = places.get("workload", "")
        write("w.yaml", f"version: 1\n{f'engine: {{{name}: {SAID[name][0]}}}' if name else ''}\n{GROUPS}")
        name = places.get("configuration", "")
        value = json.dumps(SAID[name][0]) if name in ("ttl", "provider") else SAID[name][0] if name else ""
        write("kvtool.toml", f"[engine]\n{name} = {value}\n" if name else "")
        code, said = run(["profile", "w.yaml", *flags]), capsys.readouterr().err
        if code == 2:
            assert "leave --concurrency out" in said or "do not say how" in said
            return None
        assert (code, said) == (0, "")
        return told[SAID[upper][1]], told[SAID[lower][1]]

    alone, both = heard((lower, below)), heard((upper, above), (lower, below))
    assert alone is not None
    assert alone[1] == SAID[lower][2]
    if below == "workload" and upper != "provider" and lower in ("provider", "replicas", "ttl"):
        assert both is None
    else:
        assert both == (SAID[upper][2], left)


def test_a_contradiction_in_one_place_is_still_told(
    told: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write("w.yaml", "version: 1\n" + GROUPS)
    monkeypatch.setenv("KVTOOL_CAPACITY", "50")
    monkeypatch.setenv("KVTOOL_GPU_MEMORY", "40GiB")
    assert run(["profile", "w.yaml"]) == 2
    assert "KVTOOL_CAPACITY and KVTOOL_GPU_MEMORY both say" in capsys.readouterr().err


OPTIONS = [
    PREFIX + each.name.upper()
    for each in walk(ProfileCommand)
    if isinstance(each.mark, Argument | Option) and each.mark.variable
]
BAD = {
    "KVTOOL_BLOCK_SIZE": "zero",
    "KVTOOL_COLOR": "pink",
    "KVTOOL_WIDTH": "wide",
    "KVTOOL_SHOW_TEXT": "all",
    "KVTOOL_OFFLINE": "perhaps",
    "KVTOOL_ENABLE_PREFIX_CACHING": "perhaps",
    "KVTOOL_ROUTING": "scenic",
    "KVTOOL_CONFIG": "nowhere.toml",
    "KVTOOL_TOKENIZER": "nowhere/tokenizer.json",
    "KVTOOL_CHAT_TEMPLATE": "nowhere.jinja",
    "KVTOOL_MODEL": "nowhere",
    "KVTOOL_ACCELERATOR": "abacus",
    "KVTOOL_KV_CACHE_DTYPE": "fp1",
    "KVTOOL_CAPACITY": "lots",
    "KVTOOL_GPU_MEMORY": "lots",
    "KVTOOL_GPU_MEMORY_UTILIZATION": "2",
    "KVTOOL_TTL": "soon",
    "KVTOOL_PROVIDER": "nobody",
    "KVTOOL_DEVICE": "abacus",
    "KVTOOL_SEED": "-1",
    "KVTOOL_GROUP_BY": "[",
}


def test_every_variable_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(OPTIONS) > 25
    assert run(["profile", "--help-all"]) == 0
    said = "".join(capsys.readouterr().out.split())
    assert [variable for variable in OPTIONS if variable not in said] == []


@pytest.mark.parametrize("variable", sorted(OPTIONS))
def test_every_variable_names_itself_where_it_is_wrong(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write("w.yaml", "version: 1\n" + GROUPS)
    monkeypatch.setenv(variable, BAD.get(variable, "0"))
    monkeypatch.setenv("KVTOOL_OFFLINE", "perhaps" if variable == "KVTOOL_OFFLINE" else "1")
    assert run(["profile", "w.yaml", "--dry-run"]) in (2, 4)
    said = capsys.readouterr().err
    assert variable in said
    assert "Traceback" not in said


def test_the_flag_is_named_where_the_flag_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write("w.yaml", "version: 1\n" + GROUPS)
    monkeypatch.setenv("KVTOOL_BLOCK_SIZE", "8")
    assert run(["profile", "w.yaml", "--dry-run", "--block-size", "0"]) == 2
    assert "--block-size must be at least 1" in capsys.readouterr().err


def test_other_commands_take_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write("a.txt", "the same beginning, and then A" * 3)
    write("b.txt", "the same beginning, and then B" * 3)
    shutil.copy(bytes_json, "tokenizer.json")
    text = '[engine]\ntokenizer = "tokenizer.json"\nblock_size = 4\nmodel = "qwen2.5-7b"\n[lint]\nselect = ["KV9"]\n'
    write("kvtool.toml", text.replace('["KV9"]', '["KV2"]\nerror_on = "info"'))

    def document(*arguments: str) -> dict[str, Any]:
        run([*arguments, "--json"])
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    assert document("diff-prompts", "a.txt", "b.txt")["block_size"] == 4
    assert document("diff-prompts", "a.txt", "b.txt", "-b", "8")["block_size"] == 8
    assert document("size")["model"] == "qwen2.5-7b"
    assert document("size")["block_size"] == 4
    assert document("size", "mistral-7b")["model"] == "mistral-7b"
    assert document("optimize", "a.txt", "b.txt")["block_size"] == 4
    assert run(["size", "--no-config"]) == 2
    assert "MODEL is missing" in capsys.readouterr().err
    write("t.j2", "Now: {{ now }}. " + "Be short, be kind and be right. " * 20)
    found = document("lint", "t.j2", "--select", "KV101")
    assert [one["code"] for one in found["findings"]] == ["KV101"]
    assert document("lint", "t.j2")["findings"] == []  # the file selects other codes
    assert document("lint", "t.j2", "--no-config", "-t", bytes_json)["findings"] != []


def test_lint_exits_as_the_file_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> None:
    monkeypatch.chdir(tmp_path)
    rules = "Be short, be kind and be right. "
    write("t.j2", rules * 300 + "Now: {{ now }}. " + rules * 4)
    assert run(["lint", "t.j2", "-t", bytes_json]) == 0  # a warning
    write("kvtool.toml", '[lint]\nerror_on = "warning"\n')
    assert run(["lint", "t.j2", "-t", bytes_json]) == 1
    assert run(["lint", "t.j2", "-t", bytes_json, "--error-on", "error"]) == 0
    write("kvtool.toml", '[lint]\nignore = ["KV1"]\nerror_on = "warning"\n')
    assert run(["lint", "t.j2", "-t", bytes_json]) == 0
    capsys.readouterr()


def test_lint_without_inputs_takes_the_workloads_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["lint"]) == 2
    assert "kvtool lint found nothing to read in the working folder" in capsys.readouterr().err
    write("other.j2", "Now: {{ now }}. " + "Be short, be kind and be right. " * 20)
    write("t.j2", "Now: {{ now }}. " + "Be short, be kind and be right. " * 20)
    write("kvtool.toml", 'workloads = ["t.j2"]\n')
    assert run(["lint", "-t", bytes_json, "--error-on", "warning"]) == 1
    out = capsys.readouterr().out
    assert "t.j2:1:6: KV101" in out
    assert "other.j2" not in out
    assert run(["lint", "--no-config"]) == 1
    assert "other.j2:1:6: KV101" in capsys.readouterr().out, "without the file, the working folder is read"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_of_settings_fits(
    width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = "a-folder-with-a-long-name/and-another-one-in-it"
    write(
        f"{folder}/w.yaml",
        "version: 1\nengine: {block_size: 8}\n" + GROUPS.replace("}}]", "}, gate: {hit_rate: 80%}}]"),
    )
    write(
        "kvtool.toml",
        f'workloads = ["{folder}/w.yaml"]\nrequests = 9\n[engine]\ntokenizer = "{"x" * 130}"\n'
        '[gate.groups."a b"]\nhit_rate = "1%"\n',
    )
    monkeypatch.setenv("KVTOOL_GPU_MEMORY_UTILIZATION", "0.5")
    assert run(["config", f"{folder}/w.yaml", "--width", str(width)]) == 0
    out = capsys.readouterr().out
    assert all(len(line) <= width for line in out.splitlines())
    joined = "".join(out.split())
    for shown in (
        f"{folder}/w.yaml:2",
        f"{folder}/w.yaml:3",
        "x" * 130,
        "KVTOOL_GPU_MEMORY_UTILIZATION",
        "kvtool.toml:6",
    ):
        assert shown in joined
    assert run(["config", "--plain"]) == 0
    assert "requests: 9; kvtool.toml:2" in capsys.readouterr().out.splitlines()


def test_config_says_no_value_that_the_code_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], told: dict[str, Any]
) -> None:
    """The defaults that `kvtool config` shows are those that a profile runs with."""
    write("w.yaml", "version: 1\n" + GROUPS)
    assert run(["profile", "w.yaml"]) == 0
    capsys.readouterr()
    assert run(["config", "--json"]) == 0
    shown = {row["name"]: row["value"] for row in json.loads(capsys.readouterr().out)["settings"]}
    for name in (
        "model",
        "accelerator",
        "block_size",
        "max_num_batched_tokens",
        "max_num_seqs",
        "tensor_parallel",
        "replicas",
    ):
        assert shown[f"engine.{name}"] == told[name]
    from kvtool.config.options.judged_options import DEFAULT_DROP

    assert shown["check.max_drop"] == DEFAULT_DROP
    from kvtool.engine.config import DEFAULT_UTILIZATION

    assert shown["engine.gpu_memory_utilization"] == DEFAULT_UTILIZATION


def test_every_option_of_the_engine_has_its_variable_and_its_key() -> None:
    declared = {each.name: each.mark for each in walk(ProfileCommand)}
    for name in EngineOptions.model_fields:
        mark = declared[name]
        assert isinstance(mark, Option)
        assert mark.table == "engine"
        assert mark.variable == (mark.flag is not None)
