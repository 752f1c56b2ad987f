"""The table of `kvtool what-if`: its figures are those of runs, its commands give them again, and what is missing is said."""

from __future__ import annotations

import json
import random
import shlex
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run
from tests.conftest import some
from tests.files import widest, write

SUPPORT = """\
version: 1
vars: {now: {datetime: 1m}, n: {counter: 1}, id: {uuid: 4}}
groups:
  - name: support
    requests: 12
    messages:
      - {role: system, text: "Now: {{ now }}. You are the agent of a shop; be short, be kind, be right, and be quick. Do all that."}
      - {role: user, text: "Question {{ n }} about the shop?"}
  - name: other
    requests: 9
    messages:
      - {role: system, text: "Request {{ id }}. You translate what you are given, word by word, and say nothing else about it."}
      - {role: user, text: "Translate {{ n }}."}
"""


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["what-if", *arguments, "--json"]) == 0, capsys.readouterr().err
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def trace_of(path: Path, seed: int, requests: int = 60, **more: object) -> str:
    """Chains that grow out of each other by chance, with lengths that end anywhere in a block."""
    rng = random.Random(seed)
    chains: list[list[int]] = [[]]
    rows = []
    for at in range(requests):
        chain = [*rng.choice(chains)[: rng.randint(0, 6)], *(1000 * at + each for each in range(rng.randint(1, 5)))]
        chains.append(chain)
        length = 512 * len(chain) - rng.choice((0, 0, 1, 300, 511))
        row = {
            "timestamp": 700 * at,
            "input_length": length,
            "output_length": rng.choice((1, 40, 900)),
            "hash_ids": chain,
        }
        rows.append(json.dumps(row | more))
    path.write_text("\n".join(rows) + "\n")
    return str(path)


def workload(path: Path) -> str:
    path.write_text(SUPPORT)
    return str(path)


def chat_log(path: Path) -> str:
    """A log of prompts whose clock stands before what they share, and sessions that grow."""
    head = "You are the agent of a shop. Be short and kind, and be right about what it sells. " * 6
    rows = []
    for at in range(14):
        system = {"role": "system", "content": f"It is 2026-03-0{1 + at % 9}T10:{10 + at}:00Z.\n{head}"}
        rows.append(json.dumps({"model": "own", "messages": [system, {"role": "user", "content": f"question {at}"}]}))
    path.write_text("\n".join(rows) + "\n")
    return str(path)


