"""Facts of a run: the rules it followed, and what must be known before its figures are used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Literal

from kvtool.results.report import Report
from kvtool.text.terminal.numbers import plural

RateKind = Literal["good", "fair", "bad"]
_RECORD = re.compile(r"(?:(?P<file>.+):)?(?P<record>[0-9]+)(?:\.[0-9]+)?:(?P<request>[0-9]+)")
_SESSION = re.compile(r"(?P<group>.+)/(?P<session>[0-9]+)(?:\.[0-9]+)?")


_RATES: tuple[tuple[float, RateKind], ...] = ((0.8, "good"), (0.5, "fair"), (-1.0, "bad"))
"""The least rate of each kind: four of five tokens from the cache are good, less than half is bad."""


def rate_kind(rate: float) -> RateKind:
    """Return how good a hit rate is, whatever the prompts allow; terminal and pages show only a good one in green."""
    return next(kind for least, kind in _RATES if rate >= least)


def log_name(report: Report) -> str:
    """Return the name of the only file that the requests are from; empty for several, and for standard input."""
    return "" if report.files or report.workload in ("-", "stdin") else PurePath(report.workload).name


def request_name(identity: str, log: str = "") -> str:
    """Return a request in words: `46:0` is record 46 of the `log`, `a.jsonl:46:0` is `a.jsonl:46`, `chat/3.1` session 3 of a group.

    Other ids are names already.
    """
    if (found := _RECORD.fullmatch(identity)) is not None:
        part = f", request {int(found['request']) + 1:,}" if int(found["request"]) else ""
        record = int(found["record"])
        file = found["file"] or log
        return (f"{file}:{record}" if file else f"record {record:,}") + part
    found = _SESSION.fullmatch(identity)
    if found is None:
        return identity
    return f"{found['group']}, {'session' if '.' in identity.rpartition('/')[2] else 'request'} {found['session']}"


def run_facts(report: Report, *counts: str) -> list[str]:
    """Return rules, tokenizer, `counts` and seed; counts alone where the log has no prompts to simulate, only reported usage."""
    if not is_predictable(report):
        return [*counts]
    rules = rules_fact(report)
    if report.misses is not None and not report.hosted:  # whatever server sent the log
        rules = f"simulated by {rules}"
    return [rules, str(report.config.get("tokenizer") or "block hashes"), *counts, f"seed {report.config.get('seed')}"]


def is_predictable(report: Report) -> bool:
    """Return whether simulated figures say anything of these requests: where their prompts are not in the log, none does."""
    return not report.lacks_prompts if report.misses is None else report.misses.predictable


def has_breakdown(report: Report) -> bool:
    """Return whether the token breakdown says anything: not where no prompt is long enough for the provider's cache."""
    return is_predictable(report) and not report.below_minimum


def rules_fact(report: Report) -> str:
    """Name the rules of the cache, and the block size where they have one."""
    if report.config.get("rules_by_day"):
        return "providers' rules"
    if (provider := report.config.get("provider")) is not None:
        return f"{provider} rules"
    if report.config.get("rules_of"):
        return f"{report.config.get('rules')} rules"
    release = report.config.get("vllm_release")
    name = f"{report.config.get('rules')}" if release is None else f"{report.config.get('rules')} {release}"
    return f"{name} rules, block {report.kv_cache.block_size:,}"


def too_short(report: Report) -> str:
    """Say that no prompt is long enough for the provider's cache; empty where one is."""
    return f": {report.minimum_in_words}" if report.below_minimum else ""


def cautions(report: Report) -> Iterator[str]:
    """Say what is left out of the figures."""
    totals = report.totals
    if totals.refused_requests:
        first = totals.first_refusal or ""
        yield f"{plural(totals.refused_requests, 'request')} refused and left out. First: {first}"
    if totals.skipped_lines:
        yield f"{plural(totals.skipped_lines, 'bad line')} skipped."
