"""Numbers as people read them: a part is never shown as the whole or as nothing, and shares add up."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from kvtool.text.quantities import parse_digits
from kvtool.text.terminal.numbers import percent, shares

wholes = st.integers(1, 10**9)


@example(99_999, 100_000)
@example(9_995, 10_000)
@example(10**9 - 1, 10**9)
@example(1, 10**9)
@given(wholes, wholes)
def test_only_a_whole_is_100_percent_and_only_nothing_is_0(part: int, whole: int) -> None:
    part %= whole + 1
    shown = percent(part / whole)
    assert (shown == "100.0%") == (part == whole)
    assert (shown == "0.0%") == (part == 0)
    if shown != "<0.1%":
        assert abs(float(shown.removesuffix("%")) - 100 * part / whole) <= (0.05 if shown != "99.9%" else 0.1) + 1e-9
    else:
        assert 0 < part / whole < 0.001


def test_the_ends_of_the_scale() -> None:
    assert [percent(ratio) for ratio in (0, 1e-9, 0.0005001, 0.001, 0.9985, 0.99951, 1 - 1e-9, 1, 1.5)] == [
        "0.0%", "<0.1%", "0.1%", "0.1%", "99.9%", "99.9%", "99.9%", "100.0%", "150.0%",
    ]  # fmt: skip


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=12))
def test_shares_add_up_to_exactly_100(parts: list[int]) -> None:
    shown = shares(parts)
    tenths = [round(10 * float(text.removesuffix("%"))) for text in shown]
    total = sum(parts)
    assert sum(tenths) == ((1000 if len(parts) > 1 or parts[0] else 0) if total else 0)
    for tenth, part in zip(tenths, parts, strict=True):
        assert total == 0 or abs(tenth - 1000 * part / total) <= 2


@given(st.integers(0, 9**9), st.integers(0, 9**9), st.integers(0, 9**9), st.integers(0, 5_000))
def test_a_whole_number_is_read_within_its_bounds(number: int, least: int, most: int, zeros: int) -> None:
    text = "0" * zeros + str(number)
    assert parse_digits(text, number, number) == number
    assert parse_digits(text, least, most) == (number if least <= number <= most else None)


def test_what_is_no_whole_number() -> None:
    for text in ["", "-1", "+1", "1.0", "1_0", " 1", "1\n", "\u0663", "\u00b2", "x", "9" * 5_000]:
        assert parse_digits(text, 0, 10**30) is None
