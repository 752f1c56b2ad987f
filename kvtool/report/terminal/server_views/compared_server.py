"""The terminal view of a server's counters beside a report, for `kvtool compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.report.terminal.lines import put_head
from kvtool.report.terminal.server_views.watch import own_log_line
from kvtool.results.documents.server_comparison import BesideServer
from kvtool.text.terminal.console import ascii_only, put, sanitize, say
from kvtool.text.terminal.numbers import percent, plural
from kvtool.text.terminal.table import Column, put_table

if TYPE_CHECKING:
    from rich.console import Console

_NONE = "-"


def print_server_comparison(console: Console, beside: BesideServer) -> None:
    """Print both rates with their tokens, the rate of the server's log, and causes of the difference."""
    plain = ascii_only(console)
    names = [sanitize(name, ascii_only=plain) for name in (beside.report, beside.source)]
    head = [f"kvtool compare {names[0]} with {names[1]}", f"{beside.server}, {beside.span}"]
    put_head(console, head)
    put(console)
    served, predicted = beside.served, beside.predicted
    rows = [
        ["hit rate", percent(predicted.hit_rate), _NONE if served.hit_rate is None else percent(served.hit_rate)],
        ["hit tokens", f"{predicted.hit_tokens:,}", _count(served.hit_tokens)],
        ["prompt tokens", f"{predicted.prompt_tokens:,}", _count(served.queried_tokens)],
        ["requests", f"{predicted.requests:,}", _count(served.requests)],
    ]
    put_table(console, [Column("", "<"), Column("predicted"), Column("served")], rows)
    put(console)
    for text, style in _lines(beside):
        say(console, text, hang=2, style=style)


def _lines(beside: BesideServer) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    if beside.agree:
        found.append(("equal: the same prompt tokens and hit tokens", "green"))
    elif beside.difference is None:
        found.append(("the server looked up no tokens in that time", "yellow"))
    found += [(f"{each.reason}: {each.text}", "yellow") for each in beside.explained]
    log = beside.log
    if log is not None and log.hit_rate is not None:
        found.append((own_log_line(beside.server, log.hit_rate, log.requests), "dim"))
    elif log is not None and log.unseen_requests:
        unseen = plural(log.unseen_requests, "request")
        found.append((f"The log of the server covers {unseen} from before.", "dim"))
    if not beside.measured:
        found.append((f"Metric names of {beside.server} come from its documentation. They are not tested.", "dim"))
    return found


def _count(value: int | None) -> str:
    return _NONE if value is None else f"{value:,}"
