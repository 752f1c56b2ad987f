"""More kinds: prompts of more frameworks, payloads of events, scrapes beside results, columns of any type, fields, all flags."""

from __future__ import annotations

import base64
import gzip
import io
import json
import random
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Literal, get_args, get_origin

import msgspec

from kvtool.cli.listed import COMMANDS
from kvtool.config.option import Option, walk
from tests.fuzz import corpus, words
from tests.fuzz.commands import ON, RUN, TOKENS, argument
from tests.fuzz.kinds import Files, Kind, Prepare
from tests.fuzz.mutators import (
    NUMBERS,
    TEXTS,
    Mutator,
    change_bytes,
    change_json,
    change_lines,
    change_record,
    change_value,
    one_of,
    words_from,
)
from tests.fuzz.planning_commands import LINT_DATA

_RULES = f"{corpus.SYSTEM} Never promise what the terms do not say. " * 3
_ASKED = {"messages": [{"role": "system", "content": "Now {{now}}. RULES"}], "prompt": {"template": "{q}"}}
PROMPT_FILES = {
    name: text.replace("RULES", _RULES)
    for name, text in {
        "p.prompt": '---\nmodel: m\ninput:\n  schema:\n    now: string\n---\n{{role "system"}}\nNow {{now}}. RULES\n{{q}}\n',
        "p.mustache": "Now {{now}}. RULES{{#docs}}{{title}}{{/docs}}{{{q}}}{{! note }}{{>part}}{{=<% %>=}}<% x %>\n",
        "p.hbs": "Now {{now}}. RULES{{#each docs}}{{this.title}}{{/each}}{{#if x}}a{{else}}b{{/if}}\n",
        "skprompt.txt": "Now {{$now}}. RULES\n{{$input}} {{time.now}}\n",
        "p.json": json.dumps(_ASKED),
    }.items()
}
_FIELDS = (
    "messages=a.b",
    "messages=a.b,session=s,usage=u",
    "prompt=a.p,time=t",
    "messages=$.a['b']",
    "messages=a.b[0]",
)
_ODD_FIELDS = (
    "=", "messages=", ",", "x=y", "messages=$..*", "messages=[[[", "messages=a.b,messages=a.p", "messages=" + "a." * 3000 + "b",
    "prompt=a,usage=u", "messages=\x1b[31m",
)  # fmt: skip
_SAMPLES = (
    "NaN",
    "+Inf",
    "-1",
    "1e308",
    "1e-320",
    "9" * 400,
    "0x10",
    "1_0",
    "",
    "18446744073709551616",
    "1 2 3",
    "1 # {}",
)
_METRICS = (
    ("watch", "m.txt", "--count", "1"),
    ("watch", "m.txt", "--count", "1", "--json"),
    ("why", "m.txt", "--router-block-size", "64", "--json"),
    ("compare", "m.txt", "r.json", "--exit-code"),
    ("compare", "m.txt", "r.json", "--before", "rec/metrics_before.txt", "--json"),
)
_PAYLOADS = (
    ("replay", "--recorded", "rec", *TOKENS, *ON),
    ("why", "--recorded", "rec", *TOKENS, "--json"),
    ("profile", "rec/requests.jsonl.gz", *RUN, "--no-advice", "--kv-events", "rec"),
)
_COLUMNS = (
    ("profile", "l.parquet", *RUN, "--no-advice", "--on-bad-line", "skip"),
    ("logs", "l.parquet", "--requests", "--json", "--on-bad-line", "skip"),
)
_RECORDS = one_of((7, change_record), (2, change_bytes), (1, change_lines))


def document_kinds(made: Mapping[str, bytes]) -> list[Kind]:
    """The kinds. `made` has by name what commands wrote, `session/…` the files of a recording."""
    session = {
        f"rec/{name.removeprefix('session/')}": data for name, data in made.items() if name.startswith("session/")
    }
    scrape = {"m.txt": session["rec/metrics_after.txt"], "r.json": made["report"]}
    kinds = [
        Kind("prompt-files", _prompt_files, _change_prompt, LINT_DATA, share=3),
        Kind("payload", _files(session, "rec/kv_events.jsonl.gz"), one_of((1, _change_payload)), _PAYLOADS, share=2),
        Kind("scrape", _files(session | scrape, "m.txt"), one_of((1, _change_sample)), _METRICS, share=2),
        Kind("fields", _fields, change_bytes, (), wild=_ask_for_fields, share=2),
        Kind("flags", _any_input(made), change_bytes, (), wild=_any_flags, share=6),
    ]
    if find_spec("pyarrow") is not None:
        kinds.append(
            Kind("any-columns", _any_columns, change_bytes, (), wild=lambda rng: rng.choice(_COLUMNS), share=2)
        )
    return kinds


