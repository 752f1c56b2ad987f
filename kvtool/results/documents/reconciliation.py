"""What was predicted of a server beside what it reported: `kvtool replay --json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvtool.results.document_base import Count, Document, Model, Seconds

ReplayCause = Literal[
    "not reported",
    "other tokens",
    "warm start",
    "other traffic",
    "answer",
    "order",
    "restart",
    "replicas",
    "reset",
    "gap",
    "not known",
    "steps",
    "unexplained",
]


class Disagreement(Model):
    """A request whose cached tokens are not those that were predicted; null is what nobody says."""

    id: str
    number: Count
    predicted: Count | None
    reported: Count | None
    cause: ReplayCause
    why: str
    """The test that names the cause, with its numbers; no text of prompts."""


class FoundCause(Model):
    """What was found of the server or the run, whether a request disagrees for it or not."""

    cause: ReplayCause
    requests: Count
    """How many disagree for it."""
    why: str


class ComparedEvents(Model):
    """KV events. `agree` of them are the same; where they are compared `in_order`, each stands where it should."""

    predicted: Count
    recorded: Count
    agree: Count
    in_order: bool
    """One at a time, and where the events show when each request came; else blocks are compared whatever their order."""
    by: Literal["hash", "content"]
    """What blocks were compared by: the server's hashes where its algorithm and seed are known."""


class FirstTokens(Model):
    """Medians of the seconds to the first token, measured where answers were streamed; null where there is none of a kind."""

    measured_cold: Seconds | None
    measured_warm: Seconds | None
    predicted_cold: Seconds | None
    """Predictions are those of a calibration; null without one."""
    predicted_warm: Seconds | None
    server_mean: Seconds | None
    """Of the server's own histogram."""
    queue_mean: Seconds | None


class ReplayDocument(Document):
    """Counts are of requests and tokens; refused ones and those without an answer are in neither of the sums."""

    schema_: Literal["kvtool.replay/1"] = Field(default="kvtool.replay/1", alias="schema")
    version: str
    requests: Count
    answered: Count
    refused: Count
    failed: Count
    left_out: list[str]
    agree: Count
    prompt_tokens: Count
    predicted_cached_tokens: Count | None
    """Null where nothing is predicted."""
    reported_cached_tokens: Count
    not_predicted: str | None
    """Why nothing is predicted, and all of it is only what the server reports; null where it is predicted."""
    unreported: Count
    """Requests whose answers say nothing of cached tokens."""
    disagree: list[Disagreement]
    causes: list[FoundCause]
    counters_agree: bool | None
    """Whether what /metrics counted meanwhile is the sum of what answers reported; null without both scrapes."""
    events: ComparedEvents | None
    times: FirstTokens | None
    at_once: Count
    partial: bool
    stopped: str | None
    """Why not all of it was sent; null where all was."""
    config: dict[str, str | int | float | bool | None]
    """All that the prediction rests on."""
    assumed: list[str]
    """What of it nobody said."""
    notes: list[str]

    @property
    def exit_code(self) -> int:
        """1 where an answer disagrees though requests ran one at a time, or the run fell apart; 130 where it was interrupted."""
        if self.partial:
            return 130
        broken = self.stopped is not None or any(each.cause in ("restart", "replicas") for each in self.causes)
        confirmed = all(each.cause == "not reported" and each.predicted == each.reported for each in self.disagree)
        return int(broken or (self.at_once == 1 and not confirmed))
