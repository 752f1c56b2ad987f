"""The prompt cache of a provider: a minimum, steps, breakpoints and a time to live, over a tree of sent prompts."""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from kvtool.accounting.caches.breakpoints import ContentBlocks, find_blocks
from kvtool.accounting.caches.cache_rules import CacheRules, Outcome, Prediction, UnreadPrefix
from kvtool.accounting.caches.calibration_ratio import Alike, TokenRatios
from kvtool.accounting.caches.dated_rules import find_rule
from kvtool.accounting.caches.forks import Forks, find_forks, settings_digest
from kvtool.accounting.caches.mark_plan import last_blocks, lead_blocks, prefix_keys, unmarkable_blocks
from kvtool.accounting.caches.providers import Provider
from kvtool.accounting.caches.request_layout import (
    PromptLayout,
    WholeLayouts,
    is_charged_for_an_hour,
    written_tokens,
)
from kvtool.accounting.caches.ruled_request import RuledRequest
from kvtool.accounting.caches.scopes import scope_of
from kvtool.accounting.caches.timed_tree import LONG, TimedNode, TimedTree, Use
from kvtool.accounting.log_clock import CLOCK, day_of
from kvtool.accounting.token_store import TokenStore
from kvtool.workload.call import Call, CallSettings
from kvtool.workload.jobs import Job

_ALL_SETTINGS = tuple(CallSettings.__dataclass_fields__)
_ROUTED = 256
"""Tokens at the front of a prompt by which it is sent to where it was cached."""
_MINUTE = 60.0
_REPORTED_AS = {"unmarked": "not_marked", "in_flight": "parallel"}
"""Causes of unread tokens for which money reports and the ledger use different words."""
_MOST_COUNTED = 10_000
"""The most requests of a minute that are counted; more are reported as this many."""
_MOST_KEYS = 50_000
"""The most prefixes whose last minute is kept, a bound on memory; the least recently used one is dropped."""


@dataclass(slots=True)
class ScopedTree:
    """The prompts sent within one scope, and the latest request's rules, model and provider."""

    tree: TimedTree
    rules: Provider
    model: str | None
    provider: str | None


@dataclass(slots=True)
class _StoredLengths:
    """Lengths among the forked tokens: readable; without requests in flight; without expiry; without a minimum."""

    hit: int = 0
    answered: int = 0
    lasting: int = 0
    short: int = 0
    at: TimedNode | None = None
    unread: UnreadPrefix | None = None


