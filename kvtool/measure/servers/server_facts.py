"""How a server is configured, as far as it says so itself: each fact with the place that says it, and what is assumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Literal

from kvtool.errors import KvtoolError
from kvtool.measure.servers.http_exchange import ServerConnection, ServerError, page_text
from kvtool.measure.servers.metrics.counters import Scrape, scrape_of
from kvtool.measure.servers.metrics.exposition import MOST_BYTES, Exposition, parse_exposition, read_exposition
from kvtool.measure.servers.server_values import number_at, text_at, truth_at, value_at
from kvtool.text.files.json_file import json_of
from kvtool.text.files.text_files import read_text

FactValue = int | str | bool
SaidBy = Literal["/version", "/v1/models", "/metrics", "/server_info", "assumed"]
_METRICS: Literal["/metrics"] = "/metrics"
_INFO: Literal["/server_info"] = "/server_info"
_INFO_PATH = "/server_info?config_format=json"
MOST_JSON = 2_000_000  # bytes of a page: a bound for hostile servers
_NO_PAGE = (200, 400, 403, 404, 405, 501)
"""What a server answers that has no such page; 200 is one that answers with no JSON."""
UNCOUNTED = "the server has no known /metrics: kvtool assumes what other pages do not say"
VLLM = "vLLM"
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
    *("max_num_batched_tokens", "max_num_seqs", "async_scheduling", "tokenizer"),
)
_UNITS = ("hash_block_size", "cache_hit_alignment_tokens", "prefix_match_unit", "effective_attention_block_size")


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

    def check(self) -> None:
        """Raise KvtoolError where its hits cannot be predicted."""
        if self.refused:
            raise KvtoolError(
                f"this server's hits cannot be predicted: {'; '.join(self.refused)}",
                hint="run kvtool watch to see its counters",
            )


def ask_server(connection: ServerConnection, *, uncounted: bool = False) -> ServerFacts:
    """Ask a running server; ServerError where it does not answer, or is none that says enough.

    `uncounted`: of one whose /metrics is missing, or of no known kind, what its other pages say is enough, and a note says so.
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
    facts = _facts(
        version=_asked(connection, "/version"),
        models=_asked(connection, "/v1/models"),
        info=_asked(connection, _INFO_PATH),
        exposition=exposition,
        scrape=scrape,
        date=date,
    )
    return replace(facts, notes=(*facts.notes, *notes))


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


def _asked(connection: ServerConnection, path: str) -> object:
    """Return a page as JSON; None where the server has no such page."""
    try:
        return connection.json(path, limit=MOST_JSON)
    except ServerError as error:
        if error.status in _NO_PAGE:
            return None
        raise


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
    for name in ("max_num_batched_tokens", "max_num_seqs"):
        take(name, (number_at(scheduler, name), _INFO))
    take("async_scheduling", (truth_at(scheduler, "async_scheduling"), _INFO))
    take("policy", (text_at(scheduler, "policy"), _INFO))
    facts = {**labels, **{key: value for key, value in cache.items() if key not in labels}}
    return ServerFacts(
        facts=found,
        refused=tuple(refused_for(facts, info, models, exposition, found["server"].value)),
        notes=(*not_followed(facts, info, scrape), *(() if scrape is None else scrape.notes)),
        scrape=scrape,
        date=date,
    )


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
        if Path(root).is_dir():
            return root
    owner, slash, name = root.partition("/")
    return root if slash and owner and name and "/" not in name and not root.startswith((".", "~")) else None


def _text_or_none(value: FactValue | None) -> str | None:
    return value if isinstance(value, str) else None


def refused_for(
    cache: Mapping[str, object], info: object, models: object, exposition: Exposition | None, server: object
) -> Iterator[str]:
    """Return why the hits of a server cannot be predicted; nothing where they can be. `server` is its kind, None where nobody says
    it."""
    if server not in (None, VLLM):
        yield f"it is {server}, and its cache does not follow vLLM's rules"
        return
    if (window := text_at(cache, "sliding_window") or number_at(cache, "sliding_window")) is not None:
        yield f"it has a sliding window of {window} tokens, and frees blocks outside the window"
    block_size = number_at(cache, "block_size")
    for key in _UNITS:
        unit = number_at(cache, key)
        if unit is not None and block_size is not None and unit != block_size:
            yield f"`{key}` is {unit} beside blocks of {block_size}, as hybrid models have it"
            break
    if truth_at(cache, "is_attention_free") or number_at(cache, "mamba_block_size") is not None:
        yield "it is a hybrid model or has no attention, so other rules cache its states"
    if _adapters(models) or (exposition is not None and exposition.of("vllm:lora_requests_info")):
        yield "it has LoRA adapters, and each adapter has its own blocks"
    if value_at(info, "vllm_config", "speculative_config") or (
        exposition is not None and exposition.starting("vllm:spec_decode")
    ):
        yield "it uses speculative decoding, which writes blocks ahead"


def _adapters(models: object) -> bool:
    data = models.get("data") if isinstance(models, Mapping) else None
    return isinstance(data, list) and any(isinstance(row, Mapping) and row.get("parent") for row in data)


def not_followed(cache: Mapping[str, object], info: object, scrape: Scrape | None) -> Iterator[str]:
    """Yield what the server does in a way that kvtool does not follow."""
    scheduler = value_at(info, "vllm_config", "scheduler_config")
    if text_at(scheduler, "policy") not in (None, "fcfs"):
        yield f"requests are scheduled by {text_at(scheduler, 'policy')}; kvtool uses the order of arrival"
    if truth_at(scheduler, "enable_chunked_prefill") is False:
        yield "the server does not split prompts into chunks; kvtool does"
    for name in ("long_prefill_token_threshold", "max_num_active_seqs"):
        if (value := number_at(scheduler, name)) is not None:
            yield f"`{name}` is {value:,}, which kvtool ignores"
    if isinstance(watermark := scheduler.get("watermark"), float) and watermark > 0:
        yield f"a watermark of {watermark:g} of its blocks stays free, which kvtool ignores"
    if value_at(info, "vllm_config", "kv_transfer_config") or text_at(cache, "kv_offloading_size") is not None:
        yield "the server has a second cache tier: its hits are counted separately, not predicted"
    if scrape is not None and len(scrape.engines) > 1:
        yield f"{len(scrape.engines)} engines share the requests, each with its own cache; kvtool has one"
