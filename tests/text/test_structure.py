"""Units of a text: they nest, stay inside of it, and are found whole whatever is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.text.structure import block_ranges, structure
from kvtool.text.structure.markdown_blocks import MarkdownBlock, markdown_blocks
from kvtool.text.structure.raw_unit import RawUnit
from kvtool.text.structure.sentences import sentence_ends
from kvtool.text.structure.structure import MOST_LINES, Structure, structure_of
from kvtool.text.structure.text_unit import TextUnit
from tests.cli.test_hostile_prompts import calls


def units_in(unit: TextUnit) -> list[TextUnit]:
    return [unit, *(below for child in unit.children for below in units_in(child))]


def around(text: str, value: str) -> list[tuple[str, str]]:
    """Kind and text of the units around a value, the largest first, the document left out."""
    start = text.index(value)
    path = structure_of(text).path(start, start + len(value))
    return [(unit.kind, text[unit.start : unit.stop]) for unit in path[1:]]


def test_a_heading_holds_its_body() -> None:
    text = "# Rules\nBe brief.\n\n## Current time\n10:31\n\n## Style\nPlain.\n\n# More\nBye."
    assert ("section", "## Current time\n10:31") in around(text, "10:31")
    kind, rules = around(text, "10:31")[0]
    assert kind == "section"
    assert rules.startswith("# Rules")
    assert rules.endswith("Plain.")


def test_headings_of_an_element_stay_inside_of_it() -> None:
    text = "# Context\n<doc>\n# Title\nx 10:31\n</doc>\nEnd.\n# Rules\nBe brief."
    path = around(text, "10:31")
    assert path[0] == ("section", "# Context\n<doc>\n# Title\nx 10:31\n</doc>\nEnd.")
    assert ("element", "<doc>\n# Title\nx 10:31\n</doc>") in path
    assert ("section", "# Title\nx 10:31") in path


@pytest.mark.parametrize(
    ("text", "value", "kind", "unit"),
    [
        ("A.\n\n```json\n{\n  \"at\": \"10:31\",\n```\nB.", "10:31", "fence", '```json\n{\n  "at": "10:31",\n```'),
        ("A.\n| a | b |\n|---|---|\n| x | 10:31 |\nB.", "10:31", "table", "| a | b |\n|---|---|\n| x | 10:31 |"),
        ('State: {"a": {{ n }}, "at": "10:31"} now.', "10:31", "data", '{"a": {{ n }}, "at": "10:31"}'),
        ('A.\n{\n  "a": {{ n }},\n  "at": "10:31"\n}\nB.', "10:31", "data", '{\n  "a": {{ n }},\n  "at": "10:31"\n}'),
        ("---\nname: a\nat: 10:31\n---\nB.", "10:31", "data", "---\nname: a\nat: 10:31\n---"),
        ("A.\nRules:\n1. Be brief.\n2. At 10:31.\n\nB.", "10:31", "introduced", "Rules:\n1. Be brief.\n2. At 10:31."),
        ("A.\n\nNotes:\n\n> one\n\n> 10:31\n\n> two\n\nB.", "10:31", "introduced", "Notes:\n\n> one\n\n> 10:31\n\n> two"),
        ("Docs:\n<doc>\na\n</doc>\n<doc>\n10:31\n</doc>\n<rules>\nb\n</rules>", "10:31", "introduced",
         "Docs:\n<doc>\na\n</doc>\n<doc>\n10:31\n</doc>"),
        ("You help. Rules:\n\n- Brief.\n- 10:31.\n\nB.", "10:31", "introduced", "Rules:\n\n- Brief.\n- 10:31."),
        ("A.\nRepo map:\nsrc/a.py:\n  f 10:31\nsrc/b.py:\n  g\n\nB.", "10:31", "introduced",
         "Repo map:\nsrc/a.py:\n  f 10:31\nsrc/b.py:\n  g"),
        ("Repo map:\nsrc/a.py:\n  f\n\nsrc/b.py:\n  10:31\n\nB.", "10:31", "introduced",
         "Repo map:\nsrc/a.py:\n  f\n\nsrc/b.py:\n  10:31"),
        ("A.\n├── a\n├── 10:31\n└── c\nB.", "10:31", "rows", "├── a\n├── 10:31\n└── c"),
        ("A.\n规则一览\n1、简洁。\n2、10:31。\n", "10:31", "numbered", "1、简洁。\n2、10:31。"),
        ("Hello. It is 10:31 now. Bye.", "10:31", "statement", "It is 10:31 now."),
        ("Am 4. März 2026 um 10:31. B.", "10:31", "statement", "Am 4. März 2026 um 10:31."),
        ("今日は10:31です。短く。", "10:31", "statement", "今日は10:31です。"),
        ("You must never promise 10:31 or what the\nmanual does not say. B.", "10:31", "statement",
         "You must never promise 10:31 or what the\nmanual does not say."),
        ("- Be brief.\n- Kind.\nIt is 10:31.", "10:31", "paragraph", "It is 10:31."),
        ("A.\n```\nnever closed\n\nIt is 10:31.", "10:31", "paragraph", "It is 10:31."),
        ("A.\n\nDock      north\nBerth     10:31\nVessel    Anke\n\nB.", "10:31", "table",
         "Dock      north\nBerth     10:31\nVessel    Anke"),
        ("A.\nThe dock  opens.\nAt 10:31  it rains.\nB is far  away.", "10:31", "statement", "At 10:31  it rains."),
        ("A.\n\nPapers\n[3] Lease, 10:31\nRent is due.\n[1] Deeds, 9:00\nThe plot is small.\n\nB.", "10:31", "introduced",
         "Papers\n[3] Lease, 10:31\nRent is due.\n[1] Deeds, 9:00\nThe plot is small."),
        ("A.\n\n[1] Lease, 10:31\n\nRent is due.", "10:31", "paragraph", "[1] Lease, 10:31"),
        ("A.\n\n**Fares**\n\n| to | at |\n|---|---|\n| Ulm | 10:31 |\n\n**Rules**\n\nBe brief.", "10:31", "section",
         "**Fares**\n\n| to | at |\n|---|---|\n| Ulm | 10:31 |"),
        ("1. ROLE\nYou help.\n\n2. VISITOR\nseen: 10:31\n\n3. RULES\nBe brief.", "10:31", "section", "2. VISITOR\nseen: 10:31"),
        ("ROLE\nYou help.\n\nVISITOR:\nseen: 10:31\n\nRULES\nBe brief.", "10:31", "section", "VISITOR:\nseen: 10:31"),
        ("NEVER SHARE KEYS.\nBe kind.\n\nALWAYS SAY WHY.\nIt is 10:31.", "10:31", "statement", "It is 10:31."),
        ("USD\nis 10:31.\n\nEUR\nis less.", "10:31", "paragraph", "USD\nis 10:31."),
        ("A.\n--- VISIT ---\nseen 10:31\n--- END VISIT ---\n\nBe brief.", "10:31", "introduced",
         "--- VISIT ---\nseen 10:31\n--- END VISIT ---"),
        ("A.\n\nPAPERS\n-----\nThe crane at the quay lifts all that is big, wet, hot, old or cold\n-----\nseen 10:31\n", "10:31",
         "section", "PAPERS\n-----\nThe crane at the quay lifts all that is big, wet, hot, old or cold\n-----\nseen 10:31"),
        ('A.\n\nLamp state\n{\n  "at": "10:31"\n}\n\nBe brief.', "10:31", "introduced", 'Lamp state\n{\n  "at": "10:31"\n}'),
        ('Say what the lamp does.\n{\n  "at": "10:31"\n}\n\nB.', "10:31", "data", '{\n  "at": "10:31"\n}'),
        ("=== VISIT ===\nseen 10:31\n=== RULES ===\nBe brief.", "10:31", "introduced", "=== VISIT ===\nseen 10:31"),
    ],
)  # fmt: skip
def test_the_units_around_a_value(text: str, value: str, kind: str, unit: str) -> None:
    assert (kind, unit) in around(text, value)


def test_abbreviations_of_time_end_no_sentence() -> None:
    for line in [
        "เวลา 09:15 น. วันที่ 4 มีนาคม พ.ศ. 2569",
        "Сейчас 9 ч. 15 мин. Москва",
        "Nu kl. 9.15, tel. 123",
        "Godz. 9:15",
    ]:
        assert sentence_ends(line, 0, len(line), ()) == []


def test_a_value_ends_no_sentence() -> None:
    text = "It is May 3. 2025 today. Be brief."
    start = text.index("May")
    unit = structure_of(text).path(start, start + 11, [(start, start + 11)])[-1]
    assert text[unit.start : unit.stop] == "It is May 3. 2025 today."


LINES = st.sampled_from(
    [
        "", "# A", "## B", "Be brief.", "Rules:", "- item one", "  - deeper", "1. first", "2. second", "```", "```json",
        "| a | b |", "|---|---|", "<doc>", "</doc>", "<a>x</a>", '{"a": 1}', "{", "}", '  "b": {{ n }},', "> quoted",
        "---", "===", "src/a.py:", "    def f", "It is {{ now }}. It ends.", "and goes on", "{% if x %}", "{% endif %}",
        "a,b,c", "a\tb", "**Bold**", "今日は。短く。", "\r", "\0x",
    ]
)  # fmt: skip


def test_a_value_may_go_on_behind_its_paragraph() -> None:
    for stop in [13, 14, 18, 25]:
        text = "One\ntwo three.\n\n# Four\nfive"
        path = Structure(text).path(4, 7, [(2, stop)])
        assert path[0].kind == "document"
        assert path[-1].holds(4, 7)


@given(st.lists(LINES, max_size=24), st.integers(0, 400), st.integers(0, 40))
def test_units_nest_and_each_range_has_a_smallest_one(lines: list[str], start: int, length: int) -> None:
    text = "\n".join(lines)
    structure = Structure(text)
    tree = structure.tree()
    for unit in units_in(tree):
        assert 0 <= unit.start <= unit.body <= unit.stop <= len(text)
        ends = [unit.start, *(at for child in unit.children for at in (child.start, child.stop)), unit.stop]
        assert ends == sorted(ends)
        if unit.kind != "document":
            assert text[unit.start : unit.stop].strip(" \t\r") == text[unit.start : unit.stop].strip()
    start = min(start, len(text))
    stop = min(start + length, len(text))
    path = structure.path(start, stop)
    assert path[0].kind == "document"
    assert all(unit.holds(start, stop) for unit in path)
    assert all(outer.holds(inner.start, inner.stop) for outer, inner in pairwise(path))
    covered = {at for unit in units_in(tree) if unit.kind != "document" for at in range(unit.start, unit.stop)}
    plain = "\n".join("" if line[:1] in "<{" else line for line in lines).replace("\0", "")
    assert sum(letter.isalpha() for letter in plain) <= sum(text[at].isalpha() for at in covered)


@pytest.mark.parametrize(
    "text",
    [
        ">" * 10_000 + " a\n",
        "x " * 2_500_000,
        "A b c. " * 50_000,
        "<a>" * 20_000 + "</a>" * 20_000,
        "a:\n" * MOST_LINES,
        "- a\n" + "b\n" * 10_000,
        "".join("  " * depth + "- a\n" for depth in range(300)),
        "a {\n" * 10_000 + "}\n" * 10_000,
        "{" * 20_000,
        "|" * 100_000,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_hostile_texts_have_units_as_well(text: str) -> None:
    middle = len(text) // 2
    unit = structure_of(text).path(middle, middle + 1)[-1]
    assert unit.holds(middle, middle + 1)


def test_the_last_long_texts_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long text is asked for once for each place, value and fix; texts that differ in a number are one."""
    read: list[int] = []

    def counted(lines: list[str]) -> list[MarkdownBlock]:
        read.append(len(lines))
        return markdown_blocks(lines)

    monkeypatch.setattr(block_ranges, "markdown_blocks", counted)
    texts = [f"At {number}.\n\n" + f"{name} rests here.\n\n" * 5_000 for name in ("Ada", "Berta") for number in (1, 2)]
    for text in texts * 3:
        assert structure_of(text).path(3, 4)[-1].kind == "statement"
    assert len(read) == 2


