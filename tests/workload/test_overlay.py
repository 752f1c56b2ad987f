"""A workload read with changed texts in place of its files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvtool.errors import KvtoolError
from kvtool.text.files.text_files import read_source, read_text
from kvtool.workload.turn import Turn
from kvtool.workload.yaml.yaml_source import YamlSource, load_yaml_workload

WORKLOAD = """\
version: 1
vars: {v: {file: values.txt}}
tools: {file: tools.json}
groups:
- name: g
  messages: [{role: system, file: a.md}, {role: user, glob: "link*.md"}, {role: user, text: "{{ v }}"}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    texts = {"w.yaml": WORKLOAD, "values.txt": "one\n", "tools.json": '[{"name": "t"}]', "a.md": "A", "b.md": "B"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "link.md").symlink_to("b.md")
    return tmp_path


def first(source: YamlSource) -> Turn:
    turn = next(source.conversations()).next_turn(None)
    assert turn is not None
    return turn


def said(turn: Turn) -> list[str]:
    return [str(turn.tools), *(message["content"] for message in turn.messages or [])]


def test_every_small_file_is_read_through_it(folder: Path) -> None:
    path = str(folder / "w.yaml")
    assert said(first(load_yaml_workload(path))) == ["[{'name': 't'}]", "A", "B", "one"]
    texts = {"values.txt": "two\n", "tools.json": '[{"name": "u"}]', "a.md": "\ufeffAA\r\n", "b.md": "BB"}
    overlay = {os.path.realpath(folder / name): text for name, text in texts.items()}
    changed = load_yaml_workload(path, overlay=overlay)
    assert said(first(changed)) == ["[{'name': 'u'}]", "AA\r\n", "BB", "two"]
    assert changed.overlay == overlay
    overlay[os.path.realpath(path)] = WORKLOAD.replace("{{ v }}", "{{ v }}!")
    assert said(first(load_yaml_workload(path, overlay=overlay)))[-1] == "two!"
    assert said(first(load_yaml_workload(path, overlay={}))) == ["[{'name': 't'}]", "A", "B", "one"]


def test_mistakes_in_a_changed_text_are_said_as_those_of_a_file(folder: Path) -> None:
    path = str(folder / "w.yaml")
    for text, reason in ((" \n", "a.md` is empty"), ("a\0", "binary"), ("{{ gone }}", "undefined variable `gone`")):
        with pytest.raises(KvtoolError, match=reason):
            load_yaml_workload(path, overlay={os.path.realpath(folder / "a.md"): text})


def test_a_source_has_its_byte_order_mark(folder: Path) -> None:
    file = folder / "a.md"
    file.write_bytes("\ufeffé\r\n".encode())
    assert read_source(file) == "\ufeffé\r\n"
    assert read_text(file, shown="a.md") == "é\r\n"
    assert read_source(file, overlay={os.path.realpath(file): "other"}) == "other"
    with pytest.raises(KvtoolError, match="no such file `x`"):
        read_source(folder / "x", shown="x")
