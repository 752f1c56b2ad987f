"""The cost of keeping explicit caches: their tokens for the hours in the log; missing data is not guessed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal

from kvtool.accounting.log_clock import moment_of
from kvtool.accounting.prices.bill import Bill, storage_cost
from kvtool.accounting.prices.price_row import MILLION
from kvtool.accounting.prices.price_table import PriceTable
from kvtool.text.terminal.numbers import plural
from kvtool.workload.call import Call, StoredContent

_MOST = 100_000
"""The most caches with separate entries, a bound on memory."""


class StorageBook:
    """Collect requests' and records' data on each cache, by its name."""

    def __init__(self) -> None:
        self._caches: dict[str, StoredContent] = {}
        self._callers: dict[str, tuple[str | None, str | None, datetime | None]] = {}
        """Model and provider of the first request that names a cache, and when that came."""

    def use(self, call: Call, moment: datetime | None) -> None:
        """Add a request, which names a cache or none."""
        name = call.settings.cached_content
        if name is None and not call.stored:
            return
        for each in call.stored:
            self.add(each)
        if name is not None:
            read = None if call.usage is None else call.usage.cached
            self.add(StoredContent(name, tokens=read or None))
            self._callers.setdefault(name, (call.model, call.provider, moment))

    def add(self, stored: StoredContent) -> None:
        """Add one record of a cache; its end may change, so the latest one counts."""
        before = self._caches.get(stored.name)
        if before is None:
            if len(self._caches) < _MOST:
                self._caches[stored.name] = stored
            return
        self._caches[stored.name] = StoredContent(
            stored.name,
            tokens=max((one for one in (before.tokens, stored.tokens) if one is not None), default=None),
            created=before.created if stored.created is None else stored.created,
            expires=max((one for one in (before.expires, stored.expires) if one is not None), default=None),
            ttl=before.ttl if stored.ttl is None else stored.ttl,
            model=before.model or stored.model,
            made=before.made or stored.made,
        )

    def bill(self, prices: PriceTable) -> tuple[Bill, list[str]]:
        """Return the cost of keeping caches, and of creating those created in the log; also the caches without a price, and why."""
        whole, lacks = Bill(), Counter[str]()
        for stored in self._caches.values():
            model, provider, moment = self._callers.get(stored.name, (None, None, None))
            if stored.created is not None:
                moment = moment_of(stored.created, 0.0) or moment
            row = prices.row(model or stored.model or "", provider, None if moment is None else moment.date())
            rates = None if row is None else prices.rates(row, stored.tokens or 0, moment)
            kept = stored.seconds
            if stored.tokens is None:
                lacks["the log lacks their number of tokens (usageMetadata.totalTokenCount)"] += 1
            elif kept is None:
                lacks["the log lacks their times (createTime and expireTime, or ttl)"] += 1
            elif rates is None or rates.storage_hour is None:
                lacks[f"no storage price is known for {model or stored.model or 'their model'}"] += 1
            else:
                whole.add(Bill(storage=storage_cost(stored.tokens, kept, rates)))
            if stored.made and stored.tokens is not None and rates is not None:
                whole.add(Bill(input=Decimal(stored.tokens) * rates.input / MILLION))
        told = [
            f"storage of {plural(count, 'explicit cache')} is not in the sums: {why}" for why, count in lacks.items()
        ]
        return whole, told

    def add_all(self, caches: Iterable[StoredContent]) -> None:
        """Add records of caches that are no requests."""
        for stored in caches:
            self.add(stored)
