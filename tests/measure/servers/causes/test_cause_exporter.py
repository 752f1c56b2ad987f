"""Prometheus counters of causes: what is served, where, and that the alert rules in docs/ ask for nothing else."""

from __future__ import annotations

import re
import socket
from collections import Counter
from pathlib import Path

import pytest
import yaml

pytest.importorskip("httpx", reason="needs the extra `live`")
pytest.importorskip("msgspec", reason="needs the extra `live`")

import httpx

from kvtool.errors import KvtoolError
from kvtool.measure.servers.causes.cause_exporter import CauseExporter, exported
from kvtool.measure.servers.causes.event_losses import Loss, LossSums
from kvtool.measure.servers.metrics.counters import scrape_of
from kvtool.measure.servers.metrics.exposition import parse_exposition
from kvtool.measure.servers.metrics.watching import Watching, watch_document
from tests.measure.servers.made_metrics import vllm_metrics

RULES = Path(__file__).resolve().parents[4] / "docs/alert-rules.yaml"
LOSSES = LossSums(Counter[Loss]({"capacity": 320, "repeated": 32, "first_use": 640, "last_block": 16}))


def text() -> str:
    """What is exported of a server with losses."""
    watching = Watching(scrape_of(parse_exposition(vllm_metrics(), shown="f"), shown="f", at=1.0), window=9)
    watching.scraped(scrape_of(parse_exposition(vllm_metrics(prompt=1100, cached=450), shown="f"), shown="f", at=2.0))
    return exported(watch_document(watching, source="http://h", at=2.0), LOSSES)


def test_counters_are_those_of_the_losses() -> None:
    found = parse_exposition(text(), shown="f")
    lost = {each.labels["cause"]: each.value for each in found.of("kvtool_lost_tokens_total")}
    assert {cause: tokens for cause, tokens in lost.items() if tokens} == {"capacity": 320, "prompts": 32}
    assert found.of("kvtool_first_use_tokens_total")[0].value == 640
    assert found.of("kvtool_hit_rate")[0].value == pytest.approx(0.5)
    assert found.of("kvtool_server_up")[0].value == 1


def test_it_is_served_on_this_machine_alone_and_ends_with_the_block() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with CauseExporter(port) as exporter:
        exporter.show(text())
        assert httpx.get(f"http://127.0.0.1:{port}/metrics").text == text()
        assert httpx.get(f"http://127.0.0.1:{port}/other").status_code == 404
        with pytest.raises(KvtoolError, match=f"--metrics-port {port}"):
            CauseExporter(port)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}/metrics")


def test_alert_rules_ask_for_nothing_else() -> None:
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"][0]["rules"]
    asked = {name for rule in rules for name in re.findall(r"(?:kvtool_|vllm:)\w+", rule["expr"])}
    written = set(parse_exposition(text() + vllm_metrics(), shown="f").samples)
    assert asked <= written
    assert {name for name in written if name.startswith("kvtool_")} <= asked
    for rule in rules:
        assert rule["annotations"]["summary"]
        assert all(rule["expr"].count(a) == rule["expr"].count(b) for a, b in ("()", "{}", "[]"))
