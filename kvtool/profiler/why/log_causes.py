"""Causes that a log shows: what the rules of the server predict for it, and what the server reported beyond that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from kvtool.diagnose.codes import wins
from kvtool.measure.servers.causes.changes import change_of
from kvtool.measure.servers.causes.counter_causes import cause
from kvtool.results.documents.server_cause import CauseName, ServerCause
from kvtool.results.finding import Finding
from kvtool.results.misses import MissCause
from kvtool.results.report import Report
from kvtool.text.terminal.numbers import capitalized, percent, plural

_OF_FATE: Mapping[str, CauseName] = {
    "caching_off": "caching off",
    "not_read": "request fields",
    "evicted": "capacity",
    "window": "model groups",
    "host_list_full": "capacity",
    "slot_lost": "slots",
    "taken_over": "capacity",
    "expired": "expiry",
    "below_minimum": "minimum length",
    "unmarked": "missing cache breakpoints",
    "setting_changed": "cache keys",
    "scattered": "routing",
    "not_kept": "model groups",
    "answer_not_kept": "model groups",
    "no_state": "model groups",
    "drafts": "drafts",
    "long_block": "short prompts",
    "in_flight": "concurrency",
    "isolated": "salts",
    "last_token": "short prompts",
    "partial_block": "short prompts",
    "seam": "prompts",
    "cosmetic": "prompts",
    "blocked": "prompts",
    "displaced": "prompts",
}
"""The cause of each fate of a token that could have hit; the others are first uses."""
_OF_HOSTED_FATE: Mapping[str, CauseName] = {"isolated": "cache keys", "partial_block": "minimum length"}
"""The same where it is another cause in the cache of a provider."""
_OF_MISS: Mapping[MissCause, CauseName] = {
    "first_use": "concurrency",
    "prompt_changed": "prompts",
    "tools_changed": "prompts",
    "system_changed": "prompts",
    "history_edited": "prompts",
    "compaction": "prompts",
    "resumed": "prompts",
    "wire_form": "prompts",
    "reasoning_dropped": "prompts",
    "expired": "expiry",
    "evicted": "capacity",
    "setting_changed": "cache keys",
    "model_changed": "cache keys",
    "key_changed": "cache keys",
    "host_changed": "routing",
    "host_uncached": "routing",
    "replicas": "routing",
    "below_minimum": "minimum length",
    "partial_block": "minimum length",
    "lookback": "missing cache breakpoints",
    "marks_limit": "missing cache breakpoints",
    "not_marked": "missing cache breakpoints",
    "answer_not_kept": "the provider",
    "provider": "the provider",
}
"""The cause of each miss that the reports of a provider show; of the unknown ones none."""
_OF_ANY_MODEL: Sequence[CauseName] = ("short prompts", "prompts", "salts", "request fields", "caching off")
"""What takes the same tokens, or more, from each model whose hits end at the same units."""
FIRST_USES = ("first_use", "unique")
_WHY: Mapping[CauseName, str] = {
    "caching off": "{} could hit with the prefix cache on.",
    "request fields": "{} are in requests that do not read the cache.",
    "capacity": "{} were evicted before their reuse, by the rules of the server.",
    "model groups": "{} are cached, but the window or state layers of the model did not keep the place where they end.",
    "slots": "{} were in a slot that took another prompt.",
    "routing": "{} were in another cache when requests take turns.",
    "drafts": "{} are in last blocks that drafts need computed again.",
    "short prompts": "{} are shared, but do not fill a block.",
    "concurrency": "{} were computed at the same time by other requests.",
    "salts": "{} are cached for another salt or adapter.",
    "prompts": "{} repeat earlier prompts, but come after a difference.",
    "expiry": "{} were used again only after their time to live.",
    "missing cache breakpoints": "{} are shared, but no cache breakpoint stores them.",
    "minimum length": "{} are shared, but too short to be cached.",
    "cache keys": "{} are cached for another key, model or setting.",
    "the provider": "{} repeat an earlier prompt within its time to live, and the provider did not read them.",
}
_OF_DIFFERENCE: Mapping[str, CauseName] = {
    "caching_off": "caching off",
    "block_size": "short prompts",
    "other_tokens": "other tokens",
    "parallel": "concurrency",
}
_DIFFERS: Mapping[CauseName, str] = {
    "caching off": "The server read nothing of {} that it should have had.",
    "short prompts": "The server missed {}: its hits are multiples of a longer block.",
    "other tokens": "The server missed {} of prompts whose tokens differ from those of the log.",
    "concurrency": "The server missed {} that other requests were just computing.",
}
_OPEN = ("evicted_there", "not_explained")
"""Differences that the log does not explain: a fact about the server may."""
_SERVER_CAUSES: Sequence[CauseName] = ("several servers", "restart", "cache reset", "other traffic", "routing")
"""What makes a server report less than its rules predict, in the order in which it is believed."""


def log_causes(
    report: Report,
    found: Sequence[ServerCause],
    kind: str | None,
    *,
    caching: bool | None,
    missed: int = 0,
    enough: tuple[int, float] | None = None,
    known: bool = True,
) -> Iterator[ServerCause]:
    """Yield the causes of a log. `found` is what the servers themselves showed; `kind` is their kind.

    `caching`: whether they say that their cache is on; None if they do not say it. `missed`: tokens that their counters hit less
    than predicted, where the log has no usage. `enough`: blocks of a cache that keeps what this one evicts, with its hit rate.
    `known`: the model is; else only what no model can hit counts.
    """
    for name, count in _tokens(report).items():
        if count and (known or name in _OF_ANY_MODEL):
            yield _detailed(report, name, count, kind, enough)
    if report.hosted:
        return
    difference = _difference(report, missed)
    if not known:
        yield from _of_layers(difference.total(), found, kind)
        return
    if caching and difference["caching_off"]:  # nothing was read, and not for this reason
        difference[_read_nothing(report)] += difference.pop("caching_off")
    for what, name in _OF_DIFFERENCE.items():
        if count := difference.get(what, 0):
            why = _DIFFERS[name].format(plural(count, "token"))
            yield cause(name, "counted", count, why, kind, "log")
    if count := sum(difference.get(what, 0) for what in _OPEN):
        yield from _open(count, difference, found, kind)


def _tokens(report: Report) -> Counter[CauseName]:
    """Return what each cause takes: by the rules, or by the reads of a provider whose own rules do not give them."""
    tokens: Counter[CauseName] = Counter()
    misses = report.misses
    if report.hosted and misses is not None and not (misses.predictable and misses.calibration.advises):
        for miss, sums in misses.by_cause.items():
            if (name := _OF_MISS.get(miss)) is not None:
                tokens[name] += sums.tokens
        return tokens
    of_fate = {**_OF_FATE, **(_OF_HOSTED_FATE if report.hosted else {})}
    scale = server_tokens(report)
    for fate, count in report.fates.items():
        if (name := of_fate.get(fate)) is not None:
            tokens[name] += round(count * scale)
    if report.hosted and misses is not None and tokens["cache keys"]:  # reports say whether it is the host
        found = Counter[CauseName]()
        for miss, sums in misses.by_cause.items():
            if (name := _OF_MISS.get(miss)) in ("cache keys", "routing"):
                found[name] += sums.tokens
        if found:
            del tokens["cache keys"]
            tokens += found
    reported = report.reported
    whole = reported is not None and reported.requests == report.totals.requests
    if misses is not None and whole and not (misses.predictable and misses.calibration.advises):
        # What was reported goes before predictions that differ from it.
        of_prompts = [sums.tokens for miss, sums in misses.by_cause.items() if _OF_MISS.get(miss) == "prompts"]
        tokens["prompts"] = sum(of_prompts)
    return tokens


def server_tokens(report: Report) -> float:
    """Return how many tokens of the server one of kvtool's is, over all requests of the log; 1 where the server reports none."""
    reported, totals = report.reported, report.totals
    known = reported is not None and reported.requests == totals.requests and reported.prompt_tokens
    return reported.prompt_tokens / totals.prompt_tokens if known and reported and totals.prompt_tokens else 1.0


