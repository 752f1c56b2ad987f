"""llama.cpp's server as one of the rule sets: what was compared, which limits can be lifted, which settings may win tokens back."""

from __future__ import annotations

from dataclasses import replace

from kvtool.engine.rules.llama_cpp import LlamaCppCache
from kvtool.engine.rules.llama_cpp_options import LlamaCppOptions
from kvtool.engine.rules.rule_set import Remedy, RuleSet, Rung

WINDOW, LIST_FULL, SLOT_LOST = "window", "host list full", "slot lost"

_MIB = 1024 * 1024
_ANY_MIB = 1 << 40
_CHUNK = 256


def _whole_window(options: LlamaCppOptions) -> LlamaCppOptions:
    return options if options.kept_window is None else replace(options, swa_full=True)


def _endless_list(options: LlamaCppOptions) -> LlamaCppOptions:
    return replace(options, cache_ram=_ANY_MIB) if options.cache_ram else options


def _list_of(options: LlamaCppOptions, tokens: int) -> LlamaCppOptions:
    return replace(options, cache_ram=max(1, -(-tokens * options.kv_bytes_per_token // _MIB)))


def _remedies(options: LlamaCppOptions) -> tuple[Remedy[LlamaCppOptions], ...]:
    found = []
    if options.kept_window is not None:
        found.append(
            Remedy(
                WINDOW,
                "keep all tokens of layers with a window: --swa-full",
                replace(options, swa_full=True),
                "these layers need memory for the whole context then",
            )
        )
    if options.cache_ram:
        larger = 8 * (options.cache_ram if options.cache_ram > 0 else LlamaCppOptions().cache_ram)
        found.append(Remedy(LIST_FULL, f"save more prompts: --cache-ram {larger}", replace(options, cache_ram=larger)))
    else:
        ram = LlamaCppOptions().cache_ram
        found.append(
            Remedy(SLOT_LOST, f"save prompts in host memory: --cache-ram {ram}", replace(options, cache_ram=ram))
        )
    more = 2 * options.slots
    found.append(
        Remedy(
            SLOT_LOST,
            f"keep more prompts in place: --parallel {more}",
            replace(options, parallel=more, ctx_size=2 * options.ctx_size),
            "memory for twice the context",
        )
    )
    if not options.cache_reuse:
        found.append(
            Remedy(
                SLOT_LOST,
                f"move chunks to another position: --cache-reuse {_CHUNK}",
                replace(options, cache_reuse=_CHUNK),
                "moved chunks keep the context in which they were computed: answers may change",
            )
        )
    return tuple(found)


LLAMA_CPP = RuleSet(
    name="llamacpp",
    engine="llama.cpp server b11549",
    status="driven",
    evidence="compared with the cached tokens that the server itself reports, in process, with tiny random models",
    not_modelled=(
        "requests that run at the same time",
        "hybrid and recurrent models",
        "images and audio",
        "speculative decoding",
        "checkpoints at messages of chat requests",
        "saving slots to files",
    ),
    options=LlamaCppOptions(),
    make=LlamaCppCache,
    unit=lambda _: 1,
    ladder=(Rung(WINDOW, _whole_window), Rung(LIST_FULL, _endless_list)),
    rest=SLOT_LOST,
    scopes=False,
    remedies=_remedies,
    limited=_list_of,
)
