"""The terminal view of `kvtool why`: the rate, the causes with what they take, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.report.terminal.lines import put_head, put_next
from kvtool.results.documents.server_cause import ServerCause
from kvtool.results.documents.why_document import WhyDocument
from kvtool.text.terminal.console import ascii_only, put, put_field, sanitize
from kvtool.text.terminal.numbers import percent, plural

if TYPE_CHECKING:
    from rich.console import Console

_LABEL = 12
_MOST_CAUSES, _MOST_SOURCES = 6, 3
_STYLES = {"cause": "bold red", "possible": "yellow", "healthy": "bold green", "unknown": "yellow"}


def print_why(console: Console, document: WhyDocument) -> None:
    """Print the verdict on one screen; nothing of it is text of a prompt."""
    plain = ascii_only(console)

    def line(label: str, text: str, style: str | None = None) -> None:
        put_field(console, label, sanitize(text, ascii_only=plain), size=_LABEL, hang=_LABEL + 2, style=style)

    put_head(console, [f"kvtool why {_sources(document)}", *_kinds(document), document.span])
    put(console)
    line("Hit rate", _rate(document), "bold")
    line("Verdict", document.summary, _STYLES[document.verdict])
    for each in document.causes[:_MOST_CAUSES]:
        put(console)
        line("Cause", f"{_named(each)}: {amount(each, document)}", "bold")
        line(f"  {each.source}", each.why)
        line("  change", each.change)
    if (left := len(document.causes) - _MOST_CAUSES) > 0:
        line("", f"{left:,} more (all with --json)")
    if document.notes:
        put(console)
    for note in document.notes:
        line("Note", note, "dim")
    if document.next:
        put(console)
        put_next(console, "see more", document.next)


def _sources(document: WhyDocument) -> str:
    return " ".join([*(server.source for server in document.servers), *document.logs][:_MOST_SOURCES])


def _kinds(document: WhyDocument) -> list[str]:
    kinds = {" ".join(part for part in (server.server, server.version) if part) for server in document.servers}
    engines = sum(server.engines for server in document.servers)
    return [*sorted(kind for kind in kinds if kind), *([plural(engines, "engine")] if engines > 1 else [])]


def _rate(document: WhyDocument) -> str:
    if document.hit_rate is None:
        predicted = document.predicted_hit_rate
        return "unknown" if predicted is None else f"unknown; {percent(predicted)} predicted for the log"
    text = f"{percent(document.hit_rate)} of {plural(document.prompt_tokens or 0, 'prompt token')} ({document.rate_source})"
    if document.predicted_hit_rate is not None:
        text += f"; {percent(document.predicted_hit_rate)} predicted for the log"
    return text


def _named(each: ServerCause) -> str:
    return each.cause if each.server is None else f"{each.cause} at {each.server}"


def amount(each: ServerCause, document: WhyDocument) -> str:
    """Return what a cause takes, in words."""
    of = document.log_prompt_tokens if each.source == "log" else None
    of, where = (document.prompt_tokens, "the prompt tokens") if of is None else (of, "the prompt tokens of the log")
    if each.basis == "counted" and each.tokens is not None and not of:
        return plural(each.tokens, "token")
    if each.tokens is None or not of:
        return {"shown": "it happened; how many tokens it cost is unknown"}.get(each.basis, each.basis)
    count = f"{percent(min(each.tokens / of, 1.0))} of {where}"
    return {
        "counted": count,
        "shown": f"it happened, and cost at most {count}",
        "at most": f"at most {count}",
        "possible": f"possible, at most {count}",
    }[each.basis]
