"""The dashboard in docs/ asks for nothing that a server, or kvtool itself, does not write."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kvtool.accounting.metrics import Metrics, prometheus_text
from kvtool.measure.servers.metrics.exposition import parse_exposition, read_exposition
from tests.measure.servers.recordings import recording

for _needed in ("httpx", "prometheus_client"):
    pytest.importorskip(_needed, reason="the extra `live` is not installed")

_DASHBOARD = Path(__file__).resolve().parents[3] / "docs/grafana-dashboard.json"
_NAME = re.compile(r"vllm:\w+")


@pytest.fixture(scope="module")
def dashboard() -> Any:
    return json.loads(_DASHBOARD.read_text(encoding="utf-8"))


def _asked(dashboard: Any) -> set[str]:
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += [each["query"]["query"] for each in dashboard["templating"]["list"] if isinstance(each["query"], dict)]
    assert all(asked)
    return {name for text in asked for name in _NAME.findall(text)}


def test_every_metric_is_one_that_a_server_publishes(dashboard: Any) -> None:
    text = recording("concurrent") / "metrics_after.txt"
    assert _asked(dashboard) <= set(read_exposition(str(text)).samples)


def test_what_kvtool_writes_fills_the_panels_that_are_about_the_cache(dashboard: Any) -> None:
    metrics = Metrics("m", 10, 5, 10, 5, 3, 0, [0.1], 1, [5], {"block_size": "16"}, 0.5)
    written = set(parse_exposition(prometheus_text(metrics), shown="f").samples)
    only_live = _asked(dashboard) - written
    assert only_live == {
        "vllm:external_prefix_cache_hits_total",
        "vllm:external_prefix_cache_queries_total",
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:request_prefill_time_seconds_bucket",
        "vllm:request_queue_time_seconds_bucket",
    }


def test_panels_lie_side_by_side(dashboard: Any) -> None:
    taken: set[tuple[int, int]] = set()
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken
        taken |= cells


def test_brackets_of_queries_close(dashboard: Any) -> None:
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            assert all(target["expr"].count(a) == target["expr"].count(b) for a, b in ("()", "{}", "[]"))
