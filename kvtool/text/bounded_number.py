"""Numbers of documents from outside, read within bounds: None for what is no number, is not finite, or is out of bounds.

A JSON value may be an integer of thousands of digits, NaN or infinite; a text may have an exponent of twenty digits, or digits of
another script. `int`, `float` and `Decimal` raise different errors for these, or take seconds. So no other module gives them a
value from outside. `in_text` also reads a text that is a number, in ASCII digits.
"""

from __future__ import annotations

import re
from decimal import Decimal

LARGEST = 1 << 53
"""Up to here a float holds every whole number."""
LARGEST_AMOUNT, LEAST_AMOUNT = Decimal(10) ** 12, Decimal(10) ** -24
"""Of money: sums of larger or smaller ones could not be shown to the cent."""
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,4})?")
_LONGEST = 400
_LONGEST_SHOWN = 40


def whole_number(value: object, *, least: int = 0, most: int = LARGEST, in_text: bool = False) -> int | None:
    """A whole number from `least` to `most`; 12.0 is 12."""
    number = _number(value, in_text)
    if number is None or not least <= number <= most:  # NaN compares as false
        return None
    whole = int(number)
    return whole if whole == number else None


def finite_number(
    value: object, *, least: float = -LARGEST, most: float = LARGEST, in_text: bool = False
) -> float | None:
    """A number from `least` to `most`; never -0.0."""
    number = _number(value, in_text)
    return None if number is None or not least <= number <= most else float(number) + 0.0


def exact_number(value: object, *, most: Decimal = LARGEST_AMOUNT, in_text: bool = False) -> Decimal | None:
    """An amount of money from 0 to `most`, exact to its last digit; one between 0 and LEAST_AMOUNT is none."""
    number = _number(value, in_text)
    if number is None or not 0 <= number <= most:
        return None
    exact = number if isinstance(number, Decimal) else Decimal(str(number))
    return exact if exact >= LEAST_AMOUNT else None if exact else Decimal(0)


def exact_float(text: str) -> Decimal | float:
    """For `json.loads(parse_float=…)`: the number exactly as it is written; NaN where its exponent or its length is absurd."""
    return number if (number := _in_text(text)) is not None else float("nan")


def shown_number(value: object) -> str:
    """A value for an error message, cut where it is long."""
    text = str(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _number(value: object, in_text: bool) -> int | float | Decimal | None:
    if isinstance(value, str):
        return _in_text(value) if in_text else None
    if isinstance(value, bool) or (isinstance(value, Decimal) and value.is_nan()):  # which refuses to be compared
        return None
    return value if isinstance(value, int | float | Decimal) else None


def _in_text(text: str) -> Decimal | None:
    plain = text.strip()
    return Decimal(plain) if len(plain) <= _LONGEST and _NUMBER.fullmatch(plain) else None
