"""A move ends where the template has no open block, before the content that is inserted and before what introduces it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvtool.fixes.edits.edits import edits_for
from kvtool.fixes.edits.edits_template import shape_of
from kvtool.fixes.moves.jinja_places import last_place_outside, open_blocks, with_open_blocks
from kvtool.profiler.copied_places import macro_at
from kvtool.text.templates.template import compile_template
from kvtool.text.traced import Origin, Traced
from kvtool.workload.yaml.yaml_source import load_yaml_workload
from tests.fixes.test_edits import moved, mover, write

RULES = ["Write short sentences.", "Never promise a refund.", "- Sign with the team.", "Use plain words."]
PASSAGES = "{% for doc in docs %}\n[{{ loop.index }}] {{ doc.title }}\n{{ doc.text }}\n{% endfor %}"
BLOCKS = [
    PASSAGES,
    "{% for doc in docs %}\n- {{ doc.title }}\n{% endfor %}",
    "{% if vip %}\nThank them first.\n{% endif %}",
    "{% if vip %}Thank them first.\n{% else %}Be brief.\n{% endif %}",
    "{% if vip %}\n{% for doc in docs %}\n- {{ doc.title }}\n{% endfor %}\n{% endif %}",
]
HEADINGS = ["## Context\n", "Documents:\n", ""]
ENDS = ["", "\n\n## Question\n{{ body }}", "\nReply to:\n{{ body }}", "\n{{ body }}"]
WORKLOAD = """\
  vars:
    docs:
      list:
        object:
          title: {choice: [Boots, Tents, Stoves]}
          text: {choice: [Leather boots last for ten years., Tents dry fast.]}
      count: [1, 3]
    vip: {bool: 0.5}
    body: {choice: ["Where is my parcel that I ordered?", Please call me back about the tent.]}
  messages:
  - {role: system, file: s.md}
  - {role: user, text: "{{ q }}"}
"""


def rendered(template: str, **values: object) -> Traced:
    return compile_template(template, chat=False, origin=Origin("p.j2")).render(values)


@given(st.lists(st.sampled_from(["", "card", "row"]), max_size=6), st.sampled_from(["\n", " "]))
def test_a_place_in_a_macro_has_the_name_of_the_macro(names: list[str], end: str) -> None:
    text, places = "", []
    for name in names:
        head, tail = (
            (f"{{%- macro {name}(item) -%}}{end}", "{% endmacro %}\n") if name else ("Say:\n", "{{ row(1) }}\n")
        )
        text += head
        places.append((text.count("\n") + 1, len(text) - text.rfind("\n"), name or None))
        text += "It is {{ item }}." + tail
    assert [macro_at(text, line, column) for line, column, _ in places] == [name for _, _, name in places]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    rules=st.lists(st.sampled_from(RULES), min_size=1, max_size=4),
    heading=st.sampled_from(HEADINGS),
    block=st.sampled_from(BLOCKS),
    more=st.lists(st.sampled_from(RULES), max_size=2),
    end=st.sampled_from(ENDS),
)
def test_a_line_moves_in_files_with_blocks(
    tmp_path: Path, rules: list[str], heading: str, block: str, more: list[str], end: str
) -> None:
    lines = ["You help.", "Now: {{ now }}", *rules, "", heading + block, *more]
    template = "\n".join(lines) + end + "\n"
    changed = moved(tmp_path, w=WORKLOAD, s=template)
    text = changed.get("s.md", template)
    if end:
        assert "Now: {{ now }}" in text
        assert "Now:" not in changed.get("w.yaml", "")
        assert text.index("Now: {{ now }}") < text.index("{{ body }}")
    assert not shape_of(text).splits(text.find("Now: {{ now }}"))


def test_a_move_ends_before_the_heading_of_passages(tmp_path: Path) -> None:
    template = f"You help.\nNow: {{{{ now }}}}\nBe brief.\n\n## Context\n{PASSAGES}\n## Question\n{{{{ body }}}}\n"
    changed = moved(tmp_path, w=WORKLOAD, s=template)
    assert changed["s.md"].startswith("You help.\nBe brief.\nNow: {{ now }}\n\n## Context\n{% for doc")


def test_a_list_in_a_loop_moves_as_a_whole(tmp_path: Path) -> None:
    template = "You help.\nTables:\n{% for t in [1, 2] %}\n- {{ t }} {{ now }}\n{% endfor %}\nBe brief.\nUse CTEs.\n"
    changed = moved(tmp_path, w=WORKLOAD, s=template)
    whole = "".join(changed.values())
    assert whole.count("{% for t in [1, 2] %}") == 1
    assert "Tables:" not in changed["s.md"].partition("Use CTEs.")[0]


@pytest.mark.parametrize("child", ["{% block task %}\nList tasks.\n\nText:\n{{ body }}\n{% endblock %}\n"])
def test_a_line_of_a_base_moves_into_the_block_of_its_only_child(tmp_path: Path, child: str) -> None:
    (tmp_path / "base.md").write_text("You help.\nNow: {{ now }}\nBe brief.\n{% block task %}{% endblock %}\n")
    write(tmp_path, w=WORKLOAD, s='{% extends "base.md" %}\n' + child)
    source = load_yaml_workload(str(tmp_path / "w.yaml"))
    edits = edits_for([mover(source)], source)
    assert not isinstance(edits, str), edits


def test_the_text_of_blocks_is_found_in_what_was_rendered() -> None:
    text = rendered("A\n{% for i in x %}\n- {{ i }}\n{% endfor %}\nB\n", x=[1, 2])
    assert str(text) == "A\n\n- 1\n\n- 2\n\nB\n"
    assert open_blocks(text) == [(2, 12)]
    assert [last_place_outside(text, at) for at in (1, 2, 3, 8, 12, 13)] == [1, 2, 2, 2, 12, 13]
    assert with_open_blocks(text, 3, 11) == (2, 12)
    assert with_open_blocks(text, 0, 11) == (0, 12)
    assert with_open_blocks(text, 3, 6) == (3, 6)


def test_text_that_was_not_rendered_has_no_blocks() -> None:
    text = Traced.of("A\n{% if x %}\nB\n{% endif %}\n", Origin("w.yaml", text="A\n{% if x %}\nB\n{% endif %}\n"))
    assert open_blocks(text) == []
