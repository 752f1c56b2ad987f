"""`kvtool lint --json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvtool.results.choices import Severity
from kvtool.results.document_base import Count, Document, Model, Ratio
from kvtool.results.documents.parts import Kind, PromptEdit
from kvtool.results.finding import ExamplePair, LoggedPlace


class LintRerun(Model):
    """Hit rates before and after the fix, measured by running again; `alone` with nothing else fixed."""

    group_before: Ratio
    group_after: Ratio
    total_before: Ratio
    total_after: Ratio
    group_alone: Ratio | None = Field(alias="alone")
    group_predicted: float | None = Field(alias="predicted")


class LintFinding(Model):
    """One diagnosis. `line` is 0 where there is no place in a file; `group` is null where it was seen in a file, not measured."""

    code: str
    severity: Severity
    evidence: Literal["measured", "static"]
    group: str | None
    path: str
    line: Count
    column: Count
    width: Count
    in_source: bool
    """Whether the place is in a file that people edit, not in a log."""
    message: str
    tokens_lost: Count
    points: float
    """Part of the group's prompt tokens that it costs."""
    share_tokens: float | None = Field(alias="share")
    """Its fair share of what several causes block together, in tokens."""
    ttft_seconds: float | None
    confidence: Ratio
    fix: str
    tier: str | None
    """The proof that the fix carries: P0 to P3."""
    fix_key: str
    fixable: bool
    """Whether `--fix` can make it."""
    warnings: list[str]
    rerun: LintRerun | None
    logged: LoggedPlace | None
    """Where it is in a log."""
    example: ExamplePair | None
    """Two requests of a log that differ there; without their lines."""


class LintInput(Model):
    """An input, and what it was taken for."""

    path: str
    kind: Literal["workload", "logs", "prompts", "template", "python", "typescript", "text"]
    note: str | None


class InputProblem(Model):
    """What is wrong with an input that could not be read or run. `path` is empty, and `line` 0, where it has no place."""

    path: str
    line: Count
    column: Count
    message: str
    hint: str | None


class Counts(Model):
    """Findings by severity."""

    error: Count
    warning: Count
    info: Count


class Fixed(Model):
    """What `--fix` did."""

    findings: Count
    paths: list[str]
    undo: str | None
    """The patch that takes it back."""
    undo_with: str | None
    """The command that does."""
    edits: list[PromptEdit]
    notes: list[str]
    """What code outside of these files must do after the edits."""


class Leak(Model):
    """A circumstance that reaches the prompt of a probed builder, and the first difference that it makes."""

    factor: str
    when: str
    kind: Kind
    token: Count
    block: Count
    line: Count | None
    column: Count | None
    part: str
    character: int | None
    same_tokens: Count
    lost_blocks: Count
    places: Count
    fix: str


class Skipped(Model):
    """A circumstance that could not be tried."""

    factor: str
    reason: str


class Probe(Model):
    """What `--probe` found."""

    spec: str
    runs: Count
    tokens: Count
    block_size: Count
    tokenizer: str
    leaks: list[Leak]
    without_effect: list[str]
    skipped: list[Skipped]


class LintDocument(Document):
    """Findings, without any prompt text."""

    schema_: Literal["kvtool.lint/1"] = Field(alias="schema")
    partial: bool
    """Interrupted: there may be more."""
    problems: list[InputProblem]
    """Inputs that could not be read or run; the findings are those of the others."""
    inputs: list[LintInput]
    findings: list[LintFinding]
    counts: Counts
    ignored: Count
    """Findings that comments silence."""
    fixed: Fixed | None
    probe: Probe | None