# What is there


def _files(files: Mapping[str, bytes], changed: str) -> Prepare:
    return lambda _: (dict(files), (changed,))


def _prompt_files(rng: random.Random) -> tuple[Files, tuple[str, ...]]:
    name = rng.choice(list(PROMPT_FILES))
    return {name: PROMPT_FILES[name].encode(), "p.j2": corpus.FIXABLE.encode()}, (name,)


def _fields(rng: random.Random) -> tuple[Files, tuple[str, ...]]:
    """Records of no known format, one of them changed."""
    asked = [{"role": "user", "content": _RULES}]
    rows: list[Any] = [
        {"a": {"b": asked, "p": f"{number} {_RULES}"}, "s": number % 2, "t": number, "u": {"prompt_tokens": 30}}
        for number in range(4)
    ]
    rows[1] = change_value(rng, rows[1])
    return {"l.jsonl": "".join(f"{json.dumps(row)}\n" for row in rows).encode()}, ()


def _any_input(made: Mapping[str, bytes]) -> Prepare:
    files = {
        "w.yaml": corpus.SMALL_WORKLOAD.encode(),
        "l.jsonl": corpus.LOGS["openai"],
        "m.jsonl": corpus.TRACES["mooncake"],
        "m.txt": made["session/metrics_after.txt"],
        "r.json": made["report"],
        "a.txt": b"one",
        "b.txt": b"two",
    }
    return lambda _: (dict(files), ())


def _any_columns(rng: random.Random) -> tuple[Files, tuple[str, ...]]:
    """A table whose columns have any type under names that mean something."""
    import pyarrow as pa
    from pyarrow import parquet

    asked = [{"role": "user", "content": _RULES}]
    cells: tuple[list[Any], ...] = (
        [asked] * 3, [_RULES, None, "c"], [1, 2, 3], [b"\xff", b"a", None], [None] * 3, [0.5, float("nan"), float("inf")],
        [{"a": 1}, None, {"a": 2}], [[1, 2]] * 3, ["\x1b[31m", json.dumps(asked), "\u202e"], [True, False, None], [[], None, [[]]],
    )  # fmt: skip
    names = rng.sample(("timestamp", "session_id", "model", "usage", "cost", "prompt_tokens"), 3)
    columns = {name: rng.choice(cells) for name in (*names, rng.choice(("messages", "prompt")))}
    out = io.BytesIO()
    parquet.write_table(pa.table(columns), out, compression=rng.choice(("none", "snappy", "zstd", "gzip")))
    return {"l.parquet": out.getvalue()}, ()


# How it is changed


def _change_prompt(rng: random.Random, data: bytes) -> bytes:
    changes: list[tuple[int, Mutator]] = [
        (3, words_from(words.JINJA + words.TEXT)),
        (2, change_lines),
        (1, change_bytes),
    ]
    return one_of(*changes, *([(6, change_json)] if data[:1] == b"{" else []))(rng, data)


def _change_payload(rng: random.Random, data: bytes) -> bytes:
    """What one message of a recording holds: msgpack in base64."""
    lines = gzip.decompress(data).split(b"\n")
    at = rng.randrange(len(lines) - 1)
    message = json.loads(lines[at])
    payload = base64.b64decode(message["payload_b64"])
    if rng.random() < 0.3:
        payload = change_bytes(rng, payload)
    else:
        plain = json.loads(json.dumps(msgspec.msgpack.decode(payload), default=list))  # hashes are bytes
        payload = msgspec.msgpack.encode(change_value(rng, plain))
    lines[at] = json.dumps(message | {"payload_b64": base64.b64encode(payload).decode()}).encode()
    return gzip.compress(b"\n".join(lines), mtime=0)


def _change_sample(rng: random.Random, data: bytes) -> bytes:
    """Values of a scrape, and of labels; seldom anything else."""
    if rng.random() < 0.3:
        return one_of((2, words_from(words.TEXT)), (2, change_bytes), (1, change_lines))(rng, data)
    lines = data.decode().split("\n")
    for at in rng.choices(
        [at for at, line in enumerate(lines) if line[:1] not in ("", "#")], k=rng.choice((1, 1, 3, 9))
    ):
        head = lines[at].rpartition(" ")[0]
        name, brace, labels = head.partition("{")
        if brace and rng.random() < 0.3:
            head = f'{name}{{{labels.partition("=")[0]}="{rng.choice(TEXTS)}"}}'
        lines[at] = f"{head} {rng.choice(_SAMPLES)}"
    return "\n".join(lines).encode("utf-8", "surrogatepass")


