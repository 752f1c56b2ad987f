"""Images and files in front of constant text, and documents in front of what says how to read them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool import profile
from kvtool.fixes.orders.permute import parts_last
from kvtool.text.traced import Traced
from kvtool.workload.turn import Turn

RULES = "\n".join(
    f"- Name the {noun} and say how much of it is torn or wet."
    for noun in ("lid", "tape", "label", "side", "seal", "strap")
)
PARTS = st.lists(st.sampled_from(["image", "file", "text"]), max_size=5)


def _part(kind: str, at: int) -> dict[str, Any]:
    return {"type": "text", "text": Traced(f"text {at}")} if kind == "text" else {"type": kind, kind: {"id": at}}


@given(PARTS)
def test_only_what_stands_before_all_texts_goes_behind_them(kinds: list[str]) -> None:
    turn = Turn("g", messages=[{"role": "user", "content": [_part(kind, at) for at, kind in enumerate(kinds)]}])
    after = parts_last(turn)
    texts = kinds.count("text")
    leads = texts > 0 and kinds[0] != "text" and kinds[-texts:] == ["text"] * texts
    assert (after is not turn) == leads
    assert parts_last(after) is after
    said = [turn.messages[0]["content"], after.messages[0]["content"]] if turn.messages and after.messages else []
    assert sorted(map(repr, said[0])) == sorted(map(repr, said[1]))


def _profiled(folder: Path, contents: list[Any]) -> Any:
    log = folder / "log.jsonl"
    rows = [{"messages": [{"role": "user", "content": content}]} for content in contents]
    log.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return profile(log)


def test_text_behind_an_image_is_put_before_it(tmp_path: Path) -> None:
    url = "https://img.example/{:x}.jpg"
    image = [
        {"type": "image_url", "image_url": {"url": url.format(random.Random(at).getrandbits(60))}} for at in range(12)
    ]
    report = _profiled(tmp_path, [[each, {"type": "text", "text": f"Describe it.\n{RULES}"}] for each in image])
    finding = next(each for each in report.findings if each.code == "KV201")
    assert finding.rerun is not None
    assert finding.rerun.group_after > 0.6
    assert "before the image" in finding.fix


@pytest.mark.parametrize(
    ("rules", "moved"), [(f"{RULES}\n{RULES.replace('torn', 'bent')}", True), ("Name the lid.", False)]
)
def test_a_document_goes_behind_rules_and_not_behind_a_question(tmp_path: Path, rules: str, moved: bool) -> None:
    words = [f"word{at}" for at in range(300)]
    texts = [" ".join(random.Random(at).choices(words, k=40)) for at in range(12)]
    report = _profiled(tmp_path, [f"<note>\n{each}\n</note>\n\n{rules}" for each in texts])
    found = [each for each in report.findings if each.rerun is not None]
    assert bool(found) == moved
    assert all("user message" in " ".join(each.warnings) for each in found)
