# ruff: noqa: RUF001 - signs of other scripts are meant
"""Which unit moves with a value: nothing is torn, rules stay where they are, and what refers to what moved is told."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.fixes.moves.dangling_references import dangling_references, goes_with_previous, refers_back
from kvtool.fixes.moves.movable_unit import ALL_OF_IT, AMONG_RULES, FIRST, IN_A_RULE, IN_MANY, Movable, movable_unit
from kvtool.fixes.moves.split_text import is_in_many, parted_at, units_last
from kvtool.text.structure.structure import Structure
from kvtool.text.structure.text_unit import TextUnit
from kvtool.text.traced import Traced
from kvtool.workload.turn import Turn

NOW = "10:31"


def moves(text: str) -> str:
    """What moves with the value in a text, or why it does not."""
    start = text.index(NOW)
    unit = movable_unit(text, start, start + len(NOW), [(start, start + len(NOW))])
    return text[unit.start : unit.stop] if isinstance(unit, Movable) else unit


_RULES = ["Be brief.", "It is 10:31.\n{}The gate closes late.", "Be kind to all.", "Never shout.", "Be true to them."]
_NUMBERS = (
    "1.|2.|3.|4.|5.", "(1)|(2)|(3)|(4)|(5)", "4.1|4.2|4.3|4.4|4.5", "§1|§2|§3|§4|§5", "①|②|③|④|⑤", "一、|二、|三、|四、|五、",
    "١.|٢.|٣.|٤.|٥.", "a)|b)|c)|d)|e)", "ii.|iii.|iv.|vi.|vii.", "Rule 1:|Rule 2:|Rule 3:|Rule 4:|Rule 5:",
    "第一条|第二条|第三条|第四条|第五条",
)  # fmt: skip


def test_a_numbered_rule_of_two_lines_is_not_parted() -> None:
    for indent in ["   ", ""]:
        for numbers in _NUMBERS:
            rules = [f"{number} {rule.format(indent)}" for number, rule in zip(numbers.split("|"), _RULES, strict=True)]
            assert moves("You help.\n\n" + "\n".join(rules)) == AMONG_RULES


@pytest.mark.parametrize("indent", ["  ", ""])
def test_an_item_whose_first_line_would_go_goes_whole(indent: str) -> None:
    rules = [f"- {rule.format(indent)}" for rule in _RULES]
    assert moves("You help.\n\n" + "\n".join(rules)) == f"- It is 10:31.\n{indent}The gate closes late."


_TITLES = (
    "## {}", "**{}**", "**{}:**", "__{}__", "*{}*", "【{}】", "「{}」", "[{}]", "({})", "<< {} >>", "=== {} ===", "--- {} ---",
    "*** {} ***", "~~ {} ~~", "— {} —", "■ {}", "◆ {}", "▶ {}", "§ {}", "📌 {}", "{}",
)  # fmt: skip


def test_a_heading_of_any_form_goes_with_all_that_it_heads() -> None:
    for gap in ["\n", "\n\n"]:
        for form in _TITLES:
            for names in [
                "How to answer|Right now|Refunds",
                "回答規則|現在状況|返金規則",
                "Как отвечать|Сейчас|Возврат",
            ]:
                one, now, other = (form.format(name) for name in names.split("|"))
                held = f"{now}{gap}It is 10:31 at the gate.\nBoats at sea: 10:31."
                rules = "Be brief in all that you say. Never shout at them."
                text = f"You help.\n\n{one}{gap}{rules}\n\n{held}\n\n{other}{gap}{rules}"
                start = text.index(NOW)
                values = [(start, start + 5), (text.rindex(NOW), text.rindex(NOW) + 5)]
                common = [line for line in text.split("\n") if NOW not in line]
                unit = movable_unit(text, *values[0], values, common=common)
                assert isinstance(unit, Movable)
                assert text[unit.start : unit.stop] == held


def test_lines_that_head_nothing_are_no_headings() -> None:
    for line in [
        "**Never shout.**", "Best regards", "[1] A lease", "=== END ===", "=== NOTES ===", "Desk: north", "Room 12",
    ]:  # fmt: skip
        text = f"You help.\n\n{line}\n{line}\n\nIt is 10:31. Be brief.\n\nAll else is fine."
        assert moves(text) == "It is 10:31."


def test_what_moves() -> None:
    for text, unit in [
        ("You help.\n\n## Current time\n10:31\n\n## Rules\nBe brief.", "## Current time\n10:31"),
        ("You help.\n\n**Current time**\n10:31\n\nBe brief.", "**Current time**\n10:31"),
        ("You help.\n| a | b |\n|---|---|\n| at | 10:31 |\nBe brief.", "| a | b |\n|---|---|\n| at | 10:31 |"),
        ('See:\n```json\n{\n  "at": "10:31",\n}\n```\nBe brief.', 'See:\n```json\n{\n  "at": "10:31",\n}\n```'),
        (
            "Go.\n\nRepo map:\nsrc/\n  a.py\n  models/\n    user.py\n    10:31.py\n  b.py\n\nBe brief.",
            "Repo map:\nsrc/\n  a.py\n  models/\n    user.py\n    10:31.py\n  b.py",
        ),
        (
            "Go.\nRepo map:\nsrc/a.py\nsrc/10:31.py\nsrc/c.py\n\nBe brief.",
            "Repo map:\nsrc/a.py\nsrc/10:31.py\nsrc/c.py",
        ),
        ("You help.\n<env>\ncwd: /srv\nat: 10:31\n</env>\nBe brief.", "<env>\ncwd: /srv\nat: 10:31\n</env>"),
        ("You are Ada. It is 10:31. Be brief now.", "It is 10:31."),
        ("Hello. It is 10:31. On this day we rest. Be brief.", "It is 10:31. On this day we rest."),
        ("Rules:\n- Be brief.\n- It is 10:31 now.\n- Be kind.", "- It is 10:31 now."),
        ("About you:\n- name: Ada\n- seen: 10:31\n\nBe brief.", "About you:\n- name: Ada\n- seen: 10:31"),
        ("Hi.\n> Seen at 10:31\n> by Ada\n\nBe brief.", "> Seen at 10:31\n> by Ada"),
        (
            "Go.\n\nFiles here\n  src/a.py\n  src/10:31.py\n  lib/c.py\n\nBye.",
            "Files here\n  src/a.py\n  src/10:31.py\n  lib/c.py",
        ),
        ('Go.\n\n[client]\nname = "Ada"\nat = "10:31"\n\nBye.', '[client]\nname = "Ada"\nat = "10:31"'),
        ("Go.\n\n+---+-------+\n| a | 10:31 |\n+---+-------+\n\nBye.", "+---+-------+\n| a | 10:31 |\n+---+-------+"),
        ("Go.\n\n┌───┬───────┐\n│ a │ 10:31 │\n└───┴───────┘\n\nBye.", "┌───┬───────┐\n│ a │ 10:31 │\n└───┴───────┘"),
        ("Go.\n\nOpen tickets\nid,at,of\n7,10:31,a\n8,11:00,b\n\nBye.", "Open tickets\nid,at,of\n7,10:31,a\n8,11:00,b"),
        (
            "Go.\n\n- Be brief.\n- Account\n  - at: 10:31\n  - of: ada\n- Be true.",
            "- Account\n  - at: 10:31\n  - of: ada",
        ),
        ("Go. The request is 10:31. Use it, and nothing else. Bye.", "The request is 10:31. Use it, and nothing else."),
        (
            "Go.\n\n## Today\nIt is 10:31.\nKeep to it in all.\n\n## Form\nBye.",
            "## Today\nIt is 10:31.\nKeep to it in all.",
        ),
        ("Go.\n\n## At\n10:31\n\nBe brief.\n\n## Form\nBye.", "## At\n10:31\n\nBe brief."),
        ("Go.\n\n## Form\nBye.\nIt is 10:31. This is what counts.", "It is 10:31. This is what counts."),
        ("Go.\n\nRules:\ni. Be brief.\nii. It is 10:31.\niii. Be kind.\niv. Be true.", AMONG_RULES),
        ("Go.\n\nRules:\n(1) Be brief.\n(2) It is 10:31.\n(3) Be kind.\n(4) Be true.", AMONG_RULES),
        ("Go.\n\nRules:\nb) Be brief.\nc) It is 10:31.\nd) Be kind.\ne) Be true.", AMONG_RULES),
        ("You are Ada. Serving 10:31 you keep calm, and must never promise what the house cannot keep.", IN_A_RULE),
        ("You are Ada of Globex, and at 10:31 you serve.", IN_A_RULE),
        ("Rules:\n1. Be brief.\n2. It is 10:31.\n3. Be kind.\n4. Be true.", AMONG_RULES),
        ("---\nat: 10:31\nof: ada\n---\nBe brief.", FIRST),
        ('{"at": "10:31", "of": "ada"}', ALL_OF_IT),
        (
            "Go.\n<status>\nOn dock four\nThe crane is busy until 10:31.\n\nWaiting:\n\tbarge one\n\tbarge two\n</status>\nBye.",
            "<status>\nOn dock four\nThe crane is busy until 10:31.\n\nWaiting:\n\tbarge one\n\tbarge two\n</status>",
        ),
        ("Go.\n<rules>\nBe brief.\nIt is 10:31.\nBe kind.\n</rules>\nBye.", "It is 10:31."),
        (
            "Go. The gate clock shows 10:31. Go by it, whatever guests say. Bye.",
            "The gate clock shows 10:31. Go by it, whatever guests say.",
        ),
        ("Go. The gate clock shows 10:31. Go by train, whatever guests say. Bye.", "The gate clock shows 10:31."),
        ("Go.\nCurrent time: Tue, 1 Dec 2026 10:31\nanswer all guests.\nBye.", "Current time: Tue, 1 Dec 2026 10:31"),
        (
            "Go.\nCurrent time: Tue, 1 Dec 2026 10:31\nand the zone is UTC.\nBye.",
            "Current time: Tue, 1 Dec 2026 10:31\nand the zone is UTC.",
        ),
        (
            "Go.\nThe clock of the gate is at 10:31\nduring all of the night.\nBye.",
            "The clock of the gate is at 10:31\nduring all of the night.",
        ),
    ]:
        assert moves(text) == unit


def test_only_lines_that_other_requests_have_are_rules() -> None:
    text = "You help.\n\n## Passages\n> The crane lifts ten tons.\n\n> It is 10:31 on the quay.\n\n## Rules\nBe brief."
    at = text.index(NOW)
    value = (at, at + len(NOW))
    common = frozenset({"You help.", "## Passages", "## Rules", "Be brief."})
    moved = movable_unit(text, *value, [value], common=common)
    assert isinstance(moved, Movable)
    assert text[moved.start : moved.stop] == "## Passages\n> The crane lifts ten tons.\n\n> It is 10:31 on the quay."
    moved = movable_unit(text, *value, [value], common=common | {"> The crane lifts ten tons."})
    assert isinstance(moved, Movable)
    assert text[moved.start : moved.stop] == "> It is 10:31 on the quay."


def test_sentences_that_have_a_value_are_no_rules() -> None:
    names = ("name", "town", "order", "state", "street")
    facts = "\n".join(f"{number}. The {name} of the day is <{name}>." for number, name in enumerate(names, 1))
    text = f"You help.\n\nFacts:\n{facts}"
    values = [(at := text.index(f"<{name}>"), at + len(name) + 2) for name in names]
    assert movable_unit(text, *values[0], values[:1]) == AMONG_RULES
    assert movable_unit(text, *values[0], values) == Movable(text.index("Facts:"), len(text), "introduced")


def test_a_preposition_refers_to_no_text() -> None:
    for sentence, refers in [
        ("Sow when the soil stays above ten degrees.", False),
        ("Keep the tank above 40 degrees, never watered from above.", False),
        ("Use the date above.", True),
        ("As the rules above say.", True),
        ("Take the value from above.", True),
    ]:
        assert refers_back(sentence) == refers


def test_a_value_that_ends_a_sentence_is_the_value_without_its_stop() -> None:
    text = "Teach Ida.\nAsk Ida twice.\nPraise Ida.\nThank Ida by name."
    assert is_in_many(text, 6, 10) == IN_MANY


def test_a_value_in_many_lines_is_not_moved() -> None:
    text = "\n".join(f"{number}. Tell Priya Sharma the truth." for number in range(12))
    assert is_in_many(text, 8, 20) == IN_MANY
    assert is_in_many(text[:60], 8, 20) is None


def test_a_reference_in_any_of_these_languages_is_told() -> None:
    for reference in [
        "Use the date stated above.", "Nutze das oben genannte Datum.", "Voir la date ci-dessus.",
        "Usa la fecha de arriba.", "Use a data acima.",
        "ऊपर की तारीख देखें।", "上記の日付を使う。", "위의 날짜를 쓰세요.", "使用上述日期。",
        "См. дату выше.", "استخدم التاريخ أعلاه.",
    ]:  # fmt: skip
        before = Turn("g", text=Traced(f"It is 10:31.\nOne rule that stays.\nAnother one stays.\n{reference}"))
        after = Turn("g", text=Traced(f"One rule that stays.\nAnother one stays.\n{reference}\nIt is 10:31."))
        assert dangling_references(before, after)


def test_sentences_that_say_nothing_alone() -> None:
    for sentence in ["On this day we rest.", "An diesem Tag ruhen wir.", "この日は休みです。", "That date counts."]:
        assert goes_with_previous(sentence)
        assert not goes_with_previous("It is 10:31 now.")


BLOCKS = st.lists(
    st.sampled_from(
        [
            "Be brief in all you say.", "# Rules\nBe kind to all.", "- one item here\n- other item there",
            "| a | b |\n|---|---|\n| 1 | 2 |",
            "```json\n{\n  \"a\": 1\n}\n```", '{\n  "b": [1, 2]\n}', "<doc>\nsome text here\n</doc>", "> quoted words here",
            "1. First rule here.\n2. Second rule here.", "Map:\nsrc/a.py\nsrc/b.py",
        ]
    ),
    max_size=5,
)  # fmt: skip
HELD = st.sampled_from(
    [
        "It is 10:31 now.", "## Time\n10:31", "| k | v |\n|---|---|\n| t | 10:31 |", '```json\n{\n  "t": "10:31"\n}\n```',
        "<env>\nt: 10:31\nos: linux\n</env>", "Facts:\n- t: 10:31\n- os: linux", '{\n  "t": "10:31"\n}',
        'State: {"t": "10:31"}',
    ]
)  # fmt: skip


def leaves(text: str) -> Counter[str]:
    """The smallest units of a text."""

    def below(unit: TextUnit) -> list[TextUnit]:
        return [leaf for child in unit.children for leaf in below(child)] or [unit]

    return Counter(" ".join(text[unit.start : unit.stop].split()) for unit in below(Structure(text).tree()))


@given(BLOCKS, HELD, BLOCKS)
def test_a_move_keeps_every_unit_whole(before: list[str], held: str, behind: list[str]) -> None:
    text = "\n\n".join([*before, held, *behind])
    start = text.index(NOW)
    unit = movable_unit(text, start, start + len(NOW), [(start, start + len(NOW))])
    if isinstance(unit, str):
        return
    found = parted_at(text, [unit], len(text))
    after = str.__str__(units_last(Traced(text), found, len(text)))
    assert leaves(after) == leaves(text)
    assert all(text[low:high].strip() in after for low, high in found.kept)
    assert after.endswith(text[unit.start : unit.stop].strip())


def test_a_sentence_that_speaks_of_the_one_before_goes_with_it() -> None:
    for noun in ["person", "caller", "guest", "account", "city"]:
        pair = f"The caller is 10:31. Address this {noun} with care."
        assert moves(f"You help members.\n{pair}\n\n## Rules\nBe brief.") == pair
        assert not goes_with_previous(f"Every {noun} is addressed with care.")


@pytest.mark.parametrize(
    "marks", ["1. {}\n2. {}\n3. {}\n4. {}\n5. {}\n6. {}", "１．{}\n２．{}\n３．{}\n４．{}\n５．{}\n６．{}"]
)
def test_sentences_that_are_all_of_a_numbered_rule_stay(marks: str) -> None:
    rules = ["Be brief.", "Be kind.", "It is 10:31. On this day we rest.", "Be true.", "Be calm.", "Be on time."]
    assert moves("You help.\n\n" + marks.format(*rules)) == AMONG_RULES


def test_a_numbered_rule_keeps_what_says_more() -> None:
    rules = "1. Be brief.\n2. It is 10:31. Doors stay shut.\n3. Be kind.\n4. Be true.\n5. Be calm.\n6. Be on time."
    assert moves(f"You help.\n\n{rules}") == "It is 10:31."


def test_a_line_that_says_who_the_model_is_stays() -> None:
    """Also where it is not known which of its words vary."""
    for said in [
        "You are Ada Kern, the night clerk of Hotel Miramar, and answer in the first person.",
        "Sen Ege Otel müşterilerinin asistanısın ve yalnızca bu otelden söz edersin.",
        "Jesteś asystentem hotelu Miramar i odpowiadasz gościom krótko oraz zawsze uprzejmie.",
        "Bạn là Lan, nhân viên lễ tân của khách sạn Miramar, và luôn trả lời thật ngắn.",
        "Adın Ozan ve Mavi Vadi otelinin müşteri temsilcisisin, hep kısa yanıt verirsin.",
        "Твоё имя Вера, ты отвечаешь гостям отеля Мирамар коротко и всегда вежливо.",
        "Te llamas Lola, atiendes a los clientes del hotel Miramar y respondes siempre breve.",
    ]:
        text = f"{said}\nBe brief.\nBe kind."
        assert movable_unit(text, 0, len(said), [], known=False) == IN_A_RULE


FIELDS = st.lists(
    st.sampled_from(["locale: de", "currency: EUR", "Plan = pro", "Weather: fog", "Unit: km"]), min_size=2, unique=True
)


@given(FIELDS, st.integers(0, 4))
def test_lines_of_labels_that_vary_move_together(lines: list[str], at: int) -> None:
    fields, line = "\n".join(lines), lines[at % len(lines)]
    text = f"{fields}\n\nYou help.\nBe brief."
    start = text.index(line) + len(line) - 2
    values = [(text.index(each) + len(each) - 2, text.index(each) + len(each)) for each in lines]
    common = frozenset({"You help.", "Be brief."})
    moved = movable_unit(text, start, start + 2, values, common=common)
    assert isinstance(moved, Movable)
    assert text[moved.start : moved.stop] == fields
    moved = movable_unit(text, start, start + 2, values, common=common | {lines[at % len(lines) - 1]})
    assert isinstance(moved, Movable)
    assert text[moved.start : moved.stop] == line


def test_a_text_that_counts_from_its_front_is_told() -> None:
    for reference in [
        "The first line of this prompt is the key.",
        "The gateway reads line 1.",
        "Die erste Zeile ist der Schlüssel.",
        "La première ligne est la clé.",
        "最初の行は鍵です。",
        "Первая строка служит ключом.",
    ]:
        before = Turn("g", text=Traced(f"KEY 10:31\n{reference}\nOne rule that stays.\nAnother one stays."))
        after = Turn("g", text=Traced(f"{reference}\nOne rule that stays.\nAnother one stays.\nKEY 10:31"))
        assert dangling_references(before, after)


def test_the_front_of_an_answer_is_another_one() -> None:
    rule = "The first line of your reply is the price."
    before = Turn("g", text=Traced(f"KEY 10:31\n{rule}\nOne rule that stays."))
    assert not dangling_references(before, Turn("g", text=Traced(f"{rule}\nOne rule that stays.\nKEY 10:31")))


def test_a_bare_heading_beside_others_goes_with_the_row_below_it() -> None:
    for gap in ["\n", "\n\n"]:
        for below in ["Now: 10:31", "- Now: 10:31", "| Now | 10:31 |"]:
            rules = "Be brief in all that you say. Never shout at them."
            parts = [f"{name}{gap}{rules}" for name in ("Style", "Wording", "Refunds")]
            assert (
                moves("\n\n".join(["You help.", *parts[:1], f"Today{gap}{below}", *parts[1:]])) == f"Today{gap}{below}"
            )
