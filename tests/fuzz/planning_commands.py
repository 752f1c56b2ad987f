"""The command lines that plan fleets, write block traces, price, and reconcile what a server did."""

from __future__ import annotations

import random

from kvtool.engine.fleet.routers.known_routers import ROUTERS
from tests.fuzz.commands import ON, RUN, TOKENS
from tests.fuzz.mutators import NUMBERS, TEXTS

MODEL = ("--model", "llama-3.1-8b")
"""The logs name models that are unknown: then there are neither times nor sizes."""
PLAN = ("what-if", "l.jsonl", "-n", "8", *MODEL, *TOKENS, *ON)
_SWEEP = (*PLAN, "--sweep")
WHAT_IF = (
    (*PLAN, "--no-advice"),
    PLAN,
    (*PLAN, "--fixed", "all", "--on-bad-line", "skip"),
    (*PLAN, "--slo", "ttft=2s,tpot=50ms", "--use-timestamps", "--speedup", "10", "--no-advice"),
    (*_SWEEP, "capacity", "--sample", "0.5"),
    (*_SWEEP, "policy", "--capacity", "12"),
    (*_SWEEP, "ttl", "--ttls", "1s,5m"),
    (*_SWEEP, "block-size"),
    (*_SWEEP, "tier", "--capacity", "12", "--host-memory", "1x,100", "--disk-memory", "1000", "--jobs", "1"),
    (*_SWEEP, "routing", "--replicas", "2", "--router-view", "routed", "--jobs", "1"),
    (*_SWEEP, "replicas", "--replicas", "1..3", "--slo", "ttft=1s", "--jobs", "1"),
    (*_SWEEP, "pd", "--replicas", "3", "--link-bandwidth", "10GB/s", "--jobs", "1"),
    ("compare-engines", "l.jsonl", "-n", "8", *TOKENS, *ON, "--capacity", "100"),
    ("logs", "l.jsonl", "--per-request", "--json", "--show-text", "full"),
    ("logs", "l.jsonl", "--on-bad-line", "skip"),
)
TRACING = (
    ("trace", "l.jsonl", "-o", "t", *TOKENS, *ON),
    ("trace", "l.jsonl", "-o", "t", *TOKENS, *ON, "--on-bad-line", "skip", "--jobs", "1"),
    ("trace", "l.jsonl", "-o", "x.jsonl", "--export", "mooncake", *TOKENS, *ON),
    ("trace", "l.jsonl", "-o", "x.jsonl", "--export", "bailian", "--on-bad-line", "skip", *TOKENS, *ON),
)
FORMATS_READ = (
    ("profile", "l.jsonl", *RUN, "--no-advice"),
    ("profile", "l.jsonl", *RUN, "--on-bad-line", "skip", "--per-request"),
    ("profile", "l.jsonl", *RUN, "--no-advice", "--on-bad-line", "skip", "--provider", "anthropic"),
    ("logs", "l.jsonl", "--requests", "--json", "--show-text", "full", "--on-bad-line", "skip"),
    ("logs", "l.jsonl"),
    ("trace", "l.jsonl", "-o", "t", *TOKENS, *ON, "--on-bad-line", "skip"),
    ("what-if", "l.jsonl", "--no-advice", "--on-bad-line", "skip", "-n", "8", *TOKENS, *ON),
    ("lint", "l.jsonl", "-n", "8", *TOKENS, *ON),
    ("diff-prompts", "l.jsonl:1", "l.jsonl:2", *TOKENS, "--offline"),
)
BLOCKS = (
    ("profile", "t/l.jsonl.parquet", "--dry-run", "--no-advice", *ON),
    ("profile", "t", "--dry-run", "--no-advice", *ON, "--use-timestamps", "--capacity", "60"),
    ("what-if", "t", *ON),
    ("compare-engines", "t", *ON),
    ("what-if", "t", *ON, "--sweep", "routing", "--replicas", "2", "--jobs", "1"),
    ("trace", "t", "-o", "x.jsonl", "--export", "mooncake", *ON),
    ("logs", "t/l.jsonl.parquet"),
)
COLUMNS = (
    ("profile", "l.parquet", *RUN, "--no-advice", "--on-bad-line", "skip"),
    ("logs", "l.parquet", "--requests", "--json"),
)
PLANS = (
    ("report", "r.json", "-o", "o.html"),
    ("report", "r.json", "-o", "o.md"),
    ("report", "r.json", "-o", "o.csv", "--plain"),
    ("report", "r.json", "-o", "o.json", "--details"),
)
PRICED = (
    ("prices", "--prices", "p.json"),
    ("prices", "gpt-4o", "--prices", "p.json", "--on", "2026-08-22"),
    ("profile", "l.jsonl", *RUN, "--no-advice", "--provider", "openai", "--prices", "p.json"),
)
SESSION = (
    ("replay", "--recorded", "rec", *TOKENS, *ON),
    ("replay", "--recorded", "rec", *TOKENS, *ON),
    ("replay", "--recorded", "rec", *TOKENS, *ON, "--on-bad-line", "skip"),
    ("profile", "rec/requests.jsonl.gz", *RUN, "--no-advice", "--kv-events", "rec"),
    ("watch", "rec/metrics_after.txt", "--count", "1"),
    ("why", "--recorded", "rec", *TOKENS, "-q"),
    ("why", "--recorded", "rec", *TOKENS, "--json"),
)
METRICS = (
    ("watch", "m.txt"),
    ("watch", "m.txt", "--count", "1", "--json"),
    ("why", "m.txt", "m.txt", "--json"),
    ("why", "m.txt", "-q"),
)
EVENTS = (
    ("profile", "w.yaml", *RUN, "--no-advice", "--kv-events", "k.jsonl"),
    ("profile", "w.yaml", *RUN, "--no-advice", "--kv-events", "k.jsonl", "--json"),
)
LINT_DATA = (
    ("lint", ".", *TOKENS, *ON, "--no-cache"),
    ("lint", ".", *TOKENS, *ON, "--no-cache", "--fix", "--unsafe-fixes", "--undo", "u.patch"),
    ("lint", ".", *TOKENS, *ON, "--error-on", "info", "--no-cache", "--jobs", "1"),
)
_SETTINGS = ("decay", "overlap_weight", "temperature", "balance_abs_threshold", "vnodes", "x", "")
_FLAGS: dict[str, tuple[str, ...]] = {
    "--sweep": ("capacity", "policy", "ttl", "block-size", "tier", "routing", "replicas", "pd"),
    "--capacities": ("1", "1,2,30", "0"),
    "--policies": ("lru,opt", "lfu", "x"),
    "--ttls": ("1s", "0s,1h"),
    "--block-sizes": ("16,32", "1"),
    "--sample": ("0.01", "1"),
    "--routing": (*ROUTERS, ",".join(ROUTERS), "all"),
    "--replicas": ("1", "2", "1..4", "100"),
    "--router-view": ("events", "routed"),
    "--host-memory": ("1x", "10", "1GiB", "0"),
    "--host-bandwidth": ("14GB/s", "1B/s"),
    "--disk-memory": ("100", "2x"),
    "--disk-bandwidth": ("7GB/s",),
    "--tier-latency": ("1ms", "1h"),
    "--tier-rules": ("vllm", "sglang", "dynamo"),
    "--tier-loads": ("always", "cheaper"),
    "--link-bandwidth": ("50GB/s", "1B/s"),
    "--link-latency": ("1ms", "1d"),
    "--slo": ("ttft=2s", "ttft=1ms,tpot=1ms,share=99%", "share=0%"),
    "--speedup": ("10", "0.001", "1e9"),
    "--capacity": ("20", "400 tokens", "1GiB"),
    "-b": ("512", "16", "1"),
    "--rules": ("sglang", "vllm", "trtllm", "llamacpp", "all"),
    "--gpu-memory": ("80GiB",),
    "--tensor-parallel": ("2", "8"),
    "--model": ("llama-3.1-8b", "deepseek-v3"),
    "--accelerator": ("h100", "a100-80gb"),
    "--fixed": ("all", "x"),
    "--max-num-seqs": ("1", "2"),
    "--max-num-batched-tokens": ("64", "1024"),
}


def wild_plan(rng: random.Random) -> tuple[str, ...]:
    """`what-if` with one to four flags, a third of them with values that nobody meant."""
    arguments = ["what-if", rng.choice(("l.jsonl", "m.jsonl", "w.yaml")), *TOKENS, *ON, "-n", "12", "--jobs", "1"]
    for _ in range(rng.randint(1, 4)):
        flag = rng.choice(list(_FLAGS))
        arguments += [flag, _value(rng, flag)]
    return tuple(arguments)


def _value(rng: random.Random, flag: str) -> str:
    if rng.random() < 0.7:
        value = rng.choice(_FLAGS[flag])
        if flag == "--routing" and rng.random() < 0.4:
            value += f":{rng.choice(_SETTINGS)}={rng.choice(NUMBERS[:16])}"
        return value
    return str(rng.choice((*TEXTS, *NUMBERS))).replace("\0", "0").encode("utf-8", "replace").decode()
