"""The gain of one cache key is that of the same log with one key."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

import kvtool
from kvtool.accounting.prices.bill import shown_money
from kvtool.results.finding import Finding
from kvtool.results.report import Report
from kvtool.text.terminal.numbers import percent
from tests.conftest import some

Command = Callable[..., tuple[int, str, str]]


def profiled(path: Path, keys: Sequence[str], texts: Sequence[str], system: str, tokenizer: str) -> Report:
    lines = []
    for number, (key, text) in enumerate(zip(keys, texts, strict=True)):
        body = {"model": "gpt-5.1", "prompt_cache_key": key, "instructions": system, "input": text}
        read = (len(system) - len(system) % 128) * (key in keys[:number])
        usage = {"input_tokens": len(system) + len(text), "input_tokens_details": {"cached_tokens": read}}
        response = {"object": "response", "output": [], "usage": usage}
        time = f"2026-11-20T09:00:{number:02}Z"
        lines.append({"timestamp": time, "request": body, "response": response})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return kvtool.profile(str(path), tokenizer=tokenizer)


@pytest.mark.parametrize("seed", some(range(3), 1))
def test_the_gain_is_that_of_the_log_with_one_key(seed: int, tmp_path: Path, bytes_json: str) -> None:
    source = random.Random(seed)
    system = "".join(source.choice("abcdefgh ") for _ in range(source.randrange(2_000, 4_000)))
    texts = ["".join(source.choice("ijklmnop ") for _ in range(60)) for _ in range(12)]
    keys = [f"user-{source.randrange(6)}" for _ in texts]
    split = profiled(tmp_path / "split.jsonl", keys, texts, system, bytes_json)
    one = profiled(tmp_path / "one.jsonl", ["k"] * 12, texts, system, bytes_json)
    assert split.money is not None
    assert one.money is not None
    assert one.predicted is not None
    (found,) = [each for each in split.findings if each.code == "KV302"]
    costs = [shown_money(Decimal(each.money.predicted or "0"), "USD") for each in (one, split) if each.money]
    assert found.fix.endswith(f"costs {costs[0]} instead of {costs[1]}")
    assert f"a hit rate of {percent(one.predicted.hit_rate)} instead of" in found.fix
    assert not [each for each in one.findings if each.code == "KV302"]


def test_all_commands_name_the_same_change_first(tmp_path: Path, bytes_json: str, in_folder: Command) -> None:
    source = random.Random(3)
    system, keys = "".join(source.choice("abcdefgh ") for _ in range(3_000)), [f"user-{at}" for at in range(8)]
    profiled(tmp_path / "log.jsonl", keys, [str(at) * 60 for at in range(8)], system, bytes_json)
    for name in ("profile", "what-if", "optimize"):
        code, out, _ = in_folder(name, "log.jsonl")
        assert code == 0
        assert "Use one cache key and one account for all prompts that share a prefix" in " ".join(out.split()), name


def kept_apart(path: Path, keys: int, requests: int, tokenizer: str, output: int = 0) -> Finding:
    """Return the finding on keys of a log whose requests are two hours apart, one key after the other."""
    lines = []
    for number in range(requests):
        text = f"question {number}"
        body = {"model": "gpt-5.1", "instructions": "a" * 2_000, "input": text, "prompt_cache_retention": "in_memory"}
        body["prompt_cache_key"] = f"user-{number % keys}"
        usage = {
            "input_tokens": 2_000 + len(text),
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": output,
        }
        response = {"object": "response", "output": [], "usage": usage}
        time = (datetime(2026, 3, 20, tzinfo=UTC) + timedelta(hours=2 * number)).isoformat()
        lines.append({"timestamp": time, "request": body, "response": response})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (found,) = [each for each in kvtool.profile(str(path), tokenizer=tokenizer).findings if each.code == "KV302"]
    return found


def test_a_longer_retention_is_named_where_one_key_alone_saves_nothing(tmp_path: Path, bytes_json: str) -> None:
    """One key alone has expired, and 24 hours alone help each key."""
    found = kept_apart(tmp_path / "log.jsonl", 5, 10, bytes_json)
    assert 'and set "prompt_cache_retention": "24h": a rerun then has' in found.fix
    assert found.severity != "info"


def test_keys_need_no_fix_where_the_retention_alone_saves_as_much(tmp_path: Path, bytes_json: str) -> None:
    found = kept_apart(tmp_path / "log.jsonl", 2, 20, bytes_json, output=2_000)
    assert found.fix.endswith('; the present keys cost $0.41 where you set "prompt_cache_retention": "24h"')
    assert found.severity == "info"
