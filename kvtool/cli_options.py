"""Options that several commands share, as types for their signatures."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

ColorMode = Literal["auto", "always", "never"]
RulesName = Literal["vllm", "block-lru"]
BadLineMode = Literal["error", "skip"]
ShowText = Literal["none", "snippet"]
DecodeAttention = Literal["flat", "prefix-aware", "auto"]
RoutingName = Literal["round-robin", "random", "sticky", "prefix-aware"]
ByName = Literal["session", "tenant", "line"]
HashName = Literal["native", "sha256_cbor", "xxhash_cbor"]

Color = Annotated[ColorMode, typer.Option("--color", help="Colour: on a terminal only, always, or never.")]
Width = Annotated[
    int | None, typer.Option("--width", min=20, help="Columns of the report; else those of the terminal.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document instead of the report.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No progress.")]
TokenizerName = Annotated[
    str | None,
    typer.Option("-t", "--tokenizer", metavar="NAME", help="tokenizer.json, folder or HF id; default: built in."),
]
ChatTemplateFile = Annotated[
    str | None, typer.Option("--chat-template", metavar="FILE", help="Jinja chat template; default: the tokenizer's.")
]
BlockSize = Annotated[
    int | None, typer.Option("-b", "--block-size", metavar="N", help="Tokens per KV block. [default: 16]")
]
Capacity = Annotated[
    str | None,
    typer.Option(
        "--capacity",
        metavar="SIZE",
        help="KV cache: 20000 (blocks), '320k tokens' or 20GiB in all. [default: unlimited]",
    ),
]
KvCacheDtype = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Of the KV cache: auto, fp16, bf16, fp8_e4m3, fp8_e5m2, int8. [default: auto]"),
]
TensorParallel = Annotated[
    int | None, typer.Option("--tensor-parallel", metavar="N", help="Accelerators that share the model. [default: 1]")
]
BadLine = Annotated[BadLineMode, typer.Option(help="Stop at a bad line of a log, or skip and count.")]
LogFormat = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="Format of logs; default: found out per record."),
]
Requests = Annotated[int | None, typer.Option("-n", "--requests", metavar="N", help="Only the first N requests.")]
Groups = Annotated[
    list[str] | None,
    typer.Option("-g", "--group", metavar="NAME", help="Only this group of the workload; repeatable."),
]
Seed = Annotated[int | None, typer.Option("-s", "--seed", metavar="N", help="Seed of everything random. [default: 0]")]
Offline = Annotated[bool, typer.Option("--offline", help="Never use the network.")]
Replicas = Annotated[
    int | None, typer.Option("--replicas", metavar="N", help="Engines behind a router, each with a cache of its own.")
]
RoutingOption = Annotated[
    RoutingName | None, typer.Option("--routing", help="How requests are given to replicas. [default: round-robin]")
]
Ttl = Annotated[
    str | None,
    typer.Option("--ttl", metavar="TIME", help="A block not used for longer is gone: 5m, 1h. Needs arrivals."),
]
ProviderName = Annotated[
    str | None,
    typer.Option("--provider", metavar="NAME", help="Cache rules of openai, anthropic, gemini, deepseek and others."),
]
Boundaries = Annotated[
    bool, typer.Option("--boundaries", help="Hits by block size, and the smallest edit that gains a block.")
]
SumsBy = Annotated[
    ByName | None, typer.Option("--by", help="Also sum where tokens went by session, tenant or line of source.")
]
