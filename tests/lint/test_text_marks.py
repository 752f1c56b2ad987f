"""Which marks of a text hold its variables: `{x}` beside doubled braces, `${x}` beside tags of Jinja."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from jinja2 import Template

from kvtool.config.asked_run import RunOptions
from kvtool.errors import KvtoolError
from kvtool.lint.file_findings import Finder
from kvtool.lint.lint_inputs import sort_inputs
from kvtool.lint.prompt_copies import copy_text
from kvtool.lint.skeleton import Hole, leaves
from kvtool.results.finding import Finding
from kvtool.text.tokens.tokenizer import Tokenizers
from tests.conftest import some
from tests.lint.found import jinja_file

RULES = "You keep the ledger of a small harbour. Answer only from the tide table. " * 6


def names(text: str) -> list[str]:
    return [leaf.what for leaf in leaves(jinja_file("a.md", text)) if isinstance(leaf, Hole)]


def test_variables_in_dollars_beside_tags() -> None:
    text = f"It is ${{KEEPER_NOW}}.\n{{% if deep %}}Mind the {{hull}} of ${{ ship.question }}.{{% endif %}}\n{RULES}"
    assert names(text) == ["`KEEPER_NOW`", "`ship.question`"]
    (clock, *_) = [leaf for leaf in leaves(jinja_file("a.md", text)) if isinstance(leaf, Hole)]
    assert (clock.spot.line, clock.spot.column, clock.spot.width) == (1, 7, 13)


@pytest.mark.parametrize("shell", ["${HOME}", "${HOME:-/quay}"])
def test_dollars_beside_double_braces_are_text(shell: str) -> None:
    assert names(f"cd {shell}\n{{{{ question }}}}\n{RULES}") == ["`question`"]


def test_dollars_that_no_jinja_reads_are_text() -> None:
    assert names(f"cd ${{HOME:-/quay}} ${{ship}}\n{{% if deep %}}{{% endif %}}{RULES}") == []
    with pytest.raises(KvtoolError):
        jinja_file("a.md", "${HOME} {% if %}")


@pytest.mark.parametrize(
    ("text", "style"),
    [
        ("Plan: {plan}\nTides: {tides}\n{{require_seal}}\n", "format"),
        ('Plan: {plan}\nAnswer:\n{{"pier": 1}}\n', "format"),
        ("Plan: {{ plan }}\nTides: {tides}\n", "jinja"),
        ("Plan: {plan}\nTides: {tides}\n{% if deep %}{{ ship }}{% endif %}\n", "jinja"),
        ("Plan: {{ plan }}\n", "jinja"),
        ("Plan: {{ plan }} of {{ pier }}, \\frac{tides}{ships} and \\sqrt{quay}\n", "jinja"),
        ("Plan: {{ plan }} of {{ pier }}, {a} {b} {c}, {{ ship }} or {{ tide }}\n", "jinja"),
        ("Plan: {plan}, {ship} at {pier}. Answer as {{n}}. {{row}} and {{n}}. {{row}}\n", "format"),
        ("Plan: {plan}\n\\begin{{quay}}[x]\n\\usepackage[a]{{tide}}\n{{...}}\n\\end{{quay}}\n", "format"),
        ("Plan: {{.}}\n", "mustache"),
        ("Plan: {{.Plan}}\n", "mustache"),
    ],
)
def test_a_text_with_more_single_braces_than_double_ones_is_formatted(tmp_path: Path, text: str, style: str) -> None:
    path = tmp_path / "keeper.md"
    path.write_text(text + RULES, encoding="utf-8")
    (one,) = sort_inputs([str(path)], [str(path)]).texts
    assert one.style == style


@pytest.mark.parametrize("seed", some(range(60), 4))
def test_examples_that_are_escaped_for_format_are_no_jinja(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    escaped = [f"<berth_{{{{{rng.choice(('pier', 'row'))}}}}}>" for _ in range(rng.randint(1, 3))]
    example = json.dumps({"pier": {"depth": rng.random(), "ships": ["Ida"]}}, indent=rng.choice((None, 2)))
    escaped += [example.replace("{", "{{").replace("}", "}}") for _ in range(rng.randint(1, 2))]
    asked = ["{question}"] if seed % 2 else []
    parts = rng.sample([*escaped, *asked], len(escaped) + len(asked))
    text = "\n".join(["You keep the ledger.", *parts, RULES])
    assert "{{" not in text.format(question="Why?")  # as the program sends it
    findings = findings_of(tmp_path / rng.choice(("keeper.md", "keeper.txt")), text)
    assert [(one.code, one.line) for one in findings] == (
        [("KV201", text[: text.index("{question}")].count("\n") + 1)] if asked else []
    )
    copy = copy_text(tmp_path, "keeper.md", text)
    assert copy is not None
    assert Template(copy.text).render(question="Why?") == text.format(question="Why?")


@pytest.mark.parametrize("text", ["# Tides {#tides}\n{{ pier", "{{ pier }} has {% if deep %}"])
def test_a_text_that_is_found_is_no_error_where_nothing_reads_it_as_jinja(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keeper.md"
    path.write_text(f"{text}\n{RULES}", encoding="utf-8")
    for found in (True, False):
        (one,) = sort_inputs([str(path)], [str(path)] if found else []).texts
        judged = Finder(RunOptions(inputs=[str(path)]), Tokenizers(offline=True)).judge(one)
        assert (judged.error is not None) == (not found and "{%" in text)
        assert not judged.findings


@pytest.mark.parametrize("name", ["keeper.md", "keeper.txt", "keeper.xml", "keeper.j2", "keeper.mustache"])
def test_front_matter_is_not_sent(tmp_path: Path, name: str) -> None:
    mark = "{question}" if name.endswith((".md", ".txt", ".xml")) else "{{question}}"
    text = f"---\nname: keeper\nasks: '{mark}'\n---\n{RULES}\nAsked: {mark}\n{RULES}"
    (finding,) = findings_of(tmp_path / name, text)
    assert (finding.line, finding.column) == (6, 8)


def test_rules_between_texts_are_no_front_matter(tmp_path: Path) -> None:
    text = f"---\nAsked is {{question}}.\n---\n{RULES}"
    (finding,) = findings_of(tmp_path / "keeper.md", text)
    assert finding.line == 2


@pytest.mark.parametrize(("name", "style"), [("a.xml", "format"), ("a.hbs", "mustache"), ("a.handlebars", "mustache")])
def test_what_a_suffix_says_of_placeholders(tmp_path: Path, name: str, style: str) -> None:
    path = tmp_path / name
    path.write_text(f"<q>{{question}}</q>\n{RULES}", encoding="utf-8")
    (one,) = sort_inputs([str(path)]).texts
    assert (one.kind, one.style) == ("template", style)


@pytest.mark.parametrize(("settings", "found"), [(1, True), (5, False)])
def test_a_template_that_makes_settings_is_no_prompt(tmp_path: Path, settings: int, found: bool) -> None:
    text = (
        "[keeper]\nquestion = {{ question }}\n"
        + "tides = 3\n" * (settings - 1)
        + (RULES if found else f"rules = {RULES}\n")
    )
    path = tmp_path / "prompts" / "keeper.j2"
    assert bool(findings_of(path, text)) is found


def test_parts_of_a_program_are_no_variables() -> None:
    for name, told in [
        ("tool_names['replace_body']", False),
        ("labels.question", False),
        ("_fragments.note", False),
        ("replace_body", True),
        ("tides.body", True),
    ]:
        assert bool(names(f"{{{{ {name} }}}}\n{RULES}")) is told


@pytest.mark.parametrize(
    ("first", "found"),
    [
        ("Your previous answer was rejected because of {problem}.", False),
        ("You are a pilot. Judge the previous answer of {name}.", True),
        ("Asked is {question}.", True),
        ("Please fix the following issue of the harbour.\n{issue}", True),
        ("Fix the errors.\n{code}", False),
    ],
)
@pytest.mark.parametrize("name", ["prompts/again.md", "prompts/again.yaml"])
def test_a_text_that_answers_a_reply_stands_late(tmp_path: Path, name: str, first: str, found: bool) -> None:
    text = f"{first}\nAsked is {{question}}.\n{RULES}"
    if name.endswith(".yaml"):
        text = "prompt: |\n" + "".join(f"  {line}\n" for line in text.splitlines())
    assert bool(findings_of(tmp_path / name, text)) is found


def findings_of(path: Path, text: str) -> list[Finding]:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    (one,) = sort_inputs([str(path)], [str(path)]).texts
    return Finder(RunOptions(inputs=[str(path)]), Tokenizers(offline=True)).judge(one).findings


@pytest.mark.parametrize(
    ("written", "found"),
    [("{% if problem %}## Error message: {{ problem }}{% endif %}", True), ("## Error message: {{ problem }}", False)],
)
def test_a_section_for_a_second_try_makes_no_reply(tmp_path: Path, written: str, found: bool) -> None:
    path = tmp_path / "prompts" / "mend.j2"
    assert bool(findings_of(path, f"Mend the quay.\n{{{{ question }}}}\n{written}\n{RULES}")) is found
