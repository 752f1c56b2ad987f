# ruff: noqa: RUF001 - signs of other scripts are meant
"""Headings by what stands beside them: above lists and labels, in a row of numbers, at the top; and sentences that point below."""

from __future__ import annotations

import pytest

from kvtool.text.structure.structure import structure_of

HEADED = {
    "numbered in Chinese": (
        (
            "你是审核员。\n\n一、任务\n阅读用户提交的文本，给出结论和理由。\n\n二、示例\n内容：稳赚不赔\n结论：删除\n\n"
            "内容：戒烟\n结论：通过\n\n三、规则\n辱骂一律删除，玩笑可以通过。\n"
        ),
        "稳赚",
        "二、示例",
        "通过",
    ),
    "a few words above a list": (
        (
            "You help guests of a shop.\n\nLatest orders\n- #6548 lamp 119\n- #1286 bulb 12\n\nDuties\n"
            "Answer each question about orders.\n\nLimits\nNever promise a refund to anybody.\n"
        ),
        "#6548",
        "Latest orders",
        "bulb 12",
    ),
    "a few words above labels": (
        (
            "You help students.\n\nCurrent page\nPath: home > lessons\nTitle: loops\n\nDuties\nAnswer each question.\n\n"
            "Limits\nNever write the answer of a test.\n"
        ),
        "home",
        "Current page",
        "loops",
    ),
    "Thai": (
        (
            "คุณคือผู้ช่วยของร้าน\n\nคำสั่งซื้อล่าสุด\n- #6548 ชาไข่มุก\n- #1286 ก๋วยเตี๋ยว\n\nข้อห้าม\nห้ามให้เบอร์โทรของร้านค้า ห้ามขอรหัสผ่าน "
            "ห้ามสัญญาว่าจะคืนเงิน\n\nรูปแบบ\nตอบไม่เกินสี่ประโยค อ้างหมายเลขคำสั่งซื้อเมื่อพูดถึงคำสั่งซื้อใด\n"
        ),
        "#6548",
        "คำสั่งซื้อล่าสุด",
        "ก๋วยเตี๋ยว",
    ),
}


@pytest.mark.parametrize(("text", "value", "first", "last"), HEADED.values(), ids=HEADED)
def test_a_heading_above_what_says_nothing_is_one_beside_others(text: str, value: str, first: str, last: str) -> None:
    at = text.index(value)
    sections = [unit for unit in structure_of(text).path(at, at + 1) if unit.kind == "section"]
    assert [text[unit.start : unit.stop].strip() for unit in sections] == [
        text[text.index(first) : text.index(last) + len(last)]
    ]


@pytest.mark.parametrize(
    "sentence",
    [
        "The following table is that of the reader.",
        "La taula següent és del lector amb qui parles.",
        "Die nachstehende Tabelle gehört dem Leser.",
        "W poniższej tabeli są jego książki.",
        "В следующей таблице его книги.",
        "以下の表は読者のものです。",
        "الجدول التالي يخص القارئ.",
    ],
)
def test_a_sentence_that_points_below_goes_with_its_table(sentence: str) -> None:
    text = f"1. WHO\nYou help readers.\n\n2. LOANS\n{sentence}\n\n| a | b |\n|---|---|\n| x | 1 |\n\n3. RULES\nBe kind to them.\n"
    at = text.index("| x")
    kinds = [unit.kind for unit in structure_of(text).path(at, at + 3)]
    assert "introduced" in kinds
    plain = text.replace(sentence, "They have a card.")
    at = plain.index("| x")
    assert "introduced" not in [unit.kind for unit in structure_of(plain).path(at, at + 3)]


def test_a_title_in_capitals_heads_no_section_of_its_own() -> None:
    """The others bear numbers: it is the name of the whole prompt, and stays when the line below it moves."""
    text = "LAW OFFICE ASSISTANT\nIt is 8:46 on Tuesday.\n\nI. ROLE\nYou help lawyers.\n\nII. SOURCES\nName the law.\n"
    at = text.index("8:46")
    assert "section" not in [unit.kind for unit in structure_of(text).path(at, at + 4)]
    alike = text.replace("I. ROLE", "ROLE").replace("II. ", "").replace("I. ", "")
    at = alike.index("8:46")
    assert "section" in [unit.kind for unit in structure_of(alike).path(at, at + 4)]
