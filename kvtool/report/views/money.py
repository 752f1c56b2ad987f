"""Costs of requests, and reported hit rates beside predicted ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from kvtool.accounting.prices.bill import shown_money
from kvtool.report.answer import fixed_rate
from kvtool.report.views.section import Section, Table, TableColumn
from kvtool.results.money import LOST, MORE_PREDICTED, MORE_REPORTED, CauseMoney, Money
from kvtool.results.report import Report
from kvtool.text.terminal.numbers import percent, plural

_MOST_GROUPS = 10


@dataclass(frozen=True, slots=True)
class MoneyLine:
    """A rate or an amount of the whole log, with what it rests on."""

    label: str
    rate: str
    by: str
    verb: str = ""
    amount: str = ""
    parts: tuple[str, ...] = ()

    @property
    def paid(self) -> str:
        """The amount after its verb."""
        return f"{self.verb} {self.amount}".strip()


def view(report: Report) -> Section:
    """Return what was reported, predicted and paid, why less was read, and what each group and prefix costs."""
    money = report.money
    made: tuple[Table | None, ...]
    if money is None:
        made = (_less(report, {}, ""), _more(report), _groups_read(report))
        title, notes = "Reported beside predicted", _ratios(report)
    else:
        made = (_less(report, money.by_cause, money.currency), _more(report), _groups(money), _prefixes(money))
        title, notes = "What it costs", [*_crowded(report), *money.notices, *_ratios(report)]
    tables = (_lines_table(money_lines(report)), *(table for table in made if table is not None))
    return Section("money", title, tables=tables, notes=tuple(notes))


def money_lines(report: Report) -> list[MoneyLine]:
    """Return rates and amounts of the whole log, which the terminal sets in lines and pages in a table."""
    money = report.money
    return [*_rates(report, money), *(() if money is None else _amounts(report, money))]


def _lines_table(lines: Sequence[MoneyLine]) -> Table:
    priced = any(line.amount for line in lines)
    rows = [
        (
            line.label,
            line.rate,
            *((line.paid,) if priced else ()),
            " · ".join(part for part in (line.by, *line.parts) if part),
        )
        for line in lines
    ]
    cost = (TableColumn("Cost", "number"),) if priced else ()
    columns = (TableColumn("What"), TableColumn("Hit rate", "number"), *cost, TableColumn("Of it"))
    return Table("Reported, predicted and paid", columns, rows, only="pages")


def shown_amount(text: str | None, currency: str) -> str:
    """Return an amount of a document for people; nothing for none."""
    return "" if text is None else shown_money(Decimal(text), currency)


def _hosted(report: Report) -> bool:
    """Return whether the rules of a provider were followed, not those of an own engine."""
    return bool(report.config.get("rules_by_day") or report.config.get("provider"))


def _rates(report: Report, money: Money | None) -> list[MoneyLine]:
    """Return the reported and the predicted hit rate, with what was paid and would be."""
    found = []
    who, rules = ("provider", "by its rules of the day") if _hosted(report) else ("server", "by this run")
    if report.reported is not None:
        paid = None if money is None else money.paid_parts
        named = (
            ()
            if paid is None
            else (
                *(("input", paid.input), ("written", paid.written), ("read", paid.read), ("output", paid.output)),
                ("storage", paid.storage),
            )
        )
        currency = "USD" if money is None else money.currency
        parts = tuple(f"{name} {shown_amount(amount, currency)}" for name, amount in named if Decimal(amount))
        by = f"by the {who}, {plural(report.reported.requests, 'request')}"
        rate = percent(report.reported.hit_rate)
        amount = "" if money is None else shown_amount(money.paid, currency)
        found.append(MoneyLine("Reported", rate, by, "paid" if amount else "", amount, parts))
    if report.predicted is not None:
        amount = "" if money is None else shown_amount(money.predicted, money.currency)
        same = ", the same of every request" if who == "server" and report.reported and not report.difference else ""
        rate = percent(report.predicted.hit_rate)
        found.append(MoneyLine("Predicted", rate, f"{rules}{same}", "would" if amount else "", amount))
    return found


def _amounts(report: Report, money: Money) -> list[MoneyLine]:
    """Return the cost with fixes and without a cache, and the savings of own accelerators."""
    found = []
    currency = money.currency

    def told(text: str | None) -> str:
        return shown_amount(text, currency)

    fixed = fixed_rate(report)
    best = "" if fixed is None else percent(fixed)
    if money.with_fixes is not None and (best or Decimal(money.with_fixes) < Decimal(money.predicted or 0)):
        base = Decimal(money.paid if money.paid is not None else money.predicted or 0)
        saved = base - Decimal(money.with_fixes)
        parts = () if saved <= 0 else (_saved(saved, base, money),)
        found.append(
            MoneyLine(
                "With fixes",
                best,
                "each prefix marked as it costs least" if _marked(money) else "",
                "would",
                told(money.with_fixes),
                parts,
            )
        )
    if money.without_cache is not None:
        found.append(MoneyLine("No cache", percent(0.0), "", "would", told(money.without_cache)))
    if money.gpu is not None:
        hours = f"{money.gpu.saved_seconds:,.1f} s of prefill, predicted, at ${money.gpu.hour} an hour"
        found.append(MoneyLine("Own GPUs", percent(report.totals.hit_rate), hours, "saves", told(money.gpu.saved)))
    return found


def _marked(money: Money) -> bool:
    return any(prefix.best != "unmarked" for prefix in money.prefixes)


def _saved(saved: Decimal, base: Decimal, money: Money) -> str:
    """Return the saving: of a month where the log is long enough, else of 1,000 requests."""
    text = f"{shown_money(saved, money.currency)} less"
    if money.month is not None and money.days is not None:
        month = Decimal(money.month)
        amount = (
            shown_money(month, money.currency)
            if abs(month) < 1000
            else f"${month.quantize(Decimal(1), ROUND_HALF_UP):,f}"
        )
        return f"{text}: {amount} a month at this traffic ({money.days:,.2f} days)"
    each = saved * 1000 / money.priced_requests if base and money.priced_requests else Decimal(0)
    return f"{text}: {shown_money(each, money.currency)} per 1,000 requests"


def _less(report: Report, by_cause: Mapping[str, CauseMoney], currency: str) -> Table | None:
    """Return why less was read than could be, the costliest cause first; without prices the largest."""
    predicted = report.predicted
    if predicted is None:
        return None
    total = max(predicted.prompt_tokens, 1)
    rest = {
        cause: tokens
        for cause, tokens in (report.difference or {}).items()
        if cause not in by_cause and cause not in MORE_REPORTED
    }
    told = [(cause, of.tokens, of.cost, of.difference) for cause, of in by_cause.items()]
    told += [(cause, tokens, "", True) for cause, tokens in rest.items()]
    priced, hosted = any(cost for _, _, cost, _ in told), _hosted(report)
    rows = [
        (
            (MORE_PREDICTED if differs else LOST).get(cause, cause),
            f"{tokens:,}",
            percent(min(tokens / total, 1.0)),
            *((shown_amount(cost or None, currency),) if priced else ()),
            *(("provider" if differs else "rules",) if hosted else ()),
        )
        for cause, tokens, cost, differs in sorted(told, key=lambda one: (-Decimal(one[2] or 0), -one[1], one[0]))
    ]
    title = "Why less was read" if hosted else "Why less was read than predicted"
    return _table(title, ("tokens", "share", *(("cost",) if priced else ()), *(("by",) if hosted else ())), rows)


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
    return _table("Why more was read than predicted", ("tokens", "share"), rows)


def _table(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table | None:
    return _figures(title, (title, *columns), rows) if rows else None


def _figures(title: str, heads: Sequence[str], rows: Sequence[tuple[str, ...]]) -> Table:
    """Return a table of figures; who decided (`by`) is a word."""
    columns = (TableColumn(head, "number" if place and head != "by" else "text") for place, head in enumerate(heads))
    return Table(title, tuple(columns), rows)


def _groups(money: Money) -> Table | None:
    if len(money.by_group) < 2:
        return None
    rows = []
    ordered = sorted(money.by_group.items(), key=lambda item: (-Decimal(item[1].paid or item[1].predicted), item[0]))
    for name, group in ordered[:_MOST_GROUPS]:
        reported = "" if group.reported_hit_rate is None else percent(group.reported_hit_rate)
        amounts = (group.paid, group.predicted, group.without_cache)
        shown = tuple(shown_amount(amount, money.currency) for amount in amounts)
        rows.append((name, f"{group.requests:,}", reported, percent(group.predicted_hit_rate), *shown))
    if len(ordered) > _MOST_GROUPS:
        rows.append((f"({len(ordered) - _MOST_GROUPS:,} more)", *[""] * 6))
    columns = ("Group", "requests", "reported", "predicted", "paid", "by rules", "no cache")
    return _figures("What each group costs", columns, rows)


def _prefixes(money: Money) -> Table | None:
    if not money.prefixes:
        return None
    several = len({prefix.model for prefix in money.prefixes}) > 1
    rows = tuple(
        (
            f"{prefix.tokens:,} tokens" + (f" of {prefix.model}" if several else ""),
            f"{prefix.requests:,}",
            *(shown_amount(cost, money.currency) for cost in (prefix.unmarked, prefix.marked_5m, prefix.marked_1h)),
            prefix.best,
        )
        for prefix in money.prefixes
    )
    columns = ("Prefix", "requests", "unmarked", "5m", "1h", "cheapest")
    return _figures("What marking a prefix costs", columns, rows)


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
    columns = ("Group", "requests", "reported", "predicted", "tokens apart")
    return _figures("What was read of each group", columns, rows)


def _crowded(report: Report) -> list[str]:
    """Say what to do about more requests of one prefix than a provider sends to one server."""
    if report.predicted is None or "over_15_a_minute" not in (report.difference or {}):
        return []
    most = report.predicted.most_a_minute
    return [
        f"one prefix and key had {most:,} requests in a minute: spread them over several values of prompt_cache_key"
    ]


def _ratios(report: Report) -> list[str]:
    """Say how many tokens the server counts for each of ours."""
    told = []
    ratios = {} if report.predicted is None else report.predicted.tokens_per_own
    if ratios:
        shown = ", ".join(f"{model} {ratio:.3f}" for model, ratio in sorted(ratios.items())[:3])
        more = f", {len(ratios) - 3:,} more" if len(ratios) > 3 else ""
        who = "provider" if _hosted(report) else "server"
        told.append(f"tokens of the {who} for each of ours: {shown}{more}")
    return told
