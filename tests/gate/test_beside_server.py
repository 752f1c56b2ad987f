"""`kvtool compare` of a server's counters with a report: both rates, and each reason that the counters show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run
from kvtool.results.documents.server_comparison import BesideServer
from tests.files import write
from tests.made_results import group, report
from tests.measure.servers.made_metrics import CREATED, vllm_metrics
from tests.measure.servers.metrics_server import ok, serving

for _needed in ("httpx", "prometheus_client"):
    pytest.importorskip(_needed, reason="the extra `live` is not installed")

CONFIG = {"input": "w.yaml", "block_size": 32, "capacity_blocks": 399, "enable_prefix_caching": True}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report that predicts 400 of 1,000 tokens in 10 requests."""
    monkeypatch.chdir(tmp_path)
    write("report.json", report(group(hit=400, tokens=1000), config=CONFIG).to_json())
    write("before.prom", vllm_metrics(prompt=5000, cached=700, requests=40))


def _beside(capsys: pytest.CaptureFixture[str], *flags: str, code: int = 0, **after: Any) -> BesideServer:
    write("after.prom", vllm_metrics(**{"prompt": 6000, "cached": 1100, "requests": 50, **after}))
    assert run(["compare", "after.prom", "report.json", "--before", "before.prom", "--json", *flags]) == code
    return BesideServer.model_validate_json(capsys.readouterr().out)


def test_as_many_tokens_and_hits_agree(capsys: pytest.CaptureFixture[str]) -> None:
    found = _beside(capsys)
    assert found.agree
    assert (found.difference, found.explained) == (0, [])
    assert (found.served.queried_tokens, found.served.hit_tokens, found.served.requests) == (1000, 400, 10)
    assert found.span == "between two scrapes"
    assert found.log is not None
    assert found.log.hit_rate == pytest.approx(1100 / 6000)  # what users take for that of their run


@pytest.mark.parametrize(
    ("after", "reason", "words"),
    [
        (
            {"requests": 53, "prompt": 6600},
            "other traffic",
            "3 more requests than predicted, and 600 more prompt tokens",
        ),
        (
            {"requests": 48, "prompt": 5800},
            "part of the workload",
            "2 fewer requests than predicted, and 200 fewer prompt tokens",
        ),
        ({"prompt": 6003}, "other tokens", "1,003 prompt tokens, predicted 1,000"),
        ({"cached": 1164}, "warm start", "64 more tokens hit"),
        ({"cached": 1000}, "unexplained", "kvtool replay"),
        ({"external": 32}, "second tier", "32 tokens came from another tier"),
        ({"cached": 1000, "preemptions": 2}, "preemptions", "2 preemptions"),
        (
            {"config": {"num_gpu_blocks": "200"}},
            "configuration",
            "capacity_blocks is 199 on the server, 399 in the report",
        ),
        ({"config": {"block_size": "16"}}, "configuration", "block_size is 16 on the server"),
        ({"created": CREATED + 9, "prompt": 1000, "cached": 300, "requests": 10}, "restart", "the server restarted"),
    ],
)
def test_each_reason_is_told_by_its_own_figures(
    after: dict[str, Any], reason: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _beside(capsys, **after)
    assert [each.reason for each in found.explained] == [reason]
    assert words in found.explained[0].text


def test_a_lower_rate_fails_where_that_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    _beside(capsys, "--exit-code")
    _beside(capsys, "--exit-code", cached=1200)
    _beside(capsys, "--exit-code", cached=1000, code=1)
    _beside(capsys, cached=1000)


def test_without_a_scrape_before_it_counts_since_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "before.prom", "report.json", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["span"] == "since its start"
    assert found["served"]["queried_tokens"] == 5000
    assert found["explained"][0]["reason"] == "other traffic"


def test_a_running_server_is_asked_twice_for_a_window(capsys: pytest.CaptureFixture[str]) -> None:
    def answer(_: str, before: int) -> Any:
        return ok(vllm_metrics(prompt=5000 + 1000 * before, cached=700 + 400 * before, requests=40 + 10 * before))

    with serving(answer) as server:
        assert run(["compare", f"{server.url}/metrics", "report.json", "--window", "100ms", "--json"]) == 0
        assert server.asked == ["/metrics", "/metrics"]
    assert BesideServer.model_validate_json(capsys.readouterr().out).agree


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_terminal_shows_both(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    write("after.prom", vllm_metrics(prompt=6600, cached=1100, requests=53))
    arguments = ["compare", "after.prom", "report.json", "--before", "before.prom", "--width", str(width)]
    assert run(arguments) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width
    assert "40.0%" in out
    assert "25.0%" in out
    assert "other traffic" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["report.json", "report.json", "--window", "1s"], "--window needs a server, but OLD is a saved result"),
        (
            ["report.json", "report.json", "--before", "before.prom"],
            "--before needs a server, but OLD is a saved result",
        ),
        (["before.prom", "report.json", "--before", "before.prom", "--window", "1s"], "leave one out"),
        (["before.prom", "report.json", "-o", "x.md"], "--output does not work with a server"),
        (["before.prom", "before.prom"], "before.prom"),
        (["missing.prom", "report.json"], "no such file"),
        (["other.prom", "report.json", "--before", "before.prom"], "several servers"),
        (["before.prom", "empty.json"], "predicts no requests"),
    ],
)
def test_what_cannot_be_compared_is_told(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    write("other.prom", vllm_metrics(created=CREATED - 7))
    write(
        "empty.json",
        report(group(hit=0, reachable=0, tokens=1, requests=1), config=CONFIG)
        .to_json()
        .replace('"prompt_tokens": 1,', '"prompt_tokens": 0,'),
    )
    assert run(["compare", *arguments]) == 2
    assert words in " ".join(capsys.readouterr().err.split())
