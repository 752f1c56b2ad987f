"""The command `kvtool replay`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from kvtool.cli.command import Command
from kvtool.config import bounds
from kvtool.config.option import Argument, Option, check_values, only
from kvtool.config.run_options import Caching, Reading, Rendering
from kvtool.config.shown_options import Showing
from kvtool.errors import KvtoolError

if TYPE_CHECKING:
    from kvtool.results.documents.reconciliation import ReplayDocument


@dataclass(frozen=True, kw_only=True)
class ReplayCommand(Command):
    """Predicted beside actual: every request's cached tokens as the engine predicts them and as a server reports them, and why they
    differ where they do.

    With --server the workload is sent to a running server; --recorded reconciles a session that was recorded, without a network.
    """

    inputs: Annotated[
        tuple[str, ...], Argument("With --server: workload.yaml, or logs, as kvtool profile reads them.", "[INPUT]")
    ] = ()
    recorded: Annotated[
        str | None, Option("Reconcile a recorded session: a folder as --record writes it.", "DIR")
    ] = None
    server: Annotated[
        str | None, Option("Send to this server; a key comes from the variable KVTOOL_API_KEY.", "URL")
    ] = None
    caching: Annotated[Caching, only("concurrency", "use_timestamps")]
    record: Annotated[
        str | None, Option("Keep the session in a folder, for --recorded: it holds the prompts.", "DIR")
    ] = None
    no_text: Annotated[bool, Option("Keep no text in --record: digests of the prompts' tokens in its place.")] = False
    kv_events: Annotated[
        str | None, Option("Where the server publishes KV events. [default: as it says itself]", "ENDPOINT")
    ] = None
    salt: Annotated[bool, Option("Send a fresh cache_salt, so that nothing of others is hit.")] = False
    reset: Annotated[bool, Option("Empty the server's cache first (its development mode allows it).")] = False
    yes: Annotated[bool, Option("Send without asking.", short="-y")] = False
    max_tokens: Annotated[
        int | None,
        Option("Tokens of an answer at most. [default: the workload's]", "N", check=bounds.at_least_one),
    ] = None
    request_timeout: Annotated[
        float, Option("For each request.", "SECONDS", check=bounds.some_seconds)
    ] = 60.0
    max_disagree: Annotated[
        int | None,
        Option(
            "Exit 1 where more requests disagree. [default: 0 one at a time, else no gate]",
            "N",
            check=bounds.not_negative,
        ),
    ] = None
    rendering: Rendering
    reading: Annotated[
        Reading,
        only("requests", "groups", "seed", "on_bad_line", "log_format", "log_map", "group_by", "allow_outside"),
    ]
    showing: Annotated[Showing, only("json", "offline", "quiet", "color", "plain", "width")]

    def run(self) -> int:
        """Reconcile and print; 0, 1 where requests disagree, 130 where it was interrupted."""
        from kvtool.text.terminal.streams import printing

        check_values(self)
        self._check_together()
        from kvtool.measure.servers.live_extra import need_live

        need_live("kvtool replay")
        document = self._recorded(self.recorded) if self.recorded is not None else self._live()
        with printing():
            if self.showing.json:
                sys.stdout.write(document.to_json())
            else:
                from kvtool.report.terminal.replay import print_replay

                print_replay(self.showing.console(), document)
        return self._exit_code(document)

    def _exit_code(self, document: ReplayDocument) -> int:
        code = document.exit_code
        if self.max_disagree is None or code not in (0, 1):
            return code
        return int(len(document.disagree) > self.max_disagree)

    def _check_together(self) -> None:
        """What does not go together."""
        if (self.recorded is None) == (self.server is None):
            raise KvtoolError(
                "replay takes a server or a recording",
                hint="kvtool replay WORKLOAD --server URL, or kvtool replay --recorded DIR",
            )
        if self.recorded is not None:
            asked = [
                *(["INPUT"] if self.inputs else []),
                *(f"--{name.replace('_', '-')}" for name in ("record", "no_text", "kv_events", "salt", "reset") if getattr(self, name)),
            ]
            if asked:
                raise KvtoolError(f"{asked[0]} is about sending; --recorded sends nothing", hint="leave it out")
        elif not self.inputs:
            raise KvtoolError("--server needs what to send", hint="kvtool replay workload.yaml --server URL")
        if self.no_text and self.record is None:
            raise KvtoolError("--no-text says what --record leaves out", hint="add --record DIR")

    def _recorded(self, folder: str) -> ReplayDocument:
        from kvtool.profiler.reconcile.observed import Observed
        from kvtool.profiler.reconcile.reconciling import options_beside, reconcile
        from kvtool.text.tokens.tokenizer import Tokenizers

        observed = Observed.recorded(folder)
        options = options_beside(observed.facts, folder, self.rendering)
        return reconcile(observed, options, Tokenizers(offline=self.showing.offline))

    def _live(self) -> ReplayDocument:
        raise NotImplementedError
