"""Old outputs of tools, cut or kept: what each costs by a provider's prices, and the break-even beside the fix."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from kvtool.accounting.prices.bill import shown_money
from kvtool.fixes.edits.record_edits import edited_record
from kvtool.fixes.history_kept import HistoryKept
from kvtool.workload.call import Call, Usage
from kvtool.workload.logs.logs import LogSource
from kvtool.workload.turn import Turn
from tests.conftest import Command

START = datetime(2026, 11, 20, 9, tzinfo=UTC)
MARK = {"cache_control": {"type": "ephemeral"}}
SYSTEM = [{"type": "text", "text": "You check pages.\n" + "Look at each part.\n" * 250, **MARK}]


def bodies(
    turns: int, *, pruned: bool, output: int = 6000, later: int | None = None, blocks: bool = False
) -> list[dict[str, Any]]:
    """A session of Claude with marks at its ends, in which long outputs before the last turn are left out, or none.

    Outputs after the first one have `later` characters, or as many; they are lists of `blocks`, or texts.
    """
    found = []
    for now in range(turns):
        messages: list[dict[str, Any]] = []
        for n in range(now + 1):
            size = output if n == 0 or later is None else later
            page = f"page {n} " * (size // 7)
            text = page if n >= now - 1 or not pruned or size < 1000 else f"[removed {n}]"
            said = [{"type": "text", "text": text}] if blocks else text
            messages += [
                {"role": "user", "content": f"Go on with page {n}. " + "It is long. " * 10},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": f"t{n}", "name": "get", "input": {"n": n}}],
                },
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{n}", "content": said}]},
                {"role": "assistant", "content": f"Page {n} is fine."},
            ]
        messages[-2]["content"][0] |= MARK
        at = (START + timedelta(seconds=30 * now)).isoformat()
        body = {"model": "claude-sonnet-5", "max_tokens": 9, "system": SYSTEM, "messages": messages[:-1]}
        found.append({**body, "timestamp": at, "session_id": "s"})
    return found


def written(records: list[dict[str, Any]], path: str = "log.jsonl") -> str:
    Path(path).write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def cost(in_folder: Command, path: str) -> Decimal:
    _, out, _ = in_folder("profile", path, "--no-advice", "--json")
    return Decimal(json.loads(out)["money"]["predicted"])


def test_keeping_the_history_is_told_with_both_costs(in_folder: Command) -> None:
    whole, pruned = (cost(in_folder, written(bodies(14, pruned=each, blocks=True))) for each in (False, True))
    assert whole < pruned
    _, out, _ = in_folder("optimize", "log.jsonl", "--allow", "P3", "-o", "whole.jsonl", "--json")
    found = json.loads(out)
    assert [step["code"] for step in found["steps"]] == ["KV143"]
    assert Decimal(found["edited_log"]["cost"]["after"]) == whole == cost(in_folder, "whole.jsonl")
    _, out, _ = in_folder("profile", "log.jsonl", "--json")
    fix = next(each["fix"] for each in json.loads(out)["findings"] if each["code"] == "KV143")
    said = re.search(r"\(pruning costs (\$[\d.]+), keeping everything (\$[\d.]+)\)", fix)
    assert said is not None
    # outputs cost the same both ways, and are not of the prompts
    assert (said[1], said[2]) == (shown_money(pruned), shown_money(whole))


def test_keeping_is_not_advised_where_it_costs_more(in_folder: Command) -> None:
    """One huge output that is cut once costs more to read with each turn than the short history to store anew."""
    path = written(bodies(16, pruned=True, output=60_000, later=300))
    whole = cost(in_folder, written(bodies(16, pruned=False, output=60_000, later=300), "whole.jsonl"))
    assert whole > cost(in_folder, path)
    _, out, _ = in_folder("optimize", path, "--allow", "P3", "--json")
    assert json.loads(out)["steps"] == []


def test_only_what_was_cut_comes_back() -> None:
    keep = HistoryKept()
    page = "a page " * 40
    first = [{"role": "user", "content": "Go."}, {"role": "tool", "content": page}]
    turn = Turn("g", messages=first, session="s")
    assert keep(turn) is turn
    later = [first[0], {"role": "tool", "content": "[removed]"}, {"role": "user", "content": "And?"}]
    assert keep(Turn("g", messages=later, session="s")).messages == [*first, later[-1]]
    parts = [{"type": "text", "text": page}, {"type": "image"}]
    keep(Turn("g", messages=[first[0], {"role": "tool", "content": parts}], session="p"))
    cut = [{"type": "text", "text": "", "cache_control": {"type": "ephemeral"}}, {"type": "image"}]
    [_, back] = keep(Turn("g", messages=[first[0], {"role": "tool", "content": cut}], session="p")).messages or []
    assert back["content"] == [{**cut[0], "text": page}, {"type": "image"}], "the mark stays"
    edited = [{"role": "user", "content": "Stop."}, {"role": "tool", "content": "[removed]"}]
    other = Turn("g", messages=edited, session="s")
    assert keep(other) is other, "after an edit it is another conversation"


def test_results_that_are_objects_come_back_into_the_record(tmp_path: Path) -> None:
    """Gemini's results of tools are no texts, and all that were cut look the same."""
    path, pages = tmp_path / "log.jsonl", [f"page {n} " * 30 for n in range(3)]
    records = []
    for now in range(3):
        said = [[{"functionResponse": {"name": "get", "response": {"output": page}}}] for page in pages[: now + 1]]
        for parts in said[:-1]:
            parts[0]["functionResponse"]["response"] = {"output": "[removed]"}
        asked = [
            [{"role": "user", "parts": [{"text": f"Page {n}?"}]}, {"role": "user", "parts": parts}]
            for n, parts in enumerate(said)
        ]
        records.append(
            {"model": "gemini-3.5-flash", "contents": [each for pair in asked for each in pair], "session_id": "s"}
        )
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    keep = HistoryKept()
    for conversation in LogSource([str(path)]).conversations():
        while (turn := conversation.next_turn(None)) is not None:
            record, after = records.pop(0), keep(turn)
            edited = edited_record(record, turn, after)
    outputs = [each["parts"][0]["functionResponse"]["response"]["output"] for each in edited["contents"][1::2]]
    assert outputs == pages


def test_a_longer_prompt_has_no_reported_length() -> None:
    """A server counted the prompt that was sent; what a longer one costs is computed of its own tokens."""
    usage = Usage(prompt=5_040, cached=0, output=9)
    page = "a page " * 40

    def turn(text: str) -> Turn:
        messages = [{"role": "user", "content": "Go."}, {"role": "tool", "content": text}]
        return Turn("g", messages=messages, session="s", call=Call(usage=usage))

    keep = HistoryKept()
    sent = turn(page)
    assert keep(sent).call.usage == usage
    assert keep(turn("[removed]")).call.usage == Usage(output=9)
