"""The cheapest marks of a log: against every set of marks, by the simulated cache of the provider itself."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import combinations, product

import pytest

from kvtool.accounting.caches.cache_rules import CacheRules
from kvtool.accounting.caches.mark_plan import OTHERS, MarkPlace, MarkPlan, MarkSet, PlacedMark, set_of
from kvtool.accounting.caches.provider_cache import ProviderCache
from kvtool.accounting.caches.providers import Provider, find_provider
from kvtool.accounting.caches.request_layout import PromptLayout
from kvtool.accounting.caches.scopes import scope_of
from kvtool.accounting.prices import mark_compiler
from kvtool.accounting.prices.bill import Charged, bill_of
from kvtool.accounting.prices.mark_compiler import compile_marks, plan_sets
from kvtool.accounting.prices.price_row import Rates
from kvtool.fixes.marked_turn import marked_turn
from kvtool.text.message import Message
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.workload.call import Usage
from kvtool.workload.jobs import Job, JobMaker
from tests.accounting.hosted_turns import EPOCH, asked, filled, hosted_renderer, text_part
from tests.conftest import some

RATES = Rates(
    input=Decimal(3),
    output=Decimal(15),
    cache_read=Decimal("0.3"),
    cache_write_5m=Decimal("3.75"),
    cache_write_1h=Decimal(6),
)
GAPS = ((5, 40), (60, 200), (280, 420), (900, 3000), (3500, 5000))
HOUR = 3600.0


def rules(name: str) -> Provider:
    """A provider's rules with a short minimum and a short look-back, so that small prompts meet both."""
    return replace(find_provider(name), minimum=60, lookback=4)


PROVIDERS = {
    "anthropic": rules("anthropic"),
    "two marks": replace(rules("anthropic"), most=2),
    "five minutes": replace(rules("anthropic"), tiers=()),
    "openai-5.6": rules("openai-5.6"),
}


@dataclass
class Scenario:
    """Requests of a log by one provider."""

    provider: Provider
    jobs: list[Job]

    def cache(self, marks: MarkPlan | None = None, *, lays_out: int = 0) -> ProviderCache:
        return ProviderCache(
            CacheRules(provider=self.provider, epoch=EPOCH, marks=marks, ttl=self.provider.ttl), lays_out=lays_out
        )

    def layouts(self, whole: int | None = None) -> list[PromptLayout]:
        """All requests, of the first `whole` of a scope with all blocks."""
        cache = self.cache(lays_out=len(self.jobs) if whole is None else whole)
        for job in self.jobs:
            cache.request(job, job.turn.arrival or 0.0, 0)
        assert cache.layouts is not None
        return cache.layouts

    def cost(self, marks: MarkPlan | None) -> Decimal:
        """The cost of all prompts by the simulated cache."""
        cache, total = self.cache(marks), Decimal(0)
        for job in self.jobs:
            found = cache.request(job, job.turn.arrival or 0.0, 0).prediction
            assert found is not None
            total += bill_of(Charged(found.prompt, found.cached, found.written, found.written_1h), RATES).total
        return total


def scenario(provider: Provider, tokenizer: Tokenizer, seed: int, *, most: int = 14) -> Scenario:
    """Apps with system texts of several blocks, some of which change; single questions and conversations; gaps of all lengths."""
    chance = random.Random(seed)
    maker = JobMaker(hosted_renderer(tokenizer), seed=0)
    head = filled(chance.randint(30, 150), head="head")
    turns = []
    now = 0.0
    systems = [
        [head, *(filled(chance.randint(20, 200), head=f"{app}.{at}") for at in range(chance.randint(0, 2)))]
        for app in range(chance.choice((1, 1, 2)))
    ]
    changing = chance.random() < 0.3
    talks: list[list[Message]] = []
    gaps = [chance.choice(GAPS) for _ in range(2)]
    for number in range(chance.randint(4, most)):
        now += chance.uniform(*chance.choice(gaps))
        again = [talk for talk in talks if len(talk) < 9]
        if again and chance.random() < 0.6:
            talk = chance.choice(again)
            talk.append({"role": "assistant", "content": filled(chance.randint(20, 80), head=f"answer {number}")})
        else:
            texts = list(chance.choice(systems))
            if changing:
                texts.insert(chance.randint(0, len(texts)), f"now {number}")
            talk = [{"role": "system", "content": [{"type": "text", "text": text} for text in texts]}]
            if chance.random() < 0.7:
                talks.append(talk)
        parts = [filled(chance.randint(20, 90), head=f"question {number}.{at}") for at in range(chance.randint(1, 3))]
        talk.append({"role": "user", "content": [{"type": "text", "text": text} for text in parts]})
        turns.append(asked([dict(message) for message in talk], now, "m"))
    return Scenario(provider, [maker.make(turn) for turn in turns])


