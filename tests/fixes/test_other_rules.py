"""Rules that some requests have are told from a value in a rule that all have."""

from __future__ import annotations

from kvtool.fixes.moves.movable_unit import are_other_rules


def test_what_differs_in_a_list_of_rules() -> None:
    for values, rules in [
        (["Offer a break after each task.", "Never name a school or a town."], True),
        (["6. On Wednesdays students pay a fifth less.\n7.", ""], True),
        (
            ["eight of the clock, so offer what the kitchen has left.", "noon, so offer what the kitchen has left."],
            False,
        ),
        (
            [
                "午前〇時十八分なので、当日の夕食はまでの申し込みに限ると伝える。",
                "なので、当日の夕食は午後二時までの申し込みに限ると伝える。",
            ],
            False,
        ),
        (["eight", "noon"], False),
        ([], False),
    ]:
        assert are_other_rules(values) is are_other_rules(values[::-1]) is rules
