"""Which engines a workload is run under, each with its settings: the engine's own, those that were asked for, and usual others."""

from __future__ import annotations

from dataclasses import fields, replace

from kvtool.accounting.caches.relaxed_configs import relax_configs
from kvtool.config.engine_rules import own_choice, rules_of_flags
from kvtool.config.options.rule_flags import RuleFlags
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine_error import EngineError
from kvtool.engine.rules.rule_set import AnyRuleSet, RuleChoice, Rung
from kvtool.engine.rules.rule_sets import find_rule_set, rule_set_names
from kvtool.engine.rules.vllm import VllmOptions
from kvtool.profiler.planned_run import PlannedRun

_USUAL: dict[str, tuple[dict[str, object], ...]] = {
    "sglang": ({"page_size": 64},),
    "llamacpp": ({"parallel": 1, "cache_ram": 0}, {"cache_reuse": 64}, {"swa_full": True}),
}
"""By rules, settings that people run and that reuse differently; one that changes nothing is left out."""
_VLLM_FLAGS = ("block_size", "num_gpu_blocks")


def choices_of(planned: PlannedRun, flags: RuleFlags) -> tuple[list[RuleChoice], list[str]]:
    """All engines with the room that the plan's cache has, in the order of the table, and why some are not there.

    `flags` are the engines' own options.
    """
    options = replace(planned.options, rule_flags=flags)
    engine = planned.plan.engine
    room = None if engine.num_blocks is None else (engine.num_blocks - 1) * engine.block_size
    found: list[RuleChoice] = []
    missing: list[str] = []
    for name in rule_set_names():
        rules = find_rule_set(name)
        if name == "vllm":
            found.append(_embedded(rules, engine))
            continue
        try:
            facts = planned.facts_of(name)
        except EngineError as error:
            missing.append(f"not there: {error.message}")
            continue
        base, sized = own_choice(options, planned.asked, name, facts)
        if room is not None and not sized and rules.limited is not None:
            base = RuleChoice(rules, rules.limited(base.options, room))
        found.append(base)
        for changes in _USUAL.get(name, ()):
            other = replace(base.options, **changes)
            if other != base.options and (not changes.get("swa_full") or base.options.sliding_window):
                found.append(RuleChoice(rules, other))
    return found, missing


def _embedded(rules: AnyRuleSet, engine: EngineConfig) -> RuleChoice:
    """The embedded engine; of a model of several groups with the limits that these have."""
    if engine.plan is None:
        return RuleChoice(rules, VllmOptions(engine.block_size, engine.num_blocks))
    alignment = engine.plan.hit_alignment
    options = VllmOptions(num_gpu_blocks=engine.num_blocks, engine=engine)
    ladder = tuple(_rung(fate, kind) for fate, kind in relax_configs(engine))
    return RuleChoice(replace(rules, unit=lambda _: alignment, ladder=ladder, rest="no_state"), options)


def _rung(fate: str, kind: EngineConfig) -> Rung[VllmOptions]:
    """The embedded engine as it is without a limit."""

    def lifted(options: VllmOptions) -> VllmOptions:
        return replace(options, engine=kind)

    return Rung(fate, lifted)


def flags_of(choice: RuleChoice) -> list[str]:
    """What a command line says to have these settings, beside `--rules`."""
    flags: list[str] = []
    for each in fields(choice.options):
        value, usual = getattr(choice.options, each.name), getattr(choice.rules.options, each.name)
        if value == usual or (each.name not in rules_of_flags() and each.name not in _VLLM_FLAGS):
            continue
        flag = f"--{each.name.replace('_', '-')}"
        if isinstance(value, bool):
            flags.append(flag if value else flag.replace("--", "--no-", 1))
        else:
            flags += [flag, str(value)]
    return flags
