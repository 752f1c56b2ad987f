"""The options that judge: what fails a check or a profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from kvtool.config import bounds
from kvtool.config.option import Decides, Option
from kvtool.config.options.clock_options import objectives

BASELINE_FILE = "kvtool-baseline.json"
"""The usual baseline, beside the configuration."""
DEFAULT_DROP = 0.005
"""Half a point: runs repeat exactly, so this is no noise but what an edit of a prompt may cost without being asked about."""


@dataclass(frozen=True, kw_only=True)
class Judging:
    """Demands of `kvtool check` beside those in files."""

    DECIDES: ClassVar = Decides.VERDICT
    min_hit_rate: Annotated[str | None, Option("Of all requests of each workload: 0.8 or 80%.", "RATIO")] = None
    error_on: Annotated[
        tuple[str, ...],
        Option(
            "Fail on findings: a code (KV101), KV1, or error, warning, info; repeatable.",
            "WHAT",
            flag="--error-on --fail-on",
            table="check",
            words="none",
        ),
    ] = ()
    baseline: Annotated[
        str | None,
        Option("Compare with it. [default: {default}, where it is]", "FILE", table="check", words=BASELINE_FILE),
    ] = None
    max_drop: Annotated[
        str | None,
        Option(
            "How far hit rates may fall below it. [default: {default:.1%}]",
            "RATIO",
            table="check",
            default=DEFAULT_DROP,
        ),
    ] = None
    require_baseline: Annotated[
        bool | None,
        Option(
            "Exit 2 where it is missing or other settings made it.",
            flag="--require-baseline/--no-require-baseline",
            table="check",
            default=False,
        ),
    ] = None
    update_baseline: Annotated[bool, Option("Write today's hit rates into it instead of comparing.")] = False
    max_gpus: Annotated[
        int | None,
        Option(
            "Accelerators that today's settings may need for the --slo, on the clock of what-if.",
            "N",
            table="check",
            words="none",
            check=bounds.at_least_one,
        ),
    ] = None
    min_goodput: Annotated[
        float | None,
        Option(
            "Requests per second within the --slo, likewise, of today's replicas.",
            "RATE",
            table="check",
            words="none",
            check=bounds.some_times,
        ),
    ] = None
    slo: Annotated[
        str | None,
        Option(
            "What a request is to be served within, and share=90% of all of them.",
            "ttft=2s,tpot=50ms",
            table="check",
            words="none",
            check=objectives,
            decides=Decides.RESULT,
        ),
    ] = None
    advice: Annotated[
        bool | None,
        Option(
            "Try fixes of the costliest causes. [default: advice]",
            flag="--advice/--no-advice",
            table="check",
            default=True,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Demands of `kvtool profile` beside those in the workload file."""

    DECIDES: ClassVar = Decides.VERDICT
    min_hit_rate: Annotated[
        float | None, Option("Exit 1 where the hit rate is lower.", "RATIO", check=bounds.ratio)
    ] = None
    baseline: Annotated[str | None, Option("Exit 1 where hit rates fell; kvtool check writes the file.", "FILE")] = None
    max_drop: Annotated[
        str | None, Option("How far they may fall below it. [default: {default:.1%}]", "RATIO", default=DEFAULT_DROP)
    ] = None
