"""What `kvtool watch` names while a fault happens on a live server, on its screen and at its port for Prometheus."""

from __future__ import annotations

import contextlib
import io
import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import httpx

from kvtool.cli.app import run
from kvtool.measure.servers.causes.cause_exporter import LOST
from kvtool.measure.servers.metrics.exposition import parse_exposition
from tests.measure.servers.real_vllm import free_port

_BEFORE, _AFTER = 3.0, 2.0
"""Seconds of watching before the traffic begins, and between its end and the reading of the counters."""


def seen_by_watch(url: str, traffic: Callable[[], None], *, seconds: int, events: bool) -> dict[str, Any]:
    """Return what is known at the last look: causes as in a document of `kvtool why`, and those of the exported counters."""
    port = free_port()
    exported: list[str] = []

    def beside() -> None:
        time.sleep(_BEFORE)
        traffic()
        time.sleep(_AFTER)
        exported.append(httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=30).text)

    thread = threading.Thread(target=beside)
    thread.start()
    follow = ["--kv-events", "server"] if events else []
    looks = ["--interval", "1s", "--window", f"{seconds}s", "--count", str(seconds), "--metrics-port", str(port)]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = run(["watch", url, *follow, *looks, "--json"])
    assert code == 0, err.getvalue()
    assert exported, "the traffic took longer than the span"
    thread.join()
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    sure = [_sure(line) for line in lines]
    last = sure[-1]
    first = next((at for at, each in enumerate(sure) if each[:1] == last[:1]), None)
    found = {
        "verdict": "cause" if last else "unknown",
        "causes": [{"cause": name} for name in last],
        "notes": [f"first named at look {first} of {len(lines)}", f"exported: {_exported(exported[0])}"],
        "hit_rate": lines[-1]["window"]["hit_rate"],
    }
    if last and events and next(iter(_exported(exported[0])), None) != last[0]:
        found["causes"].insert(0, {"cause": f"{last[0]} on the screen, not in the counters"})
    return found


def _sure(line: dict[str, Any]) -> Sequence[str]:
    """The causes that a line of `watch` states; what is only possible blames nobody."""
    if line["state"] in ("several servers", "restarted"):
        return ["several servers" if line["state"] == "several servers" else "restart"]
    return [each["cause"] for each in line["causes"] if each["basis"] != "possible"]


def _exported(text: str) -> dict[str, int]:
    """The counters of causes that lost something, the largest first."""
    lost = {each.labels["cause"]: int(each.value) for each in parse_exposition(text, shown="counters").of(LOST)}
    return {name: lost[name] for name in sorted(lost, key=lambda name: -lost[name]) if lost[name]}
