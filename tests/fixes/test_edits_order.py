"""Tools, keys, clocks and white space changed in the user's files: whole entries move, and comments and layout stay."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.slots import Slot
from kvtool.fixes.edits.apply import apply_edits
from kvtool.fixes.edits.edits import edits_for
from kvtool.fixes.edits.edits_order import json_tree, reordered
from kvtool.fixes.edits.edits_yaml import SourceEdit
from kvtool.fixes.fix import Fix, Transform
from kvtool.fixes.forms.coarsen import coarsen_times, drop_values
from kvtool.fixes.forms.json_form import sort_keys, sort_tools
from kvtool.fixes.forms.text_form import SingleForm
from kvtool.fixes.moves.move_target import MoveTarget
from kvtool.fixes.turn_texts import INSTRUCTIONS
from kvtool.text.files.text_files import read_source
from kvtool.workload.turn import Turn
from kvtool.workload.yaml.yaml_source import YamlSource, load_yaml_workload

ASK = '  messages: [{role: system, text: "It is {{ now }}."}, {role: user, text: "{{ q }}"}]\n'


def workload(group: str, now: str = "{datetime: 7m}") -> str:
    return f"version: 1\nvars:\n  now: {now}\n  q: {{uuid: 4}}\ngroups:\n- name: g\n  requests: 5\n{group}"


def said(turn: Turn | None) -> str:
    assert turn is not None
    return json.dumps([turn.tools, turn.messages, turn.text])


def prompts(source: YamlSource, transform: Transform = lambda turn: turn) -> list[str]:
    turns = [conversation.next_turn(None) for conversation in source.conversations()]
    return [said(transform(turn)) for turn in turns if turn is not None]


def slot_of_now(source: YamlSource) -> Slot:
    turn = next(source.conversations()).next_turn(None)
    assert turn is not None
    assert turn.messages is not None
    origins = (mark.origin for mark in turn.messages[0]["content"].marks)
    found = next(origin for origin in origins if origin is not None and origin.variable == "now")
    return Slot(found.path, found.line, found.column, variable="now", part=found.part)


def edits_or_reason(
    folder: Path, key: str, change: Callable[[Turn, YamlSource], Turn], text: str, **files: str
) -> dict[str, str] | str:
    """The new texts, checked against the prompts that the change makes; a second time there is nothing to do."""
    (folder / "w.yaml").write_bytes(text.encode())
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_bytes(content.encode())
    source = load_yaml_workload(str(folder / "w.yaml"))
    fix = Fix(key, "KV111", "P1", "g", "change it", make=lambda: lambda turn: change(turn, source))
    if key.startswith("coarsen:"):
        fix = replace(fix, cause=SlotCause("g", slot_of_now(source), OTHER, None, 0, "", 0, 0, 0))
    edits = edits_for([fix], source)
    if isinstance(edits, str):
        return edits
    changed = apply_edits({edit.path: read_source(Path(edit.path)) for edit in edits}, edits)
    after = load_yaml_workload(source.path, overlay={os.path.realpath(path): new for path, new in changed.items()})
    assert prompts(after) == prompts(source, lambda turn: change(turn, source))
    assert not changed or prompts(after) != prompts(source)
    for path, new in changed.items():
        Path(path).write_bytes(new.encode())
    assert edits_for([replace(fix, make=lambda: lambda turn: change(turn, after))], after) == []
    return {Path(path).name: new for path, new in changed.items()}


YAML_TOOLS = """\
  tools:
  # second tool
  - type: function
    function: {name: zeta, parameters: {type: object, b: 1, a: [x, y]}}

  - type: function   # first
    function:
      name: alpha
      description: >-
        folded text
        here
      # params
      parameters:
        type: object