def _difference(report: Report, missed: int) -> Counter[str]:
    """Return what the server read less than predicted, by cause; without a comparison request by request, in one."""
    nothing = report.reported is not None and not report.reported.cached_tokens
    return Counter(report.difference or {"caching_off" if nothing else "not_explained": missed})


def _read_nothing(report: Report) -> str:
    """Return why a cache that is on read nothing: where the server counts other tokens, its prompts begin in another way."""
    reported, totals = report.reported, report.totals
    same = reported is None or reported.requests != totals.requests or reported.prompt_tokens == totals.prompt_tokens
    return "not_explained" if same else "other_tokens"


def _open(
    count: int, difference: Mapping[str, int], found: Sequence[ServerCause], kind: str | None
) -> Iterator[ServerCause]:
    """Yield who explains what the server reported less than predicted."""
    missed = f"The server missed {plural(count, 'token')} that its rules predict."
    shown = {each.cause: each for each in found}
    for name in _SERVER_CAUSES:
        if name in shown:
            yield cause(name, "counted", count, f"{missed} {shown[name].why}", kind, "log")
            return
    if count == difference.get("evicted_there"):
        why = f"{missed} A smaller cache, or one that others fill too, explains them."
        yield cause("capacity", "counted", count, why, kind, "log")


def _of_layers(count: int, found: Sequence[ServerCause], kind: str | None) -> Iterator[ServerCause]:
    """Yield what a server read less than full attention with an endless cache."""
    if count:
        shown = {each.cause for each in found}
        name: CauseName = next((each for each in _SERVER_CAUSES if each in shown), "model groups")
        why = f"The server missed {plural(count, 'token')} that full attention in all layers can hit."
        yield cause(name, "at most", count, why, kind, "log")


