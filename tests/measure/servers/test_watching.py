"""A server's counters over time: the window, the sums, restarts, several servers, and what the server's log prints."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("msgspec", reason="needs the extra `live`")
pytest.importorskip("prometheus_client", reason="needs the extra `live`")

from kvtool.measure.servers.metrics import metric_names as names
from kvtool.measure.servers.metrics.counters import Scrape, scrape_of
from kvtool.measure.servers.metrics.exposition import parse_exposition
from kvtool.measure.servers.metrics.watching import Watching, watch_document
from tests.measure.servers.made_metrics import CREATED, vllm_metrics

START = CREATED + 1000


def scrape(at: float, *, prompt: int, cached: int, requests: int = 0, created: float | None = CREATED) -> Scrape:
    """At so many seconds after START."""
    text = vllm_metrics(prompt=prompt, cached=cached, requests=requests, created=created)
    return scrape_of(parse_exposition(text, shown="f"), shown="f", at=START + at)


def test_the_window_ends_at_the_last_look_and_is_as_long_as_asked() -> None:
    watching = Watching(scrape(0, prompt=5000, cached=0), window=10)
    for second in range(1, 31):
        watching.scraped(scrape(second, prompt=5000 + 100 * second, cached=100 * max(0, second - 20)))
    assert watching.window.counts[names.PROMPT] == 1000
    assert watching.window.seconds == 10
    assert watching.window.hit_rate == pytest.approx(1.0)
    assert watching.since_attach.counts[names.PROMPT] == 3000
    assert watching.since_attach.hit_rate == pytest.approx(1 / 3)
    assert watching.since_start.counts[names.PROMPT] == 8000


def test_sums_are_those_of_both_lives_of_a_server_that_was_started_again() -> None:
    watching = Watching(scrape(0, prompt=1000, cached=500), window=30)
    watching.scraped(scrape(2, prompt=1600, cached=800))
    watching.missed("does not answer")
    assert (watching.state, watching.message) == ("no answer", "does not answer")
    assert watching.since_attach.counts[names.PROMPT] == 600
    watching.scraped(scrape(9, prompt=70, cached=0, created=START + 5))
    assert watching.state == "restarted"
    assert watching.restarts == 1
    assert watching.since_attach.counts[names.PROMPT] == 670
    assert watching.window.counts == {}
    watching.scraped(scrape(11, prompt=100, cached=10, created=START + 5))
    assert watching.state == "counting"
    assert watching.since_attach.counts[names.PROMPT] == 700
    assert watching.since_attach.seconds == 11
    assert watching.window.counts[names.PROMPT] == 30
    assert watching.since_start.counts[names.PROMPT] == 100


def test_of_several_servers_behind_one_url_nothing_is_added_up() -> None:
    one, other = CREATED, CREATED + 50  # both ran before the first look
    watching = Watching(scrape(0, prompt=1000, cached=500, created=one), window=30)
    for at, created in ((1, other), (2, one), (3, other)):
        watching.scraped(scrape(at, prompt=90_000, cached=500, created=created))
        assert watching.state == "several servers"
    assert watching.window.counts == watching.since_attach.counts == watching.since_start.counts == {}
    watching.missed("does not answer")
    assert watching.state == "several servers"
    document = watch_document(watching, source="http://h", at=0)
    assert document.since_attach.prompt_tokens is None
    assert document.log is None


def test_counters_that_fall_sooner_than_a_server_starts_are_of_several() -> None:
    """Nobody says when they began."""
    for falls, state in [((20,), "restarted"), ((20, 24), "several servers"), ((20, 40, 60), "restarted")]:
        watching = Watching(scrape(0, prompt=9000, cached=500, created=None), window=60)
        for at in falls:
            watching.scraped(scrape(at - 2, prompt=9000, cached=500, created=None))
            watching.scraped(scrape(at, prompt=90, cached=5, created=None))
        assert watching.state == state
        soon = Watching(scrape(0, prompt=9000, cached=500, created=None), window=60)
        soon.scraped(scrape(0.5, prompt=90, cached=5, created=None))
        assert soon.state == "several servers"


def test_the_log_has_all_requests_of_a_young_server_and_the_last_thousand_of_an_old_one() -> None:
    young = Watching(scrape(0, prompt=1000, cached=100, requests=10), window=30)
    assert young.logged == (0.1, 0)
    old = Watching(scrape(0, prompt=10**6, cached=10**6, requests=5000), window=30)
    assert old.logged == (None, 1000)
    old.scraped(scrape(1, prompt=10**6 + 400, cached=10**6, requests=5400))
    assert old.logged == (None, 600)
    old.scraped(scrape(2, prompt=10**6 + 1000, cached=10**6 + 250, requests=6000))
    assert old.logged == (0.25, 0)


def test_the_log_forgets_what_is_older_than_a_thousand_requests() -> None:
    rng = random.Random(3)
    rows = [(prompt := rng.randrange(10, 500), rng.randrange(prompt)) for _ in range(3000)]
    done = prompts = hits = 0
    watching = Watching(scrape(0, prompt=0, cached=0), window=30)
    for at in range(60):
        for prompt, hit in rows[done : done + 50]:
            prompts, hits = prompts + prompt, hits + hit
        done += 50
        watching.scraped(scrape(at + 1, prompt=prompts, cached=hits, requests=done))
        last = rows[max(0, done - 1000) : done]
        expected = sum(hit for _, hit in last) / sum(prompt for prompt, _ in last)
        assert watching.logged == (pytest.approx(expected), 0)


def test_hostile_counters_are_shares_between_nothing_and_all() -> None:
    document = watch_document(Watching(scrape(0, prompt=100, cached=5000), window=30), source="f", at=1.0)
    assert document.since_start.hit_rate == 1.0
    assert document.since_start.computed_tokens == 0
    assert document.log is not None
    assert document.log.hit_rate == 1.0
