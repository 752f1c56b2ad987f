"""Options that several commands share, as types for their signatures."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from kvtool.results.show_text import ShowText

ColorMode = Literal["auto", "always", "never"]
RulesName = Literal["vllm", "block-lru"]
BadLineMode = Literal["error", "skip"]
DecodeAttention = Literal["flat", "prefix-aware", "auto"]
RoutingName = Literal["round-robin", "random", "sticky", "prefix-aware"]
ByName = Literal["session", "tenant", "line"]
HashName = Literal["native", "sha256_cbor", "xxhash_cbor"]

Color = Annotated[
    ColorMode, typer.Option("--color", envvar="KVTOOL_COLOR", help="Colour: on a terminal only, always, or never.")
]
Width = Annotated[
    int | None,
    typer.Option("--width", min=20, envvar="KVTOOL_WIDTH", help="Columns of the report; else those of the terminal."),
]
ConfigFileName = Annotated[
    str | None,
    typer.Option(
        "-c",
        "--config",
        metavar="FILE",
        envvar="KVTOOL_CONFIG",
        help="Configuration. [default: kvtool.toml, or tool.kvtool in pyproject.toml, here or above up to the git root]",
    ),
]
NoConfig = Annotated[bool, typer.Option("--no-config", help="Read no configuration file.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document instead of the report.")]
Output = Annotated[
    list[str] | None,
    typer.Option(
        "-o",
        "--output",
        metavar="[FMT=]PATH",
        help="Also write PATH, in the format of its extension (json, md, xml, sarif, html, svg) or FMT; repeatable.",
    ),
]
Plain = Annotated[bool, typer.Option("--plain", help="No bars and no columns: one record per line.")]
ShowTextOption = Annotated[
    ShowText | None,
    typer.Option(
        "--show-text",
        envvar="KVTOOL_SHOW_TEXT",
        help="Whether prompts may be quoted. [default: snippet in the terminal, none in files]",
        show_default=False,
    ),
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No progress.")]
TokenizerName = Annotated[
    str | None,
    typer.Option(
        "-t",
        "--tokenizer",
        metavar="NAME",
        envvar="KVTOOL_TOKENIZER",
        help="tokenizer.json, folder or HF id; default: built in.",
    ),
]
ChatTemplateFile = Annotated[
    str | None,
    typer.Option(
        "--chat-template",
        metavar="FILE",
        envvar="KVTOOL_CHAT_TEMPLATE",
        help="Jinja chat template; default: the tokenizer's.",
    ),
]
ModelName = Annotated[
    str | None,
    typer.Option(
        "-m",
        "--model",
        metavar="NAME",
        envvar="KVTOOL_MODEL",
        help="Model for predictions and sizes. [default: llama-3.1-8b]",
    ),
]
AcceleratorName = Annotated[
    str | None,
    typer.Option(
        "--accelerator",
        metavar="NAME",
        envvar="KVTOOL_ACCELERATOR",
        help="Accelerator for predictions. [default: h100]",
    ),
]
BlockSize = Annotated[
    int | None,
    typer.Option(
        "-b",
        "--block-size",
        metavar="N",
        envvar="KVTOOL_BLOCK_SIZE",
        help="Tokens per KV block. [default: 16]",
    ),
]
Capacity = Annotated[
    str | None,
    typer.Option(
        "--capacity",
        metavar="SIZE",
        envvar="KVTOOL_CAPACITY",
        help="KV cache: 20000 (blocks), '320k tokens' or 20GiB in all. [default: unlimited]",
    ),
]
GpuMemory = Annotated[
    str | None,
    typer.Option(
        "--gpu-memory",
        metavar="SIZE",
        envvar="KVTOOL_GPU_MEMORY",
        help="Memory of the accelerator; what the weights leave is cache.",
    ),
]
GpuMemoryUtilization = Annotated[
    float | None,
    typer.Option(
        "--gpu-memory-utilization",
        metavar="X",
        envvar="KVTOOL_GPU_MEMORY_UTILIZATION",
        help="Part of it that may be used. [default: 0.92]",
    ),
]
MaxModelLen = Annotated[
    int | None,
    typer.Option(
        "--max-model-len", metavar="N", envvar="KVTOOL_MAX_MODEL_LEN", help="Longest prompt and answer together."
    ),
]
MaxNumBatchedTokens = Annotated[
    int | None,
    typer.Option(
        "--max-num-batched-tokens",
        metavar="N",
        envvar="KVTOOL_MAX_NUM_BATCHED_TOKENS",
        help="Tokens per step. [default: 8192]",
    ),
]
MaxNumSeqs = Annotated[
    int | None,
    typer.Option("--max-num-seqs", metavar="N", envvar="KVTOOL_MAX_NUM_SEQS", help="Requests per step. [default: 256]"),
]
EnablePrefixCaching = Annotated[
    bool | None,
    typer.Option(
        "--enable-prefix-caching/--no-enable-prefix-caching",
        envvar="KVTOOL_ENABLE_PREFIX_CACHING",
        help="[default: on]",
    ),
]
Concurrency = Annotated[
    int | None,
    typer.Option(
        "--concurrency", metavar="N", envvar="KVTOOL_CONCURRENCY", help="Requests at once. [default: one at a time]"
    ),
]
DeviceName = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="NAME",
        envvar="KVTOOL_DEVICE",
        help="Of the real runs: auto (CUDA where there is one), cpu, cuda or cuda:N.",
    ),
]
KvCacheDtype = Annotated[
    str | None,
    typer.Option(
        "--kv-cache-dtype",
        metavar="NAME",
        envvar="KVTOOL_KV_CACHE_DTYPE",
        help="Of the KV cache: auto, fp16, bf16, fp8_e4m3, fp8_e5m2, int8. [default: auto]",
    ),
]
TensorParallel = Annotated[
    int | None,
    typer.Option(
        "--tensor-parallel",
        metavar="N",
        envvar="KVTOOL_TENSOR_PARALLEL",
        help="Accelerators that share the model. [default: 1]",
    ),
]
BadLine = Annotated[BadLineMode, typer.Option(help="Stop at a bad line of a log, or skip and count.")]
LogFormat = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="Format of logs; default: found out per record."),
]
Requests = Annotated[
    int | None,
    typer.Option("-n", "--requests", metavar="N", envvar="KVTOOL_REQUESTS", help="Only the first N requests."),
]
Groups = Annotated[
    list[str] | None,
    typer.Option("-g", "--group", metavar="NAME", help="Only this group of the workload; repeatable."),
]
Seed = Annotated[
    int | None,
    typer.Option("-s", "--seed", metavar="N", envvar="KVTOOL_SEED", help="Seed of everything random. [default: 0]"),
]
Offline = Annotated[bool, typer.Option("--offline", envvar="KVTOOL_OFFLINE", help="Never use the network.")]
Replicas = Annotated[
    int | None,
    typer.Option(
        "--replicas",
        metavar="N",
        envvar="KVTOOL_REPLICAS",
        help="Engines behind a router, each with a cache of its own.",
    ),
]
RoutingOption = Annotated[
    RoutingName | None,
    typer.Option(
        "--routing", envvar="KVTOOL_ROUTING", help="How requests are given to replicas. [default: round-robin]"
    ),
]
Ttl = Annotated[
    str | None,
    typer.Option(
        "--ttl",
        metavar="TIME",
        envvar="KVTOOL_TTL",
        help="A block not used for longer is gone: 5m, 1h. Needs arrivals.",
    ),
]
ProviderName = Annotated[
    str | None,
    typer.Option(
        "--provider",
        metavar="NAME",
        envvar="KVTOOL_PROVIDER",
        help="Cache rules of openai, anthropic, gemini, deepseek and others.",
    ),
]
Boundaries = Annotated[
    bool, typer.Option("--boundaries", help="Hits by block size, and the smallest edit that gains a block.")
]
SumsBy = Annotated[
    ByName | None, typer.Option("--by", help="Also sum where tokens went by session, tenant or line of source.")
]
