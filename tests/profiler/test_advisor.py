"""What the advisor keeps of fixes that were tried: on runs that are made up, and on planted causes with the real engine."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.accounting.plan import Plan
from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.slots import Slot
from kvtool.engine.config import EngineConfig
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.prediction.latency import LatencyModel, find_accelerator
from kvtool.fixes.fix import ALL_TIERS, Fix, Tier
from kvtool.fixes.turn_texts import map_texts
from kvtool.profiler.advice.advisor import Advisor, Tried, keeps_promise
from kvtool.profiler.advice.kept_fixes import Advice
from kvtool.profiler.advice.trials import TrialInterruptedError
from kvtool.profiler.profiler import Profiler, ReportOptions
from kvtool.profiler.run.samples import SampleBook
from kvtool.text.terminal.progress import Progress
from kvtool.text.traced import Traced
from kvtool.workload.logs.files.locations import locate
from kvtool.workload.logs.logs import LogOptions, LogSource
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Turn

TOKENS = 100_000
CLOCK = DifferenceKind("clock", "clock time", "KV101")
ROOT = Path(__file__).parents[2]


class World:
    """A workload that is nothing but a table: the hit rates of its groups with each set of fixes.

    A cause blocks `blocked` of a group's tokens until one of the fixes that `closes` names is made.
    """

    def __init__(self, rates: Callable[[str, frozenset[str]], float], groups: Sequence[str] = ("g",)) -> None:
        self.rates = rates
        self.groups = groups
        self.causes: dict[str, list[tuple[SlotCause, int, frozenset[str]]]] = {name: [] for name in groups}
        self.fixes: dict[Slot, list[Fix]] = {}
        self.runs: list[frozenset[str]] = []
        self.interrupt_at: int | None = None
        self.reachable: float | None = None
        """Hit rate of an unlimited cache without fixes; None: the same as that of the cache."""
        self.promised = 0
        self.samples: list[Turn] = []
        self.lengths: dict[frozenset[str], float] = {}
        """How much longer prompts are with some fixes."""
        self.sizes: dict[str, float] = {}
        """Of groups whose tokens are not `TOKENS`, the part."""
        self.worths: Callable[[frozenset[str]], dict[str, float]] = lambda _: {}  # see `prompt_costs`
        """What a provider's prices make of fixes, by group."""

    def cause(
        self, name: str, blocked: int, *fixes: str, group: str = "g", tiers: Mapping[str, Tier] | None = None
    ) -> None:
        """A cause with fixes, in the order in which they are proposed."""
        slot = Slot("prompt.md", 1, 1, variable=name)
        cause = SlotCause(group, slot, CLOCK, None, 0, "", 0, 0, 0)
        cause.later_requests = 2
        self.causes[group].append((cause, blocked, frozenset(fixes)))
        self.fixes[slot] = [
            Fix(fix, "KV101", (tiers or {}).get(fix, "P2"), group, fix, cause, make=lambda: lambda turn: turn)
            for fix in fixes
        ]

    def result(self, keys: frozenset[str], *, partial: bool = False) -> Any:
        sizes = {name: round(TOKENS * self.lengths.get(keys, 1.0) * self.sizes.get(name, 1.0)) for name in self.groups}
        totals = [
            GroupTotals(
                name=name,
                requests=10,
                prompt_tokens=size,
                hit_tokens=round(size * self.rates(name, keys)),
                reachable_tokens=round(size * (self.reachable or self.rates(name, keys))),
            )
            for name, size in sizes.items()
        ]
        book = SimpleNamespace(of_group=lambda name: self._open(name, keys), predicted=lambda *_: self.promised)
        samples = SampleBook()
        for turn in self.samples:
            samples.add(turn)
        ledger = SimpleNamespace(totals=lambda: totals)
        worths = self.worths(keys)
        costs = {name: (Decimal(100) - 100 * Decimal(worth), Decimal(100)) for name, worth in worths.items()}
        return SimpleNamespace(
            ledger=ledger, causes=book, book=lambda _: samples, partial=partial, prompt_costs=lambda: costs
        )

    def _open(self, group: str, keys: frozenset[str]) -> list[SlotCause]:
        found: list[SlotCause] = []
        for cause, blocked, closing in self.causes[group]:
            if not closing & keys or keys & {f"{key} fails" for key in closing}:
                cause.blocked = blocked
                found.append(cause)
        return sorted(found, key=lambda cause: -cause.blocked)

    def again(self, fixes: Sequence[Fix], _explain: bool) -> Any:
        keys = frozenset(fix.key for fix in fixes)
        self.runs.append(keys)
        return self.result(keys, partial=self.interrupt_at == len(self.runs))

    def advise(
        self, tiers: frozenset[Tier] = ALL_TIERS, *, capacity: int | None = None, compares: bool = False
    ) -> Advice:
        def propose(cause: SlotCause, samples: Sequence[Turn]) -> list[Fix]:
            return self.fixes[cause.slot]

        tried = Tried(self.result(frozenset()), self.again, propose)
        return Advisor(tried, tiers=tiers, capacity=capacity, compares=compares).advise()


