"""Fields of requests that decide about the cache of OpenAI: tried by another run, and named where they win."""

from __future__ import annotations

import json
from typing import Any

from tests.conftest import Command
from tests.profiler.test_money import Sent, profiled, written


def finding(report: dict[str, Any], code: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in report["findings"] if one["code"] == code)
    return found


def test_a_longer_retention_keeps_prefixes(in_folder: Command) -> None:
    sent = [Sent("gpt-5.2", 1200.0 * n, cached=None, body={"prompt_cache_retention": "in_memory"}) for n in range(6)]
    expired = finding(profiled(in_folder, sent), "KV305")
    assert expired["fix"].startswith('set "prompt_cache_retention": "24h"')
    assert expired["tried"]["group_after"] > 0.7 > 0.0 == expired["tried"]["group_before"]


def test_the_retention_that_a_request_names_says_when_its_prefix_is_gone(in_folder: Command) -> None:
    """Without one, the model keeps it for a day."""
    for asked, cause in (({"prompt_cache_retention": "in_memory"}, "expired"), ({}, "provider")):
        sent = [Sent("gpt-5.1", 1200.0 * n, cached=0, body=asked) for n in range(4)]
        assert list(profiled(in_folder, sent)["misses"]["causes"]) == [cause]


def test_one_retention_is_predicted_explained_and_advised(in_folder: Command) -> None:
    """A request that names none has the model's own: at most a day. A pause within it is a reason to name it, and no other run."""
    for asked in ({}, {"prompt_cache_retention": "24h"}):
        sent = [
            Sent("gpt-5.1", 10_800.0 * (n > 2) + 10 * n, cached=2048 * (n not in (0, 3)), body=asked) for n in range(6)
        ]
        report = profiled(in_folder, sent)
        assert report["difference"] == {"expired": 2048}
        (event,) = report["misses"]["events"]
        assert event["detail"].endswith("kept for at most 24 h, usually 1 h")
        assert event["longer_life"] == (None if asked else '"prompt_cache_retention": "24h"')
        table = json.loads(in_folder("what-if", written(sent), "--json")[1])
        assert [row["kind"] for row in table["rows"]] == ["today"]
        assert any('Set "prompt_cache_retention": "24h"' in line for line in table["answer"]) is (not asked)
        assert not any(" mark" in line for line in table["answer"])


def test_a_model_without_retentions_is_offered_none(in_folder: Command) -> None:
    mark = {"type": "ephemeral"}
    sent = [Sent("claude-sonnet-4-5", 7200.0 * n, 5100, None, system=5000, mark=mark) for n in range(4)]
    assert "retention" not in str(profiled(in_folder, sent)["findings"])
