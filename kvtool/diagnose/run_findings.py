"""Findings of the run, not of a line: evictions, salts, cold starts, replicas, times to live, the order, too short prefixes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvtool.accounting.boundary import BoundaryBook, GroupBoundary, padding_sentence
from kvtool.accounting.caches.cache_rules import CacheRules, lifetime
from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.accounting.observable import ObservedTokens, by_pair
from kvtool.diagnose.codes.entry import CodeEntry
from kvtool.diagnose.codes.layout.kv202 import KV202
from kvtool.diagnose.codes.layout.kv203 import KV203
from kvtool.diagnose.codes.layout.kv204 import KV204
from kvtool.diagnose.codes.run.kv301 import KV301
from kvtool.diagnose.codes.run.kv302 import KV302
from kvtool.diagnose.codes.run.kv303 import KV303
from kvtool.diagnose.codes.run.kv304 import KV304
from kvtool.diagnose.codes.run.kv305 import KV305
from kvtool.diagnose.codes.run.kv306 import KV306
from kvtool.diagnose.codes.run.kv307 import KV307
from kvtool.diagnose.codes.run.kv331 import KV331
from kvtool.diagnose.codes.run.kv332 import KV332
from kvtool.diagnose.codes.run.kv333 import KV333
from kvtool.diagnose.codes.run.kv334 import KV334
from kvtool.diagnose.codes.run.kv335 import KV335
from kvtool.diagnose.diagnosis_thresholds import THRESHOLDS
from kvtool.diagnose.findings import Locate, fate_finding, logged_place
from kvtool.diagnose.severity import severity_in_run
from kvtool.diagnose.shared_secrets import Sensitive
from kvtool.engine.rules.rule_set import RuleChoice
from kvtool.results.choices import Severity
from kvtool.results.finding import Finding
from kvtool.text.terminal.numbers import plural

_MESSAGES = {
    "evicted": "{engine} evicted the prefix before its reuse",
    "slot_lost": "the server slot of the prefix took another prompt, and no saved prompt could replace it",
    "host_list_full": "newer prompts replaced the saved prefix in host memory",
    "window": "sliding-window layers had dropped tokens that the prefix needs",
    "no_state": "state layers had no checkpoint where the prefix ends",
    "taken_over": "another prompt took over the last block of the prefix",
    "partial_block": "shared prefixes end inside pages of {unit:,} tokens",
}
_CODES: dict[str, CodeEntry] = {fate: code for code in (KV301, KV303, KV331, KV332, KV333, KV334) for fate in code.wins}
_OF_FATES = (KV301, KV302, KV303, KV304, KV305, KV203)
"""Codes whose findings are told from the fates that they win alone."""
_OFF_PREFIX = 0.1
"""Share of a group's prompt tokens that must be elsewhere in earlier prompts: some lines are the same in any two texts."""
_MOST_SENSITIVE = 10
_SERIOUS = ("an API key", "a card number", "an IBAN", "a social security number")

MARK_THE_END = "put a cache breakpoint on the last block of the shared text"
KEEP_LONGER = "set a longer time to live, or send a request in between to keep the prefix warm"
"""Fixes that the cheapest marks of a log replace."""


def run_findings(
    groups: Iterable[GroupTotals],
    *,
    path: str,
    block_size: int,
    rules: CacheRules | None = None,
    boundaries: BoundaryBook | None = None,
    knows_marks: bool = True,
    predictable: bool = True,
    cache_keys: int = 1,
    longer_ttl: bool = True,
    tenants: int = 0,
    several_models: bool = False,
) -> list[Finding]:
    """Return the findings of each group; `path` is for the workload, as none of them is about a line of text.

    `tenants` is how many salts were left out, as the engine whose rules are followed knows none. `several_models`: the requests
    name several, each of which has a cache of its own. Without `knows_marks` no mark is said to be missing. If not
    `predictable`, no rule is said to have lost anything. `cache_keys`: more than one where these alone keep prefixes apart. Without
    `longer_ttl` no time to live that a provider offers covers the gaps.
    """
    found: list[Finding] = []
    if rules is not None and rules.engine is not None:
        groups = list(groups)
        found += engine_findings(groups, rules.engine, path=path, tenants=tenants)
    told = _messages(rules)
    if not knows_marks:
        told.pop("unmarked", None)
    if several_models and not (rules is not None and rules.hosted):
        told["isolated"] = (
            "another model has a cache of its own with this prefix",
            "send requests that share a prefix to one model",
        )
    if cache_keys > 1:
        told["isolated"] = (
            f"{cache_keys:,} values of the cache key split a shared prefix",
            "use one cache key (prompt_cache_key) for all requests that share it",
        )
    if not longer_ttl:
        told["expired"] = (told["expired"][0], "send a request in between to keep the prefix warm, or do not cache it")
    for group in groups:
        if predictable:
            found += _fate_findings(group, path, told, by_cost=cache_keys > 1)
        found += _off_prefix(group, path)
        shape = boundaries.get(group.name) if boundaries is not None else None
        if rules is None or not (rules.hosted or rules.engine):  # a provider has no blocks that anybody could choose
            found += _prefix_findings(group, path, block_size, shape)
    return found