def kept(advice: Advice, group: str = "g") -> list[str]:
    return [step.fix.key for step in advice.kept.get(group, [])]


def test_two_fixes_of_which_neither_wins_alone_are_kept_together() -> None:
    world = World(lambda _, keys: 0.9 if keys >= {"a", "b"} else 0.1)
    world.cause("first", 60_000, "a")
    world.cause("second", 50_000, "b")
    advice = world.advise()
    assert kept(advice) == ["a", "b"]
    first, second = advice.kept["g"]
    assert (first.before, first.after, first.alone) == (0.1, 0.1, 0.1)
    assert (second.before, second.after, second.alone) == (0.1, 0.9, 0.1)


def test_the_same_fixes_run_once_with_causes() -> None:
    """What is kept in the end was run on the way there: its run is the proof."""
    world = World(lambda _, keys: 0.9 if "a" in keys else 0.1)
    world.cause("first", 60_000, "a")
    world.cause("second", 50_000, "b")
    advice = world.advise()
    assert kept(advice) == ["a"]
    assert advice.proof is not None
    assert world.runs.count(frozenset("a")) == 1


def test_a_fix_that_the_others_do_not_need_is_dropped() -> None:
    world = World(lambda _, keys: 0.9 if "b" in keys else 0.2 if "a" in keys else 0.1)
    world.cause("first", 60_000, "a")
    world.cause("second", 50_000, "b")
    assert kept(world.advise()) == ["b"]


def test_a_cause_has_one_fix_in_advice_of_which_a_part_was_followed() -> None:
    """With all tiers the round clock wins more; where only lines may move, another fix of the same cause was followed."""
    rates = {frozenset("r"): 0.9, frozenset("m"): 0.6, frozenset("rn"): 0.95}
    world = World(lambda _, keys: rates.get(keys, 0.1))
    world.cause("clock", 60_000, "r", "m", tiers={"r": "P3"})
    world.cause("name", 50_000, "n")
    advice, followed = world.advise(), world.advise(frozenset({"P2"}))
    assert (kept(advice), kept(followed)) == (["r", "n"], ["m"])
    assert kept(advice.after(followed)) == ["m", "n"]


def test_what_wins_nothing_is_not_kept_and_its_cause_is_told() -> None:
    world = World(lambda *_: 0.1)
    world.cause("first", 60_000, "a")
    advice = world.advise()
    assert (kept(advice), advice.proof) == ([], None)
    assert [stuck.cause.slot.variable for stuck in advice.stuck] == ["first"]


def test_what_wins_less_than_a_point_is_not_kept() -> None:
    """Nobody changes a prompt for that, and everything else in it would have to be looked at for nothing."""
    for gain, fixes in ((0.004, []), (0.009, []), (0.04, ["a", "b"])):
        rates = {frozenset(): 0.5, frozenset("a"): 0.499, frozenset("b"): 0.4995, frozenset("ab"): 0.5 + gain}
        world = World(lambda _, keys, rates=rates: rates[keys])
        world.cause("first", 40_000, "a")
        world.cause("second", 30_000, "b")
        assert sorted(kept(world.advise())) == fixes


def test_a_higher_rate_of_longer_prompts_is_no_gain_where_more_is_computed() -> None:
    world = World(lambda _, keys: 0.6 if keys else 0.5)
    world.cause("first", 40_000, "a")
    world.lengths = {frozenset("a"): 1.3}  # 40 % of 130,000 tokens are more than half of 100,000
    assert kept(world.advise()) == []
    world.lengths = {frozenset("a"): 1.2}
    assert kept(world.advise()) == ["a"]


def test_fixes_that_together_cost_more_than_they_win_are_dropped() -> None:
    """A group of few tokens wins less than what a large one loses."""
    rates = {"small": (0.1, 0.2), "large": (0.5, 0.498)}
    world = World(lambda group, keys: rates[group][bool(keys)], groups=("small", "large"))
    world.sizes = {"small": 0.01}
    world.cause("first", 900, "a", group="small")
    advice = world.advise()
    assert (kept(advice, "small"), advice.proof) == ([], None)


def test_only_what_was_run_is_said_to_be_measured() -> None:
    world = World(lambda *_: 0.1)
    world.cause("first", 60_000)
    [stuck] = world.advise().stuck
    assert (stuck.cause.slot.variable, stuck.tried, world.runs) == ("first", None, [])


