"""The terminal view of `kvtool replay`: how many requests agree, then why the others do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.results.documents.reconciliation import Disagreement, FirstTokens, ReplayDocument
from kvtool.text.terminal.console import ascii_only, put_field, sanitize
from kvtool.text.terminal.numbers import duration, percent, plural

if TYPE_CHECKING:
    from rich.console import Console

_LABEL = 12
_MOST_SHOWN = 10


def print_replay(console: Console, document: ReplayDocument) -> None:
    """Print the answer, then causes and requests that disagree; nothing of it is text of a prompt."""
    plain = ascii_only(console)

    def line(label: str, text: str, style: str | None = None) -> None:
        put_field(console, label, sanitize(text, ascii_only=plain), size=_LABEL, hang=_LABEL + 2, style=style)

    if document.not_predicted is not None:
        line("Reported", reported(document), "bold")
        line("Predicted", f"nothing: {document.not_predicted}")
    else:
        line("Reconciled", reconciled(document), "bold" if not document.disagree else "bold red")
    for text in _beside(document):
        line("Requests", text)
    if (events := document.events) is not None:
        order = "in order" if events.in_order else "in any order"
        how = "hash for hash" if events.by == "hash" else "by content (the hash seed of the server is unknown)"
        theirs = f"{events.agree:,} of {events.recorded:,}"
        line("KV events", f"{theirs} as predicted ({events.predicted:,}), {order}, {how}")
    if document.times is not None and (times := _times(document.times, " | " if plain else " · ")):
        line("TTFT", times)
    if document.stopped is not None:
        line("Stopped", f"{document.stopped}", "bold red")
    for found in document.causes:
        line("Cause", f"{found.cause}, {plural(found.requests, 'request')}: {found.why}", "yellow")
    for one in document.disagree[:_MOST_SHOWN]:
        line("Disagree", disagreement(one))
    if (left := len(document.disagree) - _MOST_SHOWN) > 0:
        line("", f"{left:,} more (all with --json)")
    line("Server", _server(document), "dim")
    for note in (*document.assumed, *document.notes):
        line("Note", note, "dim")


def reconciled(document: ReplayDocument) -> str:
    """Return how many requests agree, in one sentence."""
    agree = f"{document.agree:,} of {plural(document.answered, 'request')} {'agrees' if document.answered == 1 else 'agree'}"
    return f"{agree}, {_cached(document)}"


def reported(document: ReplayDocument) -> str:
    """Return what a server reported, where nothing is predicted."""
    silent = document.unreported
    if document.answered and silent == document.answered:
        return f"{plural(document.answered, 'request')} answered, none reports cached tokens"
    rest = f"; cached tokens unknown for {plural(silent, 'answer')}" if silent else ""
    return f"{plural(document.answered, 'request')} answered, {_cached(document)}{rest}"


def _cached(document: ReplayDocument) -> str:
    cached, tokens = document.reported_cached_tokens, document.prompt_tokens
    rate = f" ({percent(cached / tokens)})" if tokens else ""
    says = {True: "; /metrics agrees", False: "; /metrics differs", None: ""}[document.counters_agree]
    partial = "; interrupted" if document.partial else ""
    return f"{cached:,} of {plural(tokens, 'token')} cached{rate}{says}{partial}"


def disagreement(one: Disagreement) -> str:
    """Return a request that disagrees, with both numbers and the cause."""
    predicted, reported = (f"{value:,}" if value is not None else "nothing" for value in (one.predicted, one.reported))
    return f"#{one.number} predicted {predicted}, got {reported}: {one.why} [{one.cause}]"


def _beside(document: ReplayDocument) -> list[str]:
    """Return the requests that are in no sum."""
    parts = []
    if document.refused:
        parts.append(f"{document.refused:,} refused by the server")
    if document.failed:
        parts.append(f"{document.failed:,} without an answer")
    parts += document.left_out
    return [f"{'; '.join(parts)} (not in the sums)"] if parts else []


def _times(times: FirstTokens, separator: str) -> str:
    client = [
        f"{kind} {duration(measured)}" + (f" (predicted {duration(predicted)})" if predicted is not None else "")
        for kind, measured, predicted in (
            ("cold", times.measured_cold, times.predicted_cold),
            ("warm", times.measured_warm, times.predicted_warm),
        )
        if measured is not None
    ]
    parts = [f"measured {', '.join(client)} (client)"] if client else []
    server = [("mean", times.server_mean), ("queue", times.queue_mean)]
    said = [f"{name} {duration(seconds)}" for name, seconds in server if seconds is not None]
    return separator.join([*parts, *([f"{', '.join(said)} (server)"] if said else [])])


def _server(document: ReplayDocument) -> str:
    config = document.config
    version, blocks = config.get("server_version"), config.get("capacity_blocks")
    at_once = "one at a time" if document.at_once == 1 else f"{document.at_once:,} at once"
    if document.not_predicted is not None:
        names = [str(each) for each in (config.get("server"), version) if each]
        return ", ".join(
            [" ".join(names), *([f"model {model}"] if (model := config.get("model_name")) else []), at_once]
        )
    parts = [
        *([f"vLLM {version}"] if version else []),
        *([f"model {model}"] if (model := config.get("model")) else []),
        f"blocks of {config.get('block_size')}",
        "unlimited cache" if blocks is None else f"cache of {blocks:,} blocks",
        f"{config.get('max_num_batched_tokens'):,} tokens a step",
        f"hashes {config.get('hash_algo')}",
        f"tokenizer {config.get('tokenizer')}",
        at_once,
    ]
    return ", ".join(parts)
