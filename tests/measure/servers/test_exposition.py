"""The text of /metrics: escapes, NaN, what is no text of metrics at all, and its size."""

from __future__ import annotations

from contextlib import suppress
from math import inf, isnan
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.errors import KvtoolError
from kvtool.measure.servers.metrics.exposition import MOST_BYTES, parse_exposition, read_exposition

for _needed in ("httpx", "prometheus_client"):
    pytest.importorskip(_needed, reason="the extra `live` is not installed")

BACKSLASH = "\\"


def test_samples_are_found_by_name() -> None:
    text = '# TYPE a_total counter\na_total{x="1"} 3.0\na_total{x="2"} 4\nb 5 1700000000000\n'
    found = parse_exposition(text, shown="f")
    assert [(dict(sample.labels), sample.value) for sample in found.of("a_total")] == [({"x": "1"}, 3), ({"x": "2"}, 4)]
    assert found.of("b")[0].value == 5
    assert found.of("c") == ()
    assert found.starting("a") == ["a_total"]


def test_nan_and_infinity_are_values() -> None:
    found = parse_exposition("a NaN\nb +Inf\nc -Inf\n", shown="f")
    assert isnan(found.of("a")[0].value)
    assert [found.of(name)[0].value for name in "bc"] == [inf, -inf]


LABEL = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\u2028\u2029\x85"), max_size=20)


@given(LABEL | st.text(f'{BACKSLASH}"n{{}},= ', max_size=12))
def test_labels_come_back_as_they_were_written(value: str) -> None:
    written = value.replace(BACKSLASH, BACKSLASH * 2).replace('"', f'{BACKSLASH}"').replace("\n", f"{BACKSLASH}n")
    found = parse_exposition(f'a{{x="{written}",y="1"}} 1\n', shown="f")
    assert dict(found.of("a")[0].labels) == {"x": value, "y": "1"}


def test_what_is_no_metric_is_said_with_its_line() -> None:
    for line in [
        "<html>",
        "a b",
        'a{b="c} 1',
        "a{b=c} 1",
        'a{b="c"}',
        "a 1_0",
        "1a 2",
        "# TYPE",
        'a{__name__="b"} 1',
        "{} 1",
        "a,b",
    ]:
        if line == "# TYPE":
            line = "# TYPE a"
        with pytest.raises(KvtoolError, match=r"not a metric in the Prometheus format") as raised:
            parse_exposition(f"ok 1\n{line}\nok2 3\n", shown="metrics.prom")
        assert str(raised.value.place) == "metrics.prom:2:1"


@given(st.text(st.sampled_from('ab_{}",=\\ #\n\t1.eTYPEHELPNI+-\0\u2028é'), max_size=60))
def test_any_text_is_samples_or_a_sentence(text: str) -> None:
    with suppress(KvtoolError):
        found = parse_exposition(text, shown="f")
        assert all(isinstance(sample.value, float) for samples in found.samples.values() for sample in samples)


def test_two_scrapes_in_one_text_are_refused() -> None:
    with pytest.raises(KvtoolError, match="has `a` twice"):
        parse_exposition('a{x="1"} 1\nb 2\na{x="1"} 3\n', shown="f")


def test_a_line_without_an_end_is_refused() -> None:
    with pytest.raises(KvtoolError, match="longer than") as raised:
        parse_exposition("a 1\n" + 'b{x="' + BACKSLASH * 100_000, shown="f")
    assert raised.value.place is not None
    assert raised.value.place.line == 2


def test_a_file_that_is_too_large_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "large.prom"
    with path.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(KvtoolError, match="larger than 10 MB"):
        read_exposition(str(path))
