"""Costs of requests, and reported hit rates beside predicted ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import ROUND_HALF_UP, Decimal

from kvtool.accounting.prices.bill import shown_money
from kvtool.report.answer import fixed_rate
from kvtool.report.views.section import Section, Table, TableColumn
from kvtool.results.money import LOST, MORE_PREDICTED, MORE_REPORTED, MarkPosition, Money, marks_in_words
from kvtool.results.report import Report
from kvtool.text.terminal.numbers import percent, plural

_MOST_GROUPS = 10
_MOST_NAMED = 3
_TEXTS = ("decided by", "time to live", "model", "group")
"""Columns that hold no numbers."""


def view(report: Report) -> Section:
    """Return what was reported, predicted and paid, why less was read, and what each group and prefix costs."""
    money = report.money
    made: tuple[Table | None, ...]
    if money is None:
        made = (_less(report, None, ""), _more(report), _groups_read(report))
        title, notes = "Reported and predicted", [*_basis(report), *_ratios(report)]
    else:
        less = _less(report, money, money.currency)
        made = (less, _more(report), _groups(report, money), _marks(money))
        title, notes = "Costs", [*_basis(report), *_crowded(report), *money.notices, *_ratios(report)]
    tables = (_lines_table(report), *(table for table in made if table is not None))
    return Section("money", title, tables=tables, notes=tuple(notes))


def _lines_table(report: Report) -> Table:
    """Return rates and amounts of the whole log: reported, predicted, with fixes, without a cache."""
    rows = [*_rates(report), *(() if report.money is None else _amounts(report, report.money))]
    heads = ("Requests", "Hit rate", "Cost", "Saved")
    kept = [place for place in range(len(heads)) if place < 2 or any(row[place] for row in rows)]
    columns = (TableColumn(heads[place], "number" if place else "text") for place in kept)
    return Table("Reported and predicted", tuple(columns), [tuple(row[place] for place in kept) for row in rows])


def shown_amount(text: str | None, currency: str) -> str:
    """Return an amount of a document for people; nothing for none."""
    return "" if text is None else shown_money(Decimal(text), currency)


def _rates(report: Report) -> Iterator[tuple[str, str, str, str]]:
    """Yield the reported and the predicted hit rate with their costs."""
    hosted, money = report.hosted, report.money
    who, how = ("provider", "the provider's rules") if hosted else ("server", "kvtool")
    told, predicted = report.reported, report.predicted
    if not hosted:
        money = None  # the bill is that of other requests
    if told is not None:
        amount = "" if money is None else shown_amount(money.paid, money.currency)
        of = "" if report.misses is None or report.misses.requests == told.requests else _of(told.requests)
        yield f"Reported by the {who}{of}", percent(told.hit_rate), amount, ""
    if predicted is not None:
        amount = "" if money is None else shown_amount(money.predicted, money.currency)
        of = "" if told is None or told.requests == predicted.requests else _of(predicted.requests)
        if told is not None and told.requests > predicted.requests and predicted.reported_tokens is not None:
            same = predicted.reported_tokens / predicted.prompt_tokens if predicted.prompt_tokens else 0.0
            yield f"Reported for the same {plural(predicted.requests, 'request')}", percent(same), "", ""
        yield f"Predicted by {how}{of}", percent(predicted.hit_rate), amount, ""


def _of(requests: int) -> str:
    return f", {plural(requests, 'request')}"


def _amounts(report: Report, money: Money) -> Iterator[tuple[str, str, str, str]]:
    """Yield the cost and the saving of fixes, the cost without a cache, and the saving on own accelerators."""
    fixed = fixed_rate(report)
    best = "" if fixed is None else percent(fixed)
    if money.with_fixes is not None and (best or Decimal(money.with_fixes) < Decimal(money.predicted or 0)):
        saved = _saving(money)
        shown = shown_money(saved, money.currency) if saved > 0 else ""
        estimated = any(finding.estimate for finding in report.findings)
        label = "With fixes (estimate)" if estimated else "With fixes"
        yield label, best, shown_amount(money.with_fixes, money.currency), shown
    if money.with_marks is not None:
        shown = shown_money(Decimal(money.predicted or 0) - Decimal(money.with_marks), money.currency)
        yield "With fixes and the cheapest breakpoints", "", shown_amount(money.with_marks, money.currency), shown
    if not report.hosted and money.paid is not None:
        requests = plural(money.priced_requests, "request")
        yield f"Paid to providers for {requests}", "", shown_amount(money.paid, money.currency), ""
        yield "The same without a cache", "", shown_amount(money.without_cache, money.currency), ""
    elif money.without_cache is not None:
        yield "Without a cache", percent(0.0), shown_amount(money.without_cache, money.currency), ""
    if money.gpu is not None:
        yield "Own GPUs", percent(report.totals.hit_rate), "", shown_amount(money.gpu.saved, money.currency)


def _basis(report: Report) -> Iterator[str]:
    """Say what the figures of the table are made of."""
    money, reported = report.money, report.reported
    if reported is not None and reported.requests < report.totals.requests:
        yield f"Reported: {reported.requests:,} of {plural(report.totals.requests, 'request')}."
    if reported is not None and report.predicted is not None and not report.difference and not report.hosted:
        yield "Reported and predicted tokens are equal for every request."
    if money is None:
        return
    if (paid := money.paid_parts) is not None:
        named = {"input": paid.input, "written": paid.written, "read": paid.read, "output": paid.output}
        named["storage"] = paid.storage
        parts = [f"{name} {shown_amount(amount, money.currency)}" for name, amount in named.items() if Decimal(amount)]
        if parts:
            yield f"Paid: {', '.join(parts)}."
    if money.with_fixes is not None and (saved := _saving(money)) > 0:
        done = [*money.settings, marks_in_words(money.marks) if money.with_marks is None else ""]
        yield f"With fixes: {'; '.join(filter(None, (*done, _per_month(saved, money))))}."
    if money.with_marks is not None:
        yield f"Cheapest cache breakpoints: {marks_in_words(money.marks)}."
    if money.gpu is not None:
        yield f"Own GPUs: {money.gpu.saved_seconds:,.1f} s of prefill saved (predicted) at ${money.gpu.hour} per hour."


def _saving(money: Money) -> Decimal:
    """Return what the fixes save by the rules: a miss of the provider, which was paid too, is mended by none."""
    return Decimal(money.predicted or 0) - Decimal(money.with_fixes or 0)


def _per_month(saved: Decimal, money: Money) -> str:
    """Return the saving of a month where the log is long enough, else of 1,000 requests."""
    if money.month is not None and money.days is not None:
        month = Decimal(money.month)
        rounded = f"${month.quantize(Decimal(1), ROUND_HALF_UP):,f}"
        amount = shown_money(month, money.currency) if abs(month) < 1000 else rounded
        return f"saves {amount} per month at this traffic ({money.days:,.2f} days)"
    each = saved * 1000 / money.priced_requests if money.priced_requests else Decimal(0)
    return f"saves {shown_money(each, money.currency)} per 1,000 requests"


def _less(report: Report, money: Money | None, currency: str) -> Table | None:
    """Return why less was read than could be, the costliest cause first; without prices the largest."""
    predicted = report.predicted
    if predicted is None:
        return None
    total = max(predicted.prompt_tokens, 1)
    misses = () if report.misses is None else report.misses.by_cause
    by_rules = {} if money is None or misses else money.by_cause  # else the table of misses has the causes and costs
    costs = {} if money is None else {cause: of.cost for cause, of in money.by_difference.items()}
    told = [(cause, of.tokens, of.cost, False) for cause, of in by_rules.items()]
    told += [
        (cause, tokens, costs.get(cause, ""), True)
        for cause, tokens in (report.difference or {}).items()
        if cause not in MORE_REPORTED
    ]
    told = [
        one for one in told if one[0] != "below_minimum" or not report.below_minimum
    ]  # else it is said of every token
    hosted = report.hosted
    names = MORE_PREDICTED | ({"not_explained": "missed (causes below)"} if {*misses} - {"provider", "unknown"} else {})
    rows = [
        (
            (names if differs else LOST).get(cause, cause),
            f"{tokens:,}",
            percent(min(tokens / total, 1.0)),
            shown_amount(cost or None, currency),
            ("provider" if differs else "rules") if hosted else "",
        )
        for cause, tokens, cost, differs in sorted(told, key=lambda one: (-Decimal(one[2] or 0), -one[1], one[0]))
    ]
    lost = any(not differs for *_, differs in told)
    title = "Not read from the cache" if hosted and (lost or not misses) else "Fewer cached tokens than predicted"
    return _figures(title, (title, "tokens", "share", "cost", "decided by"), rows)


def _more(report: Report) -> Table | None:
    """Return why more was read than the rules predict."""
    if report.predicted is None:
        return None
    total = max(report.predicted.prompt_tokens, 1)
    rows = [
        (MORE_REPORTED[cause], f"{tokens:,}", percent(min(tokens / total, 1.0)))
        for cause, tokens in (report.difference or {}).items()
        if cause in MORE_REPORTED
    ]
    title = "More cached tokens than predicted"
    return _figures(title, (title, "tokens", "share"), rows)


def _figures(title: str, heads: Sequence[str], rows: Sequence[tuple[str, ...]]) -> Table | None:
    """Return a table of figures without empty columns; None where there is no row."""
    if not rows:
        return None
    kept = [place for place in range(len(heads)) if not place or any(row[place] for row in rows)]
    heads, rows = [heads[place] for place in kept], [tuple(row[place] for place in kept) for row in rows]
    keep = {"decided by": 0, "no cache": 0, "share": 1, "requests": 2}
    columns = (
        TableColumn(head, "number" if place and head not in _TEXTS else "text", keep=keep.get(head))
        for place, head in enumerate(heads)
    )
    return Table(title, tuple(columns), rows)


def _groups(report: Report, money: Money) -> Table | None:
    """Return the cost of each group, where there are several; what rules predict only where they predict anything."""
    priced = {name: group for name, group in money.by_group.items() if group.requests}
    if len(priced) < 2:
        return None
    rows = []
    ordered = sorted(priced.items(), key=lambda item: (-Decimal(item[1].paid or item[1].predicted), item[0]))
    for name, group in ordered[:_MOST_GROUPS]:
        reported, predicted = (
            "" if rate is None else percent(rate) for rate in (group.reported_hit_rate, group.predicted_hit_rate)
        )
        amounts = (group.paid, group.predicted, group.without_cache)
        shown = tuple(shown_amount(amount, money.currency) for amount in amounts)
        rows.append((name, f"{group.requests:,}", reported, predicted, *shown))
    if len(ordered) > _MOST_GROUPS:
        rows.append((f"({len(ordered) - _MOST_GROUPS:,} more)", *[""] * 6))
    columns = ("Group", "requests", "reported", "predicted", "paid", "expected", "no cache")
    kept = [
        at for at, head in enumerate(columns) if report.predicted is not None or head not in ("predicted", "expected")
    ]
    return _figures("Cost by group", tuple(columns[at] for at in kept), [tuple(row[at] for at in kept) for row in rows])


def _marks(money: Money) -> Table | None:
    """Return the places of the cheapest breakpoints, by model and groups where there are several."""
    rows = [
        (
            mark.place,
            mark.ttl,
            f"{mark.tokens:,}" if mark.tokens else "",
            f"{advice.requests:,}",
            advice.model if len({each.model for each in money.marks}) > 1 else "",
            ", ".join(advice.groups[:_MOST_NAMED]) if len(money.marks) > 1 else "",
        )
        for advice in money.marks
        for mark in advice.marks or [MarkPosition(place="no breakpoint", ttl="", tokens=0)]
    ]
    columns = ("Cheapest cache breakpoints", "time to live", "tokens", "requests", "model", "group")
    return _figures("Cheapest cache breakpoints", columns, rows)


def _groups_read(report: Report) -> Table | None:
    """Return what was reported of each group, where there are several."""
    told = [group for group in report.groups if group.provider is not None]
    if len(told) < 2:
        return None
    rows = []
    for group in told[:_MOST_GROUPS]:
        read = group.provider
        if read is None:
            continue
        total = max(read.prompt_tokens, 1)
        rates = (min(tokens / total, 1.0) for tokens in (read.reported_tokens, read.predicted_tokens))
        apart = sum(read.difference.values())
        rows.append((group.name, f"{read.requests:,}", *(percent(rate) for rate in rates), f"{apart:,}"))
    if len(told) > _MOST_GROUPS:
        rows.append((f"({len(told) - _MOST_GROUPS:,} more)", *[""] * 4))
    columns = ("Group", "requests", "reported", "predicted", "difference")
    return _figures("Cached tokens by group", columns, rows)


def _crowded(report: Report) -> list[str]:
    """Say what to do about more requests of one prefix than a provider sends to one server."""
    if report.predicted is None or "over_15_a_minute" not in (report.difference or {}):
        return []
    most = report.predicted.most_a_minute
    return [f"One prefix and key had {most:,} requests in a minute. Use several values of prompt_cache_key."]


def _ratios(report: Report) -> list[str]:
    """Say how many tokens the server counts for each of ours."""
    told = []
    ratios = {} if report.predicted is None else report.predicted.tokens_per_own
    if ratios:
        shown = ", ".join(f"{ratio:.3f} for {model}" for model, ratio in sorted(ratios.items())[:3])
        more = f", {len(ratios) - 3:,} more" if len(ratios) > 3 else ""
        who = "Provider" if report.hosted else "Server"
        told.append(f"For each kvtool token, the {who.lower()} counts {shown}{more}.")
        if percent(report.predicted.hit_rate if report.predicted else 0.0) != percent(report.totals.hit_rate):
            told.append(f"Reported and predicted rates count {who.lower()} tokens. Other rates count kvtool tokens.")
    return told
