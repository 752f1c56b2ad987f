"""Shares and amounts as they are written on a command line."""

from __future__ import annotations

from decimal import Decimal

import pytest

from kvtool.config.options.pricing_options import amount_of, share_of
from kvtool.errors import KvtoolError


def test_a_share_of_the_price() -> None:
    for text, share in [(None, "0"), ("0%", "0"), ("12%", "0.12"), (" 2.5 % ", "0.025"), ("100%", "1")]:
        assert share_of(text) == Decimal(share)


def test_what_is_no_share_of_the_price() -> None:
    for text in ["100.1%", "12", "0.12", "-1%", "1e1%", "%", ""]:
        with pytest.raises(KvtoolError, match="--discount is a share of the price"):
            share_of(text)


def test_an_amount_in_dollars() -> None:
    for text, amount in [(None, None), ("0", "0"), ("$2.50", "2.5"), (" 3 ", "3")]:
        assert amount_of(text) == (None if amount is None else Decimal(amount))


def test_what_is_no_amount_in_dollars() -> None:
    for text in ["-1", "1e3", "2,50", "$", "1.", ""]:
        with pytest.raises(KvtoolError, match="--gpu-hour is an amount in dollars"):
            amount_of(text)
