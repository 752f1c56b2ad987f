"""Looks at a server's counters, again and again: over the network, or in a file that somebody else writes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kvtool.errors import KvtoolError
from kvtool.measure.servers.http_exchange import ServerConnection
from kvtool.measure.servers.live_extra import need_live
from kvtool.measure.servers.metrics.counters import Scrape, scrape_of
from kvtool.measure.servers.metrics.exposition import MOST_BYTES, parse_exposition, read_exposition
from kvtool.measure.servers.server_address import is_url, server_address

_METRICS = "/metrics"
_SUFFIXES = (".prom", ".txt", ".metrics")


def names_counters(source: str) -> bool:
    """Whether an argument names a server, or by its ending a file with what one answered at /metrics."""
    return is_url(source) or source.lower().endswith(_SUFFIXES)


@contextmanager
def looking(source: str, *, what: str) -> Iterator[Callable[[], Scrape]]:
    """What looks at a URL or a file; `what` needs the extra `live`.

    A look raises ServerError where the server does not answer, and KvtoolError for what is no text of metrics.
    """
    need_live(what)
    if is_url(source):
        with ServerConnection(server_address(source)) as connection:
            shown = connection.address.url(_METRICS)

            def look() -> Scrape:
                text = connection.text(_METRICS, limit=MOST_BYTES)
                return scrape_of(parse_exposition(text, shown=shown), shown=shown, at=time.time())

            yield look
        return
    if "://" in source:
        raise KvtoolError(f"`{source.split('://')[0]}` is no way to reach a server", hint="http:// and https:// are")
    yield lambda: scrape_of(read_exposition(source), shown=source, at=time.time())
