"""How a server is configured, as far as it says so itself: each fact with the place that says it, and what is assumed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Literal

from kvtool.engine.vllm_release import release_of
from kvtool.errors import KvtoolError
from kvtool.measure.servers.http_exchange import ServerConnection, ServerError, page_text
from kvtool.measure.servers.metrics.counters import Scrape, scrape_of
from kvtool.measure.servers.metrics.exposition import MOST_BYTES, Exposition, parse_exposition, read_exposition
from kvtool.measure.servers.server_layers import (
    drafts_at,
    known_model,
    retention_at,
    several_groups,
    state_dtype_at,
    uses_drafts,
)
from kvtool.measure.servers.server_limits import VLLM, not_followed, refused_for
from kvtool.measure.servers.server_scheduler import SCHEDULER_FACTS, scheduler_facts
from kvtool.measure.servers.server_values import number_at, text_at, truth_at, value_at
from kvtool.text.files.json_file import json_of
from kvtool.text.files.text_files import read_text
from kvtool.text.tokens.tokenizer_files import has_tokenizer

FactValue = int | str | bool | float
SaidBy = Literal["/version", "/v1/models", "/metrics", "/server_info", "assumed"]
_METRICS: Literal["/metrics"] = "/metrics"
_INFO: Literal["/server_info"] = "/server_info"
_INFO_PATH = "/server_info?config_format=json"
_KEPT = ("cache_config", "scheduler_config", "kv_events_config", "parallel_config")
MOST_JSON = 2_000_000  # bytes of a page: a bound for hostile servers
_NO_PAGE = (200, 400, 403, 404, 405, 501)
"""What a server answers that has no such page; 200 is one that answers with no JSON."""
UNCOUNTED = "the server has no known /metrics: kvtool assumes what other pages do not say"
_OWNERS: Mapping[FactValue | None, str] = {
    "vllm": VLLM,
    "sglang": "SGLang",
    "llamacpp": "llama.cpp",
    "library": "Ollama",
    "tensorrt_llm": "TensorRT-LLM",
}
"""Who /v1/models says that a model is owned by, which is the name of the server."""
_ALGORITHMS: Mapping[FactValue | None, str] = {
    name: name for name in ("sha256", "sha256_cbor", "xxhash", "xxhash_cbor")
}
_KV_DTYPES: Mapping[FactValue | None, str] = {
    "auto": "auto",
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "fp8": "fp8_e4m3",
    "fp8_e4m3": "fp8_e4m3",
    "fp8_e5m2": "fp8_e5m2",
}
_OPTIONS = (
    *("block_size", "num_gpu_blocks", "enable_prefix_caching", "hash_algo", "kv_cache_dtype", "max_model_len"),
    *("max_num_batched_tokens", "max_num_seqs", "async_scheduling", "enable_chunked_prefill", "tensor_parallel"),
    *("tokenizer", "release", *SCHEDULER_FACTS),
)
_GROUP_OPTIONS = (
    *("prefix_cache_retention_interval", "prefix_match_unit", "disable_hybrid_kv_cache_manager"),
    *("mamba_ssm_cache_dtype", "speculative_config"),
)


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact about a server; `value` None where nobody says it and kvtool's own default is used."""

    name: str
    value: FactValue | None
    said_by: SaidBy

    @property
    def assumed(self) -> bool:
        """Return whether no server said it."""
        return self.said_by == "assumed"


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """All that a server says about itself. Names of facts that are options of kvtool are those options' names."""

    facts: Mapping[str, Fact]
    refused: tuple[str, ...]
    """Why its hits cannot be predicted; empty where they can be."""
    notes: tuple[str, ...]
    """What it does in a way that kvtool does not follow, though most hits are the same."""
    scrape: Scrape | None
    """Its counters, at the moment at which it was asked."""
    several: str | None = None
    """What shows that one group of full attention is not all that its model has; None where nothing does."""
    date: datetime | None = None
    """Its own clock, from the header of an answer."""

    def value(self, name: str) -> FactValue | None:
        """Return the value of a fact; None where it is assumed or unknown."""
        fact = self.facts.get(name)
        return None if fact is None else fact.value

    @property
    def model(self) -> str | None:
        """Return the name under which it serves its model."""
        return _text_or_none(self.value("model_name"))

    @property
    def server(self) -> str | None:
        """Return the kind of server; None where nobody says it."""
        return _text_or_none(self.value("server"))

    @property
    def other_server(self) -> str | None:
        """Return the kind of server, where its cache follows other rules than vLLM's."""
        return None if self.server == VLLM else self.server

    @property
    def version(self) -> str | None:
        """Return the server's version."""
        return _text_or_none(self.value("version"))

    @property
    def capacity(self) -> int | None:
        """Return the usable blocks: one less than vLLM counts, whose null block holds nothing."""
        blocks = self.value("num_gpu_blocks")
        return blocks - 1 if isinstance(blocks, int) else None

    def options(self) -> dict[str, FactValue]:
        """Return the facts as kvtool's options by their names; what is assumed is left to their defaults."""
        return {name: fact.value for name in _OPTIONS if (fact := self.facts.get(name)) and fact.value is not None}

    def group_options(self) -> dict[str, FactValue]:
        """Return the facts that only matter for a model with windows, states or drafts, as kvtool's options by their names."""
        found = {name: fact.value for name in _GROUP_OPTIONS if (fact := self.facts.get(name))}
        return {name: value for name, value in found.items() if value is not None}

    def check(self) -> None:
        """Raise KvtoolError where its hits cannot be predicted."""
        if self.refused:
            raise KvtoolError(
                f"this server's hits cannot be predicted: {'; '.join(self.refused)}",
                hint="run kvtool watch to see its counters",
            )


