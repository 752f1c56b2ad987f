"""Demands, where they are stated, and how facts are held against them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.config.file_model import WorkloadGate
from kvtool.errors import KvtoolError, Place, ProblemsError
from kvtool.gate.collect import check_groups, config_demands, flag_demands, levels
from kvtool.gate.demand import Demand, held, pattern_of, stated
from kvtool.gate.evaluate import check_id, evaluate, exact
from kvtool.gate.facts import Facts, JudgedFinding, Scope
from kvtool.results.gate_words import change, durations, percents, points
from kvtool.results.verdict import Check
from kvtool.results.verdict_of import NOTHING, PARTIAL, verdict_of
from kvtool.text.terminal.numbers import percent
from kvtool.workload.yaml.schema import GateOptions
from tests.made_results import finding

PLACE = Place("kvtool.toml", 12, 3)


def demand(
    kind: str = "hit_rate", limit: float = 0.8, level: str = "error", group: str | None = None, **more: Any
) -> Demand:
    return Demand(kind, limit, level, group, more.pop("place", PLACE), **more)  # type: ignore[arg-type]


def facts(hit: int = 8, prompt: int = 10, reachable: int = 10, **more: Any) -> Facts:
    """A workload with one group `g`, which is all of it."""
    scope = Scope(2, prompt, hit, reachable, more.pop("ttft", {"ttft_p50": 0.01, "ttft_p90": 0.05, "ttft_p99": 0.2}))
    return Facts("w.yaml", scope, {"g": scope}, **more)


def one(found: Facts, *demands: Demand) -> Check:
    (check,) = evaluate(found, demands)
    return check


# Limits


def test_a_least_hit_rate_is_exact() -> None:
    for hit, prompt, limit, met in [
        (8, 10, 0.8, True),  # 80 % is 80 %
        (799, 1000, 79.9 / 100, True),  # 79.9 / 100 is more than 0.799 in floating point
        (7_999_999_999, 10_000_000_000, 0.8, False),
        (3, 10, 0.1 + 0.2, True),
        (1, 3, 1 / 3, True),
        (0, 10, 0.0, True),
        (9, 10, 1.0, False),
        (10, 10, 1.0, True),
    ]:
        check = one(facts(hit, prompt, prompt), demand(limit=limit))
        assert check.status == ("pass" if met else "fail")
        assert (check.code, check.limit, check.actual) == ("KV401", limit, hit / prompt)


@given(st.integers(0, 50), st.integers(0, 50), st.integers(1, 50), st.integers(0, 100))
def test_a_reported_rate_decides_and_the_predicted_one_is_beside_it(
    hit: int, read: int, prompt: int, hundredths: int
) -> None:
    hit, read, limit = min(hit, prompt), min(read, prompt), hundredths / 100
    scope = Scope(1, prompt, hit, prompt, reported=Fraction(read, prompt), predicted=hit / prompt)
    check = one(Facts("w.jsonl", scope), demand(limit=limit))
    assert (check.status == "pass") is (Fraction(read, prompt) >= Fraction(hundredths, 100))
    assert check.actual == read / prompt
    assert f" (predicted {percent(hit / prompt)})" in check.message
    assert ": reported hit rate " in check.message
    unknown = one(Facts("w.jsonl", replace(scope, prompt_tokens=0, hit_tokens=0, predicted=None)), demand(limit=limit))
    assert (unknown.status, unknown.actual) == (check.status, check.actual)
    assert "predicted" not in unknown.message


def test_most_values() -> None:
    for kind, limit, met, code in [
        ("reachable_gap", 0.2, True, "KV403"),
        ("reachable_gap", 0.1999, False, "KV403"),
        ("ttft_p50", 0.01, True, "KV404"),
        ("ttft_p50", 0.01 * (1 - 1e-12), True, "KV404"),  # the last digits are not the same on every machine
        ("ttft_p90", 0.049, False, "KV404"),
        ("ttft_p99", 0.2, True, "KV404"),
    ]:
        check = one(facts(), demand(kind, limit, group="g"))
        assert (check.status, check.code) == ("pass" if met else "fail", code)
        assert check.id == f"w.yaml/g/{kind}"
        assert ("within the" in check.message) is met


def test_what_hits_more_than_an_unlimited_cache_leaves_no_gap() -> None:
    check = one(facts(hit=8, reachable=7), demand("reachable_gap", 0.0))
    assert (check.status, check.actual) == ("pass", 0.0)


def test_a_check_says_by_how_much_and_where_it_is_demanded() -> None:
    check = one(facts(62, 100, 90), demand(group="g"))
    assert (
        check.message == "g of w.yaml: predicted hit rate 62.0%, 18.0 points below the required 80.0% (kvtool.toml:12)"
    )
    assert (check.path, check.line, check.column) == ("kvtool.toml", 12, 3)
    near = one(facts(79_999, 100_000), demand())
    assert (
        near.message
        == "all requests of w.yaml: predicted hit rate 79.999%, 0.001 points below the required 80.000% (kvtool.toml:12)"
    )


@pytest.mark.parametrize(("level", "status"), [("warn", "warn"), ("error", "fail")])
def test_levels(level: str, status: str) -> None:
    check = one(facts(), demand(limit=0.9, level=level))
    verdict = verdict_of([check])
    assert (check.level, check.status) == (level, status)
    assert (verdict.outcome, verdict.exit_code) == (status, 1 if level == "error" else 0)


@pytest.mark.parametrize(
    ("partial", "limit", "status"), [(False, None, "fail"), (True, None, "open"), (False, 5, "open")]
)
def test_a_group_of_which_nothing_was_profiled(partial: bool, limit: int | None, status: str) -> None:
    check = one(facts(partial=partial, limit=limit), demand(group="rare"))
    assert (check.status, check.actual) == (status, None)
    assert "rare of w.yaml: no profiled request" in check.message
    assert check.status != "pass"  # nothing shows that it holds


def test_an_interrupted_run_judges_nothing() -> None:
    checks = evaluate(facts(0, partial=True), [demand(), demand("findings", 0, pattern="KV1")])
    verdict = verdict_of(checks, partial=True)
    assert {check.status for check in checks} == {"open"}
    assert (verdict.outcome, verdict.exit_code, verdict.sentence) == ("partial", 130, PARTIAL)


def test_names_of_groups_do_not_make_two_checks_one() -> None:
    assert check_id("w", "a/b", "hit_rate") != check_id("w/a", "b", "hit_rate")
    assert check_id("w", "a%2Fb", "hit_rate") != check_id("w", "a/b", "hit_rate")


# Findings


def seen(*found: str) -> list[JudgedFinding]:
    """`KV101:error:g`."""
    parts = [each.split(":") for each in found]
    return [JudgedFinding(code, severity, group) for code, severity, group in parts]  # type: ignore[arg-type]


def test_the_most_specific_pattern_decides() -> None:
    for patterns, statuses in [
        ({"error": "error"}, {"error": "fail"}),
        ({"warning": "error"}, {"warning": "fail"}),  # from that severity on
        ({"KV3": "error"}, {"KV3": "pass"}),
        ({"KV1": "error", "KV101": "off"}, {"KV1": "pass"}),  # the code goes before its beginning
        ({"error": "error", "KV1": "warn"}, {"KV1": "warn", "error": "pass"}),
        ({"info": "error", "error": "warn"}, {"info": "pass", "error": "warn"}),  # the nearest severity
        ({"KV101": "error", "info": "off"}, {"KV101": "fail"}),
    ]:
        demands = [demand("findings", 0, level, pattern=pattern) for pattern, level in patterns.items()]
        checks = evaluate(
            facts(findings=seen("KV101:error:g", "KV204:info:g")[: 1 if "info" in patterns else 2]), demands
        )
        assert {check.id.rsplit("/", 1)[1]: check.status for check in checks} == statuses


def test_a_group_makes_an_exception() -> None:
    rules = [demand("findings", 0, pattern="error"), demand("findings", 0, "off", "legacy", pattern="error")]
    found = Facts("w.yaml", Scope(), {}, seen("KV101:error:legacy"))
    assert [check.status for check in evaluate(found, rules)] == ["pass"]
    other = facts(findings=seen("KV101:error:legacy", "KV104:error:new", "KV105:error:new"))
    (check,) = evaluate(other, rules)
    assert (check.status, check.actual, check.code) == ("fail", 2, "KV405")
    assert (
        check.message
        == "all requests of w.yaml: 2 findings with severity error (KV104, KV105); none is allowed (kvtool.toml:12)"
    )


def test_patterns_that_match_nothing_are_mistakes() -> None:
    for written, hint in [
        ("KV1O1", "KV101"),
        ("KV9", ""),
        ("eror", "error"),
        ("", ""),
        ("KV", ""),
        ("KV401", "code of a finding"),
    ]:
        with pytest.raises(KvtoolError) as caught:
            pattern_of(written, flag="--error-on")
        assert "--error-on" in caught.value.message
        assert hint in (caught.value.hint or "")


def test_patterns() -> None:
    for written, meant in [("kv101", "KV101"), ("1", "KV1"), ("Error", "error"), ("KV1", "KV1")]:
        assert pattern_of(written) == meant


# Where demands are stated


def located(keys: Sequence[str]) -> Place:
    return Place("/".join(keys), 1, 1)


def test_options_as_demands() -> None:
    options = GateOptions.model_validate(
        {"hit_rate": ">=80%", "ttft_p90": "50ms", "findings": {"KV1": "error"}, "level": "warn"}
    )
    found = stated(options, located, group="g")
    assert [(one.kind, one.limit, one.level, one.place.path) for one in found] == [
        ("hit_rate", 0.8, "warn", "hit_rate"),
        ("ttft_p90", 0.05, "warn", "ttft_p90"),
        ("findings", 0, "warn", "findings/KV1"),  # the level of the whole is the most severe
    ]
    assert stated(GateOptions.model_validate({"hit_rate": 0.8, "level": "off"}), located) == []


def test_groups_of_the_configuration() -> None:
    gate = WorkloadGate.model_validate(
        {"hit_rate": 0.5, "level": "warn", "groups": {"a": {"hit_rate": 0.6}, "b": {"hit_rate": 0.7, "level": "error"}}}
    )
    found = config_demands(gate, located, ["b", "a", "c"])
    assert [(one.group, one.limit, one.level, one.place.path) for one in found] == [
        (None, 0.5, "warn", "hit_rate"),
        ("b", 0.7, "error", "groups/b/hit_rate"),
        ("a", 0.6, "warn", "groups/a/hit_rate"),  # it says no level of its own
    ]


def test_levels_of_falls_are_those_that_are_said() -> None:
    gate = WorkloadGate.model_validate(
        {"level": "warn", "groups": {"a": {"hit_rate": 0.6}, "b": {"level": "error"}, "c": {"level": "off"}}}
    )
    assert levels(gate) == {None: "warn", "b": "error", "c": "off"}


def test_a_group_that_no_workload_has_is_a_mistake() -> None:
    gate = WorkloadGate.model_validate({"groups": {"suport": {"hit_rate": 0.6}, "rag": {}, "x": {}}})
    with pytest.raises(ProblemsError) as caught:
        check_groups(gate, located, ["support", "rag"])
    assert [error.message for error in caught.value.errors] == [
        f"no workload has a group `{x}`" for x in ("suport", "x")
    ]
    assert caught.value.errors[0].hint == "did you mean `support`?"
    assert caught.value.errors[0].place == Place("groups/suport", 1, 1)
    check_groups(WorkloadGate.model_validate({"groups": {"rag": {}}}), located, ["support", "rag"])


YAML, TOML = Place("w.yaml", 9, 1), Place("kvtool.toml", 3, 1)


def test_the_stricter_of_two_files_decides() -> None:
    for stated_twice, decides in [
        ([demand(limit=0.8, place=YAML), demand(limit=0.9, place=TOML)], [("kvtool.toml", 0.9)]),
        ([demand(limit=0.9, place=YAML), demand(limit=0.8, place=TOML)], [("w.yaml", 0.9)]),
        ([demand(limit=0.8, place=YAML), demand(limit=0.8, place=TOML)], [("w.yaml", 0.8)]),
        (  # one warns, the other fails: both say something
            [demand(limit=0.8, place=YAML), demand(limit=0.9, level="warn", place=TOML)],
            [("w.yaml", 0.8), ("kvtool.toml", 0.9)],
        ),
        ([demand(limit=0.9, place=YAML), demand(limit=0.8, level="warn", place=TOML)], [("w.yaml", 0.9)]),
        (
            [demand(limit=0.1, place=YAML, flag="--min-hit-rate"), demand(limit=0.9, place=TOML)],
            [("w.yaml", 0.1)],  # a flag takes the place of what files demand
        ),
        (
            [demand("ttft_p50", 0.1, place=YAML), demand("ttft_p50", 0.05, place=TOML)],
            [("kvtool.toml", 0.05)],
        ),
        (
            [demand("findings", 0, "off", pattern="KV1", place=YAML), demand("findings", 0, pattern="KV1", place=TOML)],
            [("kvtool.toml", 0)],
        ),
        ([demand(group="a", place=YAML), demand(group="b", place=TOML)], [("w.yaml", 0.8), ("kvtool.toml", 0.8)]),
    ]:
        assert [(one.place.path, one.limit) for one in held(stated_twice)] == decides


def test_two_levels_of_one_limit_are_two_checks() -> None:
    checks = evaluate(facts(85, 100), [demand(limit=0.8), demand(limit=0.9, level="warn")])
    assert [(check.id, check.status) for check in checks] == [
        ("w.yaml/hit_rate", "pass"),
        ("w.yaml/hit_rate/warn", "warn"),
    ]
    assert verdict_of(checks).sentence == "WARN 1 gate, 1 passed (all requests 85.0% < 90.0%)"


def test_flags() -> None:
    found = flag_demands("w.yaml", min_hit_rate=0.8, error_on=["error, KV1"])
    assert [(one.kind, one.source, one.pattern) for one in found] == [
        ("hit_rate", "--min-hit-rate", ""),
        ("findings", "--error-on", "error"),
        ("findings", "--error-on", "KV1"),
    ]


# The verdict


def test_sentences() -> None:
    assert verdict_of([]).sentence == NOTHING
    assert verdict_of([]).outcome == "none"
    good, bad = one(facts(), demand()), one(facts(1), demand(group="g"))
    assert verdict_of([good, good]).sentence == "PASS 2 gates"
    assert verdict_of([good, bad]).sentence == "FAIL 1 gate (g 10.0% < 80.0%)"
    elsewhere = bad.model_copy(update={"workload": "v.yaml"})
    assert verdict_of([good, elsewhere]).sentence == "FAIL 1 gate (v.yaml: g 10.0% < 80.0%)"
    assert verdict_of([bad] * 6).sentence.endswith(", and 2 more)")
    audit = one(facts(audit="reuse changed a token"))
    assert verdict_of([audit]).sentence == "FAIL 1 gate (audit: reuse changed a token)"
    assert one(facts(audit="")).status == "pass"


def test_the_verdict_is_data_without_surprises() -> None:
    verdict = verdict_of([one(facts(1), demand())], ["look"])
    again = type(verdict).model_validate_json(verdict.model_dump_json())
    assert again == verdict
    assert json.loads(verdict.model_dump_json())["notices"] == ["look"]


counts = st.integers(1, 10**12).flatmap(
    lambda prompt: st.tuples(st.just(prompt), st.integers(0, prompt), st.integers(0, prompt))
)


@given(counts, st.floats(0, 1))
def test_more_hits_never_fail_what_fewer_pass(tokens: tuple[int, int, int], limit: float) -> None:
    prompt, *hits = tokens
    fewer, more = sorted(hits)
    codes = [verdict_of(evaluate(facts(hit, prompt, prompt), [demand(limit=limit)])).exit_code for hit in (fewer, more)]
    assert codes[0] >= codes[1]
    gaps = [
        verdict_of(evaluate(facts(hit, prompt, prompt), [demand("reachable_gap", limit)])).exit_code
        for hit in (fewer, more)
    ]
    assert gaps[0] >= gaps[1]


@given(counts, st.floats(0, 1), st.floats(0, 1))
def test_a_stricter_limit_never_passes_what_a_looser_fails(
    tokens: tuple[int, int, int], one: float, other: float
) -> None:
    prompt, hit, _ = tokens
    loose, strict = sorted((one, other))
    codes = [verdict_of(evaluate(facts(hit, prompt, prompt), [demand(limit=x)])).exit_code for x in (loose, strict)]
    assert codes[0] <= codes[1]
    both = held([demand(limit=loose, place=YAML), demand(limit=strict, place=TOML)])
    assert verdict_of(evaluate(facts(hit, prompt, prompt), both)).exit_code == codes[1]


@given(st.decimals(0, 100, places=4))
def test_what_is_written_is_what_is_compared(percentage: Any) -> None:
    assert exact(float(percentage) / 100) * 100 == percentage


# Words


@given(st.floats(0, 1), st.floats(0, 1))
def test_different_rates_never_look_the_same(one: float, other: float) -> None:
    shown = percents(one, other)
    assert (shown[0] == shown[1]) is (one == other)


def test_words() -> None:
    assert points(0.005) == "0.5 points"
    assert points(0.00004) == "0.004 points"
    assert change(-0.269) == "-26.9"
    assert change(-0.0000001) == "-0.00001"
    assert change(0.0) == "+0.0"
    assert durations(0.05, 0.0501) == ("50.00 ms", "50.10 ms")


@given(st.lists(st.integers(1, 7), min_size=1, max_size=20))
def test_the_names_of_errors_without_a_gate_add_up(lines: list[int]) -> None:
    """Several errors on one line have one name, with their number."""
    errors = [finding(code="KV101", path="p.j2", line=line) for line in lines]
    sentence = verdict_of((), ungated=errors).sentence
    total, _, named = sentence.partition(" allowed: ")
    times = [int(found) if found else 1 for found in re.findall(r"KV101 at p\.j2:\d(?: \((\d+) times\))?", named)]
    more = re.search(r" and (\d+) more", named)
    assert sum(times) + int(more[1] if more else 0) == len(lines) == int(re.findall(r"(\d+) errors?$", total)[0])
