"""The kinds of inputs: what is there, what of it is changed and how, and the command lines that read it."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import zstandard

from kvtool.engine.model.configs.family_defaults import DEFAULTS
from kvtool.engine.model.configs.served_presets import SERVED_PRESETS
from tests.fuzz import commands, corpus, words
from tests.fuzz.commands import RUN
from tests.fuzz.forked import Job
from tests.fuzz.mutators import (
    Mutator,
    change_bytes,
    change_json,
    change_lines,
    change_number,
    change_record,
    one_of,
    words_from,
)
from tests.fuzz.source_mutators import change_toml, change_yaml

Files = dict[str, bytes]
Prepare = Callable[[random.Random], tuple[Files, tuple[str, ...]]]
"""Gives files, and the names of those of which some are changed."""


@dataclass(frozen=True)
class Kind:
    """One kind of input. Of `lines` one is run; where there are none, it is the command line that is made at random."""

    name: str
    prepare: Prepare
    mutate: Mutator
    lines: Sequence[tuple[str, ...]]
    program: str = "kvtool"
    share: int = 4
    """How many of it come where one of a kind of share 1 does."""
    wild: Callable[[random.Random], tuple[str, ...]] = commands.wild
    """Makes a command line, where nothing of the files is changed."""


NUMBERED = frozenset(
    (
        *("log", "trace", "result", "baseline", "calibration", "model", "replay", "what-if", "tracing", "formats"),
        *("plan", "prices", "session", "events"),
    )
)
"""The kinds whose files are JSON, with numbers."""


def with_numbers(kind: Kind) -> Kind:
    """The kind with hostile numbers in its files, and no other change."""
    return replace(kind, mutate=one_of((1, inside_gzip(change_number))))


def inside_gzip(mutator: Mutator) -> Mutator:
    """Changes what is compressed."""

    def change(rng: random.Random, data: bytes) -> bytes:
        if data[:2] == b"\x1f\x8b":
            return gzip.compress(mutator(rng, gzip.decompress(data)), mtime=0)
        return mutator(rng, data)

    return change


def in_turn(kinds: Sequence[Kind], seed: int, common: Mapping[str, bytes]) -> Iterator[Job]:
    """Jobs of all kinds without end, by their shares. Each follows from its kind, the seed and its number alone."""
    number = 0
    while True:
        for kind in kinds:
            for part in range(kind.share):
                yield job(kind, seed, number * kind.share + part, common)
        number += 1


def job(kind: Kind, seed: int, number: int, common: Mapping[str, bytes]) -> Job:
    """One input: right files, some of which are changed, and a command line. `common` are files that are always there."""
    rng = random.Random(f"{kind.name}/{seed}/{number}")
    files, targets = kind.prepare(rng)
    if not targets:
        return Job(kind.name, number, kind.wild(rng), {**common, **files}, (), commands.OUTPUTS)
    names = targets if len(targets) == 1 else tuple(rng.sample(targets, rng.randint(1, len(targets))))
    for name in names:
        files[name] = kind.mutate(rng, files[name])[: 1 << 20]
    arguments = commands.with_output(rng, rng.choice(kind.lines))
    stdin = b""
    if names in (("l.jsonl",), ("r.json",)) and names[0] in arguments and rng.random() < 0.1:
        stdin = files[names[0]]
        arguments = tuple("-" if each == names[0] else each for each in arguments)
    return Job(kind.name, number, arguments, {**common, **files}, names, commands.OUTPUTS, stdin, kind.program)


# What is there


def _workload(rng: random.Random) -> tuple[Files, tuple[str, ...]]:
    chosen = rng.choice(corpus.WORKLOADS).encode()
    return {"w.yaml": chosen, "rules.md": corpus.RULES.encode(), "log.jsonl": corpus.LOGS["prompt"]}, ("w.yaml",)


def _config(rng: random.Random) -> tuple[Files, tuple[str, ...]]:
    name, text = rng.choice((("kvtool.toml", corpus.CONFIG), ("pyproject.toml", corpus.PYPROJECT)))
    return {"w.yaml": corpus.SMALL_WORKLOAD.encode(), "p.txt": corpus.PROMPTS[1].encode(), name: text.encode()}, (name,)


def _one_of(name: str, choices: Sequence[bytes], **more: bytes) -> Prepare:
    """A file that is changed, and others that are not."""

    def prepare(rng: random.Random) -> tuple[Files, tuple[str, ...]]:
        return {name: rng.choice(choices)} | {f"{other}.jsonl": data for other, data in more.items()}, (name,)

    return prepare


def _beside_workload(name: str, data: bytes) -> Prepare:
    return lambda _: ({"w.yaml": corpus.SMALL_WORKLOAD.encode(), name: data}, (name,))


def _model(rng: random.Random) -> tuple[Files, tuple[str, ...]]:
    """A config.json in full: with what its family has where it is silent."""
    config = SERVED_PRESETS[rng.choice(list(SERVED_PRESETS))]
    whole = {**DEFAULTS.get(config["model_type"], {}), **config}
    return {"w.yaml": corpus.SMALL_WORKLOAD.encode(), "m.json": json.dumps(whole, indent=1).encode()}, ("m.json",)


def _templates(rng: random.Random) -> tuple[Files, tuple[str, ...]]:
    log = corpus.LOGS[rng.choice(("openai", "openai", "bfcl", "calls"))]
    return {"t.jinja": rng.choice(corpus.CHAT_TEMPLATES).encode(), "l.jsonl": log}, ("t.jinja",)


def _prompts(rng: random.Random) -> tuple[Files, tuple[str, ...]]:
    base = rng.choice(corpus.PROMPTS).encode()
    return {"a.txt": base, "b.txt": base, "c.md": base, "d.j2": base}, ("b.txt", "c.md", "d.j2")


def _options(_: random.Random) -> tuple[Files, tuple[str, ...]]:
    trace = corpus.TRACES["mooncake"]
    return {"w.yaml": corpus.SMALL_WORKLOAD.encode(), "a.txt": b"one", "b.txt": b"two", "trace.jsonl": trace}, ()


def _rewritten(patch: bytes) -> Prepare:
    def prepare(rng: random.Random) -> tuple[Files, tuple[str, ...]]:
        files, _ = _workload(rng)
        files["d.j2"] = corpus.FIXABLE.encode()
        if rng.random() < 0.1:  # what is there is not written over
            return files | {"u.patch": patch}, ("u.patch",)
        return files, ("w.yaml", "d.j2", "rules.md")

    return prepare


def _saved(results: Mapping[str, bytes]) -> Prepare:
    def prepare(rng: random.Random) -> tuple[Files, tuple[str, ...]]:
        data = results[rng.choice(("report", "report", "check", "lint"))]
        return {"r.json": data, "s.json": data}, ("r.json",)

    return prepare


def _tokenizer(folder: Mapping[str, bytes]) -> Prepare:
    def prepare(rng: random.Random) -> tuple[Files, tuple[str, ...]]:
        files = {f"m/{name}": data for name, data in folder.items()}
        rest = {"l.jsonl": corpus.LOGS["openai"], "a.txt": b"one two", "b.txt": b"one three"}
        return files | rest, (rng.choice(list(files)),)

    return prepare


# How it is changed


_ANY_LOG = [*corpus.LOGS.values(), *corpus.TRACES.values()]
_JSON = one_of((6, change_json), (2, change_number), (2, change_bytes), (1, change_lines))
_RECORDS = one_of((7, change_record), (2, change_number), (2, change_bytes), (1, change_lines))


def _source(dictionary: Sequence[str], *mutators: tuple[int, Mutator]) -> Mutator:
    return one_of((4, words_from(dictionary)), (1, change_bytes), (2, change_lines), *mutators)


def all_kinds(results: Mapping[str, bytes], tokenizer: Mapping[str, bytes], case: bytes) -> list[Kind]:
    """Every kind. `results` are documents by name, `tokenizer` the files of a folder, `case` is one of `kvtool.engine.replay`."""
    rewriting = _source(words.TEXT[:12])
    return [
        Kind("workload", _workload, _source(words.YAML, (7, change_yaml)), commands.WORKLOAD, share=8),
        Kind("config", _config, _source(words.TOML, (7, change_toml)), commands.CONFIG),
        Kind("log", _one_of("l.jsonl", list(corpus.LOGS.values())), _RECORDS, commands.LOG, share=8),
        Kind("trace", _one_of("l.jsonl", list(corpus.TRACES.values())), _RECORDS, commands.TRACE),
        Kind(
            "gzip",
            _one_of("l.jsonl.gz", [gzip.compress(log, mtime=0) for log in _ANY_LOG]),
            change_bytes,
            (("profile", "l.jsonl.gz", *RUN, "--no-advice", "--on-bad-line", "skip"),),
            share=1,
        ),
        Kind(
            "zstd",
            _one_of("l.jsonl.zst", list(map(zstandard.compress, _ANY_LOG))),
            change_bytes,
            (("profile", "l.jsonl.zst", *RUN, "--no-advice", "--on-bad-line", "skip"),),
            share=1,
        ),
        Kind("tokenizer", _tokenizer(tokenizer), _JSON, commands.TOKENIZER),
        Kind("template", _templates, _source(words.JINJA), commands.TEMPLATE),
        Kind("prompt", _prompts, _source(words.TEXT), commands.PROMPT),
        Kind(
            "python", _one_of("p.py", [text.encode() for text in corpus.PYTHON]), _source(words.PYTHON), commands.PYTHON
        ),
        Kind("result", _saved(results), one_of((9, change_json), (1, change_bytes)), commands.RESULT, share=6),
        Kind("baseline", _beside_workload("b.json", results["baseline"]), _JSON, commands.BASELINE, share=2),
        Kind(
            "calibration",
            _beside_workload("c.json", results["calibration"]),
            _JSON,
            (("profile", "w.yaml", *RUN, "--no-advice", "--calibration", "c.json"),),
            share=1,
        ),
        Kind("model", _model, _JSON, commands.MODEL, share=2),
        Kind("rewrite", _rewritten(results["patch"]), rewriting, commands.REWRITE, share=3),
        Kind("replay", _one_of("case.json", [case]), _JSON, (("case.json",),), program="replay", share=1),
        Kind("options", _options, change_bytes, ()),
    ]
