"""The baseline: what stands in it, what it can be compared with, and how it is written."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.errors import KvtoolError
from kvtool.gate.baseline import Baseline, RecordedSums, WorkloadSums, load_baseline
from kvtool.gate.comparing import compare, differences, required_check
from kvtool.gate.facts import Facts, JudgedFinding, Scope
from kvtool.gate.recording import key_of, sums_of
from kvtool.gate.updating import update_baseline
from kvtool.results.verdict_of import verdict_of

CONFIG = {
    "version": "0.1.0",
    "input": "w.yaml",
    "rules": "vllm",
    "tokenizer": "tekken",
    "tokenizer_fingerprint": "abc",
    "chat_template": "kvtool/templates/tekken.jinja",
    "block_size": 16,
    "capacity_blocks": None,
    "enable_prefix_caching": True,
    "concurrency": None,
    "use_arrivals": False,
    "replicas": 1,
    "seed": 0,
    "model": "llama-3.1-8b",
    "accelerator": "h100",
}


def facts(hit: int = 80, prompt: int = 100, *, requests: int = 4, codes: tuple[str, ...] = (), **more: Any) -> Facts:
    """Two groups, `a` with these tokens and `b` with none of them hit."""
    a, b = Scope(requests, prompt, hit, prompt), Scope(1, 100, 0, 0)
    total = Scope(requests + 1, prompt + 100, hit, prompt)
    found = [JudgedFinding(code, "error", "a") for code in codes]
    return Facts("w.yaml", total, {"a": a, "b": b}, found, **more)


def sums(of: Facts, **config: Any) -> WorkloadSums:
    return sums_of(of, key_of({**CONFIG, **config}, folder=".", limit=None, groups=()), with_findings=True)


def statuses(before: Facts, now: Facts, **options: Any) -> dict[str | None, str]:
    return {check.group: check.status for check in compare(now, sums(now), sums(before), **options).checks}


# Comparing


def test_a_fall_is_measured_exactly() -> None:
    for hit, drop, status in [
        (80, 0.0, "pass"),
        (79, 0.0, "fail"),
        (79, 0.01, "pass"),  # exactly one point, and 0.80 - 0.79 is more than that in floating point
        (79, 0.0099, "fail"),
        (100, 0.0, "pass"),
    ]:
        assert statuses(facts(), facts(hit), max_drop=drop)["a"] == status


def test_a_fall_is_told_with_what_is_new() -> None:
    before, now = facts(codes=("KV204",)), facts(60, codes=("KV204", "KV101", "KV101"))
    found = compare(now, sums(now), sums(before), path="base.json")
    (check,) = [one for one in found.checks if one.group == "a"]
    assert check.message == (
        "a of w.yaml: hit rate 80.0% -> 60.0%, 20.0 points below base.json (allowed: 0.5 points); new findings: KV101"
    )
    assert (check.code, check.id, check.baseline, check.actual, check.limit) == (
        *("KV402", "w.yaml/a/baseline", 0.8, 0.6),
        0.795,
    )
    assert verdict_of(found.checks).sentence == "FAIL 2 gates (all requests fell 40.0% -> 30.0%, a fell 80.0% -> 60.0%)"


def test_levels_of_falls() -> None:
    before, now = facts(), facts(60)
    assert statuses(before, now, levels={None: "warn"}) == {None: "warn", "a": "warn", "b": "pass"}
    assert statuses(before, now, levels={None: "error", "a": "off"}) == {None: "fail", "b": "pass"}


def test_a_group_that_is_all_there_is_is_told_once() -> None:
    scope, lower = Scope(1, 100, 80, 80), Scope(1, 100, 10, 80)
    before, now = Facts("w", scope, {"g": scope}), Facts("w", lower, {"g": lower})
    assert statuses(before, now) == {None: "fail"}
    assert statuses(before, now, levels={None: "error", "g": "warn"}) == {None: "warn"}


def test_changed_workloads_are_told_and_are_no_mistake() -> None:
    before, now = facts(), facts(90, 110, requests=5)
    found = compare(now, sums(now), sums(before))
    assert {check.status for check in found.checks} == {"pass"}
    assert found.notices == ["w.yaml has changed since the baseline: a had 4 requests, now 5"]


def test_new_and_removed_groups_are_told() -> None:
    before = facts()
    now = Facts("w.yaml", before.total, {"a": before.groups["a"], "c": before.groups["b"]})
    found = compare(now, sums(now), sums(before))
    assert found.notices == [
        "w.yaml: new, not compared: c",
        "w.yaml: no longer in the workload: b",
    ]
    assert {check.group for check in found.checks} == {None, "a"}
    cut = Facts("w.yaml", before.total, {"a": before.groups["a"]}, limit=4)  # it ended before `b`
    assert compare(cut, sums(cut), sums(before)).notices == []


def test_a_group_that_had_nothing_has_nothing_to_fall_from() -> None:
    whole = facts()
    before = Facts("w.yaml", whole.total, {"a": whole.groups["a"], "b": Scope()})
    assert statuses(before, before) == {None: "pass", "a": "pass"}
    assert statuses(before, whole) == {None: "pass", "a": "pass"}
    assert statuses(whole, before)["b"] == "fail"
    cut = replace(before, limit=4)
    assert statuses(whole, cut)["b"] == "pass"  # it was asked to end before


def test_the_limit_of_a_fall_is_no_less_than_nothing() -> None:
    limits = {check.group: check.limit for check in compare(facts(), sums(facts()), sums(facts()), max_drop=0.5).checks}
    assert limits == {None: 0.0, "a": 0.3, "b": 0.0}


def test_a_workload_without_an_entry_has_nothing_to_be_compared_with() -> None:
    now = facts()
    found = compare(now, sums(now), None)
    assert (found.checks, found.problem) == ([], "w.yaml is not in the baseline kvtool-baseline.json")
    verdict = verdict_of([required_check(now, found.problem)])
    assert (verdict.outcome, verdict.exit_code) == ("fail", 2)


@given(st.integers(0, 100), st.integers(0, 100), st.floats(0, 1))
def test_more_hits_never_fail_what_fewer_pass(one: int, other: int, drop: float) -> None:
    fewer, more = sorted((one, other))
    order = {"pass": 0, "fail": 1}
    least = statuses(facts(), facts(fewer), max_drop=drop)["a"]
    assert order[least] >= order[statuses(facts(), facts(more), max_drop=drop)["a"]]


# What can be compared


def test_what_makes_runs_incomparable() -> None:
    for change, told in [
        (
            {"tokenizer": "bytes", "tokenizer_fingerprint": "xyz"},
            "tokenizer: tekken (abc) in the baseline, bytes (xyz) now",
        ),
        ({"block_size": 32}, "block size: 16 in the baseline, 32 now"),
        ({"capacity_blocks": 100}, "capacity (blocks): not set in the baseline, 100 now"),
        ({"enable_prefix_caching": False}, "enable prefix caching: not set in the baseline, false now"),
        ({"replicas": 2, "routing": "sticky"}, "replicas: not set in the baseline, 2 now"),
        ({"seed": 1}, "seed: 0 in the baseline, 1 now"),
        ({"rules": "block-lru"}, "rules: vllm in the baseline, block-lru now"),
        ({"concurrency": 4}, "concurrency: not set in the baseline, 4 now"),
    ]:
        now = facts()
        found = compare(now, sums(now, **change), sums(now))
        assert told in found.problem
        assert found.checks == []


def test_what_does_not() -> None:
    for change in [
        {"tokenizer": "./copy/of/tekken.json"},  # its fingerprint is the same
        {"version": "9.9"},
        {"model": "other", "accelerator": "l4"},  # requests run one at a time: nothing depends on how long they take
        {"device": "cuda:0", "measured_model": "x"},
    ]:
        now = facts()
        assert compare(now, sums(now, **change), sums(now)).problem == ""


def test_where_requests_meet_in_time_the_accelerator_decides() -> None:
    one, other = (
        key_of({**CONFIG, "concurrency": 2, "accelerator": name}, folder=".", limit=None, groups=())
        for name in ("a", "b")
    )
    assert differences(one, other) == ["accelerator: a in the baseline, b now"]
    for lasting in ({"use_arrivals": True}, {"ttl_seconds": 300.0}):
        assert "model" in key_of({**CONFIG, **lasting}, folder=".", limit=None, groups=())
    assert "model" not in key_of(CONFIG, folder=".", limit=None, groups=())


def test_one_and_true_are_not_the_same() -> None:
    assert differences({"replicas": 1}, {"replicas": True}) == ["replicas: 1 in the baseline, true now"]


def test_the_tokenizers_own_template_is_the_same_whatever_the_tokenizer_is_called() -> None:
    one, other = (
        key_of(
            {**CONFIG, "tokenizer": name, "chat_template": f"{name} chat template"}, folder=".", limit=None, groups=()
        )
        for name in ("a", "b")
    )
    assert differences(one, other) == []


def test_parts_of_a_workload_are_another_workload() -> None:
    whole = key_of(CONFIG, folder=".", limit=None, groups=())
    part = key_of(CONFIG, folder=".", limit=10, groups=["b", "a"])
    assert differences(whole, part) == [
        "--group: not set in the baseline, a, b now",
        "--requests: not set in the baseline, 10 now",
    ]


def test_files_are_named_from_the_folder_of_the_baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "chat.jinja").write_text("x", encoding="utf-8")
    keys = []
    for folder, path in (("sub", "../chat.jinja"), (".", "chat.jinja"), (".", str(tmp_path / "chat.jinja"))):
        monkeypatch.chdir(tmp_path / folder)
        keys.append(key_of({**CONFIG, "chat_template": path}, folder=str(tmp_path), limit=None, groups=()))
    assert [key["chat_template"] for key in keys] == ["chat.jinja"] * 3


# The file


def write(path: Path, **workloads: Facts) -> str:
    update_baseline(str(path), {name: sums(of) for name, of in workloads.items()}, all_workloads=True)
    return str(path)


def test_the_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = write(tmp_path / "b.json", w=facts(codes=("KV101",)))
    text = Path(path).read_text(encoding="utf-8")
    document = json.loads(text)
    assert text == json.dumps(document, indent=2, sort_keys=True) + "\n"
    assert document["schema"] == "kvtool.baseline/1"
    assert document["workloads"]["w"]["groups"]["a"] == {
        "requests": 4,
        "prompt_tokens": 100,
        "hit_tokens": 80,
        "reachable_tokens": 100,
        "hit_rate": 0.8,
        "reachable_hit_rate": 1.0,
        "reported_hit_rate": None,
        "findings": {"KV101": 1},
    }
    loaded = load_baseline(path)
    assert loaded == Baseline(workloads={"w": sums(facts(codes=("KV101",)))})
    assert load_baseline(str(tmp_path / "none.json")) is None


def test_an_update_says_what_changed_and_keeps_what_it_was_not_about(tmp_path: Path) -> None:
    path = write(tmp_path / "b.json", v=facts(), w=facts())
    before = Path(path).read_bytes()
    assert update_baseline(path, {"w": sums(facts())}, all_workloads=False) == [f"the baseline {path} is unchanged"]
    assert Path(path).read_bytes() == before
    told = update_baseline(path, {"w": sums(facts(90))}, all_workloads=False)
    assert told == [
        f"the baseline {path} was updated",
        "baseline: w: all requests: 40.0% -> 45.0%",
        "baseline: w: a: 80.0% -> 90.0%",
    ]
    loaded = load_baseline(path)
    assert loaded is not None
    assert sorted(loaded.workloads) == ["v", "w"]
    assert update_baseline(path, {"w": sums(facts(90))}, all_workloads=True)[1:] == ["baseline: v: removed"]


def test_updates_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "b.json")
    names = [f"w{number}" for number in range(12)]

    def update(name: str) -> None:
        update_baseline(path, {name: sums(facts())}, all_workloads=False)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(update, names))
    loaded = load_baseline(path)
    assert loaded is not None
    assert sorted(loaded.workloads) == sorted(names)
    assert [each.name for each in tmp_path.iterdir()] == ["b.json"]  # no lock and no part is left


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(KvtoolError, match="cannot write"):
        write(tmp_path / "b.json", w=facts())


def test_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(KvtoolError, match="cannot write"):
        write(tmp_path / "no" / "folder" / "b.json", w=facts())
    with pytest.raises(KvtoolError, match="directory"):
        write(tmp_path, w=facts())


def test_a_write_protected_baseline_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "b.json", w=facts())
    before = Path(path).read_bytes()
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(KvtoolError, match="write-protected"):
        write(tmp_path / "b.json", w=facts(1))
    assert Path(path).read_bytes() == before


def broken(change: str, to: str) -> str:
    text = Baseline(workloads={"w": sums(facts())}).to_json()
    assert change in text
    return text.replace(change, to)


WRONG = {
    "truncated": (Baseline(workloads={"w": sums(facts())}).to_json()[:-20], "damaged: not JSON"),
    "empty": ("", "is empty"),
    "no object": ("[]", "is not a baseline"),
    "no schema": ("{}", "is not a baseline"),
    "another document": ('{"schema": "kvtool.report/1"}', "this is a kvtool.report/1, not a baseline"),
    "the future": ('{"schema": "kvtool.baseline/2", "workloads": 3}', "this kvtool reads kvtool.baseline/1"),
    "a key twice": (
        broken('"hit_tokens": 80', '"hit_tokens": 80, "hit_tokens": 80'),
        "duplicate key `hit_tokens`",
    ),
    "a number without end": (broken('"requests": 4', f'"requests": {"4" * 5000}'), "a number has too many digits"),
    "NaN": (broken('"hit_rate": 0.8', '"hit_rate": NaN'), "NaN is not a number"),
    "negative": (broken('"hit_tokens": 80', '"hit_tokens": -80'), "hit_tokens: Input should be greater than or equal"),
    "no whole number": (broken('"requests": 4', '"requests": 4.5'), "groups.a.requests"),
    "a rate by hand": (broken('"hit_rate": 0.8', '"hit_rate": 0.5'), "does not match 80 of 100 tokens"),
    "a rate by hand, hardly": (
        broken('"hit_rate": 0.8', '"hit_rate": 0.80001'),
        "does not match 80 of 100 tokens",
    ),
    "reachable by hand": (
        broken('"reachable_tokens": 100', '"reachable_tokens": 201'),
        "more hit tokens than prompt tokens",
    ),
    "tokens by hand": (broken('"hit_tokens": 80', '"hit_tokens": 800'), "more hit tokens than prompt tokens"),
    "a rate above one": (broken('"hit_rate": 0.8', '"hit_rate": 8'), "less than or equal to 1"),
    "a missing key": (broken('      "hit_rate": 0.4,\n', ""), "workloads.w"),
    "too deep": ("[" * 100_000, "nested too deeply"),
    "a long number": ('{"schema": ' + "9" * 5000 + "}", "cannot be read"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_baseline_is_told(name: str, tmp_path: Path) -> None:
    text, message = WRONG[name]
    path = tmp_path / "b.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(KvtoolError) as caught:
        load_baseline(str(path))
    assert message in caught.value.message
    assert caught.value.exit_code == 2
    assert caught.value.place is not None
    assert caught.value.place.path == str(path)
    assert caught.value.hint or not text


@pytest.mark.parametrize(
    ("change", "to", "line"),
    [
        ('"requests": 4', '"requests": 4.5', '"requests": 4.5'),
        ('"hit_rate": 0.8', '"hit_rate": 8', '"hit_rate": 8'),
        ('      "hit_rate": 0.4,\n', "", '"w": {'),
        ('"hit_tokens": 80', '"hit_tokens": 800', '"a": {'),
    ],
)
def test_a_wrong_value_is_told_with_its_place(change: str, to: str, line: str, tmp_path: Path) -> None:
    """Of a value that is missing or does not fit the others: where the object around it begins."""
    path = tmp_path / "b.json"
    path.write_text(broken(change, to), encoding="utf-8")
    with pytest.raises(KvtoolError) as caught:
        load_baseline(str(path))
    place = caught.value.place
    assert place is not None
    assert place.excerpt is not None
    assert place.excerpt.strip().startswith(line)
    assert place.excerpt == path.read_text(encoding="utf-8").split("\n")[(place.line or 0) - 1]
    assert place.column == place.excerpt.index(":") + 3


def test_additions_of_a_newer_kvtool_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_text(broken('"requests": 4', '"requests": 4, "mood": "good"'), encoding="utf-8")
    assert load_baseline(str(path)) == Baseline(workloads={"w": sums(facts())})


def test_rates_of_nothing() -> None:
    empty = RecordedSums.of(requests=0, prompt_tokens=0, hit_tokens=0, reachable_tokens=0, findings=None)
    assert (empty.hit_rate, empty.reachable_hit_rate, empty.findings) == (0.0, 0.0, None)