class ProviderCache:
    """Apply `Provider` rules. A scope has a cache of its own; nothing is evicted for want of room, because no provider publishes
    its size."""

    def __init__(self, rules: CacheRules, *, lays_out: int = 0) -> None:
        """Create the cache. To price other marks of the same requests it keeps all blocks of the first `lays_out` of each scope,
        and those of the leading text of others."""
        assert rules.hosted
        self.least: int | None = None
        """The provider's minimum, while no prompt was as long: 0 once one was, None before the first."""
        self.rules = rules
        self.layouts: list[PromptLayout] | None = [] if lays_out else None
        """The requests of providers that store marked prefixes."""
        self.nameable: list[PromptLayout] = []
        """Likewise, those of providers that keep a prefix by name."""
        self._whole = WholeLayouts(lays_out)
        self.ratios = TokenRatios()
        self.trees: dict[str, ScopedTree] = {}
        self._tokens = TokenStore()
        self.too_many_marks: dict[int, int] = {}
        """Requests by their marks, where these are more than the provider takes."""
        self.undocumented: set[str] = set()
        """Models of which only the price of cached tokens says that there is a cache."""
        self._minutes: dict[tuple[str, int], deque[float]] = {}
        self._mended: dict[tuple[Provider, str | None], Provider] = {}
        """Rules by model where its server reported a shorter prefix in its cache than the documented minimum."""

    @property
    def num_evictions(self) -> int:
        return 0

    @property
    def num_filled(self) -> int:
        trees = self.trees.values()
        return sum(sum(node.stop - node.start for node in one.tree.nodes()) // one.rules.step for one in trees)

    def rules_for(self, job: Job, now: float) -> Provider | None:
        """Return the run's rules, or those of the request's model on its day; None if they are unknown."""
        if not self.rules.dated:
            return self.rules.provider
        call = job.turn.call
        if call.model is None:
            return None
        row = find_rule(call.model, call.provider, day_of(self.rules.epoch, now))
        if row is not None and not row.documented:
            self.undocumented.add(call.model)
        return None if row is None else row.rules

    def _as_reported(self, rules: Provider, call: Call) -> Provider:
        """Return the rules, with a smaller minimum where a shorter prefix was reported as cached for this model.

        Where it is then, no report says. Half of that prefix is surely shorter, whichever tokens count.
        """
        key, usage = (rules, call.model), call.usage_of_prompt
        known = self._mended.get(key, rules)
        told = 0 if usage is None else (usage.cached or 0) + (usage.all_written or 0)
        if 0 < told < rules.minimum and told // 2 < known.minimum:
            known = self._mended[key] = replace(known, minimum=told // 2, is_learned=True)
        return known

    def request(self, job: Job, now: float, reachable: int) -> Outcome:
        """Look a request up and store it; its fates are an expired time, a minimum and a missing breakpoint."""
        rules = self.rules_for(job, now)
        if rules is None:
            return Outcome(0, (("unmarked", reachable),))
        rules = self._as_reported(rules, job.turn.call)
        scope = scope_of(job.turn) or ""
        asked = self._asked(job, rules, now, scope)
        scoped = self.trees.get(scope)
        if scoped is None:
            scoped = self.trees[scope] = ScopedTree(
                TimedTree(self._tokens), rules, job.turn.call.model, job.turn.call.provider
            )
        scoped.rules, tree = rules, scoped.tree
        path = tree.path(asked.ids)
        if asked.rules.keeps == "breakpoints":
            asked.scale = asked.scale.through(asked.counted_prefixes(path))
        if self.least != 0:
            short = asked.scale.theirs_of(len(job.ids)) < rules.minimum
            self.least = min(rules.minimum, self.least or rules.minimum) if short else 0
        found = self._prefix(path, asked) if rules.keeps == "prefix" else self._entries(path, asked)
        lengths = self._lengths(found, asked)
        outcome = self._outcome(asked, lengths, found, path, reachable, self._in_a_minute(scope, asked))
        for node in path:
            if node.entry is not None and node.stop <= found.hit:
                node.entry = now
        self._store(tree, asked, path, asked.forks.back(found.hit))
        if (
            self.layouts is not None
            and asked.blocks is not None
            and (rules.keeps == "breakpoints" or rules.named_caches)
        ):
            assert outcome.prediction is not None
            kept = self.layouts if rules.keeps == "breakpoints" else self.nameable
            kept.append(self._laid_out(scope, asked, asked.blocks, outcome.prediction.prompt))
        return outcome

    def _laid_out(self, scope: str, asked: RuledRequest, blocks: ContentBlocks, prompt: int) -> PromptLayout:
        """Return what other marks of a request would read and write."""
        scale, rules, most = asked.scale, asked.rules, max(len(asked.job.ids) - 1, 0)
        call, lead = asked.job.turn.call, lead_blocks(blocks)
        keys = prefix_keys(asked.ids, [asked.forks.there(end) for end in blocks.ends[:lead]])
        whole = rules.keeps != "breakpoints" or self._whole.takes(scope, keys, len(blocks.ends))
        if whole:
            keys = prefix_keys(asked.ids, [asked.forks.there(end) for end in blocks.ends])
        own_ends = blocks.ends if whole else ()
        ends = [scale.theirs_of(end) for end in own_ends]
        stored = [end if end >= rules.minimum else 0 for end in ends]
        times = (None, LONG) if LONG in rules.tiers else (None,)
        return PromptLayout(
            scope=scope,
            group=asked.job.turn.group,
            name=asked.job.turn.name,
            call=replace(call, fields=()) if whole else self._whole.priced_call(call),
            rules=rules,
            use=asked.use,
            keys=array("Q", keys),
            reads=array(
                "q",
                [
                    min(scale.theirs_of(min(own, most)), prompt) if end else 0
                    for own, end in zip(own_ends, stored, strict=True)
                ],
            ),
            ends=array("q", stored),
            prompt=prompt,
            tools=sum(end <= blocks.tools_end for end in blocks.ends[:lead]),
            lead=lead,
            messages=last_blocks(blocks) if whole else [],
            unmarkable=unmarkable_blocks(blocks) if whole else frozenset(),
            kept={ttl: self._ttl(asked, ttl) for ttl in times},
        )

    def _asked(self, job: Job, rules: Provider, now: float, scope: str) -> RuledRequest:
        call = job.turn.call
        alike, usage = Alike.of(job.turn), call.usage_of_prompt
        if usage is not None:
            self.ratios.add(alike, usage.prompt, len(job.ids))
        scale = self.ratios.scale(alike)
        named = rules.named_caches and self.layouts is not None and call.usage is not None
        blocks = find_blocks(job, rules) if rules.keeps == "breakpoints" or rules.fork_system or named else None
        if blocks is not None and rules.needs_mark and len(blocks.asked) > rules.most:
            count = len(blocks.asked)
            self.too_many_marks[count] = self.too_many_marks.get(count, 0) + 1
        forks = Forks() if blocks is None else find_forks(call.settings, rules, blocks)
        ids = forks.parted(job.ids)
        last, marks = None if blocks is None else max(blocks.marked, default=None), self.rules.marks
        if marks is not None and blocks is not None and marks.sets_of(scope) is not None:
            marked = marks.marked(scope, ids, blocks, forks, rules.most)
            blocks = replace(blocks, marked=marked, extra=frozenset())
        epoch = self.rules.epoch
        ready = until = None
        if epoch is not None and epoch > CLOCK:
            ready = None if call.first_answer is None else max(call.first_answer - epoch, now)
            until = None if call.end is None else max(call.end - epoch, now)
        use = Use(now, ready, until, settings_digest(call.settings, _ALL_SETTINGS))
        return RuledRequest(job, rules, scale, blocks, forks, ids, use, last)

    def _ttl(self, asked: RuledRequest, own: float | None = None) -> float | None:
        """Return the time for which the request's prefixes are kept: the run's, its mark's, its settings', or the usual one."""
        rules = asked.rules
        if rules.keeps == "breakpoints" and self.rules.mark_ttl is not None:
            return self.rules.mark_ttl
        if self.rules.dated:
            if self.rules.ttl is not None:
                return self.rules.ttl
        elif self.rules.ttl is None or self.rules.ttl != rules.ttl:
            return self.rules.ttl
        if own is not None and rules.keeps == "breakpoints":
            return own
        return rules.kept_for(asked.job.turn.call.settings)

    def _outcome(
        self,
        asked: RuledRequest,
        lengths: tuple[int, ...],
        found: _StoredLengths,
        path: list[TimedNode],
        reachable: int,
        rate: int,
    ) -> Outcome:
        rules, scale, count = asked.rules, asked.scale, len(asked.job.ids)
        hit, answered, lasting, short = (self._cut(asked, own) for own in lengths)
        rungs: list[tuple[str, int]] = []
        if answered > hit:
            rungs.append(("in_flight", answered))
        if any(node.ttl is not None for node in path):
            rungs.append(("expired", lasting))
        if rules.minimum > 1:
            rungs.append(("below_minimum", short))
        known = asked.forks.back(path[-1].stop) if path else 0
        if rules.keeps != "prefix":
            if asked.forks.places:
                rungs.append(("unmarked", min(max(known, short), reachable)))
            else:
                rungs.append(("unmarked", reachable))
        if asked.forks.places:
            if rules.keeps == "prefix":
                rungs.append(("partial_block", min(known, reachable)))
            rungs.append(("setting_changed", reachable))
        elif rules.step > 1 and (self.rules.dated or scale.own != scale.theirs):
            rungs.append(("partial_block", reachable))
        usage = asked.job.turn.call.usage_of_prompt
        reported = usage.prompt if usage is not None else None
        prompt = scale.theirs_of(count) if reported is None else reported

        def theirs(tokens: int) -> int:
            return min(scale.theirs_of(tokens) // rules.step * rules.step, prompt)

        lost, at = [], theirs(lengths[0])
        for cause, tokens in rungs:
            more = theirs(min(tokens, reachable)) - at
            if more > 0:
                lost.append((_REPORTED_AS.get(cause, cause), more))
                at += more
        written, hour = self._written(asked, hit, prompt)
        node = found.at
        now = asked.use.now
        return Outcome(
            hit,
            tuple(rungs),
            Prediction(
                rules=rules,
                prompt=prompt,
                cached=theirs(lengths[0]),
                written=written,
                written_1h=hour,
                lost=tuple(lost),
                kept=theirs(lengths[2]),
                known=min(scale.theirs_of(known), prompt),
                age=None if node is None else now - (node.used if node.entry is None else node.entry),
                unanswered=node is not None and asked.job.turn.call.first_answer is None and node.until > now,
                other_settings=node is not None and node.settings != asked.use.settings,
                in_a_minute=rate,
                marks=0 if asked.blocks is None else len(asked.blocks.asked),
                unread=found.unread,
                stored_ends=self._stored_ends(asked),
                error=scale.error_of(lengths[0]),
                scale=scale if len(scale.points) > 1 else None,
            ),
        )

    def _written(self, asked: RuledRequest, hit: int, prompt: int) -> tuple[int, int]:
        """Return the tokens that the request stores at a separate price, and how many of them for an hour, in the provider's
        count."""
        if asked.rules.keeps != "breakpoints" or asked.blocks is None:
            return 0, 0
        scale, rules = asked.scale, asked.rules
        ends = {False: 0, True: 0}
        for stop, ttl in asked.blocks.marked.items():
            if scale.theirs_of(stop) >= rules.minimum:
                hour = is_charged_for_an_hour(rules, self._ttl(asked, ttl))
                ends[hour] = max(ends[hour], scale.theirs_of(stop))
        return written_tokens(scale.theirs_of(hit), prompt, ends[False], ends[True])

    def _stored_ends(self, asked: RuledRequest) -> tuple[int, ...]:
        if asked.rules.keeps != "breakpoints" or asked.blocks is None:
            return ()
        return tuple(end for end in asked.blocks.marked if asked.scale.theirs_of(end) >= asked.rules.minimum)

    def _in_a_minute(self, scope: str, asked: RuledRequest) -> int:
        """Return the requests of the last minute with this one's prefix and key; 0 if the rules give no bound."""
        if not asked.rules.most_a_minute:
            return 0
        key = scope, hash(asked.job.ids[:_ROUTED].tobytes())
        times = self._minutes.pop(key, None) or deque[float](maxlen=_MOST_COUNTED)
        self._minutes[key] = times
        if len(self._minutes) > _MOST_KEYS:
            del self._minutes[next(iter(self._minutes))]
        now = asked.use.now
        while times and now - times[0] >= _MINUTE:
            times.popleft()
        times.append(now)
        return len(times) if self.rules.epoch is not None else 0

    def _lengths(self, found: _StoredLengths, asked: RuledRequest) -> tuple[int, int, int, int]:
        """Return lengths in the prompt's own tokens, not cut to steps, with the minimum applied to all but the last."""
        rules, scale, most = asked.rules, asked.scale, max(len(asked.job.ids) - 1, 0)

        def kept(length: int, least: int) -> int:
            own = asked.forks.back(length)
            return min(own, most) if scale.theirs_of(own) // rules.step * rules.step >= least else 0

        least = rules.minimum
        return kept(found.hit, least), kept(found.answered, least), kept(found.lasting, least), kept(found.short, 0)

    def _cut(self, asked: RuledRequest, own: int) -> int:
        """Return a length in own tokens, cut to whole steps of the provider's, or of ours if the run has blocks of a step."""
        step, scale = asked.rules.step, asked.scale
        if step == 1:
            return own
        if not self.rules.dated:
            return own // step * step
        return min(-(-(scale.theirs_of(own) // step * step) * scale.own // scale.theirs), own)

    def _prefix(self, path: list[TimedNode], asked: RuledRequest) -> _StoredLengths:
        """Return the lengths if every prefix is stored: the known part, and the part that was used recently."""
        found, now = _StoredLengths(), asked.use.now
        for node in path:
            if node.alive(node.used, now):
                if found.hit == node.start and node.ready <= now:
                    found.hit, found.at = node.stop, node
                if found.answered == node.start:
                    found.answered = node.stop
            found.lasting = found.short = node.stop
        return found

    def _entries(self, path: list[TimedNode], asked: RuledRequest) -> _StoredLengths:
        """Return the longest stored prefix that the request may read."""
        looked = None
        if asked.rules.keeps == "breakpoints" and asked.blocks is not None:
            looked = {asked.forks.there(end) for end in asked.blocks.readable(asked.rules.lookback)}
        found, now = _StoredLengths(), asked.use.now
        for node in path:
            if node.entry is None:
                continue
            if looked is not None and node.stop not in looked:
                if node.can_be_read(now):
                    found.unread = self._unread(node, asked) or found.unread
                continue
            found.short = node.stop
            if asked.scale.theirs_of(asked.forks.back(node.stop)) >= asked.rules.minimum:
                found.lasting = node.stop
                if node.alive(node.entry, now):
                    found.answered = node.stop
                    if node.can_be_read(now):
                        found.hit, found.at = node.stop, node
        return found

    def _unread(self, node: TimedNode, asked: RuledRequest) -> UnreadPrefix | None:
        """Return a stored prefix that the request's marks do not find; None where it has no mark that could."""
        assert asked.blocks is not None
        end, blocks = asked.forks.back(node.stop), asked.blocks
        tokens = asked.scale.theirs_of(end)
        if not blocks.asked or tokens < asked.rules.minimum:
            return None
        distance = blocks.blocks_to(end, blocks.asked)
        if distance is not None and distance <= asked.rules.lookback:
            return UnreadPrefix(tokens, distance, dropped=True)
        distance = blocks.blocks_to(end, blocks.marked)
        return None if distance is None else UnreadPrefix(tokens, distance, dropped=False)

    def _store(self, tree: TimedTree, asked: RuledRequest, path: list[TimedNode], hit: int) -> None:
        ids, use = asked.ids, asked.use
        match asked.rules.keeps:
            case "prefix":
                sequence = np.concatenate([ids, asked.job.computed_output()])
                tree.insert(sequence, {}, use, (self._ttl(asked),))
            case "breakpoints":
                assert asked.blocks is not None
                marked = asked.blocks.marked.items()
                stops = {asked.forks.there(stop): self._ttl(asked, ttl) for stop, ttl in marked}
                tree.insert(
                    ids,
                    stops,
                    use,
                    counted={asked.forks.there(end): tokens for end, tokens in asked.reported_prefixes(hit).items()},
                )
            case "requests":
                sequence = np.concatenate([ids, asked.job.computed_output()])
                known = path[-1].stop if path else 0  # the common part of two requests is stored from then on
                ttl = self._ttl(asked)
                tree.insert(sequence, dict.fromkeys((known, len(ids), len(sequence)), ttl), use)
