"""Causes of a log: each fate and each difference of a report has one, and only facts of the server explain what it missed."""

from __future__ import annotations

import random
from typing import Any, get_args

from kvtool.accounting.ledger.fates import FATES
from kvtool.profiler.why.log_causes import FIRST_USES, log_causes, unexplained
from kvtool.results.documents.server_cause import CauseName, ServerCause
from kvtool.results.finding import Finding, Rerun
from kvtool.results.misses import MISS_CAUSES, CacheMisses, MissSum, ReportAgreement
from tests.made_results import group
from tests.made_results import report as made_report


def report(**more: Any) -> Any:
    """A report with these parts."""
    return made_report(group()).model_copy(update={"findings": [], "difference": None, "reported": None, **more})


def causes(of: Any, *found: ServerCause, caching: bool | None = True, missed: int = 0) -> dict[str, int | None]:
    """Tokens by cause."""
    return {each.cause: each.tokens for each in log_causes(of, found, "vLLM", caching=caching, missed=missed)}


def test_every_fate_of_a_token_that_could_hit_has_a_cause() -> None:
    for fate in [fate for fate in FATES if fate not in (*FIRST_USES, "hit")]:
        found = causes(report(fates={"hit": 5, fate: 70, "unique": 9}))
        assert list(found.values()) == [70]
        assert set(found) <= set(get_args(CauseName))


def test_first_uses_are_no_loss() -> None:
    assert causes(report(fates={"hit": 5, "first_use": 70, "unique": 9})) == {}


def test_what_the_server_missed_needs_a_fact_of_the_server() -> None:
    missed = report(fates={"hit": 100}, difference={"not_explained": 40})
    assert causes(missed) == {}
    assert unexplained(missed, []) == 40
    restart = ServerCause(
        cause="restart", basis="shown", tokens=None, why="It restarted.", change="", source="/metrics"
    )
    routing = restart.model_copy(update={"cause": "routing", "basis": "possible"})
    assert causes(missed, routing, restart) == {"restart": 40}
    assert causes(missed, routing) == {"routing": 40}
    smaller = report(fates={"hit": 100}, difference={"evicted_there": 40})
    assert causes(smaller) == {"capacity": 40}


def test_a_cache_that_is_on_and_reads_nothing_is_not_called_off() -> None:
    nothing = report(fates={"hit": 100}, difference={"caching_off": 100})
    assert causes(nothing, caching=None) == {"caching off": 100}
    assert causes(nothing, caching=True) == {}


def hosted(**more: Any) -> Any:
    """A report of a provider's rules."""
    found = report(**more)
    return found.model_copy(update={"config": {**found.config, "rules_by_day": True}})


def finding(code: str, tokens: int, fix: str) -> Finding:
    """A finding of a group."""
    return Finding.of(code, "error", "g", "", 0, 0, "it happened", tokens, fix)


def test_a_provider_has_no_capacity_and_its_findings_name_the_change() -> None:
    found = hosted(
        fates={"hit": 5, "expired": 60, "unmarked": 30, "isolated": 7, "unique": 9},
        findings=[finding("KV305", 60, "mark it for 1 hour"), finding("KV203", 30, "mark the end")],
    )
    said = {each.cause: each for each in log_causes(found, (), None, caching=None)}
    assert {name: each.tokens for name, each in said.items()} == {
        "expiry": 60,
        "missing cache breakpoints": 30,
        "cache keys": 7,
    }
    assert said["expiry"].change == "Mark it for 1 hour."
    assert said["missing cache breakpoints"].change == "Mark the end."


def test_every_cause_of_a_miss_is_named_where_the_rules_do_not_give_the_reads() -> None:
    rng = random.Random(7)
    names = [name for name in MISS_CAUSES if name not in ("unknown", "evicted")]
    for _ in range(20):
        tokens = {name: rng.randint(1, 999) for name in rng.sample(names, rng.randint(1, len(names)))}
        sums = {name: MissSum(events=1, tokens=count, written=0, cost=None) for name, count in tokens.items()}
        misses = CacheMisses.model_construct(by_cause=sums, predictable=False)
        found = causes(hosted(fates={"hit": 1, "evicted": 5}, misses=misses), caching=None)
        assert sum(count or 0 for count in found.values()) == sum(tokens.values())
        assert "capacity" not in found


def test_the_figure_beside_an_edit_is_of_this_edit_alone() -> None:
    rates = {"group_before": 0.1, "group_after": 0.9, "total_before": 0.1, "total_after": 0.8, "group_predicted": None}
    edit = finding("KV101", 50, "move it").model_copy(update={"rerun": Rerun(**rates, group_alone=0.45)})
    change = next(log_causes(report(fates={"blocked": 50}, findings=[edit]), (), None, caching=None)).change
    assert "45.0%" in change
    assert "80.0%" not in change


def test_reports_say_whether_hosts_or_keys_keep_prompts_apart() -> None:
    agree = ReportAgreement(requests=9, agree=9, advises=True)
    for names, expected in (
        ({"host_changed": 50, "replicas": 4, "key_changed": 3}, {"routing": 54, "cache keys": 3}),
        ({"expired": 9}, {"cache keys": 70}),
    ):
        sums = {name: MissSum(events=1, tokens=count, written=0, cost=None) for name, count in names.items()}
        misses = CacheMisses.model_construct(by_cause=sums, predictable=True, calibration=agree)
        assert causes(hosted(fates={"hit": 5, "isolated": 70}, misses=misses), caching=None) == expected
