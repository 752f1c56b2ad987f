"""Logs of servers that only count tokens: reads are reported, and nothing is predicted."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

from tests.conftest import Command, some
from tests.measure.servers.made_metrics import vllm_metrics


@pytest.mark.parametrize("seed", some(range(3), 1))
def test_counts_without_prompts_predict_nothing(in_folder: Command, seed: int) -> None:
    r = random.Random(seed)
    sums = [0, 0]
    lines = []
    for task in range(r.randint(1, 5)):
        prompt = r.randint(100, 9_000)
        cached = r.randrange(prompt)
        sums = [sums[0] + prompt, sums[1] + cached]
        usage = {"prompt_tokens": prompt, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": cached}}
        lines.append(json.dumps({"id": f"c{task}", "object": "chat.completion", "model": "own", "usage": usage}))
    Path("log.jsonl").write_text("\n".join(lines) + "\n")
    code, out, err = in_folder("profile", "log.jsonl", "--json")
    assert code == 0, err
    report = json.loads(out)
    assert (report["reported"]["prompt_tokens"], report["reported"]["cached_tokens"]) == tuple(sums)
    assert report.get("predicted") is None
    assert report["ttft"] == {"measured": None, "predicted": {"on": None, "off": None}}
    shown = in_folder("profile", "log.jsonl")[1]
    assert "Predicted" not in shown
    assert "TTFT p50" not in shown


def test_metrics_may_be_compressed(in_folder: Command) -> None:
    pytest.importorskip("httpx", reason="needs the extra `live`")
    Path("m.prom").write_text(vllm_metrics())
    Path("m.prom.gz").write_bytes(gzip.compress(vllm_metrics().encode()))
    plain, packed = (json.loads(in_folder("why", name, "--json")[1]) for name in ("m.prom", "m.prom.gz"))
    assert packed["prompt_tokens"] == plain["prompt_tokens"] == 1000
    assert packed["causes"] == plain["causes"]
