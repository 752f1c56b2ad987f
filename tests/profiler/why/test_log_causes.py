"""Causes of a log: each fate and each difference of a report has one, and only facts of the server explain what it missed."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from kvtool.accounting.ledger.fates import FATES
from kvtool.profiler.why.log_causes import FIRST_USES, log_causes, unexplained
from kvtool.results.documents.server_cause import CauseName, ServerCause
from tests.made_results import group
from tests.made_results import report as made_report

HOSTED = {"below_minimum", "unmarked"}
"""Fates that only hosted models have."""


def report(**more: Any) -> Any:
    """A report with these parts."""
    return made_report(group()).model_copy(update={"findings": [], "difference": None, "reported": None, **more})


def causes(of: Any, *found: ServerCause, caching: bool | None = True, missed: int = 0) -> dict[str, int | None]:
    """Tokens by cause."""
    return {each.cause: each.tokens for each in log_causes(of, found, "vLLM", caching=caching, missed=missed)}


@pytest.mark.parametrize("fate", [fate for fate in FATES if fate not in (*FIRST_USES, *HOSTED, "hit")])
def test_every_fate_of_a_token_that_could_hit_has_a_cause(fate: str) -> None:
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
