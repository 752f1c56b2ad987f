"""Moves done in the user's files: the edited workload makes just the prompts that were proven, and nothing else changes in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvtool.diagnose.slots import Slot
from kvtool.fixes.edits.apply import apply_edits
from kvtool.fixes.edits.edits import edits_for
from kvtool.fixes.fix import Fix, Transform
from kvtool.fixes.moves.move import move_targets
from kvtool.fixes.moves.move_target import MoveTarget
from kvtool.text.files.text_files import read_source
from kvtool.workload.drive import rewritten
from kvtool.workload.inputs import open_inputs
from kvtool.workload.logs.logs import LogOptions
from kvtool.workload.turn import Output
from kvtool.workload.yaml.yaml_source import YamlSource, load_yaml_workload

ANSWER = Output("Yes.")
HEAD = """\
version: 1
vars:
  now: {datetime: 1m}   # the clock
  q: {uuid: 4}
groups:
- name: g
  requests: 5
"""


def write(folder: Path, **texts: str) -> None:
    """Files `w.yaml` and `*.md` of a workload: `w` is what follows the head."""
    for name, text in texts.items():
        suffix = "yaml" if name == "w" else "md"
        (folder / f"{name}.{suffix}").write_bytes((HEAD + text if name == "w" else text).encode())


def turns(source: YamlSource, transform: Transform | None = None) -> Iterator[tuple[object, ...]]:
    for conversation in rewritten(source.conversations(), transform):
        turn = conversation.next_turn(None)
        while turn is not None:
            text = None if turn.text is None else str(turn.text)
            yield turn.id, text, turn.tools, [(each["role"], str(each["content"])) for each in turn.messages or []]
            turn = conversation.next_turn(ANSWER)


def slot_of(source: YamlSource, variable: str = "now") -> Slot:
    turn = next(source.conversations()).next_turn(None)
    assert turn is not None
    texts = [turn.text] if turn.text is not None else [message["content"] for message in turn.messages or []]
    origins = (mark.origin for text in texts for mark in text.marks)
    found = next(origin for origin in origins if origin is not None and origin.variable == variable)
    return Slot(found.path, found.line, found.column, variable=variable, part=found.part)


def fix_of(make: Callable[[], Transform], key: str = "move:x", group: str | None = "g") -> Fix:
    return Fix(key, "KV101", "P2", group, "move its line", make=make)


def mover(source: YamlSource, variable: str = "now") -> Fix:
    slot = slot_of(source, variable)
    return fix_of(lambda: lambda turn: move_targets(turn, [MoveTarget(slot)]))


def edited(source: YamlSource, fix: Fix) -> dict[str, str]:
    """The new texts; they make the prompts that the fix makes, and the fix finds nothing more to do in them."""
    assert fix.make is not None
    edits = edits_for([fix], source)
    assert not isinstance(edits, str), edits
    changed = apply_edits({edit.path: read_source(Path(edit.path)) for edit in edits}, edits)
    again = load_yaml_workload(source.path, overlay={os.path.realpath(path): text for path, text in changed.items()})
    make = fix.make()
    group = fix.group
    want = list(turns(source, lambda turn: make(turn) if group in (None, turn.group) else turn))
    assert list(turns(again)) == want != list(turns(source))
    return {Path(path).name: text for path, text in changed.items()}


def moved(folder: Path, variable: str = "now", **texts: str) -> dict[str, str]:
    write(folder, **texts)
    source = load_yaml_workload(str(folder / "w.yaml"))
    changed = edited(source, mover(source, variable))
    for name, text in changed.items():
        (folder / name).write_bytes(text.encode())
    after = load_yaml_workload(str(folder / "w.yaml"))
    assert edits_for([mover(after, variable)], after) == []
    return {name: text.removeprefix(HEAD) for name, text in changed.items()}


def refused(folder: Path, **texts: str) -> str:
    write(folder, **texts)
    source = load_yaml_workload(str(folder / "w.yaml"))
    reason = edits_for([mover(source)], source)
    assert isinstance(reason, str)
    return reason


def test_a_line_of_a_prompt_file_goes_into_the_workload(tmp_path: Path) -> None:
    changed = moved(
        tmp_path,
        w='  messages:\n  - {role: system, file: s.md}   # who it is\n  - {role: user, text: "{{ q }}"}\n',
        s="# Help\n{# clock #}\nTime: {{ now }}\n\n  Be brief.  \n",
    )
    assert changed == {
        "s.md": "# Help\n{# clock #}\n  Be brief.  \n",
        "w.yaml": "  messages:\n  - {role: system, file: s.md}   # who it is\n"
        '  - {role: user, text: "{{ q }}\\n\\nTime: {{ now }}"}\n',
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("|\n      Q {{ q }}\n      Go.\n", "|\n      Q {{ q }}\n      Go.\n      Time: {{ now }}\n"),
        ("|- # ask\n      Q {{ q }}\n    name: a\n", "|- # ask\n      Q {{ q }}\n      Time: {{ now }}\n    name: a\n"),
        ("|2-\n        Q\n      {{ q }}\n", "|2-\n        Q\n      {{ q }}\n      Time: {{ now }}\n"),
        (">-\n      Ask {{ q }}\n      please.\n", ">-\n      Ask {{ q }}\n      please.\n\n      Time: {{ now }}\n"),
        (">\n      Ask\n       {{ q }}\n", "|\n      Ask\n       {{ q }}\n      Time: {{ now }}\n"),
        ("Ask {{ q }} now\n", "|-\n      Ask {{ q }} now\n      Time: {{ now }}\n"),
        ("Ask {{ q }}  # why\n", '"Ask {{ q }}\\nTime: {{ now }}"  # why\n'),
        ("'It''s {{ q }}'\n", "|-\n      It's {{ q }}\n      Time: {{ now }}\n"),
        ('"A \\u00e9\\t{{ q }}"\n', '"A \\u00e9\\t{{ q }}\\nTime: {{ now }}"\n'),
        ('"{{ q }}\n      and more"', '"{{ q }} and more\\nTime: {{ now }}"'),
        ('!!str "{{ q }}"', '!!str "{{ q }}\\nTime: {{ now }}"'),
    ],
)
def test_every_style_of_yaml_takes_a_line(tmp_path: Path, before: str, after: str) -> None:
    frame = "  messages:\n  - {role: system, file: s.md}\n  - role: user\n    text: "
    changed = moved(tmp_path, w=frame + before, s="Time: {{ now }}\nBe brief.\n")
    assert changed == {"s.md": "Be brief.\n", "w.yaml": frame + after}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("|\n      Time: {{ now }}\n      Be brief.\n", "|\n      Be brief.\n"),
        ("|-\n      Be brief.\n\n      Time: {{ now }}\n", "|+\n      Be brief.\n\n"),
        ("|-\n      Be brief.\n      Time: {{ now }}\n", "|-\n      Be brief.\n"),
        (
            ">\n      Be brief\n      and kind.\n\n      Time: {{ now }}\n\n      Go\n      on.\n",
            ">\n      Be brief\n      and kind.\n\n      Go\n      on.\n",
        ),
        ('"A \\"x\\"\\nTime: {{ now }}\\nB"\n', '"A \\"x\\"\\nB"\n'),
        ('"{{ now }}"\n', '""\n'),
    ],
)
def test_every_style_of_yaml_gives_a_line(tmp_path: Path, before: str, after: str) -> None:
    frame = "  messages:\n  - role: system\n    text: "
    end = "  # the question\n  - {role: user, file: u.md}\n"
    write(tmp_path, w=frame + before + end, u="Q {{ q }}")
    changed = moved(tmp_path, w=frame + before + end, u="Q {{ q }}")
    if "|+" not in after:
        assert changed["w.yaml"] == frame + after + end
    assert changed["u.md"].startswith("Q {{ q }}\n")


def test_crlf_and_a_byte_order_mark_stay(tmp_path: Path) -> None:
    messages = "  messages:\r\n  - {role: system, file: s.md}\r\n  - {role: user, file: u.md}\r\n"
    changed = moved(
        tmp_path, w=messages, s="\ufeff# S\r\n\r\nTime: {{ now }}\r\nBe brief {{ q }}.\r\n", u="{{ q }}\r\nX"
    )
    assert changed == {"s.md": "\ufeff# S\r\n\r\nBe brief {{ q }}.\r\n", "u.md": "{{ q }}\r\nX\r\nTime: {{ now }}"}


def test_line_ends_behind_comments_of_a_template_stay(tmp_path: Path) -> None:
    text = "Now {{ now }}!\r\n- {{ q }}\r\n{# note #}\r\nIt is {{ q }}"
    changed = moved(tmp_path, w="  messages: [{role: user, file: u.md}]\n", u=text)
    assert changed == {"u.md": "- {{ q }}\r\n{# note #}\r\nIt is {{ q }}\r\nNow {{ now }}!"}


def test_a_workload_with_crlf_keeps_it(tmp_path: Path) -> None:
    text = (
        HEAD
        + "  messages:\n  - role: system\n    text: |\n      T {{ now }}\n      B\n  - role: user\n    text: |\n      Q\n"
    )
    (tmp_path / "w.yaml").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    source = load_yaml_workload(str(tmp_path / "w.yaml"))
    changed = edited(source, mover(source))["w.yaml"]
    assert changed.startswith("\ufeff")
    assert changed.count("\r\n") == changed.count("\n") == text.count("\n")
    assert changed.endswith("text: |\r\n      Q\r\n      T {{ now }}\r\n")


def test_a_block_of_a_template_moves_only_as_a_whole(tmp_path: Path) -> None:
    frame = '  messages:\n  - {role: system, file: s.md}\n  - {role: user, text: "{{ q }}"}\n'
    changed = moved(tmp_path, w=frame, s="# S\n{% if q %}Time: {{ now }}{% endif %} h{# c #}\nB\n")
    assert changed["s.md"] == "# S\nB\n"
    assert '"{{ q }}\\n{% if q %}Time: {{ now }}{% endif %} h' in changed["w.yaml"]
    changed = moved(tmp_path, w=frame, s="# S\n{% if q %}\nTime: {{ now }}\n{% endif %}\nB\n")
    assert changed["s.md"] == "# S\nB\n"
    for template in (
        "# S\n{% if q %}\nTime: {{ now }}\nBe brief.\n{% endif %}\nB\n",
        "{% for i in [1, 2] %}\nTime {{ i }}: {{ now }}\n{% endfor %}B\n",
    ):
        assert "Jinja" in refused(tmp_path, w=frame, s=template)


@pytest.mark.parametrize(
    ("workload", "reason"),
    [
        (
            "  messages: [{role: system, file: s.md}, {role: user, text: hi}]\n- {name: h, messages: [{role: user, file: s.md}]}\n",
            "group `h` reads the same text",
        ),
        ('  messages: [{role: system, file: s.md}, {role: user, raw: true, text: "a {{ x }}"}]\n', "`raw: true`"),
        ('  messages: [{role: system, file: s.md}, {role: user, glob: "s*.md"}]\n', "(`glob`)"),
        ('  messages: [{role: system, text: &t "A\\n{{ now }}\\nB"}, {role: user, text: *t}]\n', "same text"),
    ],
)
def test_what_cannot_be_edited_says_why(tmp_path: Path, workload: str, reason: str) -> None:
    assert reason in refused(tmp_path, w=workload, s="T {{ now }}\nB\n")


def test_segments_change_places_with_their_comments(tmp_path: Path) -> None:
    frame = "  segments:\n"
    clock = '  # the clock\n  - {id: clock, text: "{{ now }}"}  # c\n'
    rules = "  # rules\n  - id: rules\n    text: |-\n      Rules\n      here\n"
    question = '  - {id: q, text: "{{ q }}"}\n'
    assert moved(tmp_path, w=frame + clock + rules + question) == {"w.yaml": frame + rules + question + clock}
    items = ['{id: clock, text: "{{ now }}"}', "{id: rules, text: Rules}", '{id: q, text: "{{ q }}"}']
    changed = moved(tmp_path, w=f"  segments: [{', '.join(items)}]\n")
    assert changed == {"w.yaml": f"  segments: [{', '.join([*items[1:], items[0]])}]\n"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (  # the segment ends with a newline that the join does not stand for
            ['{id: a, text: "T {{ now }}"}', "{id: b, text: B}", '{id: c, text: "{{ q }}\\n"}'],
            ["{id: b, text: B}", '{id: c, text: "{{ q }}\\nT {{ now }}\\n"}'],
        ),
        (
            ['{id: a, text: "A\\nT {{ now }}"}', "{id: b, text: B}", '{id: c, text: "{{ q }}"}'],
            ['{id: a, text: "A"}', "{id: b, text: B}", '{id: c, text: "{{ q }}\\nT {{ now }}"}'],
        ),
        (
            ['{id: a, text: "A\\nT {{ now }}\\nB"}', '{id: d, glob: "d*.md"}'],
            ['{id: a, text: "A\\nB"}', '{id: d, glob: "d*.md"}', '{text: "T {{ now }}"}'],
        ),
    ],
)
def test_lines_leave_segments(tmp_path: Path, before: list[str], after: list[str]) -> None:
    texts = ["".join(f"  - {item}\n" for item in items) for items in (before, after)]
    assert moved(tmp_path, w=f"  segments:\n{texts[0]}", d1="one", d2="two") == {"w.yaml": f"  segments:\n{texts[1]}"}


def test_sessions_keep_their_history(tmp_path: Path) -> None:
    text = HEAD.replace("requests: 5", "sessions: {count: 2, turns: 3}")
    text += '  messages:\n  - {role: system, text: "A\\nT {{ now }}\\nB"}\n  - {role: user, text: "{{ q }}"}\n'
    (tmp_path / "w.yaml").write_text(text)
    source = load_yaml_workload(str(tmp_path / "w.yaml"))
    changed = edited(source, mover(source))["w.yaml"]
    assert changed.endswith('text: "A\\nB"}\n  - {role: user, text: "{{ q }}\\nT {{ now }}"}\n')


def test_a_source_with_changed_files_is_edited_as_it_is_read(tmp_path: Path) -> None:
    frame = '  messages:\n  - {role: system, file: s.md}\n  - {role: user, text: "{{ q }}"}\n'
    write(tmp_path, w=frame, s="One.\nT {{ now }}\nB\n")
    overlay = {os.path.realpath(tmp_path / "s.md"): "Another first line.\nT {{ now }}\nB\n"}
    source = load_yaml_workload(str(tmp_path / "w.yaml"), overlay=overlay)
    edits = edits_for([mover(source)], source)
    assert not isinstance(edits, str)
    texts = {edit.path: overlay.get(os.path.realpath(edit.path)) or read_source(Path(edit.path)) for edit in edits}
    assert apply_edits(texts, edits)[str(tmp_path / "s.md")] == "Another first line.\nB\n"


def test_a_file_that_changed_since_it_was_read_is_left_alone(tmp_path: Path) -> None:
    write(tmp_path, w='  messages: [{role: system, file: s.md}, {role: user, text: "{{ q }}"}]\n', s="T {{ now }}\nB\n")
    source = load_yaml_workload(str(tmp_path / "w.yaml"))
    fix = mover(source)
    (tmp_path / "w.yaml").write_text((tmp_path / "w.yaml").read_text() + "# later\n")
    assert edits_for([fix], source) == f"`{tmp_path / 'w.yaml'}` has changed since it was read"


@pytest.mark.parametrize("name", ["a.md", "log.jsonl"])
def test_what_was_sent_is_not_edited(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"prompt": "Time: 10:31\\nBe brief."}\n' * 2)
    log = open_inputs([str(tmp_path / name)], LogOptions(), seed=None)
    reason = "a log is a record: fix the code that writes it"
    assert edits_for([fix_of(lambda: lambda turn: turn, group=None)], log) == reason


def test_advice_without_a_rewrite_of_text_has_no_edits(tmp_path: Path) -> None:
    write(tmp_path, w='  text: "{{ now }}"\n')
    source = load_yaml_workload(str(tmp_path / "w.yaml"))
    assert isinstance(edits_for([Fix("warm", "KV303", "P0", None, "send one first")], source), str)


LINES = st.lists(
    st.sampled_from(
        ["A", "Be brief.", "", "It is {{ q }}", "{# note #}", "  two", "é 'x' \"y\" \\n: #", "- {{ q }} ]"]
    ),
    max_size=4,
)
ENDS = st.sampled_from(["", "\n", "\n\n"])


def scalar(style: str, text: str) -> str:
    """A text as YAML in a style; where the style cannot say it, in double quotes."""
    lines = text.rstrip("\n").split("\n")
    newlines = len(text) - len(text.rstrip("\n"))
    if (
        style in "|>"
        and lines[0]
        and not lines[0].startswith(" ")
        and newlines < 2
        and not (style == ">" and "  " in text)
    ):
        between = "\n" if style == "|" else "\n\n"
        body = between.join(f"      {line}" if line else "" for line in lines)
        return f"{style}{'' if newlines else '-'}\n{body}\n"
    if style == "'" and "\n" not in text:
        return "'" + text.replace("'", "''") + "'\n"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"\n'


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data())
def test_any_small_workload_is_edited_rightly_or_not_at_all(tmp_path: Path, data: st.DataObject) -> None:
    """Nothing outside of the edits changes, the prompts are those of the fix, and a second time there is nothing to do."""
    count = data.draw(st.integers(1, 3))
    bodies = [data.draw(LINES) for _ in range(count)]
    target = data.draw(st.integers(0, count - 1))
    bodies[target].insert(data.draw(st.integers(0, len(bodies[target]))), "Now {{ now }}!")
    kind = data.draw(st.sampled_from(["messages", "segments"]))
    files: dict[str, str] = {}
    parts = []
    for index, body in enumerate(bodies):
        text = "\n".join(body) + data.draw(ENDS)
        role = f"role: {'system' if index < count - 1 else 'user'}" if kind == "messages" else f"id: s{index}"
        style = data.draw(st.sampled_from(["|", ">", "'", '"', "file"]))
        if style == "file" and text.strip():
            files[f"p{index}"] = text.replace("\n", data.draw(st.sampled_from(["\n", "\r\n"])))
            parts.append(f"  - {role}\n    file: p{index}.md\n")
        else:
            parts.append(f"  # part {index}\n  - {role}\n    text: {scalar(style, text)}")
    write(tmp_path, w=f"  {kind}:\n{''.join(parts)}# end\n", **files)
    source = load_yaml_workload(str(tmp_path / "w.yaml"))
    fix = mover(source)
    assert fix.make is not None
    edits = edits_for([fix], source)
    if isinstance(edits, str):
        assert "no edit of the files" not in edits or "\r" in str(files), edits
        return
    texts = {edit.path: read_source(Path(edit.path)) for edit in edits}
    changed = apply_edits(texts, edits)
    for path, text in changed.items():
        Path(path).write_bytes(text.encode())
    after = load_yaml_workload(str(tmp_path / "w.yaml"))
    want = [str(turn).replace("\\r\\n", "\\n") for turn in turns(source, fix.make())]
    assert [str(turn).replace("\\r\\n", "\\n") for turn in turns(after)] == want
    assert edits_for([mover(after)], after) == []
    workload = (tmp_path / "w.yaml").read_text()
    assert workload.startswith(HEAD)
    assert workload.endswith("# end\n")
    comments = [workload.count(f"# part {index}") for index, part in enumerate(parts) if "    text:" in part]
    assert kind == "segments" or comments == [1] * len(comments)  # a segment that is emptied goes, with its comment