def test_another_fix_is_tried_where_the_first_one_leaves_the_cause() -> None:
    world = World(lambda _, keys: 0.8 if "far" in keys else 0.1)
    world.cause("clock", 60_000, "near", "far")
    world.causes["g"] = [(cause, blocked, frozenset({"far"})) for cause, blocked, _ in world.causes["g"]]
    assert kept(world.advise()) == ["far"]


def test_a_fix_that_leaves_the_cause_and_wins_more_than_the_next_one_stays() -> None:
    world = World(lambda _, keys: 0.7 if "near" in keys else 0.1)
    world.cause("clock", 60_000, "near", "far")
    world.causes["g"] = [(cause, blocked, frozenset({"far"})) for cause, blocked, _ in world.causes["g"]]
    assert kept(world.advise()) == ["near"]


def test_a_better_fix_of_the_same_tier_takes_the_place_of_one_that_works() -> None:
    rates = {"near": 0.5, "far": 0.8, "coarse": 0.9}
    world = World(lambda _, keys: max((rates[key] for key in keys), default=0.1))
    world.cause("clock", 60_000, "near", "far", "coarse", tiers={"coarse": "P3"})
    assert kept(world.advise()) == ["far"]  # what changes the content is no better fix of that kind


def test_fixes_that_harm_are_dropped_and_the_others_stay() -> None:
    """The first group wins less by its fix than the third loses by it."""
    before = {"one": 0.4, "two": 0.1, "three": 0.8}

    def rates(group: str, keys: frozenset[str]) -> float:
        after = {"one": 0.45 if "a" in keys else 0.4, "two": 0.5 if "b" in keys else 0.1, "three": 0.8}
        return 0.7 if group == "three" and "a" in keys else after[group]

    world = World(rates, tuple(before))
    world.cause("first", 60_000, "a", group="one")
    world.cause("second", 60_000, "b", group="two")
    advice = world.advise()
    assert (kept(advice, "one"), kept(advice, "two")) == ([], ["b"])
    assert advice.proof is not None


def test_a_fix_that_breaks_the_promise_of_its_tier_is_not_tried() -> None:
    """Lines of the samples go lost, or nothing of them changes; and one that only moves them may be tried."""
    turns = [Turn("g", text=Traced(f"It is {n}.\nBe brief.")) for n in range(3)]
    moves: list[tuple[Callable[[str], str], bool]] = [
        (lambda text: "\n".join(reversed(text.split("\n"))), True),
        (lambda text: text.split("\n")[1], False),
        (lambda text: text, False),
    ]
    cause = SlotCause("g", Slot("prompt.md", 1, 1, variable="now"), CLOCK, None, 0, "", 0, 0, 0)
    for move, allowed in moves:
        fix = Fix("k", "KV101", "P2", "g", "move", cause, make=lambda move=move: lambda turn: map_texts(turn, move))  # type: ignore[misc]
        assert keeps_promise(fix, turns) is allowed
    world = World(lambda _, keys: 0.9 if keys else 0.1)
    world.cause("first", 60_000, "a")
    world.samples = turns  # the fixes of this world change none of them
    assert (kept(world.advise()), world.runs) == ([], [])


def test_the_order_is_that_of_marginal_value() -> None:
    worth = {"a": 0.1, "b": 0.3, "c": 0.2}
    world = World(lambda _, keys: 0.1 + sum(worth[key] for key in keys))
    for name, blocked in (("a", 60_000), ("b", 50_000), ("c", 40_000)):
        world.cause(name, blocked, name)
    advice = world.advise()
    assert kept(advice) == ["b", "c", "a"]
    assert [step.alone for step in advice.kept["g"]] == pytest.approx([0.4, 0.3, 0.2])
    assert [step.after for step in advice.kept["g"]] == pytest.approx([0.4, 0.6, 0.7])


def test_a_fix_that_costs_another_group_hits_is_dropped() -> None:
    """The first group wins by its fix, and the second one, which shared its beginning, loses."""

    def rates(group: str, keys: frozenset[str]) -> float:
        return (0.5 if "a" in keys else 0.4) if group == "one" else 0.5 if "a" in keys else 0.8

    world = World(rates, ("one", "two"))
    world.cause("first", 60_000, "a", group="one")
    advice = world.advise()
    assert (advice.kept, advice.proof) == ({}, None)


@pytest.mark.parametrize(
    ("capacity", "rate"),
    [(None, 0.8), (30_000, 0.8), (20_000, 0.8), (19_999, 0.4)],
    ids=["unlimited", "ample", "just", "short"],
)
def test_what_a_limited_cache_loses_it_goes_on_losing_unless_all_fits(capacity: int | None, rate: float) -> None:
    """Half of what could be reached is hit. With the fix 80,000 of 100,000 tokens could be, and 20,000 are computed."""
    world = World(lambda _, keys: 0.7 if keys else 0.1)
    world.reachable = 0.2
    world.promised = 60_000
    world.cause("clock", 60_000, "a")
    (step,) = world.advise(capacity=capacity).kept["g"]
    assert step.predicted == pytest.approx(rate)


