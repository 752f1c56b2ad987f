"""Beside the descriptions in the models: an example of each key, and what holds where it is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvtool.config.declared import in_table


class Note(NamedTuple):
    """`example` is the value as the file contains it; `default` is the value without the key, if the model does not say it;
    `more` follows the description in the model."""

    example: str
    default: str | None = None
    more: str = ""


def _default(name: str) -> str:
    """What the declaration of an engine option says that holds where nobody says it."""
    value, words = in_table("engine")[name]
    return words or f"`{str(value).lower() if isinstance(value, bool) else value}`"


_TEXT_SOURCE = {
    "text": Note('"{{ question }}"'),
    "file": Note("prompts/support.md"),
    "glob": Note("data/handbook/*.md"),
    "pick": Note("{zipf: 1.1}", "`cycle`"),
    "raw": Note("true"),
}
_PART = {
    **_TEXT_SOURCE,
    "stable": Note("true", more="Else KV103."),
    "volatile": Note("true"),
}

WORKLOAD: Mapping[str, Mapping[str, Note]] = {
    "Workload": {
        "version": Note("1"),
        "name": Note("support-bot"),
        "seed": Note("7", more="`--seed` goes first."),
        "engine": Note("{block_size: 16, capacity: 20GiB}"),
        "vars": Note("{now: {datetime: 1m}}"),
        "tools": Note("{file: data/agent-tools.json}"),
        "filters": Note("[dateformat]"),
        "tests": Note("[prime]"),
        "groups": Note("[{name: hello, text: Hello}]"),
    },
    "EngineOptions": {
        "model": Note("llama-3.1-8b", _default("model")),
        "accelerator": Note("a100-80gb", _default("accelerator")),
        "tokenizer": Note("./tokenizer.json", f"{_default('tokenizer')} (Tekken)"),
        "chat_template": Note("templates/chat.jinja", _default("chat_template")),
        "block_size": Note("16", _default("block_size")),
        "capacity": Note("20GiB", _default("capacity")),
        "num_gpu_blocks": Note("27800"),
        "gpu_memory": Note("80GiB"),
        "gpu_memory_utilization": Note("0.9", _default("gpu_memory_utilization")),
        "max_model_len": Note("32768", "no limit"),
        "max_num_batched_tokens": Note("8192", _default("max_num_batched_tokens")),
        "max_num_seqs": Note("128", _default("max_num_seqs")),
        "enable_prefix_caching": Note("false", _default("enable_prefix_caching")),
        "enable_chunked_prefill": Note("false", _default("enable_chunked_prefill")),
        "kv_cache_dtype": Note("fp8_e4m3", _default("kv_cache_dtype")),
        "tensor_parallel": Note("2", _default("tensor_parallel")),
        "concurrency": Note("8", _default("concurrency")),
        "replicas": Note("4"),
        "routing": Note("sticky", _default("routing")),
        "ttl": Note("5m", more="Needs arrival times."),
        "provider": Note("openai"),
        "rules": Note("sglang", _default("rules")),
        **{
            name: Note(example, _default(name))
            for name, example in {
                "prefix_cache_retention_interval": "512",
                "prefix_match_unit": "16",
                "disable_hybrid_kv_cache_manager": "true",
                "mamba_ssm_cache_dtype": "bfloat16",
                "speculative_config": '\'{"method": "eagle", "num_speculative_tokens": 3}\'',
                "page_size": "64",
                "max_total_tokens": "41408",
                "radix_eviction_policy": "slru",
                "mamba_radix_cache_strategy": "extra_buffer",
                "protected_threshold": "3",
                "schedule_policy": "lpm",
                "chunked_prefill_size": "2048",
                "max_running_requests": "32",
                "parallel": "8",
                "ctx_size": "32768",
                "kv_unified": "false",
                "cache_ram": "16384",
                "cache_idle_slots": "false",
                "slot_prompt_similarity": "0.5",
                "cache_reuse": "256",
                "swa_full": "true",
                "ctx_checkpoints": "8",
                "batch_size": "4096",
                "ubatch_size": "1024",
                "sliding_window": "128",
                "tokens_per_block": "64",
                "max_tokens": "41408",
                "enable_partial_reuse": "false",
                "copy_on_partial_reuse": "false",
                "retention_priority": "80",
                "decode_retention_priority": "10",
            }.items()
        },
    },
    "Variable": {
        "datetime": Note("1m"),
        "uuid": Note('"4"'),
        "counter": Note("1"),
        "choice": Note("[gold, silver]"),
        "file": Note("data/support-questions.txt", more="With `key`, each record of a `.jsonl` file gives one value."),
        "range": Note("[1, 500]"),
        "text": Note("Acme", more="Short form: `name: value`."),
        "bool": Note("0.5"),
        "object": Note("{name: {choice: [Ada, Bo]}, plan: pro}"),
        "list": Note("{object: {title: {choice: [Maps, Tides]}}}"),
        "items": Note("[{counter: 1}, {uuid: 4}]"),
        "function": Note("{datetime: 1m}"),
        "count": Note("[1, 5]", "`[1, 3]`"),
        "orders": Note("4", "as written", "A high number is a new order in each request."),
        "start": Note("2026-01-05T09:00:00Z", "`2026-01-05T09:00:00Z`"),
        "format": Note("date", "`iso`", "Also `iso`, `date`, `time`, `unix`, `object`, `date-object`."),
        "step": Note("10", "`1`"),
        "weights": Note("[9, 1]", more="Needs a random pick."),
        "key": Note("question"),
        "pick": Note("random", "`cycle` of a file, else `random`"),
        "per": Note("session"),
    },
    "GroupSpec": {
        "name": Note("support"),
        "requests": Note("120", "1, or one for each file of `glob`", "Not with `sessions`, `generate`, `import`."),
        "tenant": Note('"{{ customer }}"', more="A template."),
        "arrival": Note("{process: poisson, rate: 8/s}", "one after the other"),
        "messages": Note('[{role: user, text: "{{ question }}"}]'),
        "cache_control": Note("none", "automatic without breakpoints"),
        "segments": Note("[{id: rules, text: Be brief.}]"),
        "join": Note('"\\n\\n"', "a line end"),
        "generate": Note("{prefixes: 4, per_prefix: 8, prefix_tokens: 512, suffix_tokens: 64}"),
        "import": Note("{jsonl: logs/*.jsonl}"),
        "tools": Note(
            "{file: data/agent-tools.json}",
            more="Replaces the schemas of the workload. `{items: […], orders: 4}` sends them in 4 random orders.",
        ),
        "sessions": Note("{count: 8, turns: 6}"),
        "output_tokens": Note("128", "`1`"),
        "output": Note('"Yes, {{ name }}."'),
        "vars": Note("{n: {counter: 1}}", more="They count only its requests."),
        "gate": Note('{hit_rate: ">=80%"}'),
        "limit": Note("50", more="With `sessions`: number of chats."),
        **_TEXT_SOURCE,
    },
    "MessagePart": {
        "role": Note("system"),
        "name": Note("mina"),
        "cache_control": Note("1h"),
        **_PART,
    },
    "SegmentPart": {
        "id": Note("rules"),
        **_PART,
    },
    "Arrival": {
        "process": Note("poisson"),
        "rate": Note("8/s"),
        "start": Note("30s", "`0s`"),
        "burst": Note("16", more="Only with `process: burst`."),
    },
    "Sessions": {
        "count": Note("8"),
        "turns": Note("6"),
        "output_tokens": Note("120", "`64`"),
        "order": Note("sequential", "`interleaved`"),
        "think": Note("20s"),
    },
    "Generate": {
        "prefixes": Note("64"),
        "per_prefix": Note("16"),
        "prefix_tokens": Note("2048"),
        "suffix_tokens": Note("128"),
        "order": Note("sequential"),
        "output_tokens": Note("128"),
    },
    "Import": {
        "jsonl": Note('"logs/*.jsonl"'),
        "json": Note("runs/agent.json"),
        "txt": Note('"prompts/*.txt"', more="A name or a pattern."),
        "mooncake": Note("traces/chat.jsonl"),
        "format": Note("sharegpt", "detected", "See [formats](inputs.md#formats-of-records)."),
        "block_size": Note("512", "`512`"),
        "on_bad_line": Note("skip", "`error`"),
        "limit": Note("1000"),
    },
    "GateOptions": {
        "hit_rate": Note('">=80%"'),
        "reachable_gap": Note('"5%"'),
        "reported_gap": Note('"<=10%"'),
        "cost_per_1k_requests": Note('"<=$4"'),
        "ttft_p50": Note("50ms"),
        "ttft_p90": Note("120ms"),
        "ttft_p99": Note("250ms"),
        "findings": Note("{KV101: error, KV2: warn}"),
        "level": Note("warn"),
    },
}

CONFIGURATION: Mapping[str, Mapping[str, Note]] = {
    "Config": {
        "workloads": Note('["workloads/*.yaml"]'),
        "engine": Note('{capacity = "20GiB"}'),
        "gate": Note('{hit_rate = "80%"}'),
        "check": Note('{max_drop = "1%"}'),
        "lint": Note('{ignore = ["KV204"]}'),
        "logs": Note('{messages = "payload.req.messages"}'),
        "probe": Note('[{agent = "claude"}]', more="See [agents](guides/agents.md#in-ci)."),
        "requests": Note("200", "all"),
        "group_by": Note('"service"', "detected", more="See [groups](inputs.md#groups)."),
        "seed": Note("0", "the workload's"),
    },
    "ProbeTable": {
        "agent": Note('"claude"'),
        "resume": Note('"my-agent -p {prompt} --continue"', "none"),
        "turns": Note("2"),
        "vary": Note('["folder", "mcp"]', "none"),
        "timeout": Note("60"),
        "baseline": Note('"agent.json"', "none"),
        "max_drop": Note('"1%"', "none"),
    },
    "WorkloadGate": {
        "groups": Note('{support = {hit_rate = "90%"}}'),
        "hit_rate": Note('"80%"'),
        "reachable_gap": Note('"5%"'),
        "reported_gap": Note('"<=10%"'),
        "cost_per_1k_requests": Note('"<=$4"'),
        "ttft_p50": Note('"50ms"'),
        "ttft_p90": Note('"120ms"'),
        "ttft_p99": Note('"250ms"'),
        "findings": Note('{KV101 = "error"}'),
        "level": Note('"warn"'),
    },
    "CheckOptions": {
        "baseline": Note('"kvtool-baseline.json"', "none"),
        "max_drop": Note('"1%"', "none"),
        "max_gpus": Note("4", "none"),
        "min_goodput": Note("3.5", "none"),
        "slo": Note('"ttft=2s,tpot=50ms"', "none"),
        "error_on": Note('["KV101", "error"]', "none"),
        "require_baseline": Note("true"),
        "advice": Note("false"),
    },
    "LogFields": {
        "messages": Note('"payload.req.messages"'),
        "prompt": Note('"payload.prompt"'),
        "tools": Note('"payload.req.tools"'),
        "session": Note('"meta.chat"'),
        "tenant": Note('"meta.customer"'),
        "time": Note('"ts"'),
        "end": Note('"done"'),
        "model": Note('"payload.req.model"'),
        "provider": Note('"meta.provider"'),
        "usage": Note('"payload.res.usage"'),
        "output": Note('"payload.res.text"'),
        "id": Note('"request_id"'),
        "cost": Note('"meta.usd"'),
    },
    "LintOptions": {
        "inputs": Note('["app/agent.py", "prompts/"]', "none"),
        "select": Note('["KV1"]', "all"),
        "ignore": Note('["KV204"]', "none"),
        "error_on": Note('"warning"'),
        "include": Note('["agents/*.md"]', "none"),
        "exclude": Note('["legacy/"]', "none"),
    },
}

NOTES: Mapping[str, Mapping[str, Note]] = {**WORKLOAD, **CONFIGURATION}