def ask_server(
    connection: ServerConnection, *, uncounted: bool = False, missed: list[str] | None = None
) -> ServerFacts:
    """Ask a running server; ServerError where it does not answer, or is none that says enough.

    `uncounted`: of one whose /metrics is missing, or of no known kind, what its other pages say is enough, and a note says so.
    `missed` takes why /metrics counts nothing, or why another page of a server that counts did not come, which then is no error.
    """
    exposition = scrape = date = None
    notes: tuple[str, ...] = ()
    try:
        answer = connection.get(_METRICS, limit=MOST_BYTES)
        shown = connection.address.url(_METRICS)
        exposition = parse_exposition(page_text(answer), shown=shown)
        scrape = scrape_of(exposition, shown=shown, at=datetime.now(UTC).timestamp())
        with suppress(ValueError, TypeError):
            date = parsedate_to_datetime(answer.headers.get("date", ""))
    except KvtoolError as error:
        if not uncounted or (isinstance(error, ServerError) and error.status not in _NO_PAGE):
            raise
        exposition, notes = None, (UNCOUNTED,)
        if missed is not None:
            missed.append(error.message if error.place is None else f"{error.place}: {error.message}")
    pages = None if scrape is None else missed
    facts = _facts(
        version=_asked(connection, "/version", pages),
        models=_asked(connection, "/v1/models", pages),
        info=_asked(connection, _INFO_PATH, pages),
        exposition=exposition,
        scrape=scrape,
        date=date,
    )
    return replace(facts, notes=(*facts.notes, *notes))


def kept_info(info: object) -> dict[str, object] | None:
    """Return what a recording keeps of /server_info: the rest may hold paths, and secrets of the server's environment."""
    config = value_at(info, "vllm_config")
    if not config:
        return None
    kept = {name: config[name] for name in _KEPT if name in config}
    if (drafts := drafts_at(info)) is not None:
        kept["speculative_config"] = json.loads(drafts)
    return {"vllm_config": kept}


def recorded_facts(folder: Path) -> ServerFacts:
    """Return the facts of a recording's files; KvtoolError for one that cannot be read, or where none says anything."""
    metrics = folder / "metrics_before.txt"
    exposition = read_exposition(str(metrics)) if metrics.exists() else None
    info = _recorded(folder / "server_info.json")
    kept = any((folder / name).exists() for name in ("meta.json", "models.json"))
    if exposition is None and info is None and not kept:
        raise KvtoolError(
            f"`{folder}` does not say how the server was configured",
            hint="the folder needs metrics_before.txt or server_info.json",
        )
    facts = _facts(
        version=_recorded(folder / "version.json"),
        models=_recorded(folder / "models.json"),
        info=info,
        exposition=exposition,
        scrape=None if exposition is None else scrape_of(exposition, shown=str(metrics)),
        date=None,
    )
    return facts if exposition is not None or info is not None else replace(facts, notes=(*facts.notes, UNCOUNTED))


def scraped_facts(exposition: Exposition, scrape: Scrape) -> ServerFacts:
    """Return what a text of /metrics alone says."""
    return _facts(version=None, models=None, info=None, exposition=exposition, scrape=scrape, date=None)


def _asked(connection: ServerConnection, path: str, missed: list[str] | None) -> object:
    """Return a page as JSON; None where the server has no such page, and after a page that did not come: one is waited for."""
    if missed:
        return None
    try:
        return connection.json(path, limit=MOST_JSON)
    except ServerError as error:
        if error.status in _NO_PAGE:
            return None
        if missed is None:
            raise
        missed.append(f"{error.message}: what the server says of itself is not known")
        return None


def _recorded(path: Path) -> object:
    return json_of(read_text(path, shown=str(path), limit=MOST_JSON), shown=str(path)) if path.exists() else None


