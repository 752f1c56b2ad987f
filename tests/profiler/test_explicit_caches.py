"""Explicit caches of Gemini: storage is priced by tokens and hours, and lost prefixes are compared with a named cache."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from kvtool.accounting.prices.bill import shown_money
from kvtool.cli.app import run
from tests.conftest import Command
from tests.files import write

NAME = "cachedContents/menu-of-the-week"
CREATED, EXPIRES = "2026-10-20T08:00:00.123456789Z", "2026-10-20T11:00:00.123456789Z"
CACHE = {
    "name": NAME,
    "model": "models/gemini-2.5-pro",
    "createTime": CREATED,
    "expireTime": EXPIRES,
    "usageMetadata": {"totalTokenCount": 50_000},
}
MAKING = {
    "timestamp": "2026-10-20T08:00:00Z",
    "request": {
        "model": "models/gemini-2.5-pro",
        "contents": [{"role": "user", "parts": [{"text": "the whole menu"}]}],
        "ttl": "10800s",
    },
    "response": CACHE,
}


def asked(number: int, cached: Any = NAME, model: str = "gemini-2.5-pro", **around: Any) -> dict[str, Any]:
    usage = {"promptTokenCount": 50_200, "cachedContentTokenCount": 50_000, "candidatesTokenCount": 300}
    return {
        "timestamp": f"2026-10-20T08:{number + 1:02}:00Z",
        "request": {
            "model": model,
            "contents": [{"role": "user", "parts": [{"text": f"{number} what is there today?"}]}],
            "cachedContent": cached,
        },
        "response": {"candidates": [{"content": {"parts": [{"text": "soup"}]}}], "usageMetadata": usage},
        **around,
    }


def money(in_folder: Command, records: list[dict[str, Any]]) -> dict[str, Any]:
    write("prod.jsonl", "\n".join(json.dumps(record) for record in records))
    code, out, err = in_folder("profile", "prod.jsonl", "--dry-run", "--json")
    assert code == 0, err
    report = json.loads(out)
    assert report["totals"]["requests"] == sum("candidates" in record.get("response", {}) for record in records)
    found: dict[str, Any] = report["money"]
    return found


def test_bill_4_from_a_log_with_the_making_of_the_cache(in_folder: Command) -> None:
    found = money(in_folder, [MAKING, *(asked(number) for number in range(40))])
    parts = {name: Decimal(amount) for name, amount in found["paid_parts"].items()}
    assert parts["storage"] == Decimal("0.675")
    assert parts["input"] == Decimal("0.0625") + 40 * 200 * Decimal("1.25") / 10**6
    assert Decimal(found["paid"]) == Decimal("1.1175")
    assert Decimal(found["without_cache"]) == Decimal("2.63")
    assert not [note for note in found["notices"] if "storage" in note]
    _, terminal, _ = in_folder("profile", "prod.jsonl", "--dry-run")
    assert "storage $0.68" in " ".join(terminal.split())
    assert "left out: 1 explicit cache" in terminal


@pytest.mark.parametrize(
    "records",
    [
        [CACHE, asked(1)],
        [{"cachedContents": [CACHE]}, asked(1)],
        [asked(1, cached=CACHE)],
        [asked(1, cachedContents=[CACHE])],
        [asked(1, cached={"name": NAME, "ttl": "10800s"})],
        [asked(1), {**CACHE, "expireTime": "2026-10-20T09:00:00Z"}, CACHE],
    ],
    ids=["a resource", "a list of them", "in the request", "around it", "its time to live", "moved later"],
)
def test_storage_is_tokens_times_hours_and_each_cache_counts_once(
    in_folder: Command, records: list[dict[str, Any]]
) -> None:
    assert Decimal(money(in_folder, records)["paid_parts"]["storage"]) == Decimal("0.675")


@pytest.mark.parametrize(
    ("records", "lack"),
    [
        (
            [asked(1), asked(2)],
            "1 explicit cache is not in the sums: the log lacks their times",
        ),
        (
            [asked(1, cached={"name": NAME, "ttl": "60s"}, model="gemini-2.5-flash-lite-preview-06-17")],
            "no storage price is known for gemini-2.5-flash-lite-preview-06-17",
        ),
        ([{**CACHE, "usageMetadata": {}}, asked(1, cached=None)], "their number of tokens"),
    ],
)
def test_what_the_log_does_not_say_is_told_and_not_guessed(
    in_folder: Command, records: list[dict[str, Any]], lack: str
) -> None:
    found = money(in_folder, records)
    assert Decimal(found["paid_parts"]["storage"]) == 0
    [note] = [note for note in found["notices"] if "storage of" in note]
    assert lack in note
    assert str(Path("prod.jsonl")) not in note


def test_the_making_of_a_cache_is_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write("prod.jsonl", "\n".join(json.dumps(record) for record in (MAKING, asked(1))))
    assert run(["logs", "prod.jsonl", "--json", "--requests"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["requests"], found["left_out"]) == (1, {"explicit caches": 1})


@pytest.mark.parametrize("created", [10**40, -(10**40), 1e300])
def test_a_time_of_making_that_is_no_date_is_no_bug(created: float, in_folder: Command) -> None:
    cache = {**CACHE, "createTime": created, "expireTime": created}
    assert money(in_folder, [{**MAKING, "response": cache}, asked(0)])


def test_prefixes_that_the_provider_lost_are_cheaper_in_a_named_cache(in_folder: Command) -> None:
    """Twelve questions about one text, half a minute apart, of which nothing is read: made once, kept seven minutes."""
    manual = "Answer every question about parcels from this handbook only. " * 250
    records = []
    for number in range(12):
        asking = [{"role": "user", "parts": [{"text": f"What about parcel {number}?"}]}]
        body = {"model": "gemini-2.5-flash", "systemInstruction": {"parts": [{"text": manual}]}, "contents": asking}
        usage = {"promptTokenCount": 3_010, "cachedContentTokenCount": 0, "candidatesTokenCount": 9}
        answer = {"candidates": [{"content": {"parts": [{"text": "yes"}]}}], "usageMetadata": usage}
        time = f"2026-10-20T08:{number // 2:02}:{30 * (number % 2):02}Z"
        records.append({"timestamp": time, "request": body, "response": answer})
    write("prod.jsonl", "\n".join(json.dumps(record) for record in records))
    code, out, err = in_folder("optimize", "prod.jsonl", "--json")
    assert code == 0, err
    (cache,) = json.loads(out)["named_caches"]
    assert (cache["end"], cache["made"], cache["requests"], cache["ttl"]) == ("system_instruction", 1, 12, 60.0)
    seconds, tokens = 11 * 30 + 60, cache["tokens"]
    assert Decimal(cache["storage"]) == Decimal(tokens) * seconds / 3600 / 10**6
    prompts = tokens * Decimal("0.3") + 12 * (tokens * Decimal("0.03") + (3_010 - tokens) * Decimal("0.3"))
    assert Decimal(cache["cost"]) == pytest.approx(prompts / 10**6 + Decimal(cache["storage"]))
    assert Decimal(cache["paid"]) == 12 * 3_010 * Decimal("0.3") / 10**6
    screen = " ".join(in_folder("optimize", "prod.jsonl")[1].split())
    assert 'types.CreateCachedContentConfig(system_instruction=instructions, tools=tools, ttl="60s")' in screen
    assert "Explicit caches would cost" in in_folder("profile", "prod.jsonl")[1]
    found = json.loads(in_folder("what-if", "prod.jsonl", "--json")[1])
    (row,) = [each for each in found["rows"] if each["change"] == "explicit caches"]
    output = Decimal(12 * 9) * Decimal("2.5") / 10**6
    assert Decimal(row["cost"]) == Decimal(cache["cost"]) + output
    assert (row["hit_blocks"], row["references"], row["sure"]) == (12 * tokens, 12 * 3_010, "predicted")
    said = found["answer"][-1]
    assert not [each for each in found["answer"] if "no change" in each.lower()]
    assert f"cost {shown_money(Decimal(cache['cost']))} instead of {shown_money(Decimal(cache['paid']))}" in said
