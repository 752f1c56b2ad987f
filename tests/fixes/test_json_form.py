"""JSON in one layout: what it says stays, character by character in its strings."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kvtool.fixes.json_form import on_one_line
from kvtool.workload.turn import Turn

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


def written(text: str) -> str:
    after = on_one_line(Turn("all", messages=[{"role": "system", "content": text}]), {"system"})
    return str(after.messages[0]["content"]) if after.messages else ""


@given(st.dictionaries(st.text(max_size=6), VALUES, min_size=1, max_size=4), st.sampled_from([None, 1, 2, 4, "\t"]))
def test_each_layout_becomes_one(value: dict[str, Any], indent: int | str | None) -> None:
    one = written(f"Rooms: {json.dumps(value, indent=indent)} end")
    tight = written(f"Rooms: {json.dumps(value, separators=(',', ':'))} end")
    assert one == tight == f"Rooms: {json.dumps(value)} end"


def test_text_beside_it_and_numbers_stay_as_they_are() -> None:
    text = 'A,b:c  {"a" :1.50,\n "b":[ 1,2 ], "c , d": "x ,  y"}  [not, json]'
    assert written(text) == 'A,b:c  {"a": 1.50, "b": [1, 2], "c , d": "x ,  y"}  [not, json]'


def test_what_a_fence_shows_stays_as_it_is_laid_out() -> None:
    """It may show how an answer is to be laid out."""
    shown = '```json\n{\n  "a": 1\n}\n```'
    assert written(f'{{"b" :  2}}\n{shown}\n{{"c":3}}') == f'{{"b": 2}}\n{shown}\n{{"c": 3}}'
