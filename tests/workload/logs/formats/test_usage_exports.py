"""Usage exports of OpenAI, Anthropic and OpenRouter: bills without prompts."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvtool.accounting.prices.price_table import price_table
from tests.conftest import Command

OPENAI = [
    *(
        "start_time",
        "end_time",
        "start_time_iso",
        "end_time_iso",
        "project_id",
        "num_model_requests",
        "user_id",
        "api_key_id",
    ),
    *(
        "model",
        "batch",
        "service_tier",
        "input_tokens",
        "output_tokens",
        "input_cached_tokens",
        "input_uncached_tokens",
    ),
]
_COUNTED = [
    "input_tokens_no_cache",
    "input_tokens_cache_write_5m",
    "input_tokens_cache_write_1h",
    "input_tokens_cache_read",
]
COUNTED = [f"usage_{name}" for name in (*_COUNTED, "output_tokens")]
ANTHROPIC = [
    *("usage_date_utc", "model_version", "api_key", "workspace", "usage_type", "context_window"),
    *(*COUNTED, "web_search_count", "inference_geo"),
]
OPENROUTER = [
    *(
        "generation_id",
        "created_at",
        "cost_total",
        "tokens_prompt",
        "tokens_completion",
        "tokens_cached",
        "model_permaslug",
    ),
    *("provider_name", "variant"),
]
PRICE = price_table().rows_of("gpt-5.4")[0]
DAY = 86_400
START = 1_775_001_600
"""2026-04-01 00:00 UTC."""


def table(columns: list[str], rows: list[dict[str, object]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def profiled(in_folder: Command, columns: list[str], rows: list[dict[str, object]], *flags: str) -> dict[str, Any]:
    Path("usage.csv").write_text(table(columns, rows), encoding="utf-8")
    code, out, err = in_folder("profile", "usage.csv", "--json", *flags)
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


COUNTS = st.integers(0, 10**9)
SETTINGS = settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@SETTINGS
@given(st.lists(st.tuples(st.integers(1, 500), COUNTS, COUNTS, COUNTS, st.booleans()), min_size=1, max_size=6))
def test_the_bill_of_openai(in_folder: Command, rows: list[tuple[int, int, int, int, bool]]) -> None:
    """The sums are those of the rows, and the price is that of one request's length: of the average."""
    written: list[dict[str, object]] = []
    paid, prompt, cached = Decimal(0), 0, 0
    for day, (requests, read, fresh, output, batch) in enumerate(rows):
        read, fresh, output = read + 1, fresh, output
        time = START + day * DAY
        row = {
            "start_time": time,
            "end_time": time + DAY,
            "num_model_requests": requests,
            "model": "gpt-5.4-2026-03-05",
        }
        counts = {"input_tokens": read + fresh, "output_tokens": output, "input_cached_tokens": read}
        written.append({**row, **counts, "project_id": "p", "batch": batch, "service_tier": "default"})
        rates = PRICE.rates_for((read + fresh) // requests, None, batch=batch)
        paid += (fresh * rates.input + read * rates.read + output * rates.output) / 10**6
        prompt, cached = prompt + read + fresh, cached + read
    found = profiled(in_folder, OPENAI, written)
    assert (found["reported"]["prompt_tokens"], found["reported"]["cached_tokens"]) == (prompt, cached)
    assert Decimal(found["money"]["paid"]) == paid
    assert found["money"]["per_1k_requests"] is None
    assert "predicted" not in found or found["predicted"] is None
    assert found["misses"]["events"] == []


@SETTINGS
@given(st.lists(st.tuples(COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, st.booleans()), min_size=1, max_size=6))
def test_the_bill_of_anthropic(in_folder: Command, rows: list[tuple[int, int, int, int, int, bool]]) -> None:
    """Writes of five minutes and of an hour have prices of their own, and long contexts until 2026-04-30."""
    written: list[dict[str, object]] = []
    paid = Decimal(0)
    for fresh, short, hour, read, output, long in rows:
        row = {"usage_date_utc": "2026-04-02", "model_version": "claude-sonnet-4-5-20250929", "usage_type": "standard"}
        counts = [fresh + 1, short, hour, read, output]
        window = "> 200k" if long else "≤ 200k"
        written.append({**row, "context_window": window, **dict(zip(COUNTED, counts, strict=True))})
        rates = ["6", "7.5", "12", "0.6", "22.5"] if long else ["3", "3.75", "6", "0.3", "15"]
        paid += sum(count * Decimal(rate) for count, rate in zip(counts, rates, strict=True)) / 10**6
    found = profiled(in_folder, ANTHROPIC, written)
    assert Decimal(found["money"]["paid"]) == paid
    assert found["reported"]["prompt_tokens"] == sum(
        fresh + 1 + short + hour + read for fresh, short, hour, read, *_ in rows
    )


def test_requests_of_openrouter_and_what_it_charged(in_folder: Command) -> None:
    row: dict[str, object] = {
        "created_at": "2026-10-01 10:00:00.123",
        "model_permaslug": "anthropic/claude-4.5-sonnet-20250929",
    }
    counts: dict[str, object] = {"tokens_prompt": 12_000, "tokens_cached": 11_000, "tokens_completion": 300}
    rows = [
        {**row, **counts, "generation_id": f"gen-{n}", "cost_total": "0.0108", "variant": "standard"} for n in range(3)
    ]
    free = {**rows[0], "generation_id": "gen-9", "variant": "free", "cost_total": "0", "tokens_cached": 0}
    found = profiled(in_folder, OPENROUTER, [*rows, free])
    assert found["reported"]["cached_tokens"] == 33_000
    assert found["money"]["logged"] == "0.0324"
    assert found["money"]["paid"] == "0.0324"
    assert not found["money"]["unpriced"], "free costs nothing, and that is a price"


def test_rows_without_usage_are_left_out_and_others_have_their_place(in_folder: Command) -> None:
    good: dict[str, object] = {"start_time": START, "num_model_requests": 2, "model": "gpt-4o", "input_tokens": 10}
    rows = [good, {"start_time": START + DAY}, {**good, "input_tokens": "many"}, {**good, "input_cached_tokens": 11}]
    Path("usage.csv").write_text(table(OPENAI, rows))
    code, out, err = in_folder("profile", "usage.csv", "--on-bad-line", "error")
    assert code == 2
    assert "usage.csv:4:" in err
    assert "`input_tokens` must be a whole number of tokens" in err
    assert not out
    code, out, _ = in_folder("profile", "usage.csv", "--on-bad-line", "skip")
    assert code == 0
    assert "1 row without usage" in out
    assert "1 bad line skipped" in out
    assert "usage of 1 request contradicts itself" in " ".join(out.split())


def test_by_day_and_model_and_no_claim_of_a_first_use(in_folder: Command) -> None:
    rows: list[dict[str, object]] = [
        {"start_time": START + day * DAY, "num_model_requests": 5, "model": model, "input_tokens": 900, "input_cached_tokens": 300,
         "output_tokens": 1}
        for day in range(2) for model in ("gpt-4o", "o3")
    ]  # fmt: skip
    Path("usage.csv").write_text(table(OPENAI, rows))
    code, out, _ = in_folder("profile", "usage.csv", "--by", "day")
    assert code == 0
    assert "33.3% reported (1,200 of 3,600 prompt tokens)" in " ".join(out.split())
    assert "2026-04-01" in out
    assert "2026-04-02" in out
    assert "not read from the cache" in out
    assert "first use" not in out
    assert "The rows sum 20 requests." in " ".join(out.split())


@pytest.mark.parametrize("columns", [OPENAI, ANTHROPIC, OPENROUTER])
def test_an_export_without_rows_is_an_error(in_folder: Command, columns: list[str]) -> None:
    Path("usage.csv").write_text(",".join(columns) + "\n")
    code, _, err = in_folder("profile", "usage.csv")
    assert code == 2
    assert "usage.csv" in err


@pytest.mark.parametrize("command", ["optimize", "compare-engines", "what-if"])
@pytest.mark.parametrize("export", [OPENAI, ANTHROPIC, OPENROUTER])
def test_no_change_is_tried_without_prompts(in_folder: Command, command: str, export: list[str]) -> None:
    counts: dict[str, object] = dict.fromkeys(COUNTED, 50)
    row: dict[str, object] = {
        **counts,
        "usage_date_utc": "2026-04-02",
        "model_version": "claude-sonnet-4-5-20250929",
        "usage_type": "standard",
        "start_time": START,
        "end_time": START + DAY,
        "num_model_requests": 3,
        "model": "gpt-5.4-2026-03-05",
        "input_tokens": 90,
        "output_tokens": 9,
        "input_cached_tokens": 20,
        "generation_id": "gen-1",
        "created_at": "2026-10-01 10:00:00.123",
        "model_permaslug": "anthropic/claude-4.5-sonnet-20250929",
        "tokens_prompt": 12_000,
        "tokens_cached": 11_000,
        "tokens_completion": 300,
        "cost_total": "0.01",
    }
    rows = [{name: value for name, value in row.items() if name in export}] * 2
    profiled(in_folder, export, rows)
    code, out, err = in_folder(command, "usage.csv")
    assert (code, out) == (2, "")
    assert "so no change can be tried" in err or "so no engine can be compared" in err
    assert "help: " in err


def test_writes_for_12_hours_are_priced_as_usual_ones_and_said(in_folder: Command) -> None:
    Path("usage.csv").write_text(
        "start_time,num_model_requests,model,input_tokens,input_cached_tokens,input_cache_write_tokens,"
        "input_cache_write_12h_tokens,output_tokens\n1790812800,10,gpt-5.6-sol,100000,60000,10000,20000,1000\n"
    )
    _, out, _ = in_folder("profile", "usage.csv")
    assert "written $0.15" in out
    assert "have no published price; they are priced as usual ones: gpt-5.6-sol (1)" in " ".join(out.split())


def test_a_log_of_models_without_a_cache_has_its_bill(in_folder: Command) -> None:
    usage = {"prompt_tokens": 1_520, "completion_tokens": 20}
    request = {"model": "gpt-4-turbo", "messages": [{"role": "user", "content": "hello " * 1_500}]}
    Path("log.jsonl").write_text((json.dumps({"request": request, "response": {"usage": usage}}) + "\n") * 6)
    code, out, _ = in_folder("profile", "log.jsonl")
    assert code == 0
    assert "none: no cache serves these models" in out
    assert "$0.0948" in out
