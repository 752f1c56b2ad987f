"""Counts of a server at one time, for each of its engines."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kvtool.errors import KvtoolError
from kvtool.measure.engine_extra import need_live
from kvtool.measure.servers.http_exchange import ServerConnection
from kvtool.measure.servers.metrics import metric_names as names
from kvtool.measure.servers.metrics.exposition import (
    MOST_BYTES,
    BucketCounts,
    Exposition,
    MetricSample,
    bucket_counts,
    parse_exposition,
    read_exposition,
)
from kvtool.measure.servers.metrics.metric_names import KINDS, CountedAs, MetricNames
from kvtool.measure.servers.server_address import is_url, server_address
from kvtool.text.bounded_number import LARGEST
from kvtool.text.files.compressed import open_bytes, uncompressed
from kvtool.text.terminal.numbers import plural

EngineKey = tuple[str, str]
"""The labels `engine` and `model_name`."""
_Key = Callable[[MetricSample], EngineKey]
_MEANS = (names.USAGE, names.HIT_RATE)
_METRICS = "/metrics"
_SUFFIXES = (".prom", ".txt", ".metrics")
_START = 1 << 8
_FIRST_LINE = re.compile(rb"\s*# (?:HELP|TYPE) [a-zA-Z_:]")


@dataclass(frozen=True, slots=True)
class EngineCounters:
    """Counts of one engine since its start, its gauges, and its histograms of times; by the names of `metric_names`."""

    created: float | None
    """Seconds since 1970 at which its counters began; None where the server does not say."""
    counts: Mapping[str, int]
    gauges: Mapping[str, float]
    histograms: Mapping[str, BucketCounts]


@dataclass(frozen=True, slots=True)
class Scrape:
    """One answer of /metrics. `at` is when, in seconds since 1970; None of a file."""

    of: MetricNames
    engines: Mapping[EngineKey, EngineCounters]
    config: Mapping[EngineKey, Mapping[str, str]]
    """The labels of vLLM's `cache_config_info`; of other servers none. Its model name is empty: the metric has none."""
    at: float | None = None
    left_out: int = 0
    """Values that no server can have counted."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes on what is left out."""
        if not self.left_out:
            return ()
        return (f"{plural(self.left_out, 'value')} of /metrics are left out: negative, infinite or too large",)

    def gauge(self, name: str) -> float | None:
        """Return the gauge over all engines: shares are averaged, counts added up; None where no engine reports it."""
        told = [engine.gauges[name] for engine in self.engines.values() if name in engine.gauges]
        if not told:
            return None
        return sum(told) / len(told) if name in _MEANS else sum(told)

    @property
    def created(self) -> tuple[float, ...]:
        """Return when the counters of each engine began, where that is reported."""
        return tuple(engine.created for engine in self.engines.values() if engine.created is not None)

    @property
    def models(self) -> list[str]:
        """Return the names under which models are served."""
        return sorted({model for _, model in self.engines if model})


def scrape_of(exposition: Exposition, *, shown: str, at: float | None = None) -> Scrape:
    """Return the counts in a text of metrics; KvtoolError where it is of no server that is known. `shown` is its path or URL."""
    for kind in KINDS:
        if exposition.starting(kind.prefix):
            engines = _engines(exposition, kind)
            left_out = _left_out(exposition, kind)
            if engines:
                return Scrape(kind, engines, _config(exposition), at, left_out)
            if left_out:
                raise KvtoolError(
                    f"`{shown}`: all values of {kind.server}'s metrics are negative, infinite or too large"
                )
    known = ", ".join(kind.server for kind in KINDS)
    raise KvtoolError(
        f"`{shown}` has no metrics of a server that kvtool knows ({known})",
        hint="start SGLang with --enable-metrics, llama.cpp with --metrics",
    )


def _engines(exposition: Exposition, kind: MetricNames) -> dict[EngineKey, EngineCounters]:
    def key(sample: MetricSample) -> EngineKey:
        return sample.labels.get(kind.engine, ""), sample.labels.get("model_name", "")

    counters = {name: _sums(exposition, name, named, key) for name, named in kind.counters.items()}
    gauges = {name: _sums(exposition, name, named, key) for name, named in kind.gauges.items()}
    histograms = _histograms(exposition, kind, key)
    created: dict[EngineKey, float] = {}
    for name in exposition.starting(kind.prefix):
        if name.endswith("_created"):
            for sample in exposition.counted(name):
                if sample.value > 0 and kind.engine in sample.labels:
                    created[key(sample)] = min(created.get(key(sample), sample.value), sample.value)
    keys = {each: None for sums in (*counters.values(), *gauges.values()) for each in sums}
    return {
        each: EngineCounters(
            created=created.get(each),
            counts=_completed({name: round(sums[each]) for name, sums in counters.items() if each in sums}),
            gauges={name: sums[each] for name, sums in gauges.items() if each in sums},
            histograms=histograms.get(each, {}),
        )
        for each in keys
    }


