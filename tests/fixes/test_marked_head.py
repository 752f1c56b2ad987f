"""A cache breakpoint goes where the text of a message can be parted."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvtool.fixes.marked_head import marked_head
from kvtool.text.cache_marks import is_marked
from kvtool.workload.logs.files.locations import locate
from kvtool.workload.yaml.yaml_source import load_yaml_workload

RULES = "".join(f"{number}. Keep rule {number}.\n" for number in range(20))
BLOCKS = (
    "{% for d in docs %}\nThe same first line.\n{{ d }} differs.\n{% endfor %}\nThe end.\n",
    "{% if docs %}\nThe same first line.\n{{ docs[0] }} differs.\n{% else %}\nNone.\n{% endif %}\nThe end.\n",
    "{% for d in docs %}\n{% if d %}\nThe same line.\nand {{ d }}\n{% endif %}\n{% endfor %}\n",
    "{% macro m(x) %}\nThe same line.\n{{ x }} differs.\n{% endmacro %}\n{{ m(docs[0]) }}\n",
)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("head", [RULES, ""])
def test_the_place_is_in_no_loop_and_no_condition(head: str, block: str, tmp_path: Path) -> None:
    (tmp_path / "p.j2").write_text(head + block)
    (tmp_path / "w.yaml").write_text(
        "version: 1\nvars: {docs: {list: {uuid: 4}, count: 2}}\ngroups:\n  - name: g\n    requests: 6\n"
        "    messages: [{role: system, file: p.j2}, {role: user, text: Hi}]\n"
    )
    turns = [each.next_turn(None) for each in load_yaml_workload(str(tmp_path / "w.yaml")).conversations()]
    samples = [turn for turn in turns if turn is not None]
    fix = marked_head("g", samples, locate)
    if not head:
        assert fix is None, "no text before the block could be marked"
        return
    assert fix is not None
    assert fix.make is not None
    first = 1 + head.count("\n") + block.partition("{{ m(")[0].count("\n") * block.startswith("{% macro")
    assert f"(before {tmp_path / 'p.j2'}:{first})" in fix.what
    for turn in samples:
        after = fix.make()(turn).messages
        assert after is not None
        marked, rest = after[0]["content"]
        assert is_marked(marked)
        assert not is_marked(rest)
        assert marked["text"].strip() == head.strip()
