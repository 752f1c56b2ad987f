"""The options of `kvtool lint` alone: which findings count, and what is executed for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from kvtool.config.option import Option
from kvtool.results.choices import Severity

ERROR_ON: Severity = "error"


@dataclass(frozen=True, kw_only=True)
class Selecting:
    """Which findings `kvtool lint` tells, and which of them fail it."""

    select: Annotated[
        tuple[str, ...], Option("Only these: KV101,KV104 or KV1; repeatable.", "CODES", table="lint", words="all")
    ] = ()
    ignore: Annotated[tuple[str, ...], Option("Not these; repeatable.", "CODES", table="lint", words="none")] = ()
    error_on: Annotated[
        Severity | None, Option("Exit 1 from this severity on. [default: {default}]", table="lint", default=ERROR_ON)
    ] = None

    @property
    def least(self) -> Severity:
        """From which severity on lint fails."""
        return self.error_on or ERROR_ON


@dataclass(frozen=True, kw_only=True)
class Probing:
    """A prompt builder that is run."""

    probe: Annotated[
        str | None, Option("RUN a prompt builder, 'python build.py' or module:function, many times.", "SPEC")
    ] = None
    probe_timeout: Annotated[float, Option("For each run of the probe.", "SECONDS")] = 30.0
