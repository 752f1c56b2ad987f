"""The text of /metrics as samples; needs prometheus-client, of the extra `live`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from types import MappingProxyType

from kvtool.errors import KvtoolError, Place
from kvtool.text.bounded_number import LARGEST, finite_number
from kvtool.text.files.compressed import open_bytes, uncompressed
from kvtool.text.files.text_files import read_text

MOST_BYTES = 10_000_000
"""Of a text of metrics; a server with many engines writes some 100 KB."""
MOST_LINES = 50_000
"""A vLLM writes some 700 for each of its engines."""
_LONGEST_LINE = 1 << 14  # characters: a bound for hostile servers
_EXCERPT = 200  # characters of a line that a message quotes
_HINT = "pass the unchanged answer of a server's /metrics"

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class MetricSample:
    """A value with its labels; it may be NaN or infinite."""

    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class Exposition:
    """The samples of one scrape, by the names that the text has (`…_total`, `…_bucket`), in its order."""

    samples: Mapping[str, Sequence[MetricSample]]

    def of(self, name: str) -> Sequence[MetricSample]:
        """Return the samples of a name; none where the text has none."""
        return self.samples.get(name, ())

    def counted(self, name: str, *, most: float = LARGEST) -> list[MetricSample]:
        """Return the samples whose value can be a count, a time or a share: finite, not negative, and not above what a float holds
        exactly."""
        return [each for each in self.of(name) if finite_number(each.value, least=0, most=most) is not None]

    def starting(self, prefix: str) -> list[str]:
        """Return the names that begin so."""
        return [name for name in self.samples if name.startswith(prefix)]


def read_exposition(path: str) -> Exposition:
    """Read the metrics in a file; KvtoolError as in `parse_exposition`, and for a file that cannot be read or is larger than
    MOST_BYTES."""
    if Path(path).is_file() and Path(path).stat().st_size > MOST_BYTES:
        raise KvtoolError(f"`{path}` is larger than {MOST_BYTES // 10**6} MB", hint=_HINT)
    if uncompressed(path) == path:
        return parse_exposition(read_text(Path(path), shown=path), shown=path)
    with open_bytes(path) as file:
        read = file.read(MOST_BYTES + 1)
    if len(read) > MOST_BYTES:
        raise KvtoolError(f"`{path}` unpacks to more than {MOST_BYTES // 10**6} MB", hint=_HINT)
    try:
        return parse_exposition(read.decode(), shown=path)
    except UnicodeDecodeError:
        raise KvtoolError(f"`{path}` is not UTF-8 text", hint=_HINT) from None


def parse_exposition(text: str, *, shown: str) -> Exposition:
    """Return the samples of a text in the Prometheus format.

    `shown` is its path or URL as the user knows it. KvtoolError with the place for a line that is none of that format, and for a
    value that is there twice: two scrapes in one text are no scrape.
    """
    from prometheus_client.parser import text_fd_to_metric_families

    if text.count("\n") > MOST_LINES:
        raise KvtoolError(f"`{shown}` has more than {MOST_LINES:,} lines", hint=_HINT)
    lines = _Lines(text, shown)
    found: dict[str, dict[tuple[tuple[str, str], ...], MetricSample]] = {}
    families = text_fd_to_metric_families(lines)  # type: ignore[arg-type]  # it only goes over lines
    try:
        for family in families:
            for name, labels, value, *_ in family.samples:
                key = tuple(sorted(labels.items()))
                of_name = found.setdefault(name, {})
                if key in of_name:
                    raise KvtoolError(
                        f"`{shown}` has `{_short(name)}` twice for the same labels", hint="pass one scrape at a time"
                    )
                of_name[key] = MetricSample(MappingProxyType(labels), float(value))
    except (ValueError, OverflowError, LookupError, AttributeError) as error:
        raise lines.wrong() from error
    return Exposition({name: tuple(of_name.values()) for name, of_name in found.items()})


class _Lines:
    """The lines of a text, which knows the one that was taken last: the parser does not say where it stopped."""

    def __init__(self, text: str, shown: str) -> None:
        self._lines = text.split("\n")
        self._shown = shown
        self._last = 0

    def __iter__(self) -> Iterator[str]:
        for number, line in enumerate(self._lines, start=1):
            self._last = number
            if len(line) > _LONGEST_LINE:
                raise self.wrong(f"line is longer than {_LONGEST_LINE:,} characters")
            yield line

    def wrong(self, message: str = "line is not a metric in the Prometheus format") -> KvtoolError:
        line = self._lines[self._last - 1]
        place = Place(self._shown, self._last, 1, line if len(line) <= _EXCERPT else None)
        return KvtoolError(message, hint=_HINT, place=place)


def _short(name: str) -> str:
    return name if len(name) <= _EXCERPT else f"{name[:_EXCERPT]}…"


@dataclass(frozen=True, slots=True)
class BucketCounts:
    """`counts[i]` observations are at most `bounds[i]`; the last bound is infinite. `total` is the sum of what was observed."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    total: float = 0.0

    @property
    def count(self) -> float:
        """Return how many observations."""
        return self.counts[-1] if self.counts else 0.0

    @property
    def mean(self) -> float | None:
        """Return the mean; None where nothing was observed."""
        return self.total / self.count if self.count > 0 else None

    def minus(self, before: BucketCounts) -> BucketCounts | None:
        """Return the observations since then; None where bounds differ or a count fell."""
        if self.bounds != before.bounds:
            return None
        counts = tuple(now - then for now, then in zip(self.counts, before.counts, strict=True))
        return (
            None if any(count < 0 for count in counts) else BucketCounts(self.bounds, counts, self.total - before.total)
        )

    def plus(self, other: BucketCounts) -> BucketCounts:
        """Return both; this one alone where bounds differ."""
        if self.bounds != other.bounds:
            return self
        counts = tuple(one + more for one, more in zip(self.counts, other.counts, strict=True))
        return BucketCounts(self.bounds, counts, self.total + other.total)

    def quantile(self, part: float) -> float | None:
        """Return the value that `part` of all observations do not exceed, on a line within its bucket; None of no observations.

        None of them is negative: so it is at most what the others of at least its size leave of the sum (Markov). Beyond the last
        finite bound nothing is known: that is given.
        """
        if self.count <= 0:
            return None
        rank = part * self.count
        low, below = 0.0, 0.0
        for bound, count in zip(self.bounds, self.counts, strict=True):
            if count >= rank and count > below:
                if bound == inf:
                    return low
                within = low + (bound - low) * max(0.0, rank - below) / (count - below)
                return max(low, min(within, self.total / (self.count - rank))) if rank < self.count else within
            low, below = bound, max(below, count)
        return low


def bucket_counts(buckets: Sequence[MetricSample], sums: Sequence[MetricSample]) -> BucketCounts | None:
    """Return the histogram of the samples of `…_bucket` and of `…_sum`; those that differ in other labels are added up. None of no
    buckets."""
    counts: dict[float, float] = {}
    for sample in buckets:
        written = sample.labels.get("le", "")
        bound = inf if written == "+Inf" else finite_number(written, least=0, in_text=True)
        if bound is not None:
            counts[bound] = counts.get(bound, 0.0) + sample.value
    if inf not in counts:
        return None
    bounds = tuple(sorted(counts))
    total = sum(sample.value for sample in sums)
    return BucketCounts(bounds, tuple(counts[bound] for bound in bounds), total)
