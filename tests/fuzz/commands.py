"""The command lines that inputs go through, and the outputs that they write."""

from __future__ import annotations

import random

from tests.fuzz.mutators import NUMBERS, TEXTS

BYTES = "bytes.json"
"""The tokenizer of all that need none of their own: a token for each byte."""
ON = ("--offline", "-q")
TOKENS = ("-t", BYTES)


OUTPUTS = (
    "o.json",
    "o.md",
    "o.xml",
    "o.sarif",
    "o.html",
    "o.svg",
    "o.txt",
    "e.jsonl",
    "m.prom",
    "u.patch",
    "base.json",
    "n.jsonl",
    "o.csv",
    "x.jsonl",
    "t/l.jsonl.parquet",
)
_FORMATS: tuple[tuple[str, ...], ...] = (
    (),
    (),
    (),
    (),
    ("--json",),
    ("--json",),
    ("-o", "o.html"),
    ("-o", "o.md"),
    ("-o", "o.xml"),
    ("-o", "o.sarif"),
    ("-o", "o.svg"),
    ("-o", "o.json"),
    ("-o", "o.txt"),
    ("-o", "github"),
    ("-o", "gitlab=o.json"),
    ("--plain",),
    ("--width", "20"),
    ("--color", "never", "--show-text", "full"),
)
_ONLY_FINDINGS = {"o.xml", "o.sarif", "github", "gitlab=o.json", "--show-text"}
RUN = ("--dry-run", "-n", "8", *TOKENS, *ON)
WORKLOAD = (
    ("profile", "w.yaml", *RUN, "--no-advice"),
    ("profile", "w.yaml", *RUN, "--no-advice"),
    ("profile", "w.yaml", *RUN, "--no-advice", "--events", "e.jsonl", "--metrics", "m.prom", "--per-request"),
    ("profile", "w.yaml", *RUN, "--by", "line", "--boundaries"),
    ("lint", "w.yaml", "-n", "8", *TOKENS, *ON),
    ("lint", "w.yaml", "-n", "8", *TOKENS, *ON, "--fix", "--unsafe-fixes", "--undo", "u.patch"),
    ("check", "w.yaml", "-n", "8", *TOKENS, *ON, "--no-advice"),
    ("check", "w.yaml", "-n", "8", *TOKENS, *ON, "--no-advice", "--baseline", "base.json", "--update-baseline"),
    ("optimize", "w.yaml", "-n", "8", *TOKENS, *ON, "--unsafe-fixes", "--write", "--undo", "u.patch"),
    ("config", "w.yaml"),
    ("config", "w.yaml", "--json"),
)
LOG = (
    ("profile", "l.jsonl", *RUN, "--no-advice"),
    ("profile", "l.jsonl", *RUN, "--no-advice", "--on-bad-line", "skip"),
    ("profile", "l.jsonl", *RUN, "--on-bad-line", "skip", "--use-timestamps", "--per-request", "--events", "e.jsonl"),
    ("profile", "l.jsonl", *RUN, "--no-advice", "--capacity", "60", "--concurrency", "2"),
    ("profile", "l.jsonl", *RUN, "--no-advice", "--rules", "block-lru", "--capacity", "40"),
    ("profile", "l.jsonl", *RUN, "--no-advice", "--replicas", "2", "--routing", "prefix-aware"),
    ("lint", "l.jsonl", "-n", "8", *TOKENS, *ON),
    ("optimize", "l.jsonl", "-n", "8", *TOKENS, *ON, "--capacity", "60", "-o", "n.jsonl"),
    ("diff-prompts", "l.jsonl:1", "l.jsonl:2", *TOKENS, "--offline"),
)
TRACE = (*LOG[:6], ("profile", "l.jsonl", *RUN, "--no-advice", "--trace-block-size", "512", "--use-timestamps"))
TOKENIZER = (
    ("profile", "l.jsonl", "--dry-run", "--no-advice", "-n", "3", "-t", "m", *ON),
    ("diff-prompts", "a.txt", "b.txt", "-t", "m", "--offline", "--tokens"),
)
TEMPLATE = (
    ("profile", "l.jsonl", *RUN, "--no-advice", "--chat-template", "t.jinja"),
    ("profile", "l.jsonl", *RUN, "--no-advice", "--chat-template", "t.jinja"),
    ("profile", "l.jsonl", *RUN, "--chat-template", "t.jinja"),
    ("lint", "t.jinja", *TOKENS, *ON),
    ("lint", "l.jsonl", *TOKENS, *ON, "--chat-template", "t.jinja"),
    ("diff-prompts", "l.jsonl:1", "l.jsonl:2", *TOKENS, "--chat-template", "t.jinja", "--offline"),
)
PROMPT = (
    ("diff-prompts", "a.txt", "b.txt", *TOKENS, "--offline"),
    ("diff-prompts", "a.txt", "b.txt", "c.md", *TOKENS, "--offline", "--tokens"),
    ("lint", "b.txt", *TOKENS, *ON),
    ("lint", "c.md", "d.j2", *TOKENS, *ON),
    ("lint", "d.j2", *TOKENS, *ON, "--fix", "--unsafe-fixes", "--undo", "u.patch"),
    ("profile", "a.txt", "b.txt", "c.md", "--dry-run", "--no-advice", *TOKENS, *ON),
    ("check", "a.txt", "b.txt", *TOKENS, *ON, "--no-advice"),
    ("init", ".", "--dry-run", *TOKENS, *ON),
)
PYTHON = (
    ("lint", "p.py", *TOKENS, *ON),
    ("lint", "p.py", *TOKENS, *ON, "--error-on", "info"),
    ("check", "p.py", *TOKENS, *ON),
)
CONFIG = (
    ("check", *TOKENS, *ON),
    ("lint", *TOKENS, *ON),
    ("config",),
    ("config", "w.yaml", "--json"),
    ("profile", "w.yaml", *RUN, "--no-advice"),
)
RESULT = (
    ("report", "r.json"),
    ("report", "r.json", "--boundaries"),
    ("compare", "r.json", "s.json"),
    ("compare", "s.json", "r.json", "--exit-code"),
)
BASELINE = (
    ("check", "w.yaml", *TOKENS, *ON, "--no-advice", "--baseline", "b.json"),
    ("check", "w.yaml", *TOKENS, *ON, "--no-advice", "--baseline", "b.json", "--require-baseline"),
    ("profile", "w.yaml", *RUN, "--no-advice", "--baseline", "b.json"),
)
REWRITE = (
    ("lint", "d.j2", *TOKENS, *ON, "--fix", "--unsafe-fixes", "--undo", "u.patch"),
    ("optimize", "w.yaml", "-n", "8", *TOKENS, *ON, "--unsafe-fixes", "--write", "--undo", "u.patch"),
)
MODEL = (
    ("size", "m.json"),
    ("size", "--model-config", "m.json", "--json"),
    ("size", "m.json", "--kv-cache-dtype", "fp8", "--tensor-parallel", "2", "--max-model-len", "5000"),
    ("profile", "w.yaml", *RUN, "--no-advice", "--model-config", "m.json"),
    (
        "what-if",
        "w.yaml",
        "-n",
        "8",
        *TOKENS,
        *ON,
        "--no-advice",
        "--model-config",
        "m.json",
        "--gpu-memory",
        "9000GiB",
    ),
    ("compare-engines", "w.yaml", "-n", "8", *TOKENS, *ON, "--model-config", "m.json"),
)
_FLAGS: dict[str, tuple[str, ...]] = {
    "--capacity": ("60", "400 tokens", "1GiB"),
    "--block-size": ("1", "8", "100"),
    "--model": ("llama-3.1-8b", "x"),
    "--accelerator": ("a100-80gb",),
    "--gpu-memory": ("80GiB", "24GiB"),
    "--gpu-memory-utilization": ("0.5", "1"),
    "--max-model-len": ("100", "3000"),
    "--max-num-batched-tokens": ("1", "64"),
    "--max-num-seqs": ("1", "2"),
    "--kv-cache-dtype": ("fp8_e4m3", "int8"),
    "--tensor-parallel": ("2", "8"),
    "--concurrency": ("1", "3"),
    "--replicas": ("1", "2", "100"),
    "--routing": ("sticky", "random"),
    "--ttl": ("1s", "1h"),
    "--provider": ("openai", "anthropic"),
    "--rules": ("vllm", "block-lru"),
    "--trace-block-size": ("512", "500"),
    "--on-bad-line": ("skip",),
    "--format": ("text", "chat", "mooncake"),
    "-n": ("1", "3"),
    "-g": ("g", "x"),
    "-s": ("1", "99"),
    "--by": ("session", "tenant", "line"),
    "--show-text": ("none", "full"),
    "--width": ("20", "9999"),
    "--color": ("always", "never"),
    "--min-hit-rate": ("0", "1"),
    "--baseline": ("base.json", "w.yaml"),
    "--max-drop": ("1%", "0"),
    "-c": ("w.yaml", "x.toml"),
    "--calibration": ("w.yaml",),
    "--chat-template": ("a.txt",),
    "--hash-algo": ("sha256", "xxhash_cbor"),
    "--decode-batch": ("1", "64"),
    "-o": ("o.json", "o.html", "github"),
    "-t": (BYTES, "a.txt"),
}


