"""Groups of one model, with tools and without: a provider counts schemas in its own way, and each group is predicted."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Command, some

WORDS = ("order", "parcel", "invoice", "refund", "login", "section", "handbook", "please", "check", "agent", "topic")
MARK = {"type": "ephemeral"}


def said(r: random.Random, words: int) -> str:
    return " ".join(r.choices(WORDS, k=words))


def app_requests(r: random.Random, app: str, weight: float) -> list[tuple[float, dict[str, Any]]]:
    """Conversations of an app whose marks are where they should be; `weight`: tokens of the provider for one of the schemas."""
    text = said(r, r.randint(900, 2500))
    schema = [
        {"name": f"{app}_{n}", "description": said(r, 40), "input_schema": {"type": "object"}}
        for n in range(r.randint(4, 12) if weight else 0)
    ]
    found = []
    for session in range(r.randint(3, 6)):
        now, history = session * 7200 + r.uniform(0, 600), list[dict[str, Any]]()
        stored = 0
        for _ in range(r.randint(3, 5)):
            now += r.uniform(20, 90)
            history.append({"role": "user", "content": said(r, r.randint(30, 90))})
            length = 8 + int(weight * len(schema) * 48) + sum(len(str(each).split()) for each in (text, *history))
            last = {
                "role": "user",
                "content": [{"type": "text", "text": history[-1]["content"], "cache_control": MARK}],
            }
            body: dict[str, Any] = {"model": "claude-sonnet-4-5", "max_tokens": 99, "messages": [*history[:-1], last]}
            body["system"] = [{"type": "text", "text": text}]
            if schema:
                body["tools"] = schema
            usage = {"input_tokens": 0, "cache_read_input_tokens": stored, "output_tokens": 40}
            usage["cache_creation_input_tokens"] = length - stored
            at = (datetime(2026, 11, 20, 9, tzinfo=UTC) + timedelta(seconds=now)).isoformat()
            record = {"timestamp": at, "session_id": f"{app}{session}", "metadata": {"app": app}, "request": body}
            found.append((now, {**record, "response": {"usage": usage}}))
            history.append({"role": "assistant", "content": said(r, r.randint(20, 60))})
            stored = length
    return found


@pytest.mark.parametrize("seed", some(range(6), 1))
def test_each_group_is_predicted_by_its_own_ratio(in_folder: Command, seed: int) -> None:
    r = random.Random(seed)
    requests = app_requests(r, "plain", 0.0) + app_requests(r, "tools", r.choice([0.5, 2.0, 3.0]))
    requests.sort(key=lambda request: request[0])
    Path("log.jsonl").write_text("".join(json.dumps(record) + "\n" for _, record in requests))
    code, out, err = in_folder("profile", "log.jsonl", "--group-by", "metadata.app", "--json", "--no-advice")
    assert code == 0, err
    report = json.loads(out)
    assert report["misses"]["calibration"]["differing"] == []
    assert report["misses"]["calibration"]["advises"]
    for group in report["money"]["by_group"].values():
        costs = group
        assert float(costs["predicted"]) == pytest.approx(float(costs["paid"]), rel=0.05)