def _sums(exposition: Exposition, name: str, named: CountedAs, key: _Key) -> dict[EngineKey, float]:
    """Return the values of a metric by engine; a value that cannot be is as if it was not there."""
    found: dict[EngineKey, float] = {}
    for sample in exposition.counted(named.name, most=_most(name)):
        if named.labels.items() <= sample.labels.items():
            found[key(sample)] = found.get(key(sample), 0.0) + sample.value
    return found


def _most(name: str) -> float:
    return 1.0 if name in _MEANS else LARGEST


def _left_out(exposition: Exposition, kind: MetricNames) -> int:
    """Return how many values of the metrics that are read cannot be."""
    read = {named.name: _most(name) for name, named in (*kind.counters.items(), *kind.gauges.items())}
    read |= {f"{name}_{part}": LARGEST for name in kind.histograms.values() for part in ("bucket", "sum")}
    return sum(len(exposition.of(name)) - len(exposition.counted(name, most=most)) for name, most in read.items())


def _completed(counts: dict[str, int]) -> dict[str, int]:
    """Add what follows from the others, where a server or an older release does not count it by itself."""
    if names.CACHED not in counts and names.HITS in counts:
        counts[names.CACHED] = counts[names.HITS]
    if names.COMPUTED not in counts and names.PROMPT in counts and names.CACHED in counts:
        rest = counts[names.CACHED] + counts.get(names.EXTERNAL, counts.get(names.EXTERNAL_HITS, 0))
        counts[names.COMPUTED] = max(0, counts[names.PROMPT] - rest)
    if names.PROMPT not in counts and names.COMPUTED in counts and names.CACHED in counts:
        counts[names.PROMPT] = counts[names.COMPUTED] + counts[names.CACHED]
    if names.QUERIES not in counts and names.PROMPT in counts and names.CACHED in counts:
        counts[names.QUERIES], counts[names.HITS] = counts[names.PROMPT], counts[names.CACHED]
    return counts


def _histograms(exposition: Exposition, kind: MetricNames, key: _Key) -> dict[EngineKey, dict[str, BucketCounts]]:
    def by_engine(name: str) -> dict[EngineKey, list[MetricSample]]:
        found: dict[EngineKey, list[MetricSample]] = {}
        for sample in exposition.counted(name):
            found.setdefault(key(sample), []).append(sample)
        return found

    found: dict[EngineKey, dict[str, BucketCounts]] = {}
    for name, written in kind.histograms.items():
        sums = by_engine(f"{written}_sum")
        for engine, buckets in by_engine(f"{written}_bucket").items():
            counts = bucket_counts(buckets, sums.get(engine, ()))
            if counts is not None:
                found.setdefault(engine, {})[name] = counts
    return found


def _config(exposition: Exposition) -> dict[EngineKey, Mapping[str, str]]:
    return {(sample.labels.get("engine", ""), ""): sample.labels for sample in exposition.of("vllm:cache_config_info")}


def names_counters(source: str) -> bool:
    """Return whether an argument names a server, or by its ending or its first line a file with what one answered at /metrics."""
    if is_url(source) or uncompressed(source.lower()).endswith(_SUFFIXES):
        return True
    if not Path(source).is_file():
        return False
    with open_bytes(source) as file:
        return _FIRST_LINE.match(file.read(_START)) is not None


@contextmanager
def looking(source: str, *, what: str) -> Iterator[Callable[[], Scrape]]:
    """Yield a function that reads the counters of a URL or a file; `what` needs the extra `live`.

    A look raises ServerError where the server does not answer, and KvtoolError for what is no text of metrics.
    """
    need_live(what)
    if is_url(source):
        with ServerConnection(server_address(source)) as connection:
            shown = connection.address.url(_METRICS)

            def look() -> Scrape:
                text = connection.text(_METRICS, limit=MOST_BYTES)
                return scrape_of(parse_exposition(text, shown=shown), shown=shown, at=time.time())

            yield look
        return
    if "://" in source:
        raise KvtoolError(f"`{source.split('://')[0]}` is not a scheme for servers", hint="use http:// or https://")
    yield lambda: scrape_of(read_exposition(source), shown=source, at=time.time())
