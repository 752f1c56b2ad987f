"""Reported beside predicted, and money, from logs to reports."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvtool.accounting.caches.cache_rules import Prediction
from kvtool.accounting.caches.providers import find_provider
from kvtool.accounting.prices.money_book import MoneyBook
from kvtool.accounting.prices.price_table import price_table
from kvtool.accounting.prices.read_difference import difference_of
from kvtool.cli.app import run
from kvtool.results.money import MORE_PREDICTED, MORE_REPORTED, MarkAdvice, MarkPosition, marks_in_words
from kvtool.workload.call import Call, CallSettings, Usage
from tests.conftest import Command, some

START = datetime(2026, 10, 20, 8, tzinfo=UTC)
HEAD = len("system:\n")


@dataclass
class Sent:
    """A request of a log: a system text, a question of its own, and what the provider said of it."""

    model: str = "gpt-4o"
    at: float = 0.0
    prompt: int = 2100
    cached: int | None = 0
    system: int = 2048 - HEAD
    output: int = 50
    mark: dict[str, str] | None = None
    written: int = 0
    body: dict[str, Any] = field(default_factory=dict)
    start: datetime = START


def record(number: int, sent: Sent) -> dict[str, Any]:
    """One line of a log; the prompt has as many bytes as tokens were reported."""
    part: dict[str, Any] = {"type": "text", "text": "s" * sent.system}
    if sent.mark is not None:
        part["cache_control"] = sent.mark
    before = HEAD + sent.system + len("\nuser:\n") + len("\nassistant:\n")
    ask = f"{number:04}" + "q" * max(sent.prompt - before - 4, 0)
    claude = sent.model.startswith("claude")
    messages: list[dict[str, Any]] = [{"role": "user", "content": ask}]
    request: dict[str, Any] = {"model": sent.model, **sent.body}
    if claude:
        request |= {"system": [part], "messages": messages, "max_tokens": 10}
        usage = {
            "input_tokens": sent.prompt - (sent.cached or 0) - sent.written,
            "cache_read_input_tokens": sent.cached,
            "cache_creation_input_tokens": sent.written,
            "output_tokens": sent.output,
        }
        response = {"type": "message", "content": [{"type": "text", "text": "ok"}], "usage": usage}
    else:
        request["messages"] = [{"role": "system", "content": [part]}, *messages]
        details = {"prompt_tokens_details": {"cached_tokens": sent.cached}} if sent.cached is not None else {}
        usage = {"prompt_tokens": sent.prompt, "completion_tokens": sent.output, **details}
        response = {"choices": [{"message": {"role": "assistant", "content": "ok"}}], "usage": usage}
    time = (sent.start + timedelta(seconds=sent.at)).isoformat()
    return {"id": f"r{number}", "timestamp": time, "request": request, "response": response}


def written(requests: Sequence[Sent], path: str = "prod.jsonl") -> str:
    Path(path).write_text("".join(json.dumps(record(n, sent)) + "\n" for n, sent in enumerate(requests)))
    return path


def profiled(in_folder: Command, requests: Sequence[Sent], *flags: str) -> dict[str, Any]:
    code, out, err = in_folder("profile", written(requests), "--dry-run", "--json", *flags)
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def times_to_live(money: dict[str, Any]) -> str:
    """The time to live of the one mark that is advised, at the end of the system text; `unmarked`: none is."""
    marks = [mark for advice in money["marks"] for mark in advice["marks"]]
    assert {mark["place"] for mark in marks} <= {"system[-1]"}
    return ", ".join(mark["ttl"] for mark in marks) or "unmarked"


R1 = [
    Sent(at=at, cached=cached, body={"prompt_cache_retention": "in_memory"})
    for at, cached in ((0, 0), (10, 2048), (20, 0), (4000, 2048))
]


def test_r1_totals_agree_and_requests_do_not(in_folder: Command) -> None:
    found = profiled(in_folder, R1)
    assert found["reported"] == {
        "requests": 4,
        "prompt_tokens": 8400,
        "cached_tokens": 4096,
        "hit_rate": 4096 / 8400,
        "saved": "0.00512",
    }
    assert found["predicted"]["cached_tokens"] == 4096
    assert found["difference"] == {"not_explained": 2048, "kept_longer": 2048}
    money = found["money"]
    assert Decimal(money["paid"]) == Decimal("0.017880")
    assert Decimal(money["without_cache"]) == Decimal("0.023000")
    assert money["priced_requests"] == 4
    assert money["currency"] == "USD"
    assert money["month"] is None


def test_each_request_has_both_figures_and_its_causes(in_folder: Command) -> None:
    rows = profiled(in_folder, R1, "--per-request")["requests"]
    assert [row["provider"]["predicted_tokens"] for row in rows] == [0, 2048, 2048, 0]
    assert [row["provider"]["reported_tokens"] for row in rows] == [0, 2048, 0, 2048]
    assert [row["provider"]["difference"] for row in rows] == [{}, {}, {"not_explained": 2048}, {"kept_longer": 2048}]


def test_a_cause_of_the_rules_is_apart_from_that_of_the_provider(in_folder: Command) -> None:
    """A prefix that expired by the rules, and one that the provider kept for less than they say: only that is the difference."""
    hour = {"prompt_cache_retention": "24h"}
    own = [Sent("gpt-5.2", 10_800.0 * (n > 1), cached=2048 * (n == 1), body=hour) for n in range(3)]
    sent = [*own, *(Sent("gpt-4o", 20_000 + 1200.0 * n, cached=0) for n in range(3))]
    report = profiled(in_folder, sent)
    assert report["difference"] == {"expired": 2048}
    money = report["money"]
    assert (money["by_difference"]["expired"]["tokens"], money["by_cause"]["expired"]["tokens"]) == (2048, 4096)
    told = in_folder("profile", "prod.jsonl", "--no-advice")[1]
    assert "kept for less than the time to live 2,048 " in " ".join(told.split())


def test_unmarked_requests_have_a_cause_and_a_fix(in_folder: Command) -> None:
    requests = [Sent("claude-sonnet-4-5", 10.0 * n, 5100, 0, system=5000 - HEAD, output=0) for n in range(3)]
    found = profiled(in_folder, requests)
    predicted, money = found["predicted"], found["money"]
    assert predicted["cached_tokens"] == found["reported"]["cached_tokens"] == 0
    assert found["difference"] == {}
    lost = predicted["lost"]
    assert set(lost) == {"not_marked"}
    shared = lost["not_marked"] / 2  # the questions begin with a few characters alike
    assert 5000 <= shared < 5040
    assert Decimal(money["paid"]) == Decimal("0.045900")
    expected = (Decimal("3.75") + 2 * Decimal("0.30")) * int(shared) / 10**6 + 3 * (5100 - int(shared)) * Decimal(
        3
    ) / 10**6
    assert abs(Decimal(money["with_fixes"]) - expected) < Decimal("0.0001")
    (advice,) = money["marks"]
    assert [(mark["place"], mark["ttl"]) for mark in advice["marks"]] == [("system[-1]", "5m")]


@pytest.mark.parametrize(("requests", "best"), [(2, "unmarked"), (3, "1h")])
def test_a_mark_that_loses_is_advised_against(in_folder: Command, requests: int, best: str) -> None:
    sent = [Sent("claude-sonnet-4-5", 1200.0 * n, 5100, 0, system=5000 - HEAD, output=0) for n in range(requests)]
    money = profiled(in_folder, sent)["money"]
    assert times_to_live(money) == best
    if best == "unmarked":
        assert money["with_fixes"] == money["predicted"]


def test_a_month_is_told_of_a_log_of_a_day_and_writes_are_paid(in_folder: Command) -> None:
    mark = {"type": "ephemeral"}
    sent = [
        Sent("claude-sonnet-4-5", 43_200.0 * n, 3100, 0, system=3000 - HEAD, mark=mark, written=3000) for n in range(3)
    ]
    money = profiled(in_folder, sent)["money"]
    assert Decimal(money["paid_parts"]["written"]) == 3 * 3000 * Decimal("3.75") / 10**6
    saved = Decimal(money["paid"]) - Decimal(money["with_fixes"])
    assert saved > 0, "a mark that is never read costs more than it saves"
    assert abs(Decimal(money["month"]) - saved * Decimal("30.4375")) < Decimal("0.000001")


def test_two_models_and_groups_are_priced_each_by_its_own(in_folder: Command) -> None:
    costs = [{"cost": cost} for cost in (0.25, 0.5, 1.25)]
    sent = [Sent(name, at, body=costs[at]) for at, name in enumerate(("gpt-4o", "gpt-4.1", "gpt-9"))]
    found = profiled(in_folder, sent, "--group-by", "request.model")
    money = found["money"]
    assert money["requests"] == 3
    assert money["priced_requests"] == 2
    assert money["unpriced"] == {"gpt-9": 1}
    assert Decimal(money["logged"]) == 2, "the log's own cost needs no price"
    assert any("Cost in the log: $2.00 for 3 requests." in notice for notice in money["notices"])
    assert any("Priced 2 of 3 requests" in notice for notice in money["notices"])
    assert any("gpt-9" in note for note in found["notes"])
    total = sum(Decimal(group["paid"]) for group in money["by_group"].values())
    assert total == Decimal(money["paid"])


def test_a_discount_and_a_file_of_prices(in_folder: Command) -> None:
    full = Decimal(profiled(in_folder, R1)["money"]["paid"])
    less = Decimal(profiled(in_folder, R1, "--discount", "12%")["money"]["paid"])
    assert less == full * Decimal("0.88")
    Path("own.json").write_text(
        '{"format": "kvtool.prices/1", "rows": [{"models": ["gpt-4o"], "input": 0, "output": 1}]}'
    )
    own = profiled(in_folder, R1, "--prices", "own.json")["money"]
    assert Decimal(own["paid"]) == 200 * Decimal(1) / 10**6
    code, _, err = in_folder("profile", "prod.jsonl", "--prices", "none.json", "--dry-run")
    assert code == 2
    assert "none.json" in err
    code, _, err = in_folder("profile", "prod.jsonl", "--discount", "a lot", "--dry-run")
    assert code == 2
    assert "12%" in err


def test_stale_prices_are_told(in_folder: Command) -> None:
    late = datetime(2027, 6, 1, tzinfo=UTC)
    notices = profiled(in_folder, [Sent(start=late)])["money"]["notices"]
    assert any("Update them with --prices FILE" in notice for notice in notices)
    assert not profiled(in_folder, [Sent()])["money"]["notices"]


def test_an_engine_of_one_s_own_is_asked_for_or_logged(in_folder: Command) -> None:
    """Hosted rules are left where an engine is asked for, and never taken for open weights."""
    assert profiled(in_folder, R1, "--num-gpu-blocks", "400")["config"]["capacity_blocks"] == 399
    sized = profiled(in_folder, R1, "--block-size", "16")
    assert "money" not in sized
    assert sized["config"]["block_size"] == 16
    ruled = profiled(in_folder, R1, "--rules", "vllm")
    assert "money" not in ruled
    assert ruled["totals"] == sized["totals"]
    local = profiled(in_folder, [Sent("meta-llama/Llama-3.1-8B-Instruct")] * 2)
    assert "money" not in local
    assert "rules_by_day" not in local["config"]


def test_saved_prefill_in_dollars(in_folder: Command) -> None:
    sent = [Sent("meta-llama/Llama-3.1-8B-Instruct", n) for n in range(3)]
    money = profiled(in_folder, sent, "--gpu-hour", "2.50")["money"]
    assert money["paid"] is None
    seconds = Decimal(str(round(money["gpu"]["saved_seconds"], 9)))
    assert Decimal(money["gpu"]["saved"]) == seconds * Decimal("2.50") / 3600
    assert seconds > 0


def test_a_breakpoint_of_12_hours_is_kept_and_has_no_price_of_its_own(in_folder: Command) -> None:
    mark = {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}}
    text = {"type": "input_text", "text": "Answer every question about parcels from this handbook only. " * 120}
    for kept, reads in ((mark, 1), ({"prompt_cache_breakpoint": {"mode": "explicit"}}, 0)):
        asked = {"role": "user", "content": [{"type": "input_text", "text": "Now?"}]}
        body = {"model": "gpt-5.6", "prompt_cache_options": {"mode": "explicit"}}
        body |= {"input": [{"role": "developer", "content": [{**text, **kept}]}, asked]}
        records = [{"timestamp": f"2026-11-20T{hour}:00:00Z", "request": body} for hour in ("09", "11")]
        Path("prod.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
        _, out, _ = in_folder("profile", "prod.jsonl", "--dry-run", "--no-advice")
        assert ("Hit rate    0.0%" in out, "have no published price" in out) == (not reads, bool(reads)), out


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_block_is_no_wider_than_the_terminal(in_folder: Command, width: int) -> None:
    written(R1)
    code, out, _ = in_folder("profile", "prod.jsonl", "--dry-run", "--width", str(width))
    assert code == 0
    wide = [line for line in out.splitlines() if len(line) > width]
    assert not [line for line in wide if len(line.split()) > 2], "only the path of a file can be wider"
    for words in ("Reported", "48.8%", "Predicted", "kept longer than documented", "lost by the provider"):
        assert words in out


def test_markdown_and_html_have_the_same_figures(in_folder: Command) -> None:
    written(R1)
    assert in_folder("profile", "prod.jsonl", "--dry-run", "-o", "report.md", "-o", "report.html", "--quiet")[0] == 0
    for name in ("report.md", "report.html"):
        text = Path(name).read_text()
        for words in ("Reported", "$0.02", "lost by the provider"):
            assert words in text


def test_a_saved_report_shows_the_block_again(in_folder: Command, capsys: pytest.CaptureFixture[str]) -> None:
    written(R1)
    assert in_folder("profile", "prod.jsonl", "--dry-run", "-o", "r.json", "--quiet")[0] == 0
    assert run(["report", "r.json"]) == 0
    assert "Reported" in capsys.readouterr().out


RULES = [find_provider(name) for name in ("openai", "openai-5.6", "anthropic", "gemini", "deepseek")]
predictions = st.builds(
    lambda rules, prompt, cached, kept, known, age, flags, rate: Prediction(
        rules=rules, prompt=prompt, cached=min(cached, prompt), kept=min(max(kept, cached), prompt),
        known=min(known, prompt), age=age, unanswered=flags[0], other_settings=flags[1], in_a_minute=rate,
    ),
    st.sampled_from(RULES), st.integers(0, 9000), *[st.integers(0, 9000)] * 3, st.floats(0, 10**6),
    st.tuples(st.booleans(), st.booleans()), st.integers(0, 40),
)  # fmt: skip


@given(st.lists(st.tuples(predictions, st.integers(0, 9000), st.booleans()), max_size=12))
def test_sums_of_differences_are_exact(requests: list[tuple[Prediction, int, bool]]) -> None:
    """Whatever was predicted and reported: one sign for each request, and predicted less reported is what the causes say."""
    book = MoneyBook(price_table())
    for prediction, reported, cut in requests:
        call = Call(
            model="gpt-4o",
            usage=Usage(prompt=prediction.prompt, cached=min(reported, prediction.prompt), output=1),
            settings=CallSettings(),
            incomplete="cut" if cut else None,
        )
        parts = difference_of(prediction, min(reported, prediction.prompt), call)
        assert len({cause in MORE_PREDICTED for cause, _ in parts}) <= 1
        assert all(tokens > 0 for _, tokens in parts)
        assert sum(tokens for _, tokens in parts) == abs(prediction.cached - min(reported, prediction.prompt))
        book.add("g", call, prediction, output=1, now=0.0, moment=START)
    side = book.total[True]
    more = sum(tokens for cause, tokens in side.difference.items() if cause in MORE_PREDICTED)
    less = sum(tokens for cause, tokens in side.difference.items() if cause in MORE_REPORTED)
    assert side.predicted.cached - side.reported.cached == more - less
    assert set(side.difference) <= {*MORE_PREDICTED, *MORE_REPORTED}


@pytest.mark.parametrize(
    ("gate", "code", "words"),
    [
        ('cost_per_1k_requests = "<=$4"', 1, "1,000 requests cost $4.47, above the allowed $4.00"),
        ('cost_per_1k_requests = "4.47"', 0, "within"),
        ('reported_gap = "<=10%"', 1, "the provider reports 24.4 points less than its rules predict"),
        ('reported_gap = "25%"', 0, "within"),
    ],
)
def test_gates_of_money(in_folder: Command, gate: str, code: int, words: str) -> None:
    requests = [*R1[:3], Sent(at=30.0, cached=2048, body={"prompt_cache_retention": "in_memory"})]
    written(R1 if gate.startswith("cost") else requests)
    Path("kvtool.toml").write_text(f'workloads = ["prod.jsonl"]\n[gate]\n{gate}\n')
    got, out, _ = in_folder("check", "--no-advice", "--json")
    assert got == code
    [check] = [one for one in json.loads(out)["verdict"]["checks"] if one["kind"] in gate]
    assert words in check["message"]


@pytest.mark.parametrize(("limit", "code", "words"), [("$4", 1, "above the allowed $4.00"), ("4.48", 0, "within")])
def test_a_flag_limits_the_cost(in_folder: Command, limit: str, code: int, words: str) -> None:
    written(R1)
    Path("kvtool.toml").write_text('workloads = ["prod.jsonl"]\n[gate]\ncost_per_1k_requests = "1"\n')
    got, out, _ = in_folder("check", "--no-advice", "--json", "--max-cost-per-1k", limit)
    assert got == code
    [check] = [one for one in json.loads(out)["verdict"]["checks"] if one["kind"] == "cost_per_1k_requests"]
    assert words in check["message"]
    assert "(--max-cost-per-1k)" in check["message"]


def test_a_gate_of_money_needs_prices(in_folder: Command) -> None:
    Path("prod.jsonl").write_text('{"prompt": "a text of nobody"}\n' * 2)
    Path("kvtool.toml").write_text('workloads = ["prod.jsonl"]\n[gate]\ncost_per_1k_requests = "4"\n')
    got, out, _ = in_folder("check", "--no-advice", "--json")
    assert got == 1
    assert "no known price" in json.loads(out)["verdict"]["checks"][0]["message"]


def _bill(in_folder: Command, requests: Sequence[Sent], *flags: str) -> dict[str, Any]:
    found: dict[str, Any] = profiled(in_folder, requests, *flags)["money"]
    return found


CLAUDE = "claude-sonnet-4-5"


@pytest.mark.parametrize(
    ("gap", "count", "best", "mark"),
    [
        (10.0, 5, "5m", {"type": "ephemeral"}),
        (1200.0, 5, "1h", {"type": "ephemeral", "ttl": "1h"}),
        (290.0, 40, "5m", {"type": "ephemeral"}),
        (7200.0, 5, "unmarked", None),
    ],
)
def test_what_marking_costs_is_what_the_marked_log_costs(
    in_folder: Command, gap: float, count: int, best: str, mark: dict[str, str] | None
) -> None:
    """The rerun that the advice rests on and a log with those marks in it give one bill."""
    plain = [Sent(CLAUDE, gap * n, 5100, None, system=5000 - HEAD, output=10) for n in range(count)]
    money = _bill(in_folder, plain)
    assert times_to_live(money) == best
    marked = [Sent(CLAUDE, gap * n, 5100, None, system=5000 - HEAD, output=10, mark=mark) for n in range(count)]
    assert Decimal(money["with_fixes"]) == Decimal(_bill(in_folder, marked)["predicted"])


def test_a_mark_that_costs_more_than_it_saves_is_run_again_without_it(in_folder: Command) -> None:
    sent = [
        Sent(CLAUDE, 7200.0 * n, 5100, None, system=5000 - HEAD, output=0, mark={"type": "ephemeral"}) for n in range(4)
    ]
    money = _bill(in_folder, sent)
    assert [advice["marks"] for advice in money["marks"]] == [[]]
    plain = [Sent(CLAUDE, 7200.0 * n, 5100, None, system=5000 - HEAD, output=0) for n in range(4)]
    without = Decimal(_bill(in_folder, plain)["predicted"])
    assert Decimal(money["with_fixes"]) == without < Decimal(money["predicted"])


def test_without_advice_nothing_is_said_to_be_saved(in_folder: Command) -> None:
    sent = [Sent(CLAUDE, 10.0 * n, 5100, None, system=5000 - HEAD, output=0) for n in range(3)]
    money = _bill(in_folder, sent, "--no-advice")
    assert money["with_fixes"] is None
    assert money["marks"] == []


@given(
    st.lists(st.tuples(st.sampled_from(["gpt-4o", "gpt-4-turbo", "house-1"]), st.booleans()), min_size=2, max_size=12)
)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_hit_rate_whatever_part_is_priced_or_predicted(in_folder: Command, sent: list[tuple[str, bool]]) -> None:
    """Models with rules and a price, with a price alone, and with neither."""
    sent = [*sent, ("gpt-4o", False)]  # else no provider's rules are followed
    requests = [Sent(model=model, at=10.0 * n, cached=1024 * hit) for n, (model, hit) in enumerate(sent)]
    found = profiled(in_folder, requests)
    cached = sum(1024 for _, hit in sent if hit)
    reported, misses, money = found["reported"], found["misses"], found["money"]
    assert (reported["requests"], reported["cached_tokens"]) == (len(sent), cached)
    assert (misses["prompt_tokens"], misses["read"]) == (reported["prompt_tokens"], cached)
    assert money["requests"] == len(sent)
    assert money["priced_requests"] == sum(model != "house-1" for model, _ in sent)
    assert sum(money["unpriced"].values()) == len(sent) - money["priced_requests"]
    predicted = found["predicted"]
    assert (0 if predicted is None else predicted["requests"]) in (0, sum(model == "gpt-4o" for model, _ in sent))


def test_the_first_screen_says_for_how_many_requests_the_cost_is(in_folder: Command) -> None:
    requests = [Sent(model=model, at=10.0 * n) for n, model in enumerate(["gpt-4o", "house-1", "house-1"])]
    _, out, _ = in_folder("profile", written(requests), "--dry-run")
    assert "for 1 of 3 requests" in " ".join(out.split())
    assert "Priced 1 of 3 requests. No price is known for house-1 (2)." in " ".join(out.split())


def test_what_is_no_whole_prompt_is_not_predicted_beside_other_logs(in_folder: Command) -> None:
    """A transcript has no system prompt and no tools: its reads are reported, and not predicted as 0."""
    session = [
        {"type": "user", "sessionId": "s", "uuid": "u0", "parentUuid": None, "timestamp": START.isoformat(),
         "message": {"role": "user", "content": "look"}},
        {"type": "assistant", "sessionId": "s", "uuid": "a0", "parentUuid": "u0", "timestamp": START.isoformat(),
         "message": {"id": "m", "role": "assistant", "model": "claude-sonnet-4-5", "content": [{"type": "text", "text": "ok"}],
                     "usage": {"input_tokens": 3, "cache_read_input_tokens": 40_000, "cache_creation_input_tokens": 0,
                               "output_tokens": 5}}},
    ]  # fmt: skip
    Path("session.jsonl").write_text("".join(json.dumps(each) + "\n" for each in session))
    requests = [Sent(at=10.0 * n, cached=2048 * (n > 0)) for n in range(4)]
    code, out, err = in_folder("profile", "session.jsonl", written(requests), "--dry-run", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["reported"]["cached_tokens"] == 40_000 + 3 * 2048
    assert found["predicted"]["requests"] == 4
    assert found["predicted"]["cached_tokens"] == found["predicted"]["reported_tokens"] == 3 * 2048
    assert "text_not_in_the_log" not in found["difference"]


def test_marks_are_named_or_counted() -> None:
    for seed in some(range(6), 2):
        r = random.Random(seed)
        advice = [
            MarkAdvice(
                model=r.choice(["claude-a", "claude-b"]),
                groups=r.choices(["billing", "search", "support", "returns"], k=r.randint(1, 4)),
                requests=r.randint(1, 90),
                marks=[MarkPosition(place=f"messages[-{number + 1}]", ttl=r.choice(["5m", "1h"]), tokens=2_000)],
                others_keep=r.random() < 0.5,
            )
            for number in range(r.choice([1, 2, 4, 5, 9]))
        ]
        told = marks_in_words(advice)
        named = sum(f"messages[-{number + 1}] " in told for number in range(len(advice)))
        left = f"; {len(advice) - 4} more kinds of requests have others (--json has all)"
        assert (named, told.endswith(left)) == ((4, True) if len(advice) > 4 else (len(advice), False))