# Command lines


def _ask_for_fields(rng: random.Random) -> tuple[str, ...]:
    fields = rng.choice((*_FIELDS, *_FIELDS, *_ODD_FIELDS))
    if rng.random() < 0.3:
        fields = argument(change_bytes(rng, fields.encode()).decode("utf-8", "replace"))
    flag = rng.choice(("--map", "--map", "--map", "--group-by", "--tenant", "--format"))
    asked = () if flag == "--map" else ("--map", "messages=a.b")
    profile = ("profile", "l.jsonl", *RUN, "--no-advice")
    read = profile if flag == "--group-by" else rng.choice((("logs", "l.jsonl"), profile))
    return (*read, *asked, f"{flag}={fields}")


def _any_flags(rng: random.Random) -> tuple[str, ...]:
    """A command with any of its flags, with values of other flags or such that nobody meant."""
    name, inputs = rng.choice(_INPUTS)
    command = next(each for each in COMMANDS if each.name == name).load()
    flags = [each for each in walk(command) if isinstance(each.mark, Option) and each.mark.flag is not None]
    arguments = [name, *inputs]
    for each in rng.sample(flags, min(len(flags), rng.choice((1, 1, 2, 3)))):
        assert isinstance(each.mark, Option)
        flag = each.mark.flags(each.name)[-1]
        if "/" in flag or each.kind is bool:
            arguments.append(flag.partition("/")[0])
        elif each.name not in _ENDLESS:
            values = _meant(each.kind) if rng.random() < 0.7 else (*_VALUES, *TEXTS, *NUMBERS)
            arguments += [flag, argument(str(rng.choice(values)))]
    if name == "profile":
        arguments += ["--dry-run", "--no-advice"]
    if name == "watch":
        arguments += ["--count", "1", "--interval", "200ms"]
    return tuple(arguments)


def _meant(kind: Any) -> Sequence[str]:
    """What a flag of this type may be."""
    parts = (kind, *get_args(kind))
    words = [word for part in parts if get_origin(part) is Literal for word in get_args(part)]
    return words or (_VALUES[:4] if int in parts or float in parts else _VALUES)


_INPUTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    *(("profile", (name, *TOKENS, *ON, "-n", "8")) for name in ("w.yaml", "l.jsonl", "m.jsonl")),
    *(("what-if", (name, *TOKENS, *ON, "-n", "8", "--jobs", "1")) for name in ("l.jsonl", "m.jsonl")),
    ("compare-engines", ("l.jsonl", *TOKENS, *ON, "-n", "8")),
    ("trace", ("l.jsonl", *TOKENS, *ON, "-o", "x.jsonl")),
    ("logs", ("l.jsonl",)),
    ("check", ("w.yaml", *TOKENS, *ON)),
    ("optimize", ("w.yaml", *TOKENS, *ON)),
    ("lint", ("w.yaml", *TOKENS, *ON)),
    ("diff-prompts", ("a.txt", "b.txt", *TOKENS)),
    ("compare", ("r.json", "r.json")),
    ("report", ("r.json",)),
    ("watch", ("m.txt",)),
    ("why", ("m.txt", "l.jsonl", *TOKENS)),
    ("size", ("llama-3.1-8b",)),
    ("prices", ()),
    ("config", ("w.yaml",)),
)
_VALUES = (
    "1", "2", "16", "100", "0.5", "1%", "1GiB", "80GiB", "30s", "5m", "ttft=2s", "1,2", "1..3", "capacity", "ttl", "lru,opt", "all",
    "llama-3.1-8b", "deepseek-v3", "h100", "openai", "anthropic", "sglang", "llamacpp", "vllm", "sticky:ttl=0", "prefix-aware:x=1",
    "fp8_e4m3", "line", "session", "P2,P3", "KV1", "l.jsonl", "m.jsonl", "w.yaml", "r.json", "o.html", "json=-", "x=y",
    '{"method":"mtp","num_speculative_tokens":99999999999}', "1..1000000000", "1e999", "9" * 5000, "2026-02-30", ".", "..", "none",
)  # fmt: skip
_ENDLESS = frozenset(("server", "jobs", "undo", "interval", "count", "record"))
"""Flags of which a value may ask for another machine, for many processes, or for a wait."""
