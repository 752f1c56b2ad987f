"""llama.cpp as one of the rule sets: what lifting a limit and what another setting wins."""

from __future__ import annotations

from dataclasses import replace

from kvtool.engine.rules.llama_cpp_options import LlamaCppOptions
from kvtool.engine.rules.llama_cpp_set import LIST_FULL, LLAMA_CPP, SLOT_LOST, WINDOW
from kvtool.engine.rules.rule_set import RuleChoice
from tests.engine.test_llama_cpp_rules import asked, profiles

WINDOWS = LlamaCppOptions(sliding_window=64)
SLOT = LlamaCppOptions(parallel=1, cache_ram=0)
TIGHT = LlamaCppOptions(cache_ram=300)
"""Room for 2,400 tokens."""


def cached(options: LlamaCppOptions, workload: str) -> int:
    cache = RuleChoice(LLAMA_CPP, options).make()
    return sum(cache.serve(asked(prompt, answer)).cached for prompt, answer in profiles()[workload])


def test_what_lifting_one_limit_after_the_other_wins() -> None:
    for options, workload, now, rungs in [
        (WINDOWS, "two heads in turn", 6_894, [(LIST_FULL, 6_894), (WINDOW, 14_400)]),
        (WINDOWS, "head 1,000 + own 900", 0, [(LIST_FULL, 0), (WINDOW, 11_000)]),
        (TIGHT, "sessions", 5_864, [(LIST_FULL, 13_290)]),
        (SLOT, "sessions", 0, []),
    ]:
        choice = RuleChoice(LLAMA_CPP, options)
        assert cached(options, workload) == now
        assert [(fate, cached(relaxed.options, workload)) for fate, relaxed in choice.rungs()] == rungs


def test_what_users_can_set_against_a_loss() -> None:
    for options, workload, fate, won in [
        (
            WINDOWS,
            "two heads in turn",
            WINDOW,
            {"--swa-full": 0, "--swa-full --no-cache-idle-slots": 14_400, "--ubatch-size 2048": 0},
        ),
        (
            WINDOWS,
            "head 1,000 + own 900",
            WINDOW,
            {"--swa-full": 11_000, "--swa-full --no-cache-idle-slots": 11_000, "--ubatch-size 2048": 11_000},
        ),
        (TIGHT, "sessions", LIST_FULL, {"--cache-ram 2400": 13_290}),
        (replace(SLOT, cache_ram=8192), "history slides", SLOT_LOST, {"--cache-reuse 256": 15_400}),
        (SLOT, "sessions", SLOT_LOST, {"--cache-ram 8192": 13_290, "--cache-reuse 256": 0}),
    ]:
        settings = {each.what.partition(": ")[2]: each for each in LLAMA_CPP.remedies(options) if each.fate == fate}
        assert {what: cached(settings[what].options, workload) for what in won} == won


def test_a_capacity_is_the_bytes_of_saved_prompts() -> None:
    assert LLAMA_CPP.limited is not None
    assert LLAMA_CPP.limited(LlamaCppOptions(), 65_536) == LlamaCppOptions()
    assert LLAMA_CPP.limited(LlamaCppOptions(), 1).cache_ram == 1


def test_no_more_slots_are_proposed_than_llama_cpp_takes() -> None:
    for slots, more in [(64, {128, 256}), (65, {130}), (129, set())]:
        settings = LLAMA_CPP.remedies(LlamaCppOptions(parallel=slots))
        assert {each.options.parallel for each in settings} == {slots, *more}
