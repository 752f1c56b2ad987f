"""The command `kvtool watch`."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from kvtool.cli.command import Command
from kvtool.config import bounds
from kvtool.config.option import Argument, Option, check_values, only
from kvtool.config.options.run_options import Predicting
from kvtool.config.options.shown_options import Showing
from kvtool.config.options.watch_options import WatchOptions
from kvtool.errors import KvtoolError
from kvtool.text.quantities import parse_duration

if TYPE_CHECKING:
    from kvtool.measure.servers.causes.event_losses import LossSums
    from kvtool.measure.servers.causes.server_evidence import AskedServer
    from kvtool.measure.servers.causes.windowed_losses import WindowedLosses
    from kvtool.measure.servers.kv_events.event_listener import Heard
    from kvtool.measure.servers.metrics.counters import Scrape
    from kvtool.measure.servers.metrics.watching import Watching
    from kvtool.results.documents.watched import WatchDocument

_LONGEST_WAIT = 60.0
"""Seconds that a server's Retry-After may ask for."""


@dataclass(frozen=True, slots=True)
class _Heard:
    """Listeners to the KV events of a server."""

    events: Heard
    losses: WindowedLosses


@dataclass(frozen=True, kw_only=True)
class WatchCommand(Command):
    """Watch the prefix cache of a running server through its /metrics: hit rates, tokens, times, KV usage.

    Ctrl-C prints the totals. It reads /metrics only; --kv-events server also asks for the events' address. KVTOOL_API_KEY is
    the server's key.
    """

    source: Annotated[str, Argument("Server, or a file with the text of its /metrics", "URL|FILE")]
    looks: WatchOptions
    kv_events: Annotated[
        str | None,
        Option(
            "Endpoint of KV events to follow, too: tcp://HOST:PORT, ipc://PATH, or server to ask the server.",
            "ENDPOINT",
        ),
    ] = None
    metrics_port: Annotated[
        int | None,
        Option("Port on 127.0.0.1 for Prometheus counters of lost tokens per cause.", "PORT", check=bounds.port),
    ] = None
    predicting: Annotated[Predicting, only("model")]
    showing: Annotated[Showing, only("json", "color", "plain", "width")]

    def run(self) -> int:
        """Look until it is enough; 0, also after Ctrl-C, which is how it ends."""
        check_values(self)
        from kvtool.measure.servers.metrics.counters import looking
        from kvtool.measure.servers.server_address import is_url

        asked = self._asked()
        with looking(self.source, what="kvtool watch") as look, self._heard() as heard, self._exporter() as export:
            count = self.looks.count or (None if is_url(self.source) else 1)
            self._watch(look, count, heard, export, lambda watching: self._document(watching, heard, asked))
        return 0

    def _asked(self) -> AskedServer:
        """Return the server with the layers of its model, where --model names it."""
        from kvtool.measure.servers.causes.asking import ask_model
        from kvtool.measure.servers.causes.server_evidence import AskedServer

        model = self.predicting.model
        return AskedServer(self.source) if model is None else ask_model(self.source, model)

    def _watch(
        self,
        look: Callable[[], Scrape],
        looks: int | None,
        heard: _Heard | None,
        export: Callable[[WatchDocument, LossSums | None], None],
        document: Callable[[Watching], WatchDocument],
    ) -> None:
        from kvtool.measure.servers.metrics.watching import Watching

        watching = Watching(look(), window=parse_duration(self.looks.window))
        shown = document(watching)
        try:
            with self._view(alone=looks == 1) as show:
                for number in itertools.count() if looks is None else range(looks):
                    if number:
                        self._wait(watching, look, heard)
                        shown = document(watching)
                    show(shown)
                    export(shown, None if heard is None else heard.losses.total)
        except KeyboardInterrupt:
            pass
        except KvtoolError:
            self._print_sums(shown)  # what was counted until then is not lost
            raise
        self._print_sums(shown)

    @contextmanager
    def _heard(self) -> Iterator[_Heard | None]:
        """Yield the listener to KV events with the losses that they show, if asked for."""
        if self.kv_events is None:
            yield None
            return
        from kvtool.measure.servers.causes.windowed_losses import WindowedLosses
        from kvtool.measure.servers.kv_events.event_listener import Heard, publishers

        losses = WindowedLosses(parse_duration(self.looks.window))
        with Heard(publishers(self.source, self.kv_events), losses.add) as heard:
            heard.listen(0.0)  # what the server still has of earlier events
            losses.begin_span()
            yield _Heard(heard, losses)

    @contextmanager
    def _exporter(self) -> Iterator[Callable[[WatchDocument, LossSums | None], None]]:
        """Yield a function that shows a reading at --metrics-port."""
        if self.metrics_port is None:
            yield lambda _seen, _losses: None
            return
        from kvtool.measure.servers.causes.cause_exporter import CauseExporter, exported

        with CauseExporter(self.metrics_port) as exporter:
            yield lambda seen, losses: exporter.show(exported(seen, losses))

    def _wait(self, watching: Watching, look: Callable[[], Scrape], heard: _Heard | None) -> None:
        """Until the next look, and that; KvtoolError where looking again will not help."""
        from kvtool.measure.servers.http_exchange import ServerError

        interval = parse_duration(self.looks.interval)
        if heard is not None:
            heard.events.listen(interval)
        else:
            time.sleep(interval)
        try:
            watching.scraped(look())
        except ServerError as error:
            if not error.passes:
                raise
            watching.missed(error.message)
            time.sleep(min(error.retry_after or 0.0, _LONGEST_WAIT))

    def _document(self, watching: Watching, heard: _Heard | None, asked: AskedServer) -> WatchDocument:
        from kvtool.measure.servers.causes.server_evidence import ServerEvidence
        from kvtool.measure.servers.metrics.watching import watch_document
        from kvtool.profiler.why.ordered_causes import top_causes

        events = None if heard is None else heard.events.sums()
        server = replace(asked, before=watching.window_start, after=watching.last)
        losses = None if heard is None else heard.losses.read(time.monotonic())
        causes = top_causes(ServerEvidence((server,), losses))
        return watch_document(watching, source=self.source, at=time.time(), events=events, causes=causes)

    @contextmanager
    def _view(self, *, alone: bool) -> Iterator[Callable[[WatchDocument], None]]:
        """Shows one look after the other: on a page of the terminal's, or in lines; one `alone` is what the sums are."""
        from kvtool.report.terminal.server_views.watch import print_watched, watched_line
        from kvtool.results.document_base import dump_line
        from kvtool.text.terminal.console import put
        from kvtool.text.terminal.screen import Screen

        window = parse_duration(self.looks.window)
        if self.showing.json:
            yield lambda seen: _say(dump_line(seen))
        elif alone:
            yield lambda _: None
        elif self.showing.plain or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
            console = self.showing.console()

            def line(seen: WatchDocument) -> None:
                put(console, watched_line(seen, window=window))
                sys.stdout.flush()

            yield line
        else:
            with Screen(self.showing.color, self.showing.width) as screen:
                yield lambda seen: screen.draw(lambda console: print_watched(console, seen, window=window))

    def _print_sums(self, seen: WatchDocument) -> None:
        """At the end; those of JSON stand in its last line."""
        if self.showing.json:
            return
        from kvtool.report.terminal.server_views.watch import print_watched
        from kvtool.text.terminal.streams import printing

        with printing():
            print_watched(self.showing.console(), seen, window=parse_duration(self.looks.window))


def _say(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()
