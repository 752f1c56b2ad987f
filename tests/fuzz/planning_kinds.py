"""More kinds: what tools write as logs, block traces, plans, prices, recorded sessions, metrics, events, prompts of frameworks."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from tests.fuzz import corpus, log_samples, planning_commands, words
from tests.fuzz.kinds import Files, Kind, Prepare, inside_gzip
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
from tests.lint.test_formats import SAMPLES, unmarked

_PRICES: tuple[object, ...] = (
    {
        "format": "kvtool.prices/1",
        "rows": [
            {
                "provider": "openai",
                "models": ["gpt-4o", "m", "house-.*"],
                "from": "2026-01-01",
                "to": "2026-12-31",
                "checked": "2026-10-20",
                "source": "https://example.com",
                "input": 2.5,
                "output": 10,
                "cache_read": 1.25,
                "above": [{"tokens": 200000, "input": 5}],
                "hours": [{"utc": ["09:00-17:00"], "days": [0, 1], "never": ["2026-05-01"], "input": 3}],
                "batch": 0.5,
                "tiers": {"flex": 0.5},
            }
        ],
    },
    [
        {
            "id": "openai",
            "models": [
                {
                    "id": "gpt-4o",
                    "match": {"or": [{"equals": "gpt-4o"}, {"starts_with": "m"}]},
                    "prices": [
                        {"prices": {"input_mtok": 5, "output_mtok": 30}},
                        {
                            "constraint": {"start_date": "2026-08-21"},
                            "prices": {"input_mtok": {"base": 4, "tiers": [{"start": 100, "price": 8}]}},
                        },
                    ],
                }
            ],
        }
    ],
    {
        "sample_spec": {"input_cost_per_token": 0},
        "gpt-4o": {
            "litellm_provider": "openai",
            "mode": "chat",
            "input_cost_per_token": 2.5e-06,
            "output_cost_per_token": 1e-05,
            "cache_read_input_token_cost": 1.25e-06,
            "input_cost_per_token_above_200k_tokens": 5e-06,
        },
    },
)
_JSON = one_of((6, change_json), (2, change_number), (2, change_bytes), (1, change_lines))
_RECORDS = one_of((7, change_record), (2, change_number), (2, change_bytes), (1, change_lines))
_TEXT = one_of((4, words_from(words.TEXT)), (2, change_bytes), (2, change_lines))


def planning_kinds(made: Mapping[str, bytes], samples: Path | None = None) -> list[Kind]:
    """The kinds. `made` has by name what commands wrote: `plan…`, `blocks` (where there is Parquet), `events`, `session/…`.

    The files below `samples` are mutated, too: logs from outside of the repository.
    """
    logs = [*corpus.LOGS.values(), *corpus.TRACES.values()]
    session = {name.removeprefix("session/"): data for name, data in made.items() if name.startswith("session/")}
    commands = planning_commands
    kinds = [
        Kind("what-if", _log(logs), _RECORDS, commands.WHAT_IF),
        Kind("tracing", _log(_TIMED), _RECORDS, commands.TRACING, share=2),
        Kind("formats", _log(list(log_samples.json_samples().values())), _RECORDS, commands.FORMATS_READ, share=8),
        Kind("server-log", _log(list(log_samples.text_samples().values())), _TEXT, commands.FORMATS_READ, share=3),
        Kind(
            "plan",
            _saved([data for name, data in made.items() if name.startswith("plan")]),
            _JSON,
            commands.PLANS,
            share=3,
        ),
        Kind("prices", _prices, _JSON, commands.PRICED, share=2),
        Kind("session", _session(session), _inside_gzip(_RECORDS), commands.SESSION),
        Kind("metrics", _named("m.txt", [session["metrics_after.txt"]]), _TEXT, commands.METRICS, share=2),
        Kind("events", _with_workload("k.jsonl", made["events"]), _RECORDS, commands.EVENTS, share=2),
        Kind("lint-data", _lint_data, _lint_mutator, commands.LINT_DATA),
        Kind("plan-options", _options, change_bytes, (), wild=commands.wild_plan),
    ]
    if "blocks" in made and find_spec("pyarrow") is not None:
        blocks = _named("t/l.jsonl.parquet", [made["blocks"]])
        kinds.append(Kind("blocks", blocks, one_of((1, change_bytes), (3, change_parquet)), commands.BLOCKS, share=2))
        columns = _named("l.parquet", [_parquet([json.loads(line) for line in log.splitlines()]) for log in _TABULAR])
        kinds.append(
            Kind("columns", columns, one_of((1, change_bytes), (3, change_parquet)), commands.COLUMNS, share=2)
        )
    if samples is not None:
        kinds.append(Kind("sample", _samples(samples), _any_text, commands.FORMATS_READ, share=8))
    return kinds


_TIMED = (corpus.LOGS["openai"], corpus.LOGS["prompt"], *map(corpus.TRACES.__getitem__, ("mooncake", "bailian")))
_TABULAR = (corpus.LOGS["prompt"], corpus.LOGS["sharegpt"], corpus.LOGS["token-ids"])


def _log(choices: Sequence[bytes]) -> Prepare:
    return _named("l.jsonl", choices)


def _named(name: str, choices: Sequence[bytes]) -> Prepare:
    return lambda rng: ({name: rng.choice(choices)}, (name,))


def _with_workload(name: str, data: bytes) -> Prepare:
    return lambda _: ({"w.yaml": corpus.SMALL_WORKLOAD.encode(), name: data}, (name,))


def _saved(choices: Sequence[bytes]) -> Prepare:
    return _named("r.json", choices)


def _prices(rng: random.Random) -> tuple[Files, tuple[str, ...]]:
    return {"p.json": json.dumps(rng.choice(_PRICES)).encode(), "l.jsonl": corpus.LOGS["openai"]}, ("p.json",)


def _session(files: Mapping[str, bytes]) -> Prepare:
    def prepare(rng: random.Random) -> tuple[Files, tuple[str, ...]]:
        named = {f"rec/{name}": data for name, data in files.items()}
        return dict(named), tuple(rng.sample(list(named), 2))

    return prepare


def _options(_: random.Random) -> tuple[Files, tuple[str, ...]]:
    return {
        "w.yaml": corpus.SMALL_WORKLOAD.encode(),
        "l.jsonl": corpus.LOGS["openai"],
        "m.jsonl": corpus.TRACES["mooncake"],
    }, ()


def _samples(folder: Path) -> Prepare:
    """Every file that says what a log is, but not what is expected of it; those of some size are left out."""
    found = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size < 1 << 18]
    texts = [path.read_bytes() for path in found if path.name not in ("expected.json", "README.md")]
    return _log(texts)


def _any_text(rng: random.Random, data: bytes) -> bytes:
    """Whatever it is: lines of JSON, one document, or none of both."""
    if data[:1] not in (b"{", b"["):
        return _TEXT(rng, data)
    try:
        json.loads(data)
    except ValueError:
        return _RECORDS(rng, data)
    return _JSON(rng, data)


def _lint_data(rng: random.Random) -> tuple[Files, tuple[str, ...]]:
    name = rng.choice(list(SAMPLES))
    return {name: unmarked(SAMPLES[name][1])[0].encode(), "p.j2": corpus.FIXABLE.encode()}, (name,)


def _lint_mutator(rng: random.Random, data: bytes) -> bytes:
    structured = change_json if data[:1] == b"{" else change_toml if data[:8] == b"[review]" else change_yaml
    return one_of((3, structured), (2, _TEXT), (1, words_from(words.YAML)))(rng, data)


def _inside_gzip(mutator: Mutator) -> Mutator:
    """Changes what is compressed; seldom the compressed bytes."""

    def change(rng: random.Random, data: bytes) -> bytes:
        if data[:2] != b"\x1f\x8b":
            return _TEXT(rng, data)
        return change_bytes(rng, data) if rng.random() < 0.1 else inside_gzip(mutator)(rng, data)

    return change


def _parquet(records: list[object]) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    out = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(records), out)
    return out.getvalue()


def change_parquet(rng: random.Random, data: bytes) -> bytes:
    """Values of a few rows, or what the file says of itself; columns keep their types where these can hold the values."""
    import pyarrow as pa
    from pyarrow import parquet

    from tests.fuzz.mutators import change_value

    try:
        table = parquet.read_table(io.BytesIO(data))
    except (pa.ArrowException, OSError):
        return change_bytes(rng, data)
    rows = table.to_pylist()
    metadata = dict(table.schema.metadata or {})
    if metadata and rng.random() < 0.4:
        name = rng.choice(list(metadata))
        metadata[name] = _JSON(rng, metadata[name])
    else:
        for _ in range(rng.choice((1, 1, 3))):
            rows = change_value(rng, rows)
    out = io.BytesIO()
    try:
        made = pa.Table.from_pylist(rows, schema=table.schema if rng.random() < 0.8 else None)
        parquet.write_table(made.replace_schema_metadata(metadata), out)
    except (pa.ArrowException, OverflowError, TypeError, ValueError, AttributeError):
        return change_bytes(rng, data)
    return out.getvalue()
