"""What trials of two prompts move: whole units, as advice does, and nothing that goes with what stays."""

from __future__ import annotations

from kvtool.diff.diff_texts import DiffTexts
from kvtool.diff.moved_units import moved_last, moved_units
from kvtool.text.traced import Traced

RULES = "\n".join(f"{number}. Answer rule {number} in a full sentence." for number in range(1, 9))
UNITS = {
    "## Time\n\nIt is {}.": "## Time\n\nIt is {}.",
    "Map:\n- src/a.py {}\n- src/b.py\n- src/c.py": "Map:\n- src/a.py {}\n- src/b.py\n- src/c.py",
    "| port | depth |\n|---|---|\n| north | {} |\n| south | 12 |": "| port | depth |\n|---|---|\n| north | {} |\n| south | 12 |",
    '```json\n{{\n  "asked_at": "{}",\n  "port": 3\n}}\n```': '```json\n{{\n  "asked_at": "{}",\n  "port": 3\n}}\n```',
    "<state>\nsea: {}\nwind: 3\n</state>": "<state>\nsea: {}\nwind: 3\n</state>",
    "You keep a light. The hour is {}. Be brief.": "The hour is {}.",
}


def both(form: str) -> tuple[str, str]:
    texts = [
        f"# Light keeper\n\n{form.format(value)}\n\n## Rules\n\n{RULES}\n\nTell the tide.\n"
        for value in ("10:15", "10:47")
    ]
    return texts[0], texts[1]


def test_what_moves_is_whole() -> None:
    for form in UNITS:
        for text, value in zip(both(form), ("10:15", "10:47"), strict=True):
            moves = moved_units(DiffTexts(*map(Traced, both(form))))
            side = 0 if value == "10:15" else 1
            after = moved_last(text, [unit for pair in moves.every for unit in pair[side]])
            unit = UNITS[form].format(value)
            assert after.endswith((f"Tell the tide.\n\n{unit}\n", f"Tell the tide.\n{unit}\n")), after
            assert after.count(unit) == 1
            assert sorted(after.split()) == sorted(text.split())


def test_both_prompts_share_all_but_what_moves() -> None:
    for form in UNITS:
        a, b = both(form)
        moves = moved_units(DiffTexts(Traced(a), Traced(b)))
        after = [
            moved_last(text, [unit for pair in moves.every for unit in pair[side]]) for side, text in enumerate((a, b))
        ]
        heads = [text[: text.index("Tell the tide.")] for text in after]
        assert heads[0] == heads[1]


def test_a_rule_among_rules_stays() -> None:
    a, b = both("Be brief.")
    assert moved_units(DiffTexts(Traced(a), Traced(b.replace("4. Answer", "4. Never answer")))).every == []


def test_a_line_of_one_prompt_only_moves_out_of_that() -> None:
    a, b = both("Be brief.")
    b = b.replace("## Rules", "The desk of today is number 12.\n\n## Rules")
    (pair,) = moved_units(DiffTexts(Traced(a), Traced(b))).every
    assert pair.a == ()
    assert [b[one.start : one.stop] for one in pair.b] == ["The desk of today is number 12."]
    assert moved_last(b, pair.b).startswith(a.rstrip("\n"))


def test_a_unit_with_two_differences_moves_once() -> None:
    a, b = both("Map:\n- src/a.py {0}\n- src/b.py\n- src/c.py {0}")
    assert len(moved_units(DiffTexts(Traced(a), Traced(b))).every) == 1


def test_a_difference_that_goes_on_over_a_line_end_moves_once() -> None:
    a, b = (
        text.replace("moment", lines) for text, lines in zip(both("moment"), ("Now 19:15\n9", "Now 6\n5"), strict=True)
    )
    (pair,) = moved_units(DiffTexts(Traced(a), Traced(b))).every
    assert [text[one.start : one.stop] for text, (one,) in zip((a, b), pair, strict=True)] == [
        "Now 19:15\n9",
        "Now 6\n5",
    ]


def test_the_first_of_two_units_is_that_of_the_first_difference() -> None:
    a, b = both("Hour: {0}\n\nYou keep a light.\n\nTide of {0}")
    moves = moved_units(DiffTexts(Traced(a), Traced(b)))
    assert len(moves.every) == 2
    assert moves.first == moves.every[:1]
