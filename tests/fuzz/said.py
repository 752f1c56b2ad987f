"""What commands say of the same inputs, as JSON: python -m tests.fuzz.said FOLDER. Its surroundings must not show in it."""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path

from tests.fuzz import corpus

_COMMON = ("-t", "bytes.json", "--offline", "-q")
LINES = (
    ("profile", "w.yaml", "--dry-run", "--json", "--per-request", "--boundaries", "--by", "line", *_COMMON),
    ("profile", "parts.yaml", "--dry-run", "--json", *_COMMON),
    ("profile", "talk.yaml", "--dry-run", "--json", "--async-scheduling", *_COMMON),
    (
        "profile",
        "openai.jsonl",
        "calls.jsonl",
        "--dry-run",
        "--json",
        "--concurrency",
        "2",
        "--capacity",
        "100",
        *_COMMON,
    ),
    ("profile", "mooncake.jsonl", "--dry-run", "--json", *_COMMON),
    (
        "profile",
        "w.yaml",
        "--dry-run",
        "--events",
        "events.jsonl",
        "-o",
        "o.html",
        "-o",
        "o.sarif",
        "-o",
        "o.md",
        *_COMMON,
    ),
    ("lint", "p.py", "f.j2", "w.yaml", "--json", *_COMMON),
    ("check", "w.yaml", "f.j2", "--json", "--update-baseline", "--baseline", "base.json", *_COMMON),
    ("optimize", "w.yaml", "--unsafe-fixes", "--json", *_COMMON),
    ("diff-prompts", "openai.jsonl:1", "openai.jsonl:2", "calls.jsonl:1:1", "--json", "-t", "bytes.json", "--offline"),
    ("what-if", "openai.jsonl", "calls.jsonl", "--json", "--capacity", "2000", "--jobs", "1", *_COMMON),
    ("what-if", "openai.jsonl", "calls.jsonl", "--json", "--capacity", "2000", "--jobs", "2", *_COMMON),
    ("what-if", "mooncake.jsonl", "--json", "--sweep", "routing", "--replicas", "3", "--jobs", "1", *_COMMON),
    ("what-if", "mooncake.jsonl", "--json", "--sweep", "routing", "--replicas", "3", "--jobs", "2", *_COMMON),
    ("what-if", "mooncake.jsonl", "--sweep", "capacity", "-o", "plan.html", "-o", "plan.svg", *_COMMON),
    ("compare-engines", "openai.jsonl", "--json", "--jobs", "1", *_COMMON),
    ("trace", "openai.jsonl", "--export", "mooncake", "-o", "x.jsonl", *_COMMON),
    ("trace", "openai.jsonl", "--export", "bailian", "-o", "y.jsonl", *_COMMON),
    ("lint", "p.py", "f.j2", "w.yaml", "--json", "--no-cache", "--jobs", "2", *_COMMON),
    ("diff-prompts", "openai.jsonl:1", "openai.jsonl:2", "openai.jsonl:3", "--json", "-t", "bytes.json", "--offline"),
    ("config", "w.yaml", "--json"),
    ("size", "llama-3.1-8b", "--json"),
)
WRITTEN = ("events.jsonl", "o.html", "o.sarif", "o.md", "base.json", "plan.html", "plan.svg", "x.jsonl", "y.jsonl")


def prepare(folder: Path, tokenizer: str) -> None:
    """Write the inputs."""
    files = {
        "bytes.json": tokenizer,
        "w.yaml": corpus.WORKLOADS[0],
        "talk.yaml": corpus.WORKLOADS[1],
        "parts.yaml": corpus.WORKLOADS[2],
        "rules.md": corpus.RULES,
        "f.j2": corpus.FIXABLE,
        "p.py": corpus.PYTHON[0],
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name, data in (corpus.LOGS | corpus.TRACES).items():
        (folder / f"{name}.jsonl").write_bytes(data)
    (folder / "log.jsonl").write_bytes(corpus.LOGS["prompt"])
    (folder / ".git").mkdir()


def said() -> dict[str, str]:
    """Of the inputs in the working folder: what each command prints, and what the files hold."""
    from kvtool.cli.app import run

    found: dict[str, str] = {}
    for line in LINES:
        out = io.StringIO()
        with redirect_stdout(out):
            code = run(line)
        found[" ".join(line)] = f"{code}\n{out.getvalue()}"
    return found | {name: Path(name).read_text(encoding="utf-8") for name in WRITTEN}


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    sys.stdout.buffer.write(json.dumps(said()).encode())
