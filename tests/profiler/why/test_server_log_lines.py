"""What local servers write into their logs: which of a slot's tokens were lost, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvtool.profiler.why.server_log_lines import line_causes
from kvtool.results.documents.server_cause import ServerCause

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
    assert causes(tmp_path / "k.log", *kept) == {}


@pytest.mark.parametrize(("used", "lost"), [(7, 26_692), (26_698, 1), (26_699, None)])
def test_ollama_says_what_it_could_use_of_a_slot(tmp_path: Path, used: int, lost: int | None) -> None:
    front = 'time=2025-10-22T21:11:17.240-04:00 level=DEBUG source=cache.go:142 msg="loading cache slot" id=0'
    found = causes(tmp_path / "o.log", f"{front} cache=26700 prompt=27572 used={used} remaining=1")
    assert (found["prompts"].tokens if found else None) == lost