"""


def test_tools_in_yaml_are_sorted_with_their_comments(tmp_path: Path) -> None:
    changed = edits_or_reason(tmp_path, "sort-tools:", lambda turn, _: sort_tools(turn), workload(YAML_TOOLS + ASK))
    zeta, alpha = YAML_TOOLS.removeprefix("  tools:\n").split("\n\n")
    assert changed == {"w.yaml": workload(f"  tools:\n{alpha}\n{zeta}\n{ASK}")}


def test_keys_in_yaml_are_sorted_with_their_comments(tmp_path: Path) -> None:
    changed = edits_or_reason(tmp_path, "sort-keys:", lambda turn, _: sort_keys(turn), workload(YAML_TOOLS + ASK))
    want = """\
  tools:
  # second tool
  - function: {name: zeta, parameters: {a: [x, y], b: 1, type: object}}
    type: function

  - function:
      description: >-
        folded text
        here
      name: alpha
      # params
      parameters:
        type: object
    type: function   # first
"""
    assert changed == {"w.yaml": workload(want + ASK)}


JSON_TOOLS = """\
\ufeff{"x": 1.50,
 "tools": [
  {"type": "function", "function": {"name": "z\\u00e9ta", "strict": true}},
  {"type":"function",
   "function": {"parameters": {}, "name": "alpha"}}
]}"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_tools_file_is_sorted(tmp_path: Path, end: str) -> None:
    text = workload("  tools: {file: t.json}\n" + ASK)
    source = JSON_TOOLS.replace("\n", end)
    first = '{"type": "function", "function": {"name": "z\\u00e9ta", "strict": true}}'
    changed = edits_or_reason(tmp_path, "sort-tools:", lambda turn, _: sort_tools(turn), text, t_json=source)
    alpha = f'{{"type":"function",{end}   "function": {{"parameters": {{}}, "name": "alpha"}}}}'
    assert changed == {"t.json": f'\ufeff{{"x": 1.50,{end} "tools": [{end}  {alpha},{end}  {first}{end}]}}'}
    changed = edits_or_reason(tmp_path, "sort-keys:", lambda turn, _: sort_keys(turn), text, t_json=source)
    want = source.replace('"type": "function", "function": {"name": "z\\u00e9ta", "strict": true}', "@")
    want = want.replace("@", '"function": {"name": "z\\u00e9ta", "strict": true}, "type": "function"')
    beta = f'{{"function": {{"name": "alpha", "parameters": {{}}}},{end}   "type":"function"}}'
    assert changed == {"t.json": want.replace(alpha, beta)}


def test_what_cannot_change_places_says_why(tmp_path: Path) -> None:
    tools = [
        ("  tools: [{name: b}, # one\n    {name: a}]\n", "comments between"),
        ("  tools: [&x {name: b}, {name: c}, *x]\n", "alias"),
    ]
    for text, reason in tools:
        changed = edits_or_reason(tmp_path, "sort-tools:", lambda turn, _: sort_tools(turn), workload(text + ASK))
        assert isinstance(changed, str)
        assert reason in changed
    changed = edits_or_reason(
        tmp_path, "x:", lambda turn, _: replace(turn, tools=[{"name": "new"}]), workload("  tools: [{name: a}]\n" + ASK)
    )
    assert changed == "it would change more than the order of tools or keys"


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 99), st.sampled_from(["", 'a"b', "é\\", "]},"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text("ab\\]", max_size=2), inner, max_size=4)
    ),
    max_leaves=12,
)


def shuffled(value: object, data: st.DataObject, depth: int = 0) -> object:
    """Keys in another order everywhere, items only in the outermost list: the same tools."""
    if isinstance(value, dict):
        return {key: shuffled(value[key], data, 1) for key in data.draw(st.permutations(list(value)))}
    if isinstance(value, list):
        return [shuffled(item, data, 1) for item in (value if depth else data.draw(st.permutations(value)))]
    return value


