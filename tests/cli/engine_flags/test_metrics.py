"""--metrics-out agrees with the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.engine_flags.conftest import Document, put_config, samples


@pytest.mark.parametrize("flags", [[], ["--capacity", "30"], ["--concurrency", "3"], ["--rules", "block-lru"]])
def test_metrics_agree_with_the_report(flags: list[str], folder: Path, document: Document) -> None:
    found = document("--dry-run", "--metrics", "m.prom", *flags)
    values, totals = samples(folder / "m.prom"), found["totals"]
    assert values["vllm:prompt_tokens_total"] == values["vllm:prefix_cache_queries_total"] == totals["prompt_tokens"]
    assert values["vllm:prefix_cache_hits_total"] == values["vllm:prompt_tokens_cached_total"] == totals["hit_tokens"]
    assert values["vllm:num_preemptions_total"] == totals["preemptions"]
    assert values["vllm:generation_tokens_total"] == 24 * 4
    assert values["vllm:time_to_first_token_seconds_count"] == totals["requests"] == 24
    assert values['vllm:time_to_first_token_seconds_bucket{le="+Inf"}'] == 24
    assert ("vllm:kv_cache_usage_perc" in values) == ("--capacity" in flags)


def test_metrics_of_a_model_with_an_odd_name(folder: Path, document: Document) -> None:
    name = 'a "model" \udc80'
    put_config(folder / name)
    document("--dry-run", "--metrics", "m.prom", "--model", name)
    assert r'model_name="a \"model\" ?"' in (folder / "m.prom").read_text(encoding="utf-8")