def _fate_findings(group: GroupTotals, path: str, told: dict[str, tuple[str, str]], *, by_cost: bool) -> list[Finding]:
    """Return the findings of fates in the words for them; `by_cost`: that of a split prefix is as severe as it is costly."""
    found: list[Finding] = []
    for entry, fate in [(one, fate) for one in _OF_FATES for fate in one.wins if fate in told]:
        severity: Severity | None = "info" if entry is KV302 and not by_cost else None
        finding = fate_finding(entry, group.fates[fate], group, told[fate], path=path, severity=severity)
        found += [finding] if finding is not None else []
    return found


def _off_prefix(group: GroupTotals, path: str) -> list[Finding]:
    """Return text that earlier prompts have too, and none of them at this place: no line is to blame for it, but the order of
    all.
    """
    tokens = group.fates["displaced"]
    if tokens < max(_OFF_PREFIX * group.prompt_tokens, 1):
        return []
    message = "earlier prompts contain this text too, but after a different beginning"
    fix = "put shared text first, in one order, and the text of a single request last"
    points = tokens / group.prompt_tokens
    severity = _severity(tokens, group)
    return [
        Finding.of(KV202.code, severity, group.name, path, 0, 0, message, tokens, fix, points=points, tier=KV202.tier)
    ]


def _severity(tokens: int, group: GroupTotals) -> Severity:
    return severity_in_run(tokens, group.requests, group.prompt_tokens)


def _messages(rules: CacheRules | None) -> dict[str, tuple[str, str]]:
    """Return what a fate is told as: message and fix."""
    provider = rules.provider if rules is not None else None
    minimum = f"{provider.name}'s minimum of {provider.minimum:,} tokens" if provider is not None else "the minimum"
    ttl = f" (time to live: {lifetime(rules.ttl)})" if rules is not None and rules.ttl is not None else ""
    in_flight = ("requests with one prefix start together, before the first has computed it", "send one request first")
    if rules is not None and rules.engine is not None:
        return {
            "in_flight": in_flight,
            "isolated": (
                "a cache salt stops tenants from sharing this prefix",
                "decide this for security, not for speed",
            ),
        }
    router = f"{rules.routing} router" if rules is not None else "router"
    return {
        "evicted": (
            "the cache evicted the prefix before its reuse",
            "raise --capacity",
        ),
        "isolated": (
            "another model, account, region, key or salt has its own cache of this prefix",
            "send requests that share a prefix to one model, with one key",
        )
        if rules is not None and rules.hosted
        else (
            "a cache salt stops tenants from sharing this prefix",
            "decide this for security, not for speed",
        ),
        "in_flight": in_flight,
        "scattered": (
            f"the {router} sent requests with one prefix to different replicas",
            "send requests that share a prefix to one replica: --routing sticky or prefix-aware",
        ),
        "expired": (
            f"the prefix expired before its reuse{ttl}",
            KEEP_LONGER,
        ),
        "below_minimum": (
            f"the shared prefix is shorter than {minimum}",
            "move more constant text to the front until it is long enough",
        ),
        "unmarked": (
            "no cache breakpoint marks the end of the shared prefix, so the provider does not store it",
            MARK_THE_END,
        ),
    }


def _prefix_findings(group: GroupTotals, path: str, block_size: int, shape: GroupBoundary | None) -> list[Finding]:
    """Return where the shared prefix ends among the blocks."""
    shared = group.common_prefix()
    if group.requests < 2 or not group.prompt_tokens:
        return []
    if block_size <= 4 * shared < 4 * block_size and not group.hit_tokens:
        message = f"the shared prefix of {shared:,} tokens is shorter than a block of {block_size:,}"
        lost = min(shared * (group.requests - 1), group.in_part_blocks)
        fix = "move more constant text to the front" + _smaller_block(shape)
        points = min(lost / group.prompt_tokens, 1.0)
        severity = _severity(lost, group)
        return [Finding.of(KV203.code, severity, group.name, path, 0, 0, message, lost, fix, points=points)]
    edit = shape.padding() if shape is not None else None
    if (
        edit is None
        or shape is None
        or edit.tokens_saved < THRESHOLDS.warning_share * group.prompt_tokens
        or shared < block_size
    ):
        return []
    lost = group.in_part_blocks
    over = shared % block_size
    message = f"the shared prefix of {shared:,} tokens ends {over:,} tokens into a block of {block_size:,}"
    if over + edit.add_tokens != block_size:  # the requests that gain most have another prefix than the usual one
        message = f"shared prefixes end inside blocks of {block_size:,} tokens"
    points = lost / group.prompt_tokens
    fix = padding_sentence(edit, shape.requests)
    severity = _severity(lost, group)
    return [
        Finding.of(KV204.code, severity, group.name, path, 0, 0, message, lost, fix, points=points, tier=KV204.tier)
    ]


