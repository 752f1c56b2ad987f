"""Prometheus counters of causes, served on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, Self

from kvtool.errors import KvtoolError
from kvtool.measure.servers.causes.event_causes import CAUSES_OF_LOSSES
from kvtool.measure.servers.causes.event_losses import LossSums
from kvtool.results.documents.watched import WatchDocument

LOST = "kvtool_lost_tokens_total"
COMPUTED = "kvtool_first_use_tokens_total"
RATE, RESTARTS, UP = "kvtool_hit_rate", "kvtool_restarts_total", "kvtool_server_up"
_LOCAL = "127.0.0.1"
_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exported(seen: WatchDocument, losses: LossSums | None) -> str:
    """Return counters and gauges in the Prometheus text format; counters of losses only where KV events are followed."""
    lines: list[str] = []

    def add(name: str, kind: str, help_: str, samples: Mapping[str, float | int]) -> None:
        lines.extend((f"# HELP {name} {help_}", f"# TYPE {name} {kind}"))
        lines.extend(f"{name}{labels} {value}" for labels, value in samples.items())

    up = seen.state in ("counting", "restarted")
    add(UP, "gauge", "1 if the server answered the last reading.", {"": int(up)})
    if seen.window.hit_rate is not None:
        add(
            RATE,
            "gauge",
            "Hit rate of the window: tokens found in the prefix cache by tokens looked up.",
            {"": seen.window.hit_rate},
        )
    add(RESTARTS, "counter", "Restarts of the server since kvtool attached.", {"": seen.restarts})
    if losses is not None:
        tokens: dict[str, float | int] = {}
        for loss, cause in CAUSES_OF_LOSSES.items():
            label = f'{{cause="{cause}"}}'
            tokens[label] = tokens.get(label, 0) + losses.tokens[loss]
        add(LOST, "counter", "Tokens computed again, by cause, since kvtool attached.", tokens)
        first = losses.tokens["first_use"]
        add(COMPUTED, "counter", "Tokens computed for the first time since kvtool attached.", {"": first})
    return "\n".join([*lines, ""])


class CauseExporter:
    """An HTTP server at a port of this machine, which nobody else reaches; a context manager."""

    def __init__(self, port: int) -> None:
        """Raise KvtoolError where the port is taken."""
        self._text = b""
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = self.path.split("?")[0] == "/metrics"
                body = exporter._text if found else b"see /metrics\n"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", _TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        try:
            self._server = ThreadingHTTPServer((_LOCAL, port), Handler)
        except OSError as error:
            hint = "pass another port"
            raise KvtoolError(f"--metrics-port {port}: {error.strerror or 'the port is taken'}", hint=hint) from None
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)

    @property
    def port(self) -> int:
        """Return the port."""
        return self._server.server_port

    def show(self, text: str) -> None:
        """Serve this text from now on."""
        self._text = text.encode()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
