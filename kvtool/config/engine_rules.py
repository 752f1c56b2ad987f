"""Another engine's rules: from flags and what files say to a `RuleChoice`, and what does not go together with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from kvtool.config.asked_run import RunOptions
from kvtool.config.option import Option, walk
from kvtool.config.options.rule_flags import RuleFlags
from kvtool.errors import KvtoolError, Place
from kvtool.results.choices import SIZES, Rules, RulesAsked
from kvtool.text.quantities import Capacity, parse_capacity
from kvtool.workload.yaml.schema import EngineOptions

if TYPE_CHECKING:
    from kvtool.accounting.caches.cache_rules import CacheRules
    from kvtool.engine.rules.rule_set import AnyRuleSet, RuleChoice

_OF_VLLM = {
    "serving": (
        "block_size",
        "num_gpu_blocks",
        "gpu_memory",
        "gpu_memory_utilization",
        "max_model_len",
        "max_num_batched_tokens",
        "max_num_seqs",
        "enable_prefix_caching",
    ),
    "mirroring": ("server", "async_scheduling", "hash_algo"),
    "caching": ("concurrency", "replicas", "routing", "ttl", "provider"),
    "measuring": ("audit", "events", "kv_events"),
}
"""By concern, what only the embedded engine has, or what goes beyond one engine."""
_INSTEAD = {
    "block_size": {
        "sglang": "its pages are --page-size",
        "trtllm": "it says --tokens-per-block",
        "llamacpp": "it has no blocks: a token is its unit",
    },
    "num_gpu_blocks": {"llamacpp": "it says --ctx-size in tokens and --cache-ram in MiB"},
    "gpu_memory": {"llamacpp": "it says --ctx-size in tokens and --cache-ram in MiB"},
    "concurrency": {"": "its rules are followed for one request at a time, in the order in which they arrive"},
    "max_model_len": {"llamacpp": "it says --ctx-size"},
}
"""Hints for an option that has no effect, by rules; "" is for all others."""
_SIZED = {"num_gpu_blocks", "gpu_memory"}


@cache
def rules_of_flags() -> dict[str, str]:
    """Return the rules that each flag belongs to, by its name."""
    return {each.name: each.mark.rules for each in walk(RuleFlags) if isinstance(each.mark, Option)}


def chosen_rule_set(options: RunOptions, asked: EngineOptions) -> Rules:
    """Return the name of the rules. Raises KvtoolError for `all`, which only profiles have."""
    said = _asked_rules(options, asked)
    if said == "all":
        raise KvtoolError("--rules all compares engines, and here one is followed", hint="kvtool compare-engines INPUT")
    return cast("Rules", said.partition("@")[0])


def chosen_release(options: RunOptions, asked: EngineOptions) -> str | None:
    """Return the release of vLLM that is named after `@`; None without one."""
    return _asked_rules(options, asked).partition("@")[2] or None


def _asked_rules(options: RunOptions, asked: EngineOptions) -> RulesAsked:
    return options.tracing.rules or asked.rules or "vllm"


def chosen_rules(
    options: RunOptions,
    asked: EngineOptions,
    place: Callable[[str], Place | None],
    facts: Mapping[str, int | str],
    token_bytes: Callable[[], int],
) -> RuleChoice | None:
    """Return the rules of another engine with its options; None where the embedded engine or a list of blocks is followed.

    `place` is where a file says an option, `facts` are those of the model by the names of options, `token_bytes` gives the bytes of
    a token. KvtoolError for what does not go together.
    """
    name = chosen_rule_set(options, asked)
    said_above = options.tracing.rules is not None
    _check_flags(options, asked, name, place, overruled=said_above)
    if name in ("vllm", "block-lru"):
        return None
    from kvtool.engine.rules.rule_set import RuleChoice
    from kvtool.engine.rules.rule_sets import find_rule_set

    found = find_rule_set(name)
    _check_of_vllm(options, asked, found, place, overruled=said_above)
    said = _own(options, asked, found)
    made = _made(found, facts, said)
    together = _together(options, asked, found, said)
    tokens = _capacity(options, asked, found, made, token_bytes)
    if tokens is None:
        return RuleChoice(found, made, together)
    limited = found.limited
    if limited is None and said_above and options.serving.capacity is None:
        return RuleChoice(found, made, together)  # what a file says of another engine
    if limited is None:
        raise KvtoolError(
            f"{found.engine} has no capacity in blocks or tokens that says how much it keeps",
            hint="set --ctx-size for its server slots and --cache-ram for saved prompts"
            if name == "llamacpp"
            else None,
            place=None if options.serving.capacity is not None else place("capacity"),
        )
    twice = sorted(said.keys() & _size_options(found))
    if twice:
        raise KvtoolError(
            f"--capacity and --{twice[0].replace('_', '-')} both say how large the cache is", hint="leave one out"
        )
    return RuleChoice(found, limited(made, tokens), together)


def _together(options: RunOptions, asked: EngineOptions, rules: AnyRuleSet, said: Mapping[str, object]) -> int:
    """Requests that come at one moment; KvtoolError for an order of a queue in which none ever waits."""
    if rules.queue is None:
        return 1
    together = options.caching.concurrency or asked.concurrency or 1
    if together > 1 and options.caching.use_timestamps:
        raise KvtoolError(
            f"the rules of {rules.engine} take so many requests at a time, or each at its own time, not both",
            hint="leave --concurrency or --use-timestamps out",
        )
    if together == 1 and "schedule_policy" in said:
        raise KvtoolError(
            "--schedule-policy orders a queue, and requests come one at a time", hint="add --concurrency N"
        )
    return together


def own_choice(
    options: RunOptions, asked: EngineOptions, name: str, facts: Mapping[str, int | str]
) -> tuple[RuleChoice, bool]:
    """Return an engine's rules with those of its own options that anybody said, and whether these say how much it keeps."""
    from kvtool.engine.rules.rule_set import RuleChoice
    from kvtool.engine.rules.rule_sets import find_rule_set

    found = find_rule_set(name)
    said = _own(options, asked, found)
    made = _made(found, facts, said)
    return RuleChoice(found, made), bool(said.keys() & _size_options(found))