def _facts(
    *,
    version: object,
    models: object,
    info: object,
    exposition: Exposition | None,
    scrape: Scrape | None,
    date: datetime | None,
) -> ServerFacts:
    """Return every fact of the first place that says it; /metrics goes before /server_info, which may be an older file."""
    labels = _labels(scrape)
    served = _served(models, scrape)
    cache, scheduler = (value_at(info, "vllm_config", part) for part in ("cache_config", "scheduler_config"))
    found: dict[str, Fact] = {}

    def take(name: str, *said: tuple[FactValue | None, SaidBy]) -> None:
        found[name] = next((Fact(name, *each) for each in said if each[0] is not None), Fact(name, None, "assumed"))

    def both(read: Callable[[object, str], FactValue | None], key: str) -> tuple[tuple[FactValue | None, SaidBy], ...]:
        return (read(labels, key), _METRICS), (read(cache, key), _INFO)

    server = None if scrape is None else scrape.of.server
    take("server", (server, _METRICS), (_OWNERS.get(text_at(served, "owned_by")), "/v1/models"))
    take("version", (text_at(version, "version"), "/version"))
    take("release", (release_of(text_at(version, "version") or ""), "/version"))
    take("model_name", (text_at(served, "id"), "/v1/models"), (_only_model(scrape), _METRICS))
    take("tokenizer", (_tokenizer(text_at(served, "root")), "/v1/models"))
    take("block_size", *both(number_at, "block_size"))
    take("num_gpu_blocks", *both(number_at, "num_gpu_blocks"), *both(number_at, "num_gpu_blocks_override"))
    take("enable_prefix_caching", *both(truth_at, "enable_prefix_caching"))
    take("hash_algo", *((_ALGORITHMS.get(value), by) for value, by in both(text_at, "prefix_caching_hash_algo")))
    take("kv_cache_dtype", *((_KV_DTYPES.get(value), by) for value, by in both(text_at, "cache_dtype")))
    length = value_at(info, "vllm_config", "model_config")
    take(
        "max_model_len",
        (number_at(served, "max_model_len"), "/v1/models"),
        (number_at(length, "max_model_len"), _INFO),
    )
    for name, value in scheduler_facts(scheduler).items():
        take(name, (value, _INFO))
    take(
        "tensor_parallel", (number_at(value_at(info, "vllm_config", "parallel_config"), "tensor_parallel_size"), _INFO)
    )
    take("model", (known_model(served), "/v1/models"))
    take("kv_cache_size_tokens", *both(number_at, "kv_cache_size_tokens"))
    take("prefix_cache_retention_interval", *both(retention_at, "prefix_cache_retention_interval"))
    take("prefix_match_unit", *both(number_at, "prefix_match_unit"))
    take("mamba_ssm_cache_dtype", *both(state_dtype_at, "mamba_ssm_cache_dtype"))
    take("disable_hybrid_kv_cache_manager", (truth_at(scheduler, "disable_hybrid_kv_cache_manager"), _INFO))
    take("speculative_config", (drafts_at(info), _INFO))
    take("lmcache_chunk_size", (_connector_chunk(info), _INFO))
    take("drafts", (uses_drafts(info, exposition) or None, _METRICS))
    facts = {**labels, **{key: value for key, value in cache.items() if key not in labels}}
    several = next(several_groups(facts, info, exposition, length=found["max_model_len"].value), None)
    return ServerFacts(
        facts=found,
        refused=tuple(refused_for(facts, info, models, exposition, found["server"].value)),
        notes=(*not_followed(facts, info, scrape), *(() if scrape is None else scrape.notes)),
        scrape=scrape,
        several=several if found["server"].value in (None, VLLM) else None,
        date=date,
    )


def _connector_chunk(info: object) -> int | None:
    """Return the chunk size in the configuration of a KV connector, as LMCache has it."""
    extra = value_at(info, "vllm_config", "kv_transfer_config", "kv_connector_extra_config")
    for key in ("lmcache.chunk_size", "chunk_size"):
        if (size := number_at(extra, key)) is not None:
            return size
        if (text := text_at(extra, key)) is not None and text.isdecimal():
            return int(text)
    return None


def _labels(scrape: Scrape | None) -> Mapping[str, object]:
    if scrape is None or not scrape.config:
        return {}
    return dict(next(iter(scrape.config.values())))


def _served(models: object, scrape: Scrape | None) -> Mapping[str, object]:
    """Return the model itself in the list of /v1/models: not one of its adapters."""
    data = models.get("data") if isinstance(models, dict) else None
    rows = [row for row in data if isinstance(row, dict)] if isinstance(data, list) else []
    counted = () if scrape is None else scrape.models
    own = [row for row in rows if row.get("parent") is None]
    return next((row for row in own if row.get("id") in counted), own[0] if own else {})


def _only_model(scrape: Scrape | None) -> str | None:
    return None if scrape is None or len(scrape.models) != 1 else scrape.models[0]


def _tokenizer(root: str | None) -> str | None:
    """Return the model's path or id, where it can be found from here: a folder that is here, or an id of two parts."""
    if root is None:
        return None
    with suppress(OSError, ValueError):
        if has_tokenizer(Path(root)):
            return root
        if Path(root).is_dir():
            return None
    owner, slash, name = root.partition("/")
    return root if slash and owner and name and "/" not in name and not root.startswith((".", "~")) else None


def _text_or_none(value: FactValue | None) -> str | None:
    return value if isinstance(value, str) else None