@pytest.mark.parametrize("seed", some(range(4), 1))
@pytest.mark.parametrize("rules", ["vllm", "block-lru"])
def test_today_is_what_a_profile_hits(
    seed: int, rules: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = trace_of(tmp_path / "t.jsonl", seed)
    for capacity in ("14", "40", "100000"):
        flags = [path, "--capacity", capacity, "--rules", rules]
        first = told(capsys, *flags)["rows"][0]
        assert run(["profile", *flags, "--dry-run", "--no-advice", "--json"]) == 0
        totals = json.loads(capsys.readouterr().out)["totals"]
        assert first["computed_tokens"] == totals["prompt_tokens"] - totals["hit_tokens"], capacity
        assert first["hit_rate"] == totals["hit_rate"]


@pytest.mark.parametrize("kind", ["trace", "studied", "workload", "log"])
def test_the_command_of_each_row_gives_it_again(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> None:
    made = {
        "trace": lambda: [trace_of(tmp_path / "t.jsonl", 1), "--capacity", "20"],
        "studied": lambda: [trace_of(tmp_path / "t.jsonl", 2), "--capacity", "20", "--rules", "block-lru"],
        "workload": lambda: [workload(tmp_path / "w.yaml"), "-b", "8", "-t", bytes_json, "--gpu-memory", "20GiB"],
        "log": lambda: [chat_log(tmp_path / "a log.jsonl"), "-t", bytes_json, "--capacity=120"],
    }
    found = told(capsys, *made[kind]())
    kinds = [row["kind"] for row in found["rows"]]
    assert kinds[0] == "today"
    assert {"capacity", "kv-cache-dtype", "policy"} <= set(kinds)
    assert ("prompts" in kinds) == (kind in ("workload", "log"))
    one_each = {row["kind"]: row for row in found["rows"]}.values()  # where a run takes its time
    for row in found["rows"] if kind in ("trace", "studied") else one_each:
        tool, command, *words = shlex.split(row["command"])
        assert (tool, command) == ("kvtool", "what-if")
        again = told(capsys, *words)["rows"][row["kind"] == "tier"]
        assert again["hit_blocks"] == row["hit_blocks"], row["change"]
        if again["kind"] == "today":
            for key in ("hit_rate", "computed_tokens", "block_size"):
                assert again[key] == row[key], (row["change"], key)
            assert row["capacity"] in (again["capacity"], None)


def test_fixes_of_prompts_stand_beside_hardware_with_what_they_win(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> None:
    arguments = [workload(tmp_path / "w.yaml"), "-t", bytes_json, "--capacity", "300"]
    found = told(capsys, *arguments)
    assert run(["profile", *arguments, "--dry-run", "--json"]) == 0
    profile = json.loads(capsys.readouterr().out)
    proven = {each["rerun"]["total_after"] for each in profile["findings"] if each["rerun"]}
    together = next(row for row in found["rows"] if "together" in (row["change"] or ""))
    assert 0.5 < together["hit_rate"] <= max(proven)  # the edited files may win once more
    alone = [row for row in found["rows"] if row["kind"] == "prompts" and row is not together]
    assert {row["change"].split()[1] for row in alone} == {"KV101", "KV102"}
    assert all(row["computed_tokens"] >= together["computed_tokens"] for row in alone)
    assert found["rows"][1] is together
    assert found["answer"][0].startswith("Change first")
    assert "w.yaml" in found["answer"][0]
    assert found["answer"][1].startswith("Preview the edit (add --write to apply it): kvtool optimize ")
    assert found["answer"][1].endswith(" --allow P2")


@pytest.mark.parametrize("kind", some(["log", "workload"], 1))
def test_fixed_takes_all_names_of_the_table_and_leaves_the_other_fixes_in_it(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> None:
    path = workload(tmp_path / "w.yaml") if kind == "workload" else two_places(tmp_path / "a log.jsonl")
    base = [path, "-t", bytes_json]
    found = told(capsys, *base)
    rows = [row for row in found["rows"] if row["kind"] == "prompts"]
    together = next(row for row in rows if "together" in row["change"])
    assert len(rows) > 2
    for row in rows:
        value = shlex.split(row["command"])[-1]
        assert len(value) < 16 or value.startswith("KV"), "a hash is no name"
        by_value = told(capsys, *base, "--fixed", value)
        if row is rows[0]:
            by_name = told(capsys, *base, "--fixed", row["change"].upper())
            counted = [[(each["change"], each["hit_blocks"]) for each in of["rows"]] for of in (by_value, by_name)]
            assert counted[0] == counted[1]
        first, *others = by_value["rows"]
        assert first["hit_blocks"] == row["hit_blocks"]
        assert first["change"] == "with these fixes"
        more = [each for each in others if each["kind"] == "prompts"]
        assert bool(more) == (row is not together)
        assert all(each["hit_blocks"] == together["hit_blocks"] for each in more[:1])
        if row is not together:
            assert by_value["answer"][0].startswith("Change first"), "another fix wins"
            again = told(capsys, *shlex.split(more[0]["command"])[2:])["rows"][0]
            assert again["hit_blocks"] == more[0]["hit_blocks"]
    assert run(["what-if", *base, "--fixed", "no-such"]) == 2
    said = capsys.readouterr().err
    assert all(shlex.split(row["command"])[-1] in said for row in rows)


def two_places(path: Path) -> str:
    """A log of two models whose prompts both begin with a clock, so that two fixes have one code."""
    rows = []
    for at in range(16):
        model, shared = ("one", "Be short and kind. " * 30) if at % 2 else ("two", "Be right about prices. " * 30)
        messages = [{"role": "system", "content": f"{model}: 2026-03-0{1 + at % 9}T10:{10 + at}:00Z\n{shared}"}]
        rows.append(
            json.dumps({"model": model, "messages": [*messages, {"role": "user", "content": f"question {at}"}]})
        )
    path.write_text("\n".join(rows) + "\n")
    return str(path)


def test_rows_stand_by_what_they_compute_and_bounds_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = told(capsys, trace_of(tmp_path / "t.jsonl", 3), "--capacity", "20")["rows"]
    assert rows[0]["kind"] == "today"
    can = [row for row in rows[1:] if row["sure"] != "bound"]
    bounds = [row for row in rows[1:] if row["sure"] == "bound"]
    assert rows[1:] == [*can, *bounds]
    assert [row["computed_tokens"] for row in can] == sorted(row["computed_tokens"] for row in can)
    assert {row["change"] for row in bounds} == {"unlimited cache", "policy OPT"}
    best = min(row["computed_tokens"] for row in bounds)
    assert all(row["computed_tokens"] >= best for row in rows)


@pytest.mark.parametrize("seed", some(range(3), 1))
def test_without_times_a_host_tier_is_counted_as_its_sweep_counts_it(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = trace_of(tmp_path / "t.jsonl", seed, timestamp=None)
    found = told(capsys, path, "--capacity", "20", "--slo", "ttft=1s", "--replicas", "2")
    rows = {row["kind"]: row for row in found["rows"]}
    tier, today = rows["tier"], rows["today"]
    without, again = told(capsys, *shlex.split(tier["command"])[2:])["rows"]
    for key in ("hit_blocks", "references", "computed_tokens", "host_blocks", "loaded_rate", "bandwidth", "ttft_p99"):
        assert again[key] == tier[key], key
    assert (without["hit_blocks"], without["computed_tokens"]) == (today["hit_blocks"], today["computed_tokens"])
    assert tier["computed_tokens"] < today["computed_tokens"]
    assert (tier["sure"], tier["more_hardware"], tier["host_blocks"]) == ("exact", True, 40)
    assert all("tier" not in row["change"] for row in found["missing"])
    assert run(["what-if", path, "--capacity", "20"]) == 0
    assert "loaded" in capsys.readouterr().out


def test_what_cannot_be_had_is_listed_with_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = trace_of(tmp_path / "t.jsonl", 1)
    lack = {row["change"]: row["why"] for row in told(capsys, path)["missing"]}
    assert "has no text" in lack["prompt fixes"]
    assert "block ids" in lack["block size"]
    assert "--gpu-memory" in lack["cache x 2"]
    assert "--gpu-memory" in lack["tensor parallel 2"]
    lack = {row["change"]: row["why"] for row in told(capsys, path, "--capacity", "20")["missing"]}
    assert "LRU" in lack["policy"]
    assert "cache x 2" not in lack
    assert run(["what-if", path]) == 0
    shown = capsys.readouterr().out
    assert "Not in the table:" in shown
    assert "has no text" in shown


def test_more_accelerators_and_smaller_types_by_the_memory_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = trace_of(tmp_path / "t.jsonl", 1)
    document = told(capsys, path, "--gpu-memory", "20GiB")
    assert any(note.startswith("Largest step: 2,048 tokens and 256 requests") for note in document["notes"])
    rows = {row["kind"]: row for row in document["rows"]}
    today, two, small = rows["today"], rows["tensor-parallel"], rows["kv-cache-dtype"]
    assert two["capacity"] > 2 * today["capacity"]  # the weights are shared, too
    assert small["capacity"] == pytest.approx(2 * today["capacity"], abs=2)
    assert (two["more_hardware"], small["more_hardware"]) == (True, False)


def test_a_cache_below_the_longest_request_leaves_it_out_of_all_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = trace_of(tmp_path / "t.jsonl", 5)
    found = told(capsys, path, "--capacity", "6")
    assert found["requests"] < 60
    assert "longer than today's cache" in found["notes"][0]
    assert run(["profile", path, "--capacity", "6", "--dry-run", "--no-advice", "--json"]) == 0
    totals = json.loads(capsys.readouterr().out)["totals"]
    assert totals["requests"] == found["requests"]
    assert found["rows"][0]["hit_rate"] == totals["hit_rate"]
    assert run(["what-if", path, "--capacity", "6", "--max-model-len", "1"]) == 2
    assert "every request" in capsys.readouterr().err


def test_smaller_blocks_where_they_help(tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str) -> None:
    arguments = [chat_log(tmp_path / "l.jsonl"), "-t", bytes_json, "-b", "256", "--no-advice"]
    rows = {row["kind"]: row for row in told(capsys, *arguments)["rows"]}
    assert rows["block-size"]["block_size"] == 16
    assert rows["block-size"]["computed_tokens"] < rows["today"]["computed_tokens"]


def test_caching_that_is_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [trace_of(tmp_path / "t.jsonl", 1), "--capacity", "50", "--no-enable-prefix-caching"]
    found = told(capsys, *arguments)
    rows = {row["kind"]: row for row in found["rows"]}
    assert (rows["today"]["hit_blocks"], found["rows"][1]["kind"]) == (0, "prefix-caching")
    again = told(capsys, *shlex.split(rows["prefix-caching"]["command"])[2:])["rows"][0]
    assert again["hit_blocks"] == rows["prefix-caching"]["hit_blocks"] > 0


def test_a_log_of_hosted_models_is_planned_for_its_providers_or_an_own_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = "You are the agent of a shop. Be short and kind, and be right about what it sells. " * 20
    rows = [
        json.dumps(
            {
                "model": "gpt-4o",
                "messages": [{"role": "system", "content": head}, {"role": "user", "content": f"q {at}"}],
            }
        )
        for at in range(5)
    ]
    path = write(str(tmp_path / "l.jsonl"), "\n".join(rows) + "\n")
    log = str(path or tmp_path / "l.jsonl")
    found = told(capsys, log, "--no-advice", "--capacity", "300")
    assert found["block_size"] == 16
    assert told(capsys, log)["rules"] == "published"
    assert told(capsys, log, "--block-size", "16")["block_size"] == 16
    assert run(["compare-engines", log, "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert (table["own"], table["rows"][0]["flags"]) == (None, [])
    assert run(["compare-engines", log, "--no-config"]) == 0
    assert "A hosted API served these requests" in " ".join(capsys.readouterr().out.split())
    mixed = write(str(tmp_path / "mixed.jsonl"), "\n".join([*rows, rows[0].replace("gpt-4o", "Qwen/Qwen3-8B")]) + "\n")
    assert run(["compare-engines", mixed, "--no-config"]) == 0
    assert "A hosted API served 5 of 6 requests" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(
    width: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> None:
    for arguments in (
        [trace_of(tmp_path / "t.jsonl", 1), "--capacity", "20"],
        [workload(tmp_path / "w.yaml"), "-t", bytes_json, "--capacity", "300"],
    ):
        assert run(["what-if", *arguments, "--width", str(width)]) == 0
        shown = capsys.readouterr().out
        assert "Change first" in shown
        assert widest(shown) <= width


def test_plain_is_a_record_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["what-if", trace_of(tmp_path / "t.jsonl", 1), "--capacity", "20", "--plain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (record,) = [line for line in lines if line.startswith("change cache x 2:")]
    assert "hit rate" in record
    assert record.endswith("--capacity 40")


def test_hostile_names_reach_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str) -> None:
    path = tmp_path / "w\x1b]0;x\x07.yaml"
    path.write_text(SUPPORT.replace("name: support", 'name: "[red]"'))
    assert run(["what-if", str(path), "-t", bytes_json, "--capacity", "300"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "\x07" not in shown


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--fixed", "all"], "has no text"),
        (["--fixed", "all", "--sweep", "capacity"], "--fixed is for the table"),
        (["--model", "gpt-oss-20b"], ""),
    ],
)
def test_what_the_table_cannot_plan_is_refused(
    arguments: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["what-if", trace_of(tmp_path / "t.jsonl", 1), *arguments])
    assert code == (2 if problem else 0)
    assert problem in capsys.readouterr().err


def test_a_fix_that_nobody_found_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> None:
    assert run(["what-if", workload(tmp_path / "w.yaml"), "-t", bytes_json, "--fixed", "nothing"]) == 2
    said = capsys.readouterr().err
    assert "--fixed: there is no fix 'nothing'" in said
    assert "--fixed takes KV101, KV102, or all" in said


def test_a_fix_is_named_by_its_code_or_by_its_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> None:
    arguments = [workload(tmp_path / "w.yaml"), "-t", bytes_json]
    assert run(["profile", *arguments, "--dry-run", "--json"]) == 0
    keys = {each["code"]: each["fix_key"] for each in json.loads(capsys.readouterr().out)["findings"]}
    by_code, by_key = (told(capsys, *arguments, "--fixed", name)["rows"][0] for name in ("kv101", keys["KV101"]))
    assert by_code["hit_blocks"] == by_key["hit_blocks"]


def test_a_fleet_larger_than_the_objectives_need_is_told_first(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = trace_of(tmp_path / "t.jsonl", 3)
    slack, tight = "ttft=1000s,tpot=100s", "ttft=1ms,tpot=1ms"
    found = told(capsys, log, "--replicas", "4", "--capacity", "4000", "--slo", slack)
    assert found["answer"][0] == "Fewer GPUs meet the objectives: 1 instead of 4 (--replicas 1)."
    found = told(capsys, log, "--replicas", "4", "--tensor-parallel", "2", "--capacity", "4000", "--slo", slack)
    assert found["answer"][0] == "Fewer GPUs meet the objectives: 2 instead of 8 (--replicas 1)."
    for flags in (["--replicas", "1", "--slo", slack], ["--replicas", "2", "--slo", tight], ["--replicas", "2"]):
        found = told(capsys, log, "--capacity", "4000", *flags)
        assert not any(line.startswith("Fewer GPUs") for line in found["answer"]), flags


def test_a_cache_that_holds_everything_is_not_made_larger(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = trace_of(tmp_path / "t.jsonl", 5, requests=20)

    def larger(capacity: int) -> tuple[set[str], list[str]]:
        found = told(capsys, log, "--capacity", str(capacity))
        changes = {row["change"] for row in found["rows"]}
        return changes & {"cache x 2", "cache x 4"}, [
            each["why"] for each in found["missing"] if "larger" in each["change"]
        ]

    assert larger(40) == ({"cache x 2", "cache x 4"}, [])
    changes, why = larger(4_000)
    assert not changes
    assert len(why) == 1
    assert "Today's 4,000 blocks are enough for all prompts and answers" in why[0]
