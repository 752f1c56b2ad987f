"""Shares and amounts as they are written on a command line."""

from __future__ import annotations

from decimal import Decimal

import pytest

from kvtool.config.options.pricing_options import amount_of, share_of
from kvtool.errors import KvtoolError


@pytest.mark.parametrize(
    ("text", "share"), [(None, "0"), ("0%", "0"), ("12%", "0.12"), (" 2.5 % ", "0.025"), ("100%", "1")]
)
def test_a_share_of_the_price(text: str | None, share: str) -> None:
    assert share_of(text) == Decimal(share)


@pytest.mark.parametrize("text", ["100.1%", "12", "0.12", "-1%", "1e1%", "%", ""])
def test_what_is_no_share_of_the_price(text: str) -> None:
    with pytest.raises(KvtoolError, match="--discount is a share of the price"):
        share_of(text)


@pytest.mark.parametrize(("text", "amount"), [(None, None), ("0", "0"), ("$2.50", "2.5"), (" 3 ", "3")])
def test_an_amount_in_dollars(text: str | None, amount: str | None) -> None:
    assert amount_of(text) == (None if amount is None else Decimal(amount))


@pytest.mark.parametrize("text", ["-1", "1e3", "2,50", "$", "1.", ""])
def test_what_is_no_amount_in_dollars(text: str) -> None:
    with pytest.raises(KvtoolError, match="--gpu-hour is an amount in dollars"):
        amount_of(text)
