"""JSON in one layout: what it says stays, character by character in its strings; in code only where it comes in several."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kvtool.fixes.forms.json_form import SingleLayout, put_on_one_line
from kvtool.workload.turn import Turn

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


def written(text: str) -> str:
    after = put_on_one_line(Turn("all", messages=[{"role": "system", "content": text}]), {"system"})
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


def of_system(text: str) -> Turn:
    return Turn("all", messages=[{"role": "system", "content": text}])


def in_code(*written: str) -> str:
    return "\n".join(f"```json\n{one}\n```" for one in written)


@given(
    st.dictionaries(st.text(max_size=6), VALUES, min_size=1, max_size=4),
    st.lists(st.sampled_from([None, 0, 1, 2, "\t"]), min_size=2, max_size=6),
)
def test_the_same_json_in_code_is_written_as_most_requests_write_it(
    value: dict[str, Any], indents: list[int | str | None]
) -> None:
    shown = json.dumps({"shown": value}, indent=3)
    texts = [json.dumps(value, indent=indent) for indent in indents]
    turns = [of_system(f"Rooms:\n{in_code(text, shown)}\nend") for text in texts]
    layout = SingleLayout.learn(turns, {"system"})
    most = max(texts, key=lambda text: (texts.count(text), -texts.index(text)))
    if len(set(texts)) == 1:
        assert layout is None
        return
    assert layout is not None
    for turn in turns:
        messages = layout(turn).messages
        assert messages is not None
        assert messages[0]["content"] == f"Rooms:\n{in_code(most, shown)}\nend"


def test_numbers_and_keys_written_in_another_way_are_other_json() -> None:
    texts = ['{"a": 1}', '{"a": 1.0}', '{"a": 1, "a": 2}', '{"a": 2}']
    assert SingleLayout.learn([of_system(in_code(text)) for text in texts], {"system"}) is None
    assert SingleLayout.learn([of_system(in_code(text)) for text in ('{"a": 1}', '{"a":1}')], {"user"}) is None


def test_a_layout_that_may_be_meant_stays() -> None:
    for one, other in [
        ('Good:\n```\n{"a": 1}\n```\nBad:\n```\n{"a":1}\n```', 'Good:\n```\n{"a": 1}\n```\nBad:\n```\n{"a":1}\n```'),
        ('```python\nx = {"a": 1}\n```', '```python\nx = {"a":1}\n```'),
        ('- So:\n  ```\n  {"a": 1}\n  ```', '- So:\n  ```\n  {"a":1}\n  ```'),
        ('```\n{"a": 1} {"b": 2}\n```', '```\n{"a":1} {"b": 2}\n```'),
    ]:
        assert SingleLayout.learn([of_system(one), of_system(other)], {"system"}) is None
