"""`kvtool optimize --json`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema

from kvtool.results.document_base import Count, Document, Model, Ratio
from kvtool.results.documents.parts import BeforeAfter, PromptEdit, ReportedUse, Tier
from kvtool.results.misses import ReportAgreement
from kvtool.results.money import Amount, MarkAdvice


class StepRates(Model):
    """Hit rates of the group: before the step, with it, with it alone, and what the alignment of the prompts promised."""

    before: Ratio
    after: Ratio
    alone: Ratio
    predicted: float


class Step(PromptEdit):
    """An edit, and what it wins."""

    group: str
    hit_rate: StepRates


class DoneStep(Step):
    """A fix that was kept."""

    edited: bool
    """Whether files were changed for it."""
    reason: str | None
    """Why not."""
    files_hit_rate: BeforeAfter
    """Hit rates of the edited files, run again."""


class GroupRates(Model):
    name: str
    requests: Count
    hit_rate: BeforeAfter


class RequestSetting(Model):
    """What requests say beside their prompts so that they cost less."""

    what: str
    warnings: list[str]


class NamedCache(Model):
    """An explicit cache of Gemini that costs less than what was paid: by the published prices, not run."""

    model: str
    end: str
    """The part of the body with which it ends: it holds all before, too."""
    kept: Count
    """Different prefixes, each with a cache of its own."""
    tokens: Count
    ttl: float
    """Seconds, which each request that names it renews."""
    made: Count
    """How often the requests of the log would make it."""
    requests: Count
    paid: Amount
    """What the prompts of these requests cost as they were sent."""
    cost: Amount
    """What they cost with the cache, storage included."""
    storage: Amount
    uses_per_hour: float
    """Requests in an hour from which it costs less than sending its tokens uncached."""
    currency: str


class RequestOrder(Model):
    """The order of requests that wins."""

    fix: str
    hit_rate: BeforeAfter


class Placement(Model):
    """Where breakpoints stand: after content blocks of these numbers, from 1."""

    after_blocks: list[Count]
    last_message: bool
    where: list[str]


class Costs(Model):
    """In tokens at the full price."""

    no_caching: Annotated[int, WithJsonSchema({"type": "number"})]
    naive: float
    best: float


class GroupBreakpoints(Model):
    name: str
    requests: Count
    cost: Costs
    best: Placement
    naive: Placement


class Prices(Model):
    """Of a token, where one outside the cache costs 1."""

    read: float
    write: float
    outside: float


class Breakpoints(Model):
    """Where to set `cache_control`, computed from the provider's rules, not run."""

    computed: bool
    prices: Prices
    minimum_tokens: Count
    groups: list[GroupBreakpoints]


class CostBeforeAfter(Model):
    """What all requests cost by the rules, before and after."""

    before: Amount
    after: Amount
    currency: str


class ReportedDifference(Model):
    """Hit rates of a group whose provider reported other reads than its published rules predict."""

    group: str
    reported: Ratio
    predicted: Ratio


class EditedLog(Model):
    """A log with the fixes made in its records, run again as it would be written."""

    allowed: bool
    """False if its fixes need consent: then it is only shown."""
    requests: Count
    """Requests that were edited."""
    left_as_they_are: dict[str, Count]
    """Requests that a fix changes and that could not be edited, by the reason."""
    hit_rate: BeforeAfter
    cost: CostBeforeAfter | None
    estimate: list[ReportedDifference]
    """If there are any, the figures after are estimates by rules that these reports contradict."""
    sdk: str | None
    """The library whose code is shown."""
    places: list[str]
    """Where the request that is shown changes."""


class OptimizeDocument(Document):
    """What was tried and kept, without any prompt text."""

    schema_: Literal["kvtool.optimize/1"] = Field(alias="schema")
    input: str
    tiers: list[Tier]
    block_size: Count
    requests: Count
    first_change: str = ""
    """What a profile of the log names first, where that is no edit of these."""
    reported: ReportedUse | None = None
    """What the log reports; `hit_rate` is predicted."""
    notes: list[str] = Field(default_factory=list)
    """What of the log's reports counts as unknown."""
    calibration: ReportAgreement | None = None
    """How well predictions agree with the log's reports, where it has any: where they do not, no edit is tried."""
    hit_rate: BeforeAfter
    groups: list[GroupRates]
    steps: list[DoneStep]
    needs_consent: list[Step]
    """Fixes of tiers that were not allowed."""
    request_order: RequestOrder | None
    files: list[str]
    """Files that were changed, or would be."""
    edited_log: EditedLog | None
    """Of logs, whose files are never changed: what the edited requests reach."""
    settings: list[RequestSetting]
    """The cheapest cache keys and times to live, where the edited log has them."""
    named_caches: list[NamedCache]
    """Explicit caches of Gemini that cost less than what was paid."""
    marks: list[MarkAdvice]
    """The cheapest cache breakpoints, where the edited log has them."""
    undo: str | None
    output: str | None
    breakpoints: Breakpoints | None

    @property
    def tried(self) -> bool:
        """Return whether edits were tried: not where predictions lack text, or where no group agrees with its reports."""
        if self.reported is not None and not self.reported.predictable:
            return False
        silent = [] if self.calibration is None or self.calibration.advises else self.calibration.differing
        return not {group.name for group in self.groups}.issubset(silent)
