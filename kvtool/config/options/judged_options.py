"""The options of limits: they decide whether a check or a profile fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from kvtool.config import bounds
from kvtool.config.option import Decides, Option, Panel
from kvtool.config.options.clock_options import objectives

BASELINE_FILE = "kvtool-baseline.json"
"""The usual baseline, beside the configuration."""
DEFAULT_DROP = 0.005
"""Half a point. Runs repeat exactly, so this is no margin for noise: a small edit of a prompt may cost that much."""


@dataclass(frozen=True, kw_only=True)
class Judging:
    """Limits of `kvtool check`; files have more."""

    PANEL: ClassVar = Panel.COMMON
    DECIDES: ClassVar = Decides.VERDICT
    min_hit_rate: Annotated[str | None, Option("Lowest hit rate of each workload: 0.8 or 80%.", "RATIO")] = None
    max_cost_per_1k: Annotated[
        str | None, Option("Highest cost of 1,000 requests to hosted models, in dollars: 4 or $4.", "DOLLARS")
    ] = None
    error_on: Annotated[
        tuple[str, ...],
        Option(
            "Findings that fail the check: a code (KV101), KV1, or error, warning, info; repeatable.",
            "WHAT",
            also="--fail-on",
            table="check",
            shown="none",
        ),
    ] = ()
    baseline: Annotated[
        str | None,
        Option("Baseline to compare with.", "FILE", table="check", words=BASELINE_FILE, shown="{}, if it exists"),
    ] = None
    max_drop: Annotated[
        str | None,
        Option(
            "Allowed fall of a hit rate below the baseline.",
            "RATIO",
            table="check",
            default=DEFAULT_DROP,
            shown="{:.1%}",
        ),
    ] = None
    require_baseline: Annotated[
        bool | None,
        Option(
            "Exit 2 if the baseline is missing or was made with other settings.",
            flag="--require-baseline/--no-require-baseline",
            table="check",
            default=False,
            panel=Panel.ADVANCED,
        ),
    ] = None
    update_baseline: Annotated[bool, Option("Write today's hit rates to the baseline instead of comparing.")] = False
    tighten: Annotated[
        bool, Option("Raise the hit-rate limits in kvtool.toml to today's rates, rounded down; add missing ones.")
    ] = False
    max_gpus: Annotated[
        int | None,
        Option(
            "Most accelerators that today's settings may need to meet --slo.",
            "N",
            table="check",
            shown="none",
            check=bounds.at_least_one,
            panel=Panel.ADVANCED,
        ),
    ] = None
    min_goodput: Annotated[
        float | None,
        Option(
            "Lowest rate of requests per second within --slo, with today's replicas.",
            "RATE",
            table="check",
            shown="none",
            check=bounds.some_times,
            panel=Panel.ADVANCED,
        ),
    ] = None
    slo: Annotated[
        str | None,
        Option(
            "Latency targets for --max-gpus and --min-goodput; with share=90%, for that share of the requests.",
            "ttft=2s,tpot=50ms",
            table="check",
            shown="none",
            check=objectives,
            decides=Decides.RESULT,
            panel=Panel.ADVANCED,
        ),
    ] = None
    advice: Annotated[
        bool | None,
        Option(
            "Try fixes for the costliest causes.",
            flag="--advice/--no-advice",
            table="check",
            default=True,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of `kvtool profile`; the workload file has more."""

    PANEL: ClassVar = Panel.COMMON
    DECIDES: ClassVar = Decides.VERDICT
    min_hit_rate: Annotated[
        float | None, Option("Lowest hit rate, such as 0.8; exit 1 below it.", "RATIO", check=bounds.ratio)
    ] = None
    baseline: Annotated[str | None, Option("Baseline of kvtool check; exit 1 if rates fell.", "FILE")] = None
    max_drop: Annotated[
        str | None, Option("Allowed fall below --baseline.", "RATIO", default=DEFAULT_DROP, shown="{:.1%}")
    ] = None