def test_only_the_tiers_that_are_allowed_are_tried() -> None:
    world = World(lambda _, keys: 0.9 if keys else 0.1)
    world.cause("clock", 60_000, "move", "coarse", tiers={"coarse": "P3"})
    assert kept(world.advise(frozenset({"P0", "P1"}))) == []
    assert world.runs == []
    assert kept(world.advise(frozenset({"P0", "P1", "P3"}))) == ["coarse"]


def test_the_same_set_is_run_once() -> None:
    world = World(lambda _, keys: 0.1 + 0.2 * len(keys))
    for name in "abc":
        world.cause(name, 50_000, name)
    world.advise()
    explained = 3 + 1  # the runs that look for the next cause, and the proof
    assert len(world.runs) <= len(set(world.runs)) + explained


def test_an_interruption_is_passed_on() -> None:
    world = World(lambda _, keys: 0.9 if keys else 0.1)
    world.cause("clock", 60_000, "a")
    world.interrupt_at = 1
    with pytest.raises(TrialInterruptedError):
        world.advise()


@pytest.fixture(scope="module")
def planted() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    yield importlib.import_module("planted")
    sys.path.remove(str(ROOT / "benchmarks"))


SEEDS = (0, 4, 5, 7, 13, 53, 88)
"""Scenarios of each sort: a chat, a pair, a form, a form with a slot, correlated slots."""


@pytest.mark.parametrize("seed", SEEDS)
def test_planted_causes_are_found_and_their_fixes_win(
    planted: ModuleType, byte_renderer: Renderer, tmp_path: Path, seed: int
) -> None:
    """Characters are tokens here. Nothing is told that was not planted, and no fix harms."""
    case = planted.scenario(seed)
    log = tmp_path / "log.jsonl"
    case.write(log)
    latency = LatencyModel(find_geometry("llama-3.1-8b"), find_accelerator("h100"))
    plan = Plan(EngineConfig(block_size=case.block_size), latency)
    source = LogSource([str(log)], LogOptions())
    profiler = Profiler(
        source, byte_renderer, plan, ReportOptions(), progress=Progress(None), locate=locate, path=str(log)
    )
    found = profiler.run()
    codes = {case.code_of(index) for index in case.planted}
    told = [finding for finding in found.findings if finding.rerun is not None]
    assert {finding.code for finding in told} <= codes
    for finding in told:
        assert finding.rerun is not None
        assert finding.rerun.group_after > finding.rerun.group_before
        shares = [row.share_tokens for row in found.causes if row.group == finding.group]
        assert finding.share_tokens is not None
        assert min(abs(finding.share_tokens - share) for share in shares) <= 1  # the table tells the same
    advice = profiler.advice
    assert advice is not None
    for steps in advice.kept.values():
        assert steps[-1].predicted == pytest.approx(steps[-1].after, abs=0.12)
        assert all(step.after >= step.before - 0.005 for step in steps)


def test_all_fixes_of_a_cause_are_tried_where_a_providers_marks_decide() -> None:
    """The first fix lets prompts share their text, so the cause is gone; but nothing is read until another one is made."""
    table = World(lambda _, keys: 0.9 if "move:a" in keys else 0.0)
    table.cause("a", 90_000, "move-within:a", "move:a")
    assert table.advise().steps == []
    assert [step.fix.key for step in table.advise(compares=True).steps] == ["move:a"]


def test_lines_that_only_win_together_are_moved_together() -> None:
    """Each line that stays before the marks takes all that moving the other one would win."""
    table = World(lambda _, keys: 0.9 if {"move:a", "move:b"} <= keys else 0.0)
    table.cause("a", 90_000, "move-within:a", "move:a")
    table.cause("b", 80_000, "move-within:b", "move:b")
    assert {step.fix.key for step in table.advise(compares=True).steps} == {"move:a", "move:b"}


def test_the_price_decides_between_fixes_that_hit_alike() -> None:
    """Writes that nobody reads cost money: of two fixes with nearly one hit rate, the cheaper one is kept."""
    table = World(lambda _, keys: 0.92 if "move-within:a" in keys else 0.91 if "move:a" in keys else 0.0)
    table.worths = lambda keys: {"g": 0.6 if "move-within:a" in keys else 0.8 if "move:a" in keys else 0.0}
    table.cause("a", 90_000, "move-within:a", "move:a")
    assert [step.fix.key for step in table.advise(compares=True).steps] == ["move:a"]
