"""A finished check of one or more workloads: `kvtool.check/1`. It is what every format renders."""

from __future__ import annotations

import os
from typing import Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from kvtool.results.document_base import Count, Document, Model
from kvtool.results.documents.agent_probe import AgentProbe
from kvtool.results.finding import Finding
from kvtool.results.report import Report
from kvtool.results.verdict import Verdict

SCHEMA: Literal["kvtool.check/1"] = "kvtool.check/1"


def copy_again(workload: str) -> list[str]:
    """Return the words after `kvtool` that copy the prompts of a workload file again: with its folder, if it is another one."""
    folder = os.path.dirname(workload)  # noqa: PTH120 - as it is written
    return ["init", *([folder] if folder else []), "--force"]


class DifferingCopy(Model):
    """A prompt that a workload contains otherwise than the `file` of the application that it is from: its places there and here.

    `groups` are those that send such a prompt: their rates are of a prompt that the application does not send.
    """

    file: str
    place: str
    copy_at: str
    groups: list[str] = Field(default_factory=list)
    differs: Literal["text", "mark"] = "text"
    """What differs: the prompt itself, or only that the copy has a cache breakpoint which the original lacks."""

    @property
    def difference(self) -> str:
        """Return what differs, with both places."""
        if self.differs == "mark":
            return f"{self.copy_at} has a cache breakpoint (cache_control) that {self.place} does not send"
        return f"{self.copy_at} is a copy of {self.place} that differs"

    @property
    def told(self) -> str:
        """Return what differs, and which of the two is sent."""
        return self.difference + (f". Your service sends what {self.file} contains" if self.differs == "text" else "")

    @property
    def short(self) -> str:
        """Return what differs in a few words, for the end of a sentence."""
        return (
            f"{self.file} sends no cache_control"
            if self.differs == "mark"
            else f"a copied prompt differs from {self.file}"
        )

    @property
    def remedy(self) -> str:
        """Return what makes both say the same, where the prompts of code are not copied again."""
        if self.differs == "mark":
            return f"set cache_control at {self.place} as {self.copy_at} has it"
        return f"edit {self.place} as {self.copy_at} has it"

    @property
    def copy_again(self) -> list[str]:
        """Return the words after `kvtool` that copy the prompts again: with the folder of the workload, if it is another one."""
        return copy_again(self.copy_at)


class CheckResult(Document):
    """`findings` are those of all reports, of probes of agents, and of what was only read (templates, Python), without those that
    comments silence.

    A profile is a check with one report; `lint` is one with findings alone. `command` says which of them it is,
    `inputs` what `lint` looked at.
    """

    schema_: Literal["kvtool.check/1"] = Field(default=SCHEMA, alias="schema")
    version: str
    command: Literal["profile", "check", "lint", "probe"] = "check"
    verdict: Verdict
    inputs: list[str] = Field(default_factory=list)
    reports: list[Report]
    probes: list[AgentProbe] = Field(default_factory=list)
    """Agents that were run."""
    findings: list[Finding]
    ignored: Count
    copies: SkipJsonSchema[list[DifferingCopy]] = Field(default_factory=list, exclude=True)

    def loose_findings(self) -> list[Finding]:
        """Those of no report: of templates, of Python, and all of them where nothing was profiled."""
        told = {found.identity for report in self.reports for found in report.findings}
        return [found for found in self.findings if found.identity not in told]