@given(value=VALUES, indent=st.sampled_from([None, 2]), data=st.data())
def test_any_json_is_brought_into_any_order(value: object, indent: int | None, data: st.DataObject) -> None:
    text = json.dumps(value, indent=indent)
    want = shuffled(value, data)
    pieces, at = [], 0
    for start, stop, new in sorted(reordered(text, json_tree(text), value, want)):
        assert start >= at
        pieces += [text[at:start], new]
        at = stop
    changed = "".join([*pieces, text[at:]])
    assert json.dumps(json.loads(changed)) == json.dumps(want)
    assert sorted(changed) == sorted(text)
    assert reordered(text, json_tree(text), value, value) == list[SourceEdit]()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{datetime: 7m}", '{datetime: 7m, format: "%Y-%m-%dT00:00:00Z"}'),
        ("{datetime: 7m, format: time}  # c", '{datetime: 7m, format: "%H:00:00"}  # c'),
        (
            "\n    datetime: 7m\n    # as people write\n    format: '%d %B %Y, %I:%M %p' # f\n    per: request",
            '\n    datetime: 7m\n    # as people write\n    format: "%d %B %Y, 12:00 AM" # f\n    per: request',
        ),
        (
            "\n    datetime: 7m # step\n\n  # next",
            '\n    datetime: 7m # step\n    format: "%Y-%m-%dT00:00:00Z"\n\n  # next',
        ),
    ],
)
def test_a_clock_tells_less(tmp_path: Path, before: str, after: str) -> None:
    def coarse(turn: Turn, source: YamlSource) -> Turn:
        return coarsen_times(turn, MoveTarget(slot_of_now(source)))

    assert edits_or_reason(tmp_path, "coarsen:", coarse, workload(ASK, before)) == {"w.yaml": workload(ASK, after)}


@pytest.mark.parametrize(
    ("now", "text", "reason"),
    [
        ("{datetime: 7m, format: unix}", ASK, "no clock format"),
        ('{choice: ["2026-01-05T09:00:00Z", "2026-01-05T10:00:00Z"], pick: cycle}', ASK, "not a clock"),
        ("{datetime: 7m}", ASK.replace("{{ q }}", "{{ now }}"), "no edit of the files"),
    ],
)
def test_what_is_no_clock_is_not_coarsened(tmp_path: Path, now: str, text: str, reason: str) -> None:
    def coarse(turn: Turn, source: YamlSource) -> Turn:
        return coarsen_times(turn, MoveTarget(slot_of_now(source)))

    changed = edits_or_reason(tmp_path, "coarsen:", coarse, workload(text, now))
    assert isinstance(changed, str)
    assert reason in changed


def test_a_value_is_left_out_with_its_label(tmp_path: Path) -> None:
    def drop(turn: Turn, source: YamlSource) -> Turn:
        return drop_values(turn, MoveTarget(slot_of_now(source))) if "now }}" in source.document.source else turn

    text = '  messages: [{role: system, text: "Hello.\\nRequest: {{ now }}\\nBe brief."}]\n'
    want = '  messages: [{role: system, text: "Hello.\\nBe brief."}]\n'
    assert edits_or_reason(tmp_path, "drop:", drop, workload(text)) == {"w.yaml": workload(want)}


def test_white_space_is_normalized_where_it_stands(tmp_path: Path) -> None:
    text = workload('  messages: [{role: system, glob: "s*.md"}, {role: user, text: "{{ q }}"}]\n')
    files = {"s1_md": "A\nB cafe\u0301\n", "s2_md": "\ufeffA  \r\nB caf\u00e9\r\n", "s3_md": "A {{ now }}\t\nB\n"}
    changed = edits_or_reason(
        tmp_path,
        "normalize:",
        lambda turn, _: SingleForm(("line_endings", "trailing_space", "unicode_form"), INSTRUCTIONS)(turn),
        text,
        **files,
    )
    assert changed == {
        "s1.md": "A\nB caf\u00e9\n",
        "s2.md": "\ufeffA\nB caf\u00e9\n",
        "s3.md": "A {{ now }}\nB\n",
    }
    text = workload("  messages:\n  - role: system\n    text: |\n      A  \n      B\u00a0c\n  # end\n")
    changed = edits_or_reason(
        tmp_path, "normalize:", lambda turn, _: SingleForm(("trailing_space", "space_kind"), INSTRUCTIONS)(turn), text
    )
    assert changed == {"w.yaml": text.replace("A  \n", "A\n").replace("\u00a0", " ")}