_SHAPES: dict[str, str] = {
    "items of one word": "- word\n",
    "numbered rules": "1. a\n",
    "quotes apart": "> a\n\n",
    "quotes": "> a\n",
    "rows": "| c | d |\n",
    "headings": "# a\n",
    "fences": "```\na\n```\n",
    "elements": "<a>b</a>\n",
}


@pytest.mark.parametrize("shape", _SHAPES.values(), ids=list(_SHAPES))
def test_twice_as_many_blocks_are_twice_the_work(shape: str) -> None:
    once, twice = (calls(lambda text=shape * count: Structure(text)) for count in (1000, 2000))  # type: ignore[misc]  # mypy cannot type a default
    assert twice < 2.2 * once
    assert once < 300 * shape.count("\n") * 1000


def test_a_paragraph_is_read_once_for_all_that_varies_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many places of it are asked for; with other values it is read anew."""
    asked: list[int] = []
    read = structure.prose_units

    def counting(text: str, start: int, stop: int, solid: Sequence[tuple[int, int]] = ()) -> list[RawUnit]:
        asked.append(start)
        return read(text, start, stop, solid)

    monkeypatch.setattr(structure, "prose_units", counting)
    text = "\n".join(f"Rule {number} is short. It holds for all of them." for number in range(60))
    values = tuple((at, at + 4) for at in range(0, len(text), 48))
    found = structure.Structure(text)
    for start, stop in values:
        found.path(start, stop, values)
    assert asked == [0]
    for start, stop in values[::7]:
        assert found.path(start, stop, values) == structure.Structure(text).path(start, stop, list(values))


def test_an_element_has_a_name_of_any_script() -> None:
    for name, value in [
        ("وقت", "09:16"),
        ("نیم\u200cروز", "12:00"),
        ("வாடிக்கையாளர்_2", "4418"),
        ("ग्राहक", "राधा"),
        ("Zeitpunkt·Übersicht", "9:31"),
        ("時刻", "九時"),
        ("xsl:param", "7"),
    ]:
        element = f"<{name}>\n  <a>{value}</a>\n</{name}>"
        text = f"<x>\nBe brief.\n</x>\n{element}\n<y>\nBe kind.\n</y>"
        assert ("element", element) in around(text, value)


def test_what_is_no_name_opens_no_element() -> None:
    for name in ("2x", "-a", "\u0301e", "a b"[1:]):
        text = f"One.\n<{name}>\n9:16\n</{name}>\nTwo."
        assert all(kind != "element" for kind, _ in around(text, "9:16"))
