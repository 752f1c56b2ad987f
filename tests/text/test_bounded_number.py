from __future__ import annotations

import json
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from kvtool.text.bounded_number import exact_float, exact_number, finite_number, whole_number

ANY = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers().map(lambda number: number**40),
    st.floats(),
    st.text(st.characters(categories=["Nd", "No"], include_characters="+-._eE "), max_size=12),
    st.from_regex(r"-?[0-9]{1,4}(\.[0-9]{1,3})?(e-?[0-9]{1,25})?", fullmatch=True),
    st.sampled_from(["9" * 5000, "1e99999999999999999999", "-0", "٣", "²", "1_0", "0x10", "nan", "inf", "-Infinity"]),
    st.lists(st.integers(), max_size=1),
    st.decimals(),
)


@given(ANY, st.integers(-5, 5), st.integers(6, 10**9), st.booleans())
def test_a_number_is_finite_and_within_its_bounds(value: object, least: int, most: int, in_text: bool) -> None:
    whole = whole_number(value, least=least, most=most, in_text=in_text)
    assert whole is None or (type(whole) is int and least <= whole <= most)
    number = finite_number(value, least=least, most=most, in_text=in_text)
    assert number is None or (type(number) is float and least <= number <= most and repr(number) != "-0.0")
    amount = exact_number(value, most=Decimal(most), in_text=in_text)
    assert amount is None or (amount.is_finite() and 0 <= amount <= most and str(amount + 0))
    if isinstance(value, bool) or (isinstance(value, str) and not (in_text and value.isascii())):
        assert whole is number is amount is None


def test_what_is_read() -> None:
    for value, whole, number, amount in [
        (12, 12, 12.0, "12"),
        (12.0, 12, 12.0, "12.0"),
        (1.5, None, 1.5, "1.5"),
        (-0.0, 0, 0.0, "0"),
        (-3, None, -3.0, None),
        ("12", 12, 12.0, "12"),
        (" 1.25e2 ", 125, 125.0, "125"),
        (".5", None, 0.5, "0.5"),
        (0.1, None, 0.1, "0.1"),
        ("1e-30", None, 1e-30, None),
        (10**400, None, None, None),
        ("1e9999", None, None, None),
    ]:
        assert whole_number(value, in_text=True) == whole
        assert finite_number(value, in_text=True) == number
        found = exact_number(value, in_text=True)
        assert (None if found is None else str(found)) == amount


def test_json_is_read_exactly_whatever_its_exponents_are() -> None:
    read = json.loads("[2.50, 1e99999999999999999999, 1e-99999999999999999999, 1e300]", parse_float=exact_float)
    assert [exact_number(each) for each in read] == [Decimal("2.50"), None, None, None]
