"""One diagnosis: what it found, where, what it costs, and what its fix gave when it was tried."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import PurePath

from kvtool.results.choices import Severity
from kvtool.results.document_base import Count, Model, Ratio

TRIED_WITHOUT = "the gain was verified without the value in the prompt"
"""A warning: the trial left a value out that a person is to write elsewhere."""
TRIED_WITH_MARK = "the gain was verified with this cache breakpoint"
"""A warning: the trial set a breakpoint, which no edit of a prompt does."""
_COPY_NOTE = re.compile(r"this is a copy of (.+): make the change there")
_RANK: dict[Severity, int] = {"info": 0, "warning": 1, "error": 2}


def as_severe(severity: Severity, least: Severity) -> bool:
    """Return whether a finding is of that severity, or a worse one."""
    return _RANK[severity] >= _RANK[least]


def copy_note(place: str) -> str:
    """Return what a finding in a copy says of the place that the copy is from."""
    return f"this is a copy of {place}: make the change there"


def noted_place(warnings: Iterable[str]) -> str | None:
    """Return the place of which a finding is in a copy, as one of its warnings says it."""
    return next((found[1] for one in warnings if (found := _COPY_NOTE.fullmatch(one)) is not None), None)


class Rerun(Model):
    """Hit rates before and after a fix, measured by running again; `group_alone` with nothing else fixed."""

    group_before: Ratio
    group_after: Ratio
    total_before: Ratio
    total_after: Ratio
    group_alone: Ratio | None
    group_predicted: float | None


def gain_basis(warnings: Collection[str], *, estimate: bool) -> str:
    """Say what a gain rests on: only the change that was run again is verified."""
    if estimate:
        return "estimate"
    return "tested without the value" if TRIED_WITHOUT in warnings else "verified"


class Snippet(Model):
    """The line of a prompt that a finding is about, and which of its characters are meant; only where text was asked for."""

    text: str
    start: Count
    stop: Count

    @classmethod
    def of(cls, text: str, start: int, stop: int) -> Snippet | None:
        """None where there is no text."""
        return cls(text=text, start=start, stop=stop) if text else None


class LoggedPlace(Model):
    """Where in a log a finding is: record `record` of its file (from 1), and line `line` (from 1) of a text of that request.

    `part` names the text: `messages[0] (system)`, `prompt`, `tools`. `content` is which of a message's parts it is (from 0) where
    it has several. `line` is 0 where it is in no text that the record holds as it is. `template` numbers the constant text of that
    line (from 1): findings of a report that share the number have the same text around the value. 0: not known.
    """

    record: Count
    part: str
    content: Count | None
    line: Count
    template: Count = 0

    @property
    def told(self) -> str:
        """Return the place inside the record, in words."""
        content = f", content[{self.content}]" if self.content is not None else ""
        line = f", line {self.line}" if self.line else ""
        return f"{self.part}{content}{line}"

    def is_same_line(self, other: LoggedPlace | None) -> bool:
        """Return whether the other place is on this line of this text, in whichever record."""
        return other is not None and other.told == self.told


class ExamplePair(Model):
    """Two requests of logs that show a finding, by the names that `kvtool diff-prompts` takes: `was` came first.

    `command` shows the two side by side. The lines are there only where text was asked for.
    """

    was: str
    now: str
    command: str
    was_line: Snippet | None = None
    now_line: Snippet | None = None


class Finding(Model):
    """One diagnosis. `line` is 0 where there is no place in a file; `group` is empty where it was seen in a file, not measured."""

    code: str
    severity: Severity
    group: str
    path: str
    line: Count
    column: Count
    width: Count
    in_source: bool
    """Whether the place is in a file that people edit (a template), not in a log."""
    message: str
    tokens_lost: Count
    points: float
    share_tokens: float | None
    ttft_seconds: float | None
    confidence: float
    fix: str
    tier: str | None
    fix_key: str = ""
    """Names the fix that was tried; findings that one fix mends share it, and it is empty where there was none."""
    rerun: Rerun | None
    tried: Rerun | None
    estimate: bool = False
    """Whether the gain is an estimate: the provider reported other reads than its published rules predict."""
    flags: tuple[str, ...] = ()
    """The flags of the setting that the fix changes; empty where it changes text."""
    gain: str = ""
    """What a rerun with the fix gives, in words, where it is no hit rate alone."""
    no_gain: bool = False
    """Whether fixes were tried, and none won anything."""
    too_short: bool = False
    """Whether the requests of its group are too short for the provider's cache, so that no edit of this line wins anything."""
    warnings: list[str]
    snippet: Snippet | None = None
    logged: LoggedPlace | None = None
    """Where it is in a log; None for what stands in a file that people edit, or in no one text."""
    example: ExamplePair | None = None
    """Two requests of a log that differ there; None where no two records tell it."""
    patch: str | None = None
    """The edit of the file that makes the fix, as a unified diff; only where text was asked for."""

    @classmethod
    def of(
        cls,
        code: str,
        severity: Severity,
        group: str,
        path: str,
        line: int,
        column: int,
        message: str,
        tokens_lost: int,
        fix: str,
        *,
        width: int = 1,
        in_source: bool = False,
        points: float = 0.0,
        confidence: float = 1.0,
        tier: str | None = None,
        snippet: Snippet | None = None,
        logged: LoggedPlace | None = None,
    ) -> Finding:
        """One that was just found: no fix of it was tried. `snippet` is the line as it was sent, until it is shown or saved."""
        return cls(
            code=code,
            severity=severity,
            group=group,
            path=path,
            line=line,
            column=column,
            width=width,
            in_source=in_source,
            message=message,
            tokens_lost=tokens_lost,
            points=points,
            share_tokens=None,
            ttft_seconds=None,
            confidence=confidence,
            fix=fix,
            tier=tier,
            rerun=None,
            tried=None,
            warnings=[],
            snippet=snippet,
            logged=logged,
        )

    @property
    def proof(self) -> Rerun | None:
        """Return the run that proves its fix, whether kvtool makes it or people do by hand."""
        return self.rerun or (self.tried if self.in_source else None)

    @property
    def record(self) -> str:
        """Return the record of a log by the file's name without folders; empty for other findings."""
        at = self.logged
        return "" if at is None or not at.record else f"{PurePath(self.path).name}:{at.record}"

    @property
    def named_record(self) -> str:
        """Return the record of a log and the place in it; empty for other findings."""
        return "" if self.logged is None else ", ".join(filter(None, (self.record, self.logged.told)))

    @property
    def identity(self) -> tuple[str, str, str, int, int, str]:
        """What tells it from the others of its result."""
        return self.code, self.group, self.path, self.line, self.column, self.message