def with_output(rng: random.Random, command: tuple[str, ...]) -> tuple[str, ...]:
    """A command line with an output, or with options that nobody meant."""
    name = command[0]
    if name in ("config", "init", "case.json", "size") or (name == "report" and "-o" in command):
        return command
    formats = _FORMATS
    beside_server = name == "compare" and "m.txt" in command
    if beside_server or name in ("trace", "prices", "watch", "why", "logs", "replay"):
        return (*command, *rng.choice(((), (), ("--json",), ("--plain",), ("--width", "20"))))
    if name in ("what-if", "compare-engines"):
        formats = tuple(each for each in _FORMATS if not _ONLY_FINDINGS & set(each))
    if name in ("optimize", "diff-prompts"):
        formats = tuple(each for each in _FORMATS if "-o" not in each and "--show-text" not in each)
    elif name == "compare":
        formats = tuple(each for each in _FORMATS if not {"o.xml", "o.sarif", "github", "gitlab=o.json"} & set(each))
    return (*command, *rng.choice(formats))


def wild(rng: random.Random) -> tuple[str, ...]:
    """A command with one to three flags, half of them with values that nobody meant."""
    command, *inputs = rng.choice(_WILD)
    arguments = [command, *inputs, *TOKENS] if inputs else [command]
    if rng.random() < 0.1:
        arguments.append(argument(rng.choice(TEXTS)))
    for _ in range(rng.randint(1, 3)):
        flag = rng.choice(list(_FLAGS))
        meant = rng.random() < 0.6
        arguments += [flag, rng.choice(_FLAGS[flag]) if meant else argument(str(rng.choice((*TEXTS, *NUMBERS))))]
    if command == "profile":
        arguments.append("--dry-run")
    return tuple(arguments)


_WILD = (
    ("profile", "w.yaml"),
    ("profile", "w.yaml"),
    ("profile", "w.yaml"),
    ("profile", "trace.jsonl"),
    ("profile", "trace.jsonl"),
    ("lint", "w.yaml"),
    ("check", "w.yaml"),
    ("optimize", "w.yaml"),
    ("diff-prompts", "a.txt", "b.txt"),
    ("size",),
    ("logs", "trace.jsonl"),
    ("config",),
    ("explain",),
    ("schema",),
)


def argument(text: str) -> str:
    """What an operating system lets through, and no file that has no end."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\\0").replace("/dev/zero", "x")
