"""llama.cpp's server as one of the rule sets: evidence, limits that can be lifted, settings that may win tokens back."""

from __future__ import annotations

from dataclasses import replace

from kvtool.engine.rules.llama_cpp import LlamaCppCache
from kvtool.engine.rules.llama_cpp_options import MOST_SLOTS, LlamaCppOptions
from kvtool.engine.rules.rule_set import OtherSetting, RuleSet, Rung

WINDOW, NO_STATE, LIST_FULL, SLOT_LOST = "window", "no_state", "host_list_full", "slot_lost"
"""Fates, in the ledger's words."""

_MIB = 1024 * 1024
_ANY_MIB = 1 << 40
"""More host memory than any server has."""
_CHUNK = 256
"""Least tokens of a moved chunk in the proposed `--cache-reuse`; the value of the server's presets for code completion."""
_SMALL_BATCH = 64
"""A micro batch that puts a checkpoint before a short last message."""
_ALIKE = 0.9
"""The similarity at which a slot is chosen, high enough that a shared head alone is not enough."""


def _no_window(options: LlamaCppOptions) -> LlamaCppOptions:
    return replace(options, sliding_window=None) if options.sliding_window is not None else options


def _no_state(options: LlamaCppOptions) -> LlamaCppOptions:
    return replace(options, state_layers=0, state_bytes=0) if options.state_layers else options


def _endless_list(options: LlamaCppOptions) -> LlamaCppOptions:
    return replace(options, cache_ram=_ANY_MIB) if options.cache_ram else options


def _list_of(options: LlamaCppOptions, tokens: int) -> LlamaCppOptions:
    return replace(options, cache_ram=max(1, -(-tokens * options.kv_bytes_per_token // _MIB)))


def _more_slots(options: LlamaCppOptions, times: int, similarity: float | None) -> OtherSetting[LlamaCppOptions]:
    """Multiply the slots and the context; with a `similarity`, prompts that only share a head get slots of their own."""
    slots = times * options.slots
    changed = replace(options, parallel=slots, ctx_size=times * options.ctx_size)
    what = f"keep more prompts in place: --parallel {slots} --ctx-size {changed.ctx_size}"
    if similarity is not None and similarity > options.slot_prompt_similarity:
        changed = replace(changed, slot_prompt_similarity=similarity)
        what += f" --slot-prompt-similarity {similarity}"
    return OtherSetting(SLOT_LOST, what, changed, f"needs memory for {times} times the context")


def _more_of_windows(options: LlamaCppOptions) -> list[OtherSetting[LlamaCppOptions]]:
    """Extend windows. A saved prompt has only its window, even with --swa-full, so prompts also need slots of their own."""
    full, memory = replace(options, swa_full=True), "layers with a window then need memory for the whole context"
    found = [OtherSetting(WINDOW, "keep all tokens of layers with a window: --swa-full", full, memory)]
    if options.saves_idle_slots:
        what = "keep all tokens of layers with a window, and prompts in their slots: --swa-full --no-cache-idle-slots"
        found.append(OtherSetting(WINDOW, what, replace(full, cache_idle_slots=False), memory))
    if options.ubatch_size < options.batch_size:
        what = f"keep more tokens outside the window: --ubatch-size {options.batch_size}"
        larger = replace(options, ubatch_size=options.batch_size)
        found.append(OtherSetting(WINDOW, what, larger, "needs larger buffers for a micro batch"))
    return found


def _other_checkpoints(options: LlamaCppOptions) -> list[OtherSetting[LlamaCppOptions]]:
    """Move or add checkpoints: one is a micro batch and four tokens before the end of a prompt, one is four tokens before it."""
    found = [
        OtherSetting(
            NO_STATE, f"place a checkpoint elsewhere: --ubatch-size {size}", replace(options, ubatch_size=size)
        )
        for size in (_SMALL_BATCH, options.batch_size)
        if size != options.ubatch_size
    ]
    more = 4 * max(options.ctx_checkpoints, LlamaCppOptions().ctx_checkpoints)
    what = f"keep more checkpoints: --ctx-checkpoints {more}"
    return [
        *found,
        OtherSetting(NO_STATE, what, replace(options, ctx_checkpoints=more), "each checkpoint needs memory"),
    ]


def _remedies(options: LlamaCppOptions) -> tuple[OtherSetting[LlamaCppOptions], ...]:
    found = list[OtherSetting[LlamaCppOptions]]()
    if options.state_layers:
        found = _other_checkpoints(options)
    elif options.kept_window is not None:
        found = _more_of_windows(options)
    if options.cache_ram:
        larger = 8 * (options.cache_ram if options.cache_ram > 0 else LlamaCppOptions().cache_ram)
        found.append(
            OtherSetting(LIST_FULL, f"save more prompts: --cache-ram {larger}", replace(options, cache_ram=larger))
        )
    else:
        ram = LlamaCppOptions().cache_ram
        found.append(
            OtherSetting(SLOT_LOST, f"save prompts in host memory: --cache-ram {ram}", replace(options, cache_ram=ram))
        )
    possible = [times for times in (2, 4) if times * options.slots <= MOST_SLOTS]
    found += [_more_slots(options, times, similarity) for times in possible for similarity in (None, _ALIKE)]
    if not options.cache_reuse:
        found.append(
            OtherSetting(
                SLOT_LOST,
                f"move chunks to another position: --cache-reuse {_CHUNK}",
                replace(options, cache_reuse=_CHUNK),
                "moved chunks keep their old context: answers can change",
            )
        )
    return tuple(found)


LLAMA_CPP = RuleSet(
    name="llamacpp",
    engine="llama.cpp server b11549",
    status="driven",
    evidence="compared with the cached tokens that the server reports, with tiny random models",
    not_modelled=(
        "concurrent requests",
        "models with both windows and states",
        "images and audio",
        "speculative decoding",
        "checkpoints at messages of chat requests",
        "saving slots to files",
    ),
    options=LlamaCppOptions(),
    make=LlamaCppCache,
    unit=lambda _: 1,
    ladder=(Rung(LIST_FULL, _endless_list), Rung(WINDOW, _no_window), Rung(NO_STATE, _no_state)),
    rest=SLOT_LOST,
    scopes=False,
    moves=True,
    remedies=_remedies,
    eviction="the least recently used slot; the oldest saved prompt; always a whole prompt",
    limited=_list_of,
)
