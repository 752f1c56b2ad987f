"""The command `kvtool sessions`."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

from kvtool.cli.command import Command
from kvtool.config.option import Argument, Option, Panel, only
from kvtool.config.options.shown_options import Showing
from kvtool.errors import KvtoolError

if TYPE_CHECKING:
    from kvtool.profiler.sessions.agent_folders import TranscriptFolder
    from kvtool.results.documents.agent_sessions import SessionsDocument

_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, kw_only=True)
class SessionsCommand(Command):
    """List the sessions of coding agents on this machine by the price of their cache misses.

    It reads the transcripts of Claude Code, Codex, Gemini CLI, Qwen Code, Pi, opencode, Goose, Cline and Roo, or those in the
    folders that you name. Nothing leaves this machine. Sums of files that did not change are kept in your cache folder, without
    text.
    """

    folders: Annotated[
        tuple[str, ...], Argument("Folders of transcripts; without one, those of the agents on this machine", "DIR")
    ] = ()
    since: Annotated[
        str | None,
        Option("Sessions used since: 12h, 7d, 4w or a date (2026-11-20).", "TIME", panel=Panel.COMMON),
    ] = None
    project: Annotated[
        str | None, Option("Sessions of one project: the name of its folder.", "NAME", panel=Panel.COMMON)
    ] = None
    showing: Annotated[Showing, only("json", "quiet", "color", "plain", "width")]

    def run(self) -> int:
        """Print the sessions; 0, 130 where it was interrupted. KvtoolError where there is no transcript."""
        from kvtool.profiler.sessions.agent_folders import find_folders

        since = None if self.since is None else parse_since(self.since, datetime.now(UTC))
        folders = find_folders(self.folders, os.environ)
        if not self.showing.json:
            from kvtool.report.terminal.sessions import print_folders

            print_folders(self.showing.console(), [(each.agent, each.path, len(each.files)) for each in folders])
            sys.stdout.flush()
        document = self._document(folders, since)
        span = "" if since is None else f" since {since.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        if self.project is not None and not (document.sessions or document.subagents):
            raise KvtoolError(
                f"no session of the project `{self.project}`{span}", hint="kvtool sessions lists all projects"
            )
        if self.showing.json:
            sys.stdout.write(document.to_json())
        else:
            from kvtool.report.terminal.sessions import print_sessions
            from kvtool.text.terminal.streams import printing

            with printing():
                print_sessions(self.showing.console(), document, ("--by", "event"), ("--by", "session"), span)
        return 130 if document.partial else 0

    def _document(self, folders: list[TranscriptFolder], since: datetime | None) -> SessionsDocument:
        from kvtool.profiler.sessions.session_list import SessionList, TranscriptIndex
        from kvtool.profiler.sessions.transcript_sums import TranscriptReader
        from kvtool.text.files.result_cache import kvtool_cache
        from kvtool.text.terminal.progress import Progress

        with self.showing.progress("files") as progress:
            progress.stage("reading", sum(len(each.files) for each in folders))
            reader = TranscriptReader(Progress(None))
            index = TranscriptIndex(kvtool_cache("sessions"))
            sessions = SessionList(folders, index, reader.sums, lambda: progress.advance(1))
            wanted = None if self.project is None else self.project.casefold()
            return sessions.make(
                since=None if since is None else since.timestamp(),
                keep=lambda row: wanted is None or (row.project or "").casefold() == wanted,
            )


def parse_since(text: str, now: datetime) -> datetime:
    """Return the moment of a date (UTC), or of so many hours, days or weeks before now. KvtoolError for anything else."""
    number, unit = text[:-1], text[-1:]
    try:
        if number.isascii() and number.isdigit() and unit in _UNITS:
            return now - timedelta(**{_UNITS[unit]: int(number)})
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError) as error:
        raise KvtoolError(f"--since {text} is no time", hint="12h, 7d, 4w or 2026-11-20") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
