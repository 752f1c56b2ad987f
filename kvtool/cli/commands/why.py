"""The command `kvtool why`."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from kvtool.cli.command import Command
from kvtool.config.option import Argument, check_values, only
from kvtool.config.options.run_options import Predicting, Reading, Rendering
from kvtool.config.options.shown_options import Showing
from kvtool.config.options.why_options import WhyOptions
from kvtool.errors import KvtoolError
from kvtool.text.quantities import parse_duration

if TYPE_CHECKING:
    from kvtool.measure.servers.causes.server_evidence import ServerEvidence
    from kvtool.profiler.why.log_report import LogReport
    from kvtool.results.documents.reconciliation import ReplayDocument
    from kvtool.results.documents.why_document import WhyDocument


@dataclass(frozen=True, kw_only=True)
class WhyCommand(Command):
    """Say why a running server has its hit rate: which cause takes how much, and what to change.

    Counters alone give bounds. KV events count what was evicted, scattered or salted. A log of the requests names the line of
    the prompt. Several URLs are replicas. KVTOOL_API_KEY is the key of the servers.
    """

    inputs: Annotated[
        tuple[str, ...], Argument("URLs of servers or /metrics files, and logs of requests", "[URL|LOG]")
    ] = ()
    asking: WhyOptions
    predicting: Annotated[Predicting, only("model")]
    rendering: Rendering
    reading: Annotated[Reading, only("on_bad_line", "log_format", "log_map", "requests", "allow_outside", "jobs")]
    showing: Annotated[Showing, only("json", "offline", "quiet", "color", "plain", "width")]

    def run(self) -> int:
        """Ask, and print the verdict; 0, also where the cause is unknown."""
        check_values(self)
        from kvtool.measure.engine_extra import need_live
        from kvtool.measure.servers.metrics.counters import names_counters
        from kvtool.profiler.why.log_report import UnknownRulesError
        from kvtool.profiler.why.server_log_lines import line_causes
        from kvtool.profiler.why.server_verdict import why_document
        from kvtool.text.terminal.streams import printing

        servers = [each for each in self.inputs if names_counters(each)]
        logs = [each for each in self.inputs if not names_counters(each)]
        self._check_together(servers, logs)
        need_live("kvtool why")
        evidence = self._evidence(servers)
        replay, notes, report = self._replay(logs), [], None
        try:
            report = self._report(evidence, logs)
        except UnknownRulesError as error:
            notes.append(
                f"The log is not predicted: {error.message.removesuffix('.')}."
                + (f" Hint: {error.hint}." if error.hint else "")
            )
        document = why_document(
            evidence,
            span=self._span(servers, evidence),
            profiled=report,
            replay=replay,
            notes=notes,
            logs=logs,
            of_lines=list(line_causes(logs)),
        )
        document = document.model_copy(update={"next": self._next(servers, logs, document)})
        with printing():
            if self.showing.json:
                sys.stdout.write(document.to_json())
            else:
                from kvtool.report.terminal.server_views.why import print_why

                print_why(self.showing.console(), document)
        return 0

    def _check_together(self, servers: list[str], logs: list[str]) -> None:
        """Check the combination of arguments."""
        asking = self.asking
        if (servers and asking.recorded) or not (servers or asking.recorded or logs):
            raise KvtoolError(
                "why takes a server, a recording or a log of requests",
                hint="kvtool why http://localhost:8000, or kvtool why --recorded DIR",
            )
        if not servers and (asking.kv_events or asking.span):
            flag = "--kv-events" if asking.kv_events else "--for"
            raise KvtoolError(f"{flag} is about a running server, and none is named", hint="leave it out")
        if len(asking.kv_events) > len(servers) and servers:
            raise KvtoolError(
                "--kv-events is given more often than servers", hint="give one endpoint per server, in order"
            )
        if servers and self.showing.offline and any("://" in each for each in servers):
            raise KvtoolError("--offline forbids the network, and a server is reached by it")

    def _evidence(self, servers: list[str]) -> ServerEvidence:
        from kvtool.measure.servers.causes.asking import ask_servers, read_recordings
        from kvtool.measure.servers.causes.server_evidence import ServerEvidence

        asking = self.asking
        if asking.recorded:
            evidence = read_recordings(asking.recorded, self.predicting.model)
        elif not servers:
            evidence = ServerEvidence(())
        else:
            endpoints = asking.kv_events
            if endpoints and set(endpoints) == {"server"}:
                endpoints = endpoints[:1] * len(servers)
            seconds = None if asking.span is None else parse_duration(asking.span)
            evidence = ask_servers(servers, seconds=seconds, kv_events=endpoints, model=self.predicting.model)
        return replace(evidence, router_block_size=asking.router_block_size)

    def _span(self, servers: list[str], evidence: ServerEvidence) -> str:
        asking = self.asking
        if asking.recorded:
            return "as recorded"
        if not servers:
            return "as logged"
        if asking.span is not None:
            return f"the last {asking.span}"
        scraped = all(each.before is not None and "://" not in each.source for each in evidence.servers)
        return "between scrapes of one server" if scraped else "since the start of the server"

    def _replay(self, logs: list[str]) -> ReplayDocument | None:
        """Compare the requests of one recorded session one by one, where it has some."""
        from kvtool.profiler.why.log_report import recorded_replay

        if len(self.asking.recorded) != 1 or logs:
            return None
        return recorded_replay(self.asking.recorded[0], self._given(), offline=self.showing.offline)

    def _report(self, evidence: ServerEvidence, logs: list[str]) -> LogReport | None:
        from kvtool.profiler.why.log_report import log_report, recorded_logs

        logs = logs or recorded_logs(self.asking.recorded)
        if not logs:
            return None
        with self.showing.progress() as progress:
            return log_report(
                evidence, logs, self._given(), reading=self.reading, offline=self.showing.offline, progress=progress
            )

    def _given(self) -> dict[str, object]:
        return {"model": self.predicting.model, **vars(self.rendering)}

    def _next(self, servers: list[str], logs: list[str], document: WhyDocument) -> list[str]:
        """Return the command that shows more, where there is one."""
        from kvtool.measure.servers.kv_events.event_listener import lists_publishers

        verdict = document.verdict
        if logs and verdict == "cause" and document.predicted_hit_rate is not None:
            return ["profile", *logs, *(["--server", servers[0]] if len(servers) == 1 and "://" in servers[0] else [])]
        is_open = servers and verdict in ("possible", "unknown") and not self.asking.kv_events
        if is_open and all(lists_publishers(each) for each in servers):
            return ["why", *servers, *logs, "--kv-events", "server", "--for", self.asking.span or "60s"]
        return []