def _size_options(rules: AnyRuleSet) -> set[str]:
    """Return the engine's own options that size its cache."""
    if rules.limited is None:
        return set()
    some, more = (rules.limited(rules.options, tokens) for tokens in (1 << 30, 1 << 31))
    return {each.name for each in fields(some) if getattr(some, each.name) != getattr(more, each.name)}


def _own(options: RunOptions, asked: EngineOptions, rules: AnyRuleSet) -> dict[str, object]:
    """Return the given values of a rule set's own options."""
    own = {each.name for each in fields(rules.options)}
    return {
        flag: value
        for flag, of in rules_of_flags().items()
        if of == rules.name and flag in own and (value := _said(options, asked, flag)) is not None
    }


def _made(rules: AnyRuleSet, facts: Mapping[str, int | str], said: Mapping[str, object]) -> Any:
    """Return the engine's own options with these changed, and with what of the model it has a field for."""
    own = {each.name for each in fields(rules.options)}
    return replace(rules.options, **({key: value for key, value in facts.items() if key in own} | dict(said)))


def checked_flags(said: Mapping[str, object]) -> Mapping[str, object]:
    """Options of rules that a program says by their names; KvtoolError for one that there is not."""
    for name in said:
        if name not in rules_of_flags():
            close = get_close_matches(name, rules_of_flags(), n=1)
            hint = f"did you mean {close[0]}?" if close else f"one of {', '.join(rules_of_flags())}"
            raise KvtoolError(f"no rules have an option `{name}`", hint=hint)
    return said


def engine_notes(choice: RuleChoice) -> list[str]:
    """Return the engine, the status and the limits of the rules, for the head of a report."""
    rules = choice.rules
    changed = [
        f"{each.name} {_shown(getattr(choice.options, each.name))}"
        for each in fields(choice.options)
        if getattr(choice.options, each.name) != getattr(rules.options, each.name) and each.name in rules_of_flags()
    ]
    how = "one request at a time"
    if choice.together > 1:
        how = f"{choice.together} requests at once, then the next {choice.together}; each time is for one request alone"
    how += f"; {', '.join(changed)}" if changed else ""
    return [
        f"rules of {rules.engine}: {rules.evidence}",
        how,
        f"not in these rules: {'; '.join(rules.not_modelled)}",
    ]