def unexplained(report: Report, causes: Sequence[ServerCause], missed: int = 0) -> int:
    """Return the tokens that the server missed and no cause explains."""
    if report.hosted:
        return 0  # its misses are counted by cause
    left = sum(_difference(report, missed)[what] for what in _OPEN)
    return 0 if any(each.source == "log" and each.tokens == left for each in causes) else left


def _detailed(
    report: Report, name: CauseName, tokens: int, kind: str | None, enough: tuple[int, float] | None
) -> ServerCause:
    """Return a cause with its costliest finding: the place, and the change that was tried."""
    why, change = _WHY[name].format(plural(tokens, "token")), change_of(name, kind)
    finding = _finding_of(report, name)
    if finding is not None and name != "prompts":
        return ServerCause(
            cause=name,
            basis="counted",
            tokens=tokens,
            why=why,
            change=_sentence(finding.fix),
            source="log",
        )
    if finding is not None:
        why += f" {_place(finding)}{finding.code}: {_sentence(finding.message)}"
        change = _sentence(finding.fix)
        if finding.rerun is not None and finding.rerun.group_alone is not None:
            of = f" of group {finding.group}" if len(report.groups) > 1 else ""
            change += f" Hit rate{of}: {percent(finding.rerun.group_alone)}, by a rerun of this edit alone."
    if name == "capacity" and enough is not None:
        blocks, rate = enough
        change += f" With {blocks:,} blocks the hit rate is {percent(rate)}, by a rerun."
    return ServerCause(cause=name, basis="counted", tokens=tokens, why=why, change=change, source="log")


def _finding_of(report: Report, name: CauseName) -> Finding | None:
    """Return the costliest finding of a cause; what a server is to change is in its own flags, not in a finding."""
    if name == "prompts":
        found = [each for each in report.findings if each.code.startswith(("KV1", "KV2")) and not _of_cache(each)]
    elif report.hosted:
        fates = {fate for fate, cause_ in {**_OF_FATE, **_OF_HOSTED_FATE}.items() if cause_ == name}
        found = [each for each in report.findings if fates & {*wins(each.code)}]
    else:
        found = []
    return max(found, key=lambda each: each.tokens_lost, default=None)


def _of_cache(finding: Finding) -> bool:
    """Return whether a finding is about what the cache stores, not about the text of the prompts."""
    causes = {_OF_FATE.get(fate) for fate in wins(finding.code)}
    return bool(causes) and "prompts" not in causes


def _place(finding: Finding) -> str:
    if finding.logged is not None:
        return f"{finding.path}:{finding.logged.record}, {finding.logged.told}: "
    return f"{finding.path}:{finding.line}: " if finding.line else ""


def _sentence(text: str) -> str:
    text = text.strip().rstrip(".")
    return f"{capitalized(text)}."
