"""The options of prices."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, ClassVar

from kvtool.config.option import Option, Panel
from kvtool.errors import KvtoolError

_AMOUNT = re.compile(r"\$?\d{1,12}(?:\.\d{1,12})?")
_SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)\s?%")


def _share(flag: str, value: str) -> None:
    share_of(value, flag)


def _amount(flag: str, value: str) -> None:
    amount_of(value, flag)


@dataclass(frozen=True, kw_only=True)
class Pricing:
    """Prices of tokens and accelerators."""

    PANEL: ClassVar = Panel.ADVANCED
    prices: Annotated[
        str | None, Option("Price list to use before kvtool's: its own format, genai-prices or LiteLLM JSON.", "FILE")
    ] = None
    discount: Annotated[str | None, Option("Discount on every token price: 12%.", "SHARE", check=_share)] = None
    gpu_hour: Annotated[
        str | None, Option("Price of an accelerator hour; it prices the prefill that reuse saves.", "$", check=_amount)
    ] = None


def share_of(text: str | None, flag: str = "--discount") -> Decimal:
    """Return a share as `12%`; nothing where none is said. KvtoolError for what is none."""
    if text is None:
        return Decimal(0)
    found = _SHARE.fullmatch(text.strip())
    share = None if found is None else Decimal(found[1]) / 100
    if share is None or share > 1:
        raise KvtoolError(f"{flag} is a share of the price, not `{text[:40]}`", hint="write it like 12%")
    return share


def amount_of(text: str | None, flag: str = "--gpu-hour") -> Decimal | None:
    """Return an amount in dollars; KvtoolError for what is none."""
    if text is None:
        return None
    if _AMOUNT.fullmatch(text.strip()) is None:
        raise KvtoolError(f"{flag} is an amount in dollars, not `{text[:40]}`", hint="write it like 2.50")
    return Decimal(text.strip().lstrip("$"))