def every_set(provider: Provider, layouts: Sequence[PromptLayout]) -> Iterator[MarkSet]:
    """Every set of marks at any block, counted from the front or the back, and at any of the last messages."""
    blocks = max(len(layout.keys) for layout in layouts)
    places = [MarkPlace("lead"), MarkPlace("late_block", 1), *(MarkPlace("message", at) for at in range(3))]
    places += [MarkPlace("block", at) for at in range(min(blocks, 4))]
    times = (None, HOUR) if provider.tiers and provider.needs_mark else (None,)
    for count in range(min(provider.most, 3) + 1):
        for chosen in combinations(places, count):
            for ttls in product(times, repeat=count):
                if not any(is_refused(marks := tuple(map(PlacedMark, chosen, ttls)), each) for each in layouts):
                    yield marks


def is_refused(marks: MarkSet, layout: PromptLayout) -> bool:
    """Whether the provider refuses a request with these marks: a longer time to live comes after a shorter one."""
    times: dict[int, set[float]] = {}
    for place, ttl in marks:
        at = place.of(layout.lead, layout.messages, len(layout.keys))
        if at is not None and at not in layout.unmarkable:
            times.setdefault(at, set()).add(ttl or 300.0)
    order = [time for at in sorted(times) for time in sorted(times[at])]
    return order != sorted(order, reverse=True)


def compiled(case: Scenario) -> MarkPlan:
    return MarkPlan(plan_sets(compile_marks(case.layouts(), lambda _: RATES)))


@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.parametrize("seed", some(range(4), 2))
def test_no_set_of_marks_is_cheaper(byte_tokenizer: Tokenizer, name: str, seed: int) -> None:
    case = scenario(PROVIDERS[name], byte_tokenizer, seed, most=8)
    scope = scope_of(case.jobs[0].turn) or ""
    best = min(case.cost(MarkPlan({scope: {OTHERS: marks}})) for marks in every_set(case.provider, case.layouts()))
    assert case.cost(compiled(case)) <= best * Decimal("1.01")


@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.parametrize("seed", some(range(40, 44), 2))
def test_marks_in_the_requests_cost_what_the_plan_says(byte_tokenizer: Tokenizer, name: str, seed: int) -> None:
    case = scenario(PROVIDERS[name], byte_tokenizer, seed)
    plan, maker = compiled(case), JobMaker(hosted_renderer(byte_tokenizer), seed=0)
    sent = []
    for job, layout in zip(case.jobs, case.layouts(), strict=True):
        marks = set_of(plan.sets[layout.scope], layout.keys[: layout.lead])
        sent.append(maker.make(marked_turn(job.turn, marks, case.provider)))
    assert Scenario(case.provider, sent).cost(None) == case.cost(plan)


def test_requests_after_the_first_ones_need_no_more_than_their_leading_blocks(
    byte_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mark_compiler, "MOST_REPLAYED", 5)
    short = 0
    for seed in range(90, 98):
        case = scenario(PROVIDERS["anthropic"], byte_tokenizer, seed)
        layouts = case.layouts(), case.layouts(5)
        short += sum(len(few.keys) < len(each.keys) for each, few in zip(*layouts, strict=True))
        every, few = (compile_marks(each, lambda _: RATES) for each in layouts)
        assert plan_sets(few) == plan_sets(every)
        assert [kind.requests for kind in few] == [kind.requests for kind in every]
    assert short > 5


@pytest.mark.parametrize("seed", some(range(60, 90), 5))
def test_no_request_with_the_compiled_marks_is_refused(byte_tokenizer: Tokenizer, seed: int) -> None:
    case = scenario(PROVIDERS["anthropic"], byte_tokenizer, seed)
    plan = compiled(case)
    for layout in case.layouts():
        marks = set_of(plan.sets[layout.scope], layout.keys[: layout.lead])
        assert not is_refused(marks, layout), marks


@pytest.mark.parametrize("seed", some(range(4), 2))
def test_reads_are_predicted_to_the_token_where_tools_and_messages_have_other_ratios(
    byte_tokenizer: Tokenizer, seed: int
) -> None:
    """Messages have up to three tokens for each one that the same length of tools has: reports give what each mark stored."""
    chance = random.Random(seed)
    maker = JobMaker(hosted_renderer(byte_tokenizer), seed=0)
    cache = Scenario(PROVIDERS["anthropic"], []).cache()
    tools = [{"name": "find", "description": filled(600)}]
    talk: list[Message] = [{"role": "system", "content": filled(300)}]
    stored, total, ratio = 0, 900, chance.uniform(1.5, 3)
    for number in range(8):
        size = chance.randint(80, 300)
        total += round(size * ratio)
        talk.append({"role": "user", "content": [text_part(filled(size, head=f"{number}."), {"type": "ephemeral"})]})
        usage = Usage(total + 8, stored, total - stored)
        turn = asked([dict(message) for message in talk], 10.0 * number, "m", tools=tools, usage=usage)
        found = cache.request(maker.make(turn), 10.0 * number, 0).prediction
        assert found is not None
        assert (found.cached, found.error) == (stored, 0)
        stored = total
