"""The command `kvtool replay`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from kvtool.cli.command import Command
from kvtool.config import bounds
from kvtool.config.option import Argument, Option, Panel, check_values, only
from kvtool.config.options.rule_flags import RuleFlags
from kvtool.config.options.run_options import Caching, Predicting, Reading, Rendering, Serving
from kvtool.config.options.served_options import GROUP_OPTIONS
from kvtool.config.options.shown_options import Showing
from kvtool.errors import KvtoolError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kvtool.measure.servers.exchange import Exchange
    from kvtool.profiler.reconcile.twin import Ask
    from kvtool.results.documents.reconciliation import ReplayDocument

_SERVING = (
    *("block_size", "num_gpu_blocks", "max_model_len", "max_num_batched_tokens", "max_num_seqs", "kv_cache_dtype"),
    "tensor_parallel",
)
"""Options of a server that it may not report."""
_READING = ("requests", "groups", "seed", "on_bad_line", "log_format", "log_map", "group_by", "allow_outside")


@dataclass(frozen=True, kw_only=True)
class ReplayCommand(Command):
    """Compare predicted with real cache hits, request by request, and explain each difference.

    --server sends the workload to a running server. --recorded compares a saved session again, without a network.
    """

    inputs: Annotated[tuple[str, ...], Argument("Logs or workload.yaml to send with --server", "[INPUT]")] = ()
    recorded: Annotated[str | None, Option("Folder of a session that --record saved, to compare again.", "DIR")] = None
    server: Annotated[str | None, Option("Server to send to; KVTOOL_API_KEY is its key.", "URL")] = None
    caching: Annotated[Caching, only("concurrency", "use_timestamps")]
    record: Annotated[
        str | None, Option("Folder to save the session in, for --recorded; it contains the prompts.", "DIR")
    ] = None
    no_text: Annotated[bool, Option("Save no text with --record, only which prompts share which blocks.")] = False
    kv_events: Annotated[
        str | None, Option("Endpoint of the server's KV events.", "ENDPOINT", words="as the server says")
    ] = None
    salt: Annotated[bool, Option("Send a new cache_salt, so that nobody else's blocks are hit.")] = False
    reset: Annotated[bool, Option("Empty the server's cache first; the server must run in development mode.")] = False
    yes: Annotated[bool, Option("Send without asking.", short="-y")] = False
    max_tokens: Annotated[
        int | None,
        Option(
            "Most tokens of an answer.",
            "N",
            check=bounds.at_least_one,
            words="the workload's",
            flag="--max-output-tokens",
            also="--max-tokens",
        ),
    ] = None
    request_timeout: Annotated[
        float, Option("Time limit of each request.", "SECONDS", check=bounds.some_seconds, panel=Panel.ADVANCED)
    ] = 60.0
    max_disagree: Annotated[
        int | None,
        Option(
            "Most requests that may disagree; exit 1 if more do.",
            "N",
            check=bounds.not_negative,
            words="0 one at a time, else no limit",
        ),
    ] = None
    predicting: Annotated[Predicting, only("model", "calibration")]
    rendering: Rendering
    serving: Annotated[Serving, only(*_SERVING)]
    rule_flags: Annotated[RuleFlags, only(*GROUP_OPTIONS)]
    reading: Annotated[Reading, only(*_READING)]
    showing: Annotated[Showing, only("json", "offline", "quiet", "color", "plain", "width")]

    def run(self) -> int:
        """Reconcile and print; 0, 1 where requests disagree, 130 where it was interrupted."""
        from kvtool.text.terminal.streams import printing

        check_values(self)
        self._check_together()
        from kvtool.measure.engine_extra import need_live

        need_live("kvtool replay")
        document = self._recorded(self.recorded) if self.recorded is not None else self._live()
        with printing():
            if self.showing.json:
                sys.stdout.write(document.to_json())
            else:
                from kvtool.report.terminal.server_views.replay import print_replay

                print_replay(self.showing.console(), document)
        return self._exit_code(document)

    def _exit_code(self, document: ReplayDocument) -> int:
        code = document.exit_code
        if self.max_disagree is None or code not in (0, 1):
            return code
        return int(len(document.disagree) > self.max_disagree)

    def _check_together(self) -> None:
        """Check the combination of flags."""
        if (self.recorded is None) == (self.server is None):
            raise KvtoolError(
                "replay takes a server or a recording",
                hint="kvtool replay WORKLOAD --server URL, or kvtool replay --recorded DIR",
            )
        if self.recorded is not None:
            asked = [
                *(["INPUT"] if self.inputs else []),
                *(
                    f"--{name.replace('_', '-')}"
                    for name in ("record", "no_text", "kv_events", "salt", "reset")
                    if getattr(self, name)
                ),
            ]
            if asked:
                raise KvtoolError(f"{asked[0]} is about sending; --recorded sends nothing", hint="leave it out")
        elif self.no_text and self.record is None:
            raise KvtoolError("--no-text says what --record keeps", hint="--record DIR --no-text")
        elif not self.inputs:
            raise KvtoolError("--server needs what to send", hint="kvtool replay workload.yaml --server URL")

    def _recorded(self, folder: str) -> ReplayDocument:
        from kvtool.profiler.reconcile.observed import ObservedRun
        from kvtool.profiler.reconcile.reconciling import options_of_server, reconcile
        from kvtool.text.tokens.tokenizer import Tokenizers

        observed = ObservedRun.recorded(folder)
        options = options_of_server(observed.facts, [folder], **self._given())
        return reconcile(observed, options, Tokenizers(offline=self.showing.offline))

    def _given(self) -> dict[str, object]:
        """Return the options that override the server's own."""
        named = {name: getattr(self.predicting, name) for name in ("model", "calibration")}
        serving = {name: getattr(self.serving, name) for name in _SERVING}
        groups = {name: getattr(self.rule_flags, name) for name in GROUP_OPTIONS}
        return {**named, **vars(self.rendering), **serving, **groups}

    def _sent(self) -> dict[str, object]:
        """Return the requests to send, and how many at once."""
        reading = {name: getattr(self.reading, name) for name in _READING}
        return {**reading, "concurrency": self.caching.concurrency, "use_timestamps": self.caching.use_timestamps}

    def _live(self) -> ReplayDocument:
        """Ask the server, say what will be sent, send it and reconcile."""
        from kvtool.measure.servers.server_address import server_address
        from kvtool.measure.servers.session_recording import RecordFolder
        from kvtool.profiler.opening import open_workload
        from kvtool.profiler.reconcile.live_run import LiveOptions, LiveRun, facts_of
        from kvtool.profiler.reconcile.reconciling import options_of_server, reconcile
        from kvtool.profiler.reconcile.recorded_prompts import asked_of
        from kvtool.text.tokens.tokenizer import Tokenizers

        if self.showing.offline:
            raise KvtoolError("--offline forbids the network, and --server is reached by it")
        address = server_address(self.server or "")
        tokenizers = Tokenizers(offline=False)
        facts = facts_of(address, self.request_timeout)
        options = options_of_server(facts, self.inputs, **self._given(), **self._sent())
        how = LiveOptions(
            self.request_timeout, salt=self.salt, reset=self.reset, max_tokens=self.max_tokens, kv_events=self.kv_events
        )
        live = LiveRun(address, facts, open_workload(options, tokenizers), how)
        planned = live.planned()
        self._ask(f"{planned} to {address.root}")
        record = None if self.record is None else RecordFolder(self.record)
        beside = options_of_server(facts, self.inputs, **self._given())

        def blind(answered: Sequence[Exchange]) -> Mapping[int, Sequence[Ask]]:
            return asked_of(answered, beside, tokenizers, facts.date).asks

        with self.showing.progress() as progress:
            observed = live.observed(progress, planned, record, blind if self.no_text else None)
        return reconcile(observed, beside, tokenizers)

    def _ask(self, what: str) -> None:
        """Ask whether to go on. Raises KvtoolError where nobody can be asked, or says no."""
        if self.yes:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise KvtoolError(f"this would send {what}", hint="--yes sends it")
        question = f"This sends {what}: it may cost money, and evicts what others left. Go on? [y/N] "
        print(question, end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise KvtoolError("nothing was sent")
