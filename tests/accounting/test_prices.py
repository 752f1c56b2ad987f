"""Prices of a day, their three forms, and bills to the cent."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.hosted_models import sold_model
from kvtool.accounting.prices.bill import Bill, Charged, bill_of, shown_money, storage_cost
from kvtool.accounting.prices.price_row import PriceRow, Rates
from kvtool.accounting.prices.price_table import PriceTable, price_table
from kvtool.errors import KvtoolError

D = Decimal
OCTOBER = datetime(2026, 10, 20, 12, tzinfo=UTC)


def billed(
    model: str, tokens: Charged, moment: datetime = OCTOBER, times: int = 1, provider: str | None = None
) -> Bill:
    """So many requests alike."""
    table = price_table()
    row = table.row(model, provider, moment.date())
    assert row is not None
    bill = Bill()
    for _ in range(times):
        bill.add(bill_of(tokens, table.rates(row, tokens.prompt, moment)))
    return bill


def test_the_prices_of_a_day() -> None:
    for model, provider, day, rates in [
        ("gpt-4o", None, "2026-10-20", "2.5 1.25 2.5 2.5 10"),
        ("gpt-4.1", None, "2026-10-20", "2 0.5 2 2 8"),
        ("gpt-5", None, "2026-10-20", "1.25 0.125 1.25 1.25 10"),
        ("gpt-5.1", None, "2026-10-20", "1.25 0.125 1.25 1.25 10"),
        ("gpt-5.4", None, "2026-10-20", "2.5 0.25 2.5 2.5 15"),
        ("gpt-5.5", None, "2026-10-20", "5 0.5 5 5 30"),
        ("gpt-5.6-sol", None, "2026-08-20", "5 0.5 6.25 6.25 30"),
        ("gpt-5.6-sol", None, "2026-08-21", "4 0.4 5 5 20"),
        ("gpt-5.6-luna", None, "2026-07-29", "1 0.1 1.25 1.25 6"),
        ("gpt-5.6-luna", None, "2026-07-30", "0.2 0.02 0.25 0.25 1.2"),
        ("gpt-6.1-sol", None, "2026-11-20", "2 0.1 2.5 2.5 10"),
        ("claude-sonnet-4-5-20250929", None, "2026-10-20", "3 0.3 3.75 6 15"),
        ("claude-haiku-4-5", None, "2026-10-20", "1 0.1 1.25 2 5"),
        ("claude-opus-4-5", None, "2026-10-20", "5 0.5 6.25 10 25"),
        ("claude-opus-4-8", None, "2026-10-20", "5 0.5 6.25 10 25"),
        ("claude-opus-5", None, "2026-10-20", "5 0.5 6.25 10 25"),
        ("claude-opus-5-5", None, "2026-10-20", "4 0.2 5 8 20"),
        ("claude-sonnet-5-5", None, "2026-10-06", "2 0.2 2.5 4 10"),
        ("claude-sonnet-5-5", None, "2026-10-07", "2 0.1 2.5 4 10"),
        ("claude-haiku-5-5", None, "2026-10-20", "0.1 0.01 0.125 0.2 0.5"),
        ("claude-fable-5-1", None, "2026-10-20", "10 0.25 12.5 20 50"),
        ("gemini-2.5-flash", None, "2026-10-20", "0.3 0.03 0.3 0.3 2.5"),
        ("gemini-2.5-pro", None, "2026-10-20", "1.25 0.125 1.25 1.25 10"),
        ("gemini-2.5-pro", "vertex_ai", "2026-10-20", "1.25 0.125 1.25 1.25 10"),
        ("grok-4.7", None, "2026-10-20", "2 0.5 2 2 6"),
        ("kimi-k3", None, "2026-10-20", "3 0.3 3 6 15"),
        ("openai/gpt-oss-120b", "groq", "2026-10-20", "0.15 0.075 0.15 0.15 0.6"),
        ("mistral-large-latest", None, "2026-10-20", "0.5 0.05 0.5 0.5 1.5"),
    ]:
        row = price_table().row(model, provider, date.fromisoformat(day))
        assert row is not None
        found = row.rates
        told = [found.input, found.read, found.write, found.write_1h, found.output]
        assert told == [D(rate) for rate in rates.split()]
        assert row.checked is not None
        assert row.source


def test_no_price_is_guessed() -> None:
    table = price_table()
    assert table.row("gpt-9-unknown", None, date(2026, 10, 1)) is None
    assert table.row("meta-llama/Llama-3.1-8B-Instruct", None, None) is None


def test_bill_1_claude_unmarked_for_five_minutes_and_for_an_hour() -> None:
    model = "claude-sonnet-4-5"
    unmarked = billed(model, Charged(10_200, output=300), times=1000)
    assert unmarked.total == D("35.10")
    five = billed(model, Charged(10_200, written=10_000, output=300), times=20)
    five.add(billed(model, Charged(10_200, cached=10_000, output=300), times=980))
    assert five.total == D("8.79")
    hour = billed(model, Charged(10_200, written=10_000, written_1h=10_000, output=300), times=2)
    hour.add(billed(model, Charged(10_200, cached=10_000, output=300), times=998))
    assert shown_money(hour.total) == "$8.21"


def test_bill_2_a_price_that_changes_between_two_days() -> None:
    tokens = Charged(15_000, cached=12_000, written=3_000, output=100)
    before, after = (datetime(2026, 8, day, 12, tzinfo=UTC) for day in (20, 21))
    first, second = (billed("gpt-5.6-sol", tokens, moment, 1000).total for moment in (before, after))
    assert (first, second) == (D("27.75"), D("21.80"))
    plain = Charged(15_000, output=100)
    assert [billed("gpt-5.6-sol", plain, moment, 1000).total for moment in (before, after)] == [D(78), D(62)]


def test_bill_3_hours_of_a_peak() -> None:
    tokens = Charged(10_000, cached=8_000, output=500)
    monday, saturday = (datetime(2026, 11, day, 2, tzinfo=UTC) for day in (16, 21))
    costs = [billed("deepseek-flash", tokens, moment, 1000).total for moment in (monday, saturday)]
    assert costs == [D("1.248"), D("0.624")]
    assert shown_money(sum(costs, D(0))) == "$1.87"


def test_bill_4_an_explicit_cache_and_its_storage() -> None:
    row = price_table().row("gemini-2.5-pro", None, OCTOBER.date())
    assert row is not None
    bill = bill_of(Charged(50_000), row.rates)
    bill.storage = storage_cost(50_000, 3 * 3600.0, row.rates)
    bill.add(billed("gemini-2.5-pro", Charged(50_200, cached=50_000, output=300), times=40))
    assert bill.total == D("1.1175")
    assert shown_money(bill.total) == "$1.12"
    assert billed("gemini-2.5-pro", Charged(50_200, output=300), times=40).total == D("2.63")


def test_bill_5_all_tokens_at_the_higher_rate() -> None:
    assert billed("claude-haiku-5-5", Charged(100_000)).total == D("0.01")
    over = billed("claude-haiku-5-5", Charged(100_001)).total
    assert over == D("0.0500005")
    assert shown_money(over) == "$0.0500"


def test_bill_6_input_of_unmarked_requests_and_of_marked_ones() -> None:
    model = "claude-sonnet-4-5"
    assert billed(model, Charged(5_100), times=3).total == D("0.045900")
    marked = billed(model, Charged(5_100, written=5_000))
    marked.add(billed(model, Charged(5_100, cached=5_000), times=2))
    assert marked.total == D("0.022650")


def test_the_step_of_sonnet_4_5_ended() -> None:
    long = Charged(300_000)
    assert billed("claude-sonnet-4-5", long, datetime(2026, 4, 30, tzinfo=UTC)).total == D("1.8")
    assert billed("claude-sonnet-4-5", long, datetime(2026, 5, 1, tzinfo=UTC)).total == D("0.9")


def test_batches_and_tiers() -> None:
    table = price_table()
    row = table.row("gpt-4o", None, OCTOBER.date())
    assert row is not None
    assert table.rates(row, 10, OCTOBER, batch=True).input == D("1.25")
    assert table.rates(row, 10, OCTOBER, tier="priority").input == D("4.25")
    assert table.rates(row, 10, OCTOBER, tier="default").input == D("2.5")
    assert price_table(discount=D("0.12")).rates(row, 10, OCTOBER).input == D("2.2")


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        ("0.005", "$0.0050"), ("0.01", "$0.0100"), ("0.1", "$0.10"), ("0.00099", "$0.000990"),
        ("1.005", "$1.01"), ("0", "$0.00"), ("-2.345", "-$2.35"),
        ("1234.5", "$1,234.50"), ("0.0000005", "$0.000001"), ("0.009999", "$0.0100"),
    ],
)  # fmt: skip
def test_amounts_for_people(amount: str, shown: str) -> None:
    assert shown_money(D(amount)) == shown


@given(*[st.integers(0, 10**7)] * 5)
def test_a_bill_charges_every_token_once(prompt: int, cached: int, written: int, hour: int, output: int) -> None:
    """With one rate for all, the parts of a prompt do not matter."""
    same = Rates(*[D(3)] * 6)
    assert bill_of(Charged(prompt, cached, written, hour, output), same).total == (prompt + output) * D(3) / 10**6


def own(tmp_path: Path, *rows: dict[str, object]) -> str:
    path = tmp_path / "prices.json"
    lines = ",\n".join(json.dumps(row) for row in rows)
    path.write_text(f'{{"format": "kvtool.prices/1", "rows": [\n{lines}\n]}}')
    return str(path)


ROW: dict[str, object] = {"provider": "", "models": ["house-1"], "input": "1.5", "output": 3}


def test_own_prices_go_before_those_that_come_along(tmp_path: Path) -> None:
    table = price_table(own(tmp_path, ROW, {**ROW, "models": ["gpt-4o"], "input": 1}))
    assert table.row("house-1", None, None) is not None
    changed = table.row("gpt-4o", None, OCTOBER.date())
    assert changed is not None
    assert changed.rates.input == 1


def test_what_is_wrong_with_a_file_is_told_with_its_place(tmp_path: Path) -> None:
    for rows, message, line in [
        (({**ROW, "to": "2026-05-01"}, {**ROW, "from": "2026-04-30"}), "two prices of house-1 apply on 2026-04-30", 3),
        (({**ROW, "to": "2026-05-01"}, {**ROW, "from": "2026-05-02"}), "house-1 has no price from 2026-05-01", 3),
        ((ROW, ROW), "apply always", 3),
        (({**ROW, "from": "2026-05-02", "to": "2026-05-01"},), "ends before it begins", 2),
        (({**ROW, "input": -1},), "a price must be a number from 0 to", 2),
        (({**ROW, "input": "NaN"},), "a price must be a number from 0 to", 2),
        (({**ROW, "inputs": 1},), "unknown key `inputs`", 2),
        (({**ROW, "from": "soon"},), "not a day", 2),
        (({"models": ["x"], "input": 1},), "`output` is missing", 2),
    ]:
        with pytest.raises(KvtoolError, match=message) as caught:
            price_table(own(tmp_path, *rows))
        assert caught.value.place is not None
        assert caught.value.place.line == line
        assert caught.value.place.column is not None


@pytest.mark.parametrize(
    "number", ["1e99999999999999999999", "1e-99999999999999999999", "1e999999", "NaN", "-1", "true"]
)
@pytest.mark.parametrize("name", ["input", "tokens"])
def test_a_number_of_any_exponent_has_its_place(tmp_path: Path, number: str, name: str) -> None:
    path = own(tmp_path, {**ROW, "input": 1.25, "above": [{"tokens": 7, "input": 1}]})
    text = Path(path).read_text().replace(f'"{name}": {1.25 if name == "input" else 7}', f'"{name}": {number}')
    Path(path).write_text(text)
    with pytest.raises(KvtoolError) as caught:
        price_table(path)
    assert caught.value.place is not None
    assert caught.value.place.line is not None


def test_the_form_of_genai_prices(tmp_path: Path) -> None:
    stepped = {"base": 4, "tiers": [{"start": 100, "price": 8}]}
    dated = [
        {"prices": {"input_mtok": 5, "output_mtok": 30}},
        {"constraint": {"start_date": "2026-08-21"}, "prices": {"input_mtok": stepped, "output_mtok": 20}},
    ]
    model = {"id": "gpt-4o", "match": {"or": [{"equals": "gpt-4o"}, {"starts_with": "house-"}]}, "prices": dated}
    path = tmp_path / "data.json"
    path.write_text(json.dumps([{"id": "openai", "models": [model]}]))
    table = price_table(str(path))
    rows = [table.row("gpt-4o", None, date(2026, 8, day)) for day in (20, 21)]
    assert [row.rates.input for row in rows if row] == [5, 4]
    assert rows[1] is not None
    assert [rows[1].rates_for(count, None).input for count in (100, 101)] == [4, 8]


def test_the_form_of_litellm(tmp_path: Path) -> None:
    entry = {
        "litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 2.5e-06, "output_cost_per_token": 1e-05,
        "cache_read_input_token_cost": 1.25e-06, "input_cost_per_token_above_200k_tokens": 5e-06,
    }  # fmt: skip
    path = tmp_path / "model_prices.json"
    path.write_text(json.dumps({"sample_spec": {"input_cost_per_token": 0}, "gpt-4o": entry}))
    row = price_table(str(path)).row("gpt-4o", None, None)
    assert row is not None
    assert (row.rates.input, row.rates.read, row.rates.output) == (D("2.5"), D("1.25"), 10)
    assert row.rates_for(200_001, None).input == 5


def test_what_is_no_file_of_prices(tmp_path: Path) -> None:
    for text in ["{}", "[]", '{"rows": []}', "[1]", "null", '"x"', '{"format": "kvtool.prices/1", "rows": []}']:
        path = tmp_path / "prices.json"
        path.write_text(text)
        with pytest.raises(KvtoolError):
            price_table(str(path))


_OF_MODEL = {"id": "gpt-4o", "prices": {"input_mtok": 5, "output_mtok": 30}}
_OF_LITELLM = {"input_cost_per_token": 1, "output_cost_per_token": 2}


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ([{"models": [{**_OF_MODEL, "prices": [{"prices": {}}, [None]]}]}], ":1:"),
        ([{"models": [{**_OF_MODEL, "prices": [{**_OF_MODEL, "constraint": ["x"]}]}]}], ":1:"),
        ([{"models": [{**_OF_MODEL, "prices": [{**_OF_MODEL, "constraint": {"start_time": "06:00"}}]}]}], ":1:"),
        ([{"models": [{**_OF_MODEL, "price_variants": {"a": 1}}]}], ":1:"),
        ([{"models": [{**_OF_MODEL, "price_variants": [{**_OF_MODEL, "when": "x"}]}]}], ":1:"),
        ([{"models": [{"prices": {"input_mtok": {"base": 1, "tiers": [{"start": "x", "price": 1}]}, "output_mtok": 1}}]}], ":1:"),
        ([{"models": [{"prices": {"input_mtok": {"base": 1, "tiers": [3]}, "output_mtok": 1}}]}], ":1:"),
        ([{"models": [{"prices": {"input_mtok": "1e999999", "output_mtok": 1}}]}], ":1:"),
        ([{"models": [{"prices": {"input_mtok": 1, "output_mtok": "1e-999"}}]}], ":1:"),
        ({"m": {**_OF_LITELLM, "off_peak_pricing": {"windows": [3]}}}, ":1:"),
        ({"m": {**_OF_LITELLM, "off_peak_pricing": {"windows": [{"hours_utc": "06:00"}]}}}, ":1:"),
        ({"m": {**_OF_LITELLM, "off_peak_pricing": {"windows": [{"weekdays": ["mon"]}]}}}, ":1:"),
        ({"format": "kvtool.prices/1", "rows": [{"models": "m", "input": 1, "output": 1, "hours": [{"utc": [], "days": [[]]}]}]},
         ":1:"),
    ],
)  # fmt: skip
def test_a_wrong_value_of_any_form_is_told_with_its_place(tmp_path: Path, given: object, place: str) -> None:
    path = tmp_path / "prices.json"
    path.write_text(json.dumps(given))
    with pytest.raises(KvtoolError) as raised:
        price_table(str(path))
    assert str(raised.value.place).startswith(f"{path}{place}")


def test_a_rule_of_names_that_is_none_matches_nothing(tmp_path: Path) -> None:
    for match in [{"or": 3}, {"and": None}, {"or": [None, {"equals": []}]}]:
        model = {**_OF_MODEL, "match": match, "price_variants": [{**_OF_MODEL, "when": {"service_tier": ["x"]}}]}
        path = tmp_path / "prices.json"
        path.write_text(json.dumps([{"id": "openai", "models": [model]}]))
        assert price_table(str(path)).row("gpt-4o", None, None) is not None


def test_a_file_that_does_not_end_is_refused() -> None:
    with pytest.raises(KvtoolError, match="larger than"):
        price_table("/dev/zero")


def test_the_table_has_no_day_with_two_prices() -> None:
    """Of any model that it names, on any day of two years."""
    table: PriceTable = price_table()
    for row in table.rows:
        for model in ("gpt-5.6-sol", "claude-sonnet-4-5", "claude-sonnet-5-5", "gpt-5.6-luna"):
            if row.is_of(model):
                same = [one for one in table.rows if one.provider == row.provider and one.is_of(model)]
                for month in range(1, 13):
                    assert sum(one.applies_on(date(2026, month, 21)) for one in same) <= 1


def test_a_model_is_found_by_any_name() -> None:
    for text, provider, name in [
        ("Claude 4.5 Sonnet", "anthropic", "claude-sonnet-4-5"),
        ("claude-sonnet-4.5", "anthropic", "claude-sonnet-4-5"),
        ("anthropic/claude-sonnet-4.5:beta", "anthropic", "claude-sonnet-4-5"),
        ("us.anthropic.claude-opus-5", "bedrock", "us.claude-opus-5"),
        ("GPT 5.6 Sol", "openai", "gpt-5.6-sol"),
        ("Qwen3 Max", "qwen", "qwen3-max"),
        ("GLM4.6", "zai", "glm-4.6"),
        ("kimi k2.6", "moonshot", "kimi-k2.6"),
        ("bedrock nova pro", "bedrock", "nova-pro"),
        ("some-reseller/moonshotai/Kimi-K2.6", "moonshot", "kimi-k2.6"),
        ("ft:gpt-4o-mini-2024-07-18:acme::id", "openai", "ft:gpt-4o-mini"),
        ("claude-sonnet-4-5-20250929[1m]", "anthropic", "claude-sonnet-4-5"),
        ("gpt-5.4-chat-eastus2", "azure", "gpt-5.4"),
        ("azure_openai/chat-gpt41", "azure", "gpt-4.1"),
        ("fireworks_ai/accounts/fireworks/models/deepseek-v3", "fireworks", "deepseek-v3"),
        ("amazon.nova-lite-v1:0", "bedrock", "nova-lite"),
        ("gpt5-nano", "openai", "gpt-5-nano"),
        ("azure openai gpt-4o-mini", "azure", "gpt-4o-mini"),
        ("openrouter google gemini 2.5 pro", "gemini", "gemini-2.5-pro"),
        ("gemini 3 flash", "gemini", "gemini-3-flash-preview"),
        ("gemini-1.5-pro-002", "gemini", "gemini-1.5-pro"),
        ("command-r-plus", "cohere", "command-r-plus-08-2024"),
    ]:
        found = price_table().find(text)
        assert {row.provider for row in found} == {provider}
        assert name in {sold_model(each, provider).bare for row in found for each in row.literal_names()}


def test_names_like_it_are_proposed() -> None:
    assert price_table().find("sonnet") == []
    assert "claude-sonnet-5" in price_table().near("sonnet")
    assert price_table().near("") == []
    assert "magistral-medium-latest" in price_table().near("magistral-medium-2509")


def test_a_model_is_found_without_its_brand_if_only_one_has_the_words() -> None:
    assert {name for row in price_table().find("haiku 4.5") for name in row.literal_names()} == {"claude-haiku-4-5"}
    assert price_table().find("4.5") == []
    assert {name for row in price_table().find("4o-mini") for name in row.literal_names()} == {"gpt-4o-mini"}


def test_a_version_of_a_name_is_no_revision_of_it() -> None:
    assert price_table().row("deepseek-v9", "fireworks", _DAY) is None
    assert price_table().find("accounts/fireworks/models/deepseek-v9") == []


def test_free_variants_of_openrouter_cost_nothing() -> None:
    for provider in (None, "openrouter"):
        row = price_table().row("deepseek/deepseek-r1:free", provider, _DAY)
        assert row is not None
        assert (row.rates.input, row.rates.output) == (0, 0)


_DAY = date(2026, 11, 29)


def test_a_region_or_a_deployment_has_its_own_price() -> None:
    for model, provider, rates in [
        ("us.anthropic.claude-opus-5", None, "5.5 0.55"),
        ("eu.anthropic.claude-sonnet-4-5-20250929-v1:0", "bedrock", "3.3 0.33"),
        ("global.anthropic.claude-opus-5", None, "5 0.5"),
        ("anthropic.claude-opus-5", None, "5.5 0.55"),
        ("azure/eu/gpt-4o-2024-08-06", None, "2.75 1.375"),
        ("gpt-4o", "azure", "2.5 1.25"),
        ("support-gpt-4o-mini-prod", "azure", "0.15 0.075"),
        ("claude-haiku-4-5@20251001", "vertex_ai", "1 0.1"),
        ("glm-4.6", None, "0.6 0.11"),
        ("MiniMax-M2", None, "0.3 0.03"),
        ("deepseek-v4-flash", None, "0.15 0.003"),
        ("codestral-latest", "mistral", "0.3 0.03"),
        ("magistral-medium-latest", None, "1.5 0.15"),
        ("gemini-3.8-flash", None, "0.75 0.075"),
    ]:
        row = price_table().row(model, provider, _DAY)
        assert row is not None
        assert [row.rates.input, row.rates.read] == [D(rate) for rate in rates.split()]


def test_the_price_of_another_region_is_no_price() -> None:
    assert price_table().row("xx.anthropic.claude-opus-5", "bedrock", _DAY) is None


@given(st.sampled_from([row for row in price_table().rows if row.until is None]), st.data())
def test_every_name_of_the_table_finds_its_own_price(row: PriceRow, data: st.DataObject) -> None:
    """The names of the table are read as a log's names are: none hides another's price."""
    name = data.draw(st.sampled_from(row.literal_names()))
    found = price_table().row(name, row.provider, _DAY)
    assert found is not None
    assert found.rates == row.rates


def test_a_price_of_one_source_says_so() -> None:
    rows = price_table().rows
    assert {row.confirmed for row in rows} == {True, False}
    assert all(row.source and row.checked for row in rows)
