"""--audit: reuse of KV changes no output."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kvtool.engine.model.model_runner import ModelRunner
from kvtool.engine.step import EngineStep
from tests.cli.engine_flags.conftest import MEASURED, Capture, Document, Shown, refused


def test_reuse_flips_nothing(checkpoint: Path, shown: Shown) -> None:
    text = shown("--audit", *MEASURED, "-o", "r.json")
    found = json.loads(Path("r.json").read_text())
    audit = found["ttft"]["measured"]["audit"]
    assert (audit["requests"], audit["tokens"], audit["flips"]) == (24, 24, [])
    assert 0 <= audit["max_difference"] < 1e-3
    assert found["verdict"] == "pass"
    assert "Reuse audit: 24 requests, largest logit difference" in text
    assert "no token changes" in text


def test_a_broken_reuse_fails(
    checkpoint: Path, shown: Shown, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy = ModelRunner.run

    def spoiled(self: ModelRunner, step: EngineStep) -> list[int | None]:
        for request, start, _ in step.scheduled:
            if start == request.num_cached_tokens > 0:
                for cache in (*self.kv.k, *self.kv.v):
                    cache[request.block_ids[:4]] = float("nan") if request.id.endswith("9") else 9.0
        return healthy(self, step)

    monkeypatch.setattr(ModelRunner, "run", spoiled)
    text = shown("--audit", *MEASURED, "-o", "r.json", code=1)
    found = json.loads(Path("r.json").read_text())
    assert found["verdict"] == "fail"
    assert (audit := found["ttft"]["measured"]["audit"])["flips"]
    assert audit["max_difference"] is None  # JSON has no infinity
    assert "FAIL 1 gate (audit: reuse changed a token)" in text
    assert "an error: fp32 must be exact" in text
    assert re.search(r"Changed in \S+ at position 80: token \d+ became \d+, margin", text)
    assert document("--audit", *MEASURED, "--dtype", "bfloat16")["verdict"] == "none"  # there rounding may flip tokens
    assert document(*MEASURED)["verdict"] == "none"


def test_an_audit_needs_real_runs(folder: Path, capsys: Capture) -> None:
    for flags in (["--dry-run"], ["--measure-budget", "0"]):
        assert "--audit compares the logits of real runs" in refused(["profile", "w.yaml", "--audit", *flags], capsys)