def described_engine(rules: CacheRules | None) -> dict[str, str | int | float | bool | None]:
    """Return the same for machines: every option of the engine's rules, by the names that flags have for them."""
    if rules is None or rules.engine is None:
        return {}
    choice = rules.engine
    return {
        "rules_of": choice.rules.engine,
        "rules_status": choice.rules.status,
        **{each.name: getattr(choice.options, each.name) for each in fields(choice.options)},
    }


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _said(options: RunOptions, asked: EngineOptions, flag: str) -> object:
    value = getattr(options.rule_flags, flag)
    return getattr(asked, flag) if value is None else value


def _check_flags(
    options: RunOptions, asked: EngineOptions, name: str, place: Callable[[str], Place | None], *, overruled: bool
) -> None:
    """KvtoolError for an option of rules that are not followed; a file's is passed over where a flag chose the rules."""
    for flag, rules in rules_of_flags().items():
        if rules == name:
            continue
        written = f"--{flag.replace('_', '-')}"
        if getattr(options.rule_flags, flag) is not None:
            raise KvtoolError(
                f"{written} is an option of --rules {rules}, and the rules are {name}",
                hint=_hint(flag, rules, name),
            )
        if getattr(asked, flag) is not None and not overruled:
            raise KvtoolError(
                f"`{flag}` is an option of `rules: {rules}`, and the rules are {name}",
                hint=f"add `rules: {rules}`, or leave {flag} out",
                place=place(flag),
            )


def _hint(flag: str, rules: str, name: str) -> str:
    if flag in ("page_size", "tokens_per_block") and name in ("vllm", "block-lru"):
        return f"add --rules {rules}; {name} says --block-size"
    return f"add --rules {rules}, or leave it out"


def _check_of_vllm(
    options: RunOptions,
    asked: EngineOptions,
    rules: AnyRuleSet,
    place: Callable[[str], Place | None],
    *,
    overruled: bool,
) -> None:
    for name, given in _given(options):
        if given and not (name == "concurrency" and rules.queue is not None):
            raise KvtoolError(
                f"--{name.replace('_', '-')} does not go with --rules {rules.name}",
                hint=_instead(name, rules.name),
            )
    if overruled:
        return
    for name in (*_OF_VLLM["serving"], *_OF_VLLM["caching"]):
        if name == "concurrency" and rules.queue is not None:
            continue
        if getattr(asked, name) is not None and options.tracing.rules is None and asked.rules is not None:
            where = place(name)
            if where is not None and where.path == getattr(place("rules"), "path", None):
                raise KvtoolError(
                    f"`{name}` does not go with `rules: {rules.name}`", hint=_instead(name, rules.name), place=where
                )


def _given(options: RunOptions) -> Iterator[tuple[str, bool]]:
    for concern, names in _OF_VLLM.items():
        for name in names:
            value = getattr(getattr(options, concern), name)
            yield name, value is not None and value is not False


def _instead(name: str, rules: str) -> str:
    told = _INSTEAD.get(name, {})
    if rules in told or "" in told:
        return told.get(rules) or told[""]
    if name in _SIZED:
        return "it says --capacity '320k tokens' or 20GiB"
    return "leave it out: it is about the embedded engine, which has vLLM's rules"


def _capacity(
    options: RunOptions, asked: EngineOptions, rules: AnyRuleSet, made: object, token_bytes: Callable[[], int]
) -> int | None:
    """Tokens of the cache as --capacity says it; None is as many as the rules' own options say."""
    said = options.serving.capacity
    if said is None and any(getattr(options.serving, name) is not None for name in SIZES):
        return None
    try:
        capacity: Capacity | None = asked.capacity if said is None else parse_capacity(said)
    except ValueError as error:
        raise KvtoolError(f"--capacity: {error}") from error
    if capacity is None:
        return None
    match capacity.unit:
        case "tokens":
            return capacity.number
        case "bytes":
            return max(capacity.number // token_bytes(), 1)
        case "blocks":
            return capacity.number * getattr(made, "tokens_per_block", rules.unit(made))
