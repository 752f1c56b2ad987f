"""Text of included files counts as constant text of the prompt, and a line moves after it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kvtool.lint.formats.included_texts import included_texts
from tests.conftest import some
from tests.files import write

WORDS = ["claim", "water", "fire", "theft", "letter", "garage", "tariff", "amount", "branch", "review", "paragraph"]


def rules(chance: random.Random, count: int) -> str:
    return "".join(f"{number}. {' '.join(chance.choices(WORDS, k=10))}.\n" for number in range(1, count))


@pytest.mark.parametrize("seed", some(range(8), 3))
def test_nested_includes_are_joined(tmp_path: Path, seed: int) -> None:
    """Whatever includes what, circles as well: each file's own text is there, and it ends."""
    chance = random.Random(seed)
    count = chance.randint(2, 6)
    for number in range(count):
        others = [f'{{% include "part{chance.randrange(count)}.j2" %}}\n' for _ in range(chance.randint(0, 3))]
        (tmp_path / f"part{number}.j2").write_text(f"text of {number}\n" + "".join(others))
    (tmp_path / "sub").mkdir()
    found = dict(included_texts(str(tmp_path / "sub" / "main.j2"), '{% include "part0.j2" %}{%- include "no.j2" -%}'))
    assert set(found) == {"part0.j2"}
    assert "text of 0" in found["part0.j2"]
    assert "include" not in found["part0.j2"]


@pytest.mark.parametrize("name", ["../secret.j2", "/etc/hostname", "a\0b"])
def test_no_file_outside_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.j2").write_text("secret\n")
    (tmp_path / "prompts").mkdir()
    assert included_texts(str(tmp_path / "prompts" / "main.j2"), f'{{% include "{name}" %}}') == ()


def test_a_link_that_leads_out_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "secret.j2").write_text("secret\n")
    (tmp_path / "one" / "link.j2").symlink_to(tmp_path / "other" / "secret.j2")
    assert included_texts(str(tmp_path / "one" / "main.j2"), '{% include "link.j2" %}') == ()


@pytest.mark.parametrize("seed", some(range(6), 2))
def test_a_line_moves_after_what_is_included(in_folder: Callable[..., tuple[int, str, str]], seed: int) -> None:
    """The included text counts in the loss; the moved line comes after it, and the loss is gone."""
    chance = random.Random(seed)
    write("prompts/shared/rules.j2", rules(chance, 20))
    line = chance.choice(["Trace: {{ trace_id }}\n", "Request id {{ request_id }}.\n", "Now: {{ now }}\n"])
    own = "You advise which cover fits a customer. Answer with one reason each.\n"
    end = chance.choice(["", "\nQuestion:\n{{ question }}\n"])
    include = chance.choice(['{% include "shared/rules.j2" %}\n', "{% include 'shared/rules.j2' ignore missing %}\n"])
    write("prompts/advise.j2", own + line + include + own + end)
    (finding,) = json.loads(in_folder("lint", "prompts", "--json")[1])["findings"]
    assert finding["line"] == 2
    assert finding["tokens_lost"] > 150
    in_folder("lint", "prompts", "--fix", "--unsafe-fixes")
    assert Path("prompts/advise.j2").read_text() == own + include + own + line + end
    assert json.loads(in_folder("lint", "prompts", "--json")[1])["findings"] == []


def test_a_changed_included_file_counts(in_folder: Callable[..., tuple[int, str, str]]) -> None:
    """What was read of a template is not taken from the cache where a file that it includes changed."""
    write("prompts/rules.j2", rules(random.Random(1), 20))
    write("prompts/ask.j2", 'You answer questions about claims.\nNow: {{ now }}\n{% include "rules.j2" %}\n')
    lost = [finding["tokens_lost"] for finding in json.loads(in_folder("lint", "prompts", "--json")[1])["findings"]]
    write("prompts/rules.j2", rules(random.Random(1), 40))
    again = [finding["tokens_lost"] for finding in json.loads(in_folder("lint", "prompts", "--json")[1])["findings"]]
    assert again[0] > 1.5 * lost[0]


@pytest.mark.parametrize("size", [4, 40])
def test_a_prompt_begins_in_the_file_that_it_extends(size: int, in_folder: Callable[..., tuple[int, str, str]]) -> None:
    """The clock there comes before what the blocks include; a name of macros is no value."""
    write("p/base.j2", "It is {{ now }}.\n{% block task %}{% endblock %}\n")
    write("p/macros.j2", "{% macro list(x) %}- {{ x }}{% endmacro %}\n")
    write("p/rules.txt", rules(random.Random(1), size))
    child = "{% extends 'base.j2' %}{% import 'macros.j2' as m %}{% block task %}{{ user.name }}: {{ m.list('a') }}"
    write("p/child.j2", child + "{% include 'rules.txt' %}{% endblock %}\n")
    found = {each["path"]: each for each in json.loads(in_folder("lint", "p/child.j2", "--json")[1])["findings"]}
    assert found["p/base.j2"]["code"] == "KV101"
    assert found["p/base.j2"]["tokens_lost"] == pytest.approx(found["p/child.j2"]["tokens_lost"], rel=0.1)
    assert "`m`" not in found["p/child.j2"]["message"]