def _smaller_block(shape: GroupBoundary | None) -> str:
    """Return what the largest smaller block that hits anything would hit."""
    if shape is None:
        return ""
    sizes = [size for size, totals in shape.sizes.items() if size < shape.block_size and totals.hit_tokens]
    if not sizes:
        return ""
    size = max(sizes, key=lambda size: (shape.sizes[size].hit_tokens, size))
    return f"; blocks of {size:,} hit {shape.sizes[size].hit_tokens:,} tokens"


def observable_findings(observed: Sequence[ObservedTokens], *, path: str, group: str) -> list[Finding]:
    """Return what tenants can tell of each other by the cache, each pair with its tokens; one finding, as one change mends all of
    it.
    """
    pairs = by_pair(list(observed))
    if not pairs:
        return []
    tokens = sum(pairs.values())
    (owner, reader), most = pairs.most_common(1)[0]
    among = f", and {plural(len(pairs) - 1, 'more pair')}" if len(pairs) > 1 else ""
    message = (
        f"tenants hit {plural(tokens, 'token')} that only other tenants had sent: {reader} hit {most:,} of {owner}{among}; "
        "a tenant who guesses such text sees that it was sent"
    )
    fix = "give each tenant a salt or cache key if tenants must not learn about each other"
    return [Finding.of(KV307.code, "info", group, path, 0, 0, message, 0, fix)]


def sensitive_findings(places: Iterable[Sensitive], *, path: str, locate: Locate) -> list[Finding]:
    """Return what looks sensitive in prefixes that several sessions or groups share. The text itself is never told."""
    found = []
    for place in sorted(places, key=lambda place: (place.kind not in _SERIOUS, -place.requests))[:_MOST_SENSITIVE]:
        where, line, column = path, 0, 0
        if place.origin is not None:
            where, (line, column) = place.origin.path, locate(place.origin, place.offset)
        groups = len({group for group, _ in place.parties})
        noun = "tenants" if all(not group for group, _ in place.parties) else "sessions"
        who = f"{groups:,} groups" if groups > 1 else f"{len(place.parties):,} {noun}"
        message = f"{who} without a salt share a prefix that contains what looks like {place.kind}"
        severity: Severity = "warning" if place.kind in _SERIOUS else "info"
        fix = "check who may know it; else move it after the shared text, or give each tenant a salt"
        logged = None
        if place.record is not None and place.record.record and place.origin is not None:
            logged = logged_place(place.record, place.origin, place.offset, place.origin.part)
        found.append(
            Finding.of(
                KV306.code,
                severity,
                place.group,
                where,
                line,
                column,
                message,
                0,
                fix,
                confidence=0.5,
                logged=logged,
            )
        )
    return found


def code_of(fate: str, group: GroupTotals) -> CodeEntry | None:
    """Return which code tells of a fate under another engine's rules; of parts of pages that depends on whether any hit at all."""
    if fate == "partial_block":
        return KV204 if group.hit_tokens else KV203
    return _CODES.get(fate)


def engine_findings(groups: Iterable[GroupTotals], choice: RuleChoice, *, path: str, tenants: int) -> list[Finding]:
    """Return what each group lost to the engine's rules; `tenants` is how many salts the run had, which some engines leave out."""
    settings = choice.rules.remedies(choice.options)
    found: list[Finding] = []
    name = ""
    for group in groups:
        name = name or group.name
        for fate, message in _MESSAGES.items():
            code = code_of(fate, group)
            if code is None:
                continue
            text = message.format(engine=choice.rules.engine, unit=choice.unit)
            fix = next((each.what for each in settings if each.fate == fate), "no engine setting changes this")
            finding = fate_finding(code, group.fates[fate], group, (text, fix), path=path)
            found += [finding] if finding is not None else []
    if tenants > 1 and not choice.rules.scopes:
        text = (
            f"{tenants:,} tenants share one cache, because {choice.rules.engine} has no salts; "
            "a tenant who guesses a prompt sees that it was sent"
        )
        fix = "run one server per tenant, or an engine that supports salts"
        found.append(Finding.of(KV335.code, "warning", name, path, 0, 0, text, 0, fix))
    return found
