"""What local servers write into their logs: which of a slot's tokens were lost, and why."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run
from kvtool.profiler.why.server_log_lines import line_causes
from kvtool.results.documents.server_cause import ServerCause
from kvtool.workload.logs.formats.servers.usage_records import slot_records
from tests.measure.servers.made_metrics import vllm_metrics
from tests.measure.servers.metrics_server import pages, serving

PROMPT = (
    "slot update_slots: id  {slot} | task {task} | new prompt, n_ctx_slot = 4096, n_keep = 0, task.n_tokens = {tokens}"
)
PAST = (
    "slot update_slots: id  {slot} | task {task} | n_past = {past}, slot.prompt.tokens.size() = {size}, seq_id = 0, "
    "pos_min = 9, n_swa = 0"
)
FORCED = (
    "slot update_slots: id  {slot} | task {task} | forcing full prompt re-processing due to lack of cache data (likely due "
    "to SWA or hybrid/recurrent memory)"
)
LRU = "slot get_availabl: id  {slot} | task -1 | selected slot by LRU, t_last = 1"
FULL = "srv      alloc:  - making room for prompt cache entry, removing oldest entry (size = 3418.112 MiB)"


def causes(path: Path, *lines: str) -> dict[str, ServerCause]:
    """The causes that a log of these lines names."""
    path.write_text("".join(f"{line}\n" for line in lines))
    return {each.cause: each for each in line_causes([str(path)])}


def llama(line: str, slot: int = 0, task: int = 1, tokens: int = 900, past: int = 800, size: int = 850) -> str:
    """A line of a slot."""
    return line.format(slot=slot, task=task, tokens=tokens, past=past, size=size)


def test_memory_that_cannot_go_back_loses_what_matched(tmp_path: Path) -> None:
    rows = [llama(each, slot) for slot in (0, 1) for each in (PROMPT, PAST)]
    found = causes(tmp_path / "l.log", *rows, llama(FORCED, 1), FULL, FULL)
    assert found["model groups"].tokens == 800
    assert "--swa-full" in found["model groups"].change
    assert found["capacity"].basis == "shown"
    assert "2 saved prompts" in found["capacity"].why
    assert "slots" not in found


def test_a_slot_of_another_prompt_is_lost(tmp_path: Path) -> None:
    rows = [llama(LRU), llama(PROMPT), llama(PAST, past=30, size=830)]
    assert causes(tmp_path / "l.log", *rows)["slots"].tokens == 800
    kept = [llama(PROMPT), llama(PAST, past=30, size=830)]
    assert causes(tmp_path / "k.log", *kept)["prompts"].tokens == 799


def answered(prompt: int, cached: int, *, chosen: str, before: Sequence[str] = (), detailed: bool = True) -> list[str]:
    """The lines of a request to slot 0 by a current release; the details are there with `-lv 4` alone, as Ollama sets it."""
    slot = "0.00.164.275 I slot {}: id  0 | task {} | "
    rows = [*before, slot.format("get_availabl", -1) + f"selected slot by {chosen}"]
    if detailed:
        rows.append(
            slot.format("  operator()", 9) + f"new prompt, n_ctx_slot = 4096, n_keep = 0, task.n_tokens = {prompt}"
        )
        rows += [
            slot.format("  operator()", 9) + f"cached n_tokens = {at}, memory_seq_rm [{at}, end)"
            for at in (cached, prompt - 4)
        ]
    timing = slot.format("print_timing", 9)
    return [
        *rows,
        f"{timing}prompt eval time =      36.56 ms / {prompt - cached:>5} tokens (    0.57 ms per token)",
        f"{timing}       eval time =       3.17 ms /     4 tokens (    1.06 ms per token,   945.18 tokens per second)",
        slot.format("     release", 9) + f"stop processing: n_tokens = {prompt + 3}, truncated = 0",
    ]


@pytest.mark.parametrize("detailed", [True, False])
@pytest.mark.parametrize("front", ["", "[42027] "])
def test_a_current_release_says_it_by_shares_and_lengths(tmp_path: Path, front: str, detailed: bool) -> None:
    """253 tokens are in the slot, 200 of them are common, and the model goes back to 186."""
    checking = [
        "0.00.164.259 I slot get_availabl: id  0 | task -1 |  - checking sim = 0.800 (200/250) > 0.100"
    ] * detailed
    share = "LCP similarity, f_sim_best = 0.800 (> 0.100 thold), f_keep = 0.791"
    rows = answered(250, 0, chosen="LRU, t_last = -1", detailed=detailed)
    rows += answered(250, 186, chosen=share, before=checking, detailed=detailed)
    path = tmp_path / "l.log"
    found = causes(path, *(front + row for row in rows))
    assert {name: each.tokens for name, each in found.items()} == {"model groups": 14, "prompts": 49}
    with path.open("rb") as reader:
        usages = [record.value["usage"] for record in slot_records(reader, "l.log", "l.log")]
    assert [(each["prompt_tokens"], each["completion_tokens"]) for each in usages] == [(250, 4), (250, 4)]
    assert [each["prompt_tokens_details"]["cached_tokens"] for each in usages] == [0, 186]


def test_a_saved_prompt_comes_back_and_a_healthy_slot_loses_nothing(tmp_path: Path) -> None:
    srv = "0.00.313.176 I srv          load:  "
    loads = [
        f"{srv}  - prompt with length     253, lcp =     200, f_keep = 0.791, f_sim = 0.833",
        f"{srv}- found better prompt with f_keep = 0.791, f_sim = 0.833",
    ]
    rows = answered(250, 0, chosen="LRU, t_last = -1")
    back = answered(240, 186, chosen="LRU, t_last = 9")
    found = causes(tmp_path / "l.log", *rows, back[0], *loads, *back[1:])
    assert {name: each.tokens for name, each in found.items()} == {"model groups": 14, "prompts": 39}
    share = "LCP similarity, f_sim_best = 0.900 (> 0.100 thold), f_keep = 1.000"
    assert causes(tmp_path / "k.log", *rows, *answered(281, 253, chosen=share)) == {}


def test_ollama_runs_llama_server_and_has_its_lines(tmp_path: Path) -> None:
    front = 'time=2026-08-22T21:11:17.240-04:00 level=INFO source=routes.go:1 msg="Listening"'
    share = "LCP similarity, f_sim_best = 0.800 (> 0.100 thold), f_keep = 0.791"
    rows = [*answered(250, 0, chosen="LRU, t_last = -1"), *answered(250, 0, chosen=share)]
    found = causes(tmp_path / "o.log", front, *(row.split(" I ")[1] for row in rows))
    assert found["model groups"].tokens == 200
    assert "earlier messages" in found["model groups"].change


@pytest.mark.parametrize(("used", "lost"), [(7, 26_692), (26_698, 1), (26_699, None)])
def test_ollama_says_what_it_could_use_of_a_slot(tmp_path: Path, used: int, lost: int | None) -> None:
    front = 'time=2025-10-22T21:11:17.240-04:00 level=DEBUG source=cache.go:142 msg="loading cache slot" id=0'
    found = causes(tmp_path / "o.log", f"{front} cache=26700 prompt=27572 used={used} remaining=1")
    assert (found["prompts"].tokens if found else None) == lost


def test_slots_that_change_hands_at_the_default_level_are_a_possible_cause(tmp_path: Path) -> None:
    rows = [row for at in range(4) for row in answered(250 + at, 0, chosen="LRU, t_last = 9", detailed=False)]
    (only,) = causes(tmp_path / "l.log", *rows).values()
    assert (only.cause, only.basis, only.tokens) == ("slots", "possible", 251 + 252 + 253)


def why(path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    """The document of `kvtool why`."""
    pytest.importorskip("httpx", reason="needs the extra `live`")
    assert run(["why", *more, str(path), "--json", "-q"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_prefill_batches_of_sglang_count_what_was_cached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = (
        "[2026-09-24 02:24:45 TP0] Prefill batch. #new-seq: 1, #new-token: {}, #cached-token: {}, token usage: 0.00, "
    )
    path = tmp_path / "sglang.log"
    path.write_text("".join(f"{line.format(100, cached)}\n" for cached in (0, 300, 0)))
    found = why(path, capsys)
    assert (found["prompt_tokens"], found["hit_tokens"], found["verdict"]) == (600, 300, "unknown")
    assert "only counts tokens" in found["summary"]


def test_counters_that_cannot_be_are_called_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "1.prom"
    path.write_text(vllm_metrics(prompt=1000, cached=1500))
    assert "1,500 cached of 1,000 prompt tokens" in why(path, capsys)["summary"]


@pytest.mark.parametrize(
    ("model", "verdict", "cause"), [((), "unknown", None), (("qwen3-next-80b-a3b",), "cause", "model groups")]
)
def test_ollama_is_the_llama_server_that_it_starts(
    model: tuple[str, ...], verdict: str, cause: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One slot of the loaded context; a model with states goes back to no place in prompts that differ late."""
    log = tmp_path / "log.jsonl"
    head = "words that all prompts share " * 40
    log.write_text(
        "".join(
            json.dumps({"prompt": f"{head}{at} and {at}, then words of its own at the end"}) + "\n" for at in range(6)
        )
    )
    said = {
        "/v1/models": json.dumps({"data": [{"id": "m", "owned_by": "library"}]}),
        "/api/ps": json.dumps({"models": [{"name": "m", "context_length": 4096}]}),
    }
    with serving(pages({**said, "/api/version": '{"version": "0.34.1"}'})) as server:
        found = why(log, capsys, server.url, *(word for name in model for word in ("--model", name)))
    assert found["verdict"] == verdict
    assert cause in (None, next((each["cause"] for each in found["causes"]), None))
    assert any("Ollama has no /metrics" in note for note in found["notes"])
