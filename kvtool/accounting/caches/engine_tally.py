"""Count each engine's reuse of the same requests, and the losses of known tokens by fate; without a ledger."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from kvtool.accounting.ledger.fates import block_rungs
from kvtool.accounting.prefix_tree import Ids, RadixTree, with_answer
from kvtool.accounting.token_store import TokenStore
from kvtool.engine.engine_error import EngineError
from kvtool.engine.rules.rule_set import EngineCache, RuleChoice, RuleRequest


class SharedPrefixes:
    """The part of each prompt that was sent before: by the same tenant, and by anybody."""

    def __init__(self) -> None:
        self._store = TokenStore()
        self._all = RadixTree(self._store)
        self._tenants: dict[str, RadixTree] | None = None
        """Prefixes of each salt; None until a request has one."""

    def enter(self, ids: Ids, answer: Ids, salt: str | None) -> tuple[int, int]:
        """Return the tokens of a prompt that its tenant had computed, and that anybody had; then all but its last token count as
        computed."""
        sequence = with_answer(ids, answer[:-1])
        if salt and self._tenants is None:  # all before were of one tenant
            self._tenants = {"": self._all.copy()}
        known = own = self._all.grow(ids, sequence)
        if self._tenants is not None:
            own = self._tenants.setdefault(salt or "", RadixTree(self._store)).grow(ids, sequence)
        return own, known


@dataclass(slots=True)
class TallySums:
    """Sums over requests: their tokens, hits, moved hits, and losses by fate."""

    requests: int = 0
    prompt_tokens: int = 0
    hit_tokens: int = 0
    moved_tokens: int = 0
    lost: Counter[str] = field(default_factory=Counter)


class EngineTally:
    """One engine's cache over all requests, and its relaxed versions, which give the fates of losses."""

    def __init__(self, choice: RuleChoice) -> None:
        self.choice = choice
        self.groups: dict[str, TallySums] = {}
        self.refused = 0
        self.first_refusal = ""
        self.evicted = 0
        self._cache = choice.make()
        self._relaxed: list[tuple[str, EngineCache]] = [(fate, relaxed.make()) for fate, relaxed in choice.rungs()]

    def take(self, group: str, asked: RuleRequest, own: int, known: int) -> None:
        """Run a request alone; `own` and `known` are its earlier sent parts, from `SharedPrefixes`."""
        sums = self.groups.setdefault(group, TallySums())
        try:
            served = self._cache.serve(asked)
            relaxed = [(fate, cache.serve(asked).cached) for fate, cache in self._relaxed]
        except EngineError as error:
            self.refused += 1
            self.first_refusal = self.first_refusal or error.message
            return
        count, hit, unit = len(asked.prompt), served.cached, self.choice.unit
        if not self.choice.rules.scopes:
            own = known
        (_, reachable), *others = block_rungs(count, own, known, unit)
        relaxed = [(fate, min(tokens, reachable)) for fate, tokens in relaxed]
        relaxed += [(self.choice.rules.rest, reachable), *others]
        at = hit
        for fate, tokens in relaxed:
            if tokens > at:
                sums.lost[fate] += tokens - at
                at = tokens
        self.evicted += served.evicted
        sums.requests += 1
        sums.prompt_tokens += count
        sums.hit_tokens += hit
        sums.moved_tokens += max(hit - known, 0)

    def total(self) -> TallySums:
        """Over all groups."""
        found = TallySums()
        for sums in self.groups.values():
            found.requests += sums.requests
            found.prompt_tokens += sums.prompt_tokens
            found.hit_tokens += sums.hit_tokens
            found.moved_tokens += sums.moved_tokens
            found.lost.update(sums.lost)
        return found
