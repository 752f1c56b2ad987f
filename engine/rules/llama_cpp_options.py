"""Options of llama.cpp's server that affect reuse, under its own names, with the values that the server derives."""

from __future__ import annotations

from dataclasses import dataclass, fields

from kvtool.engine.engine_error import EngineError

AUTO_SLOTS = 4
"""Slots where `--parallel` is not given; they share one pool then."""
MOST_SLOTS = 256
"""`LLAMA_MAX_SEQ` of llama.cpp, which starts with no more."""

_CONTEXT_STEP = 256
"""The context of a slot is rounded up to a multiple of this, as llama.cpp does."""

_MIB = 1024 * 1024

_LEAST = {
    "parallel": 1,
    "ctx_size": 1,
    "cache_ram": -1,
    "cache_reuse": 0,
    "batch_size": 1,
    "ubatch_size": 1,
    "ctx_checkpoints": 0,
    "checkpoint_min_step": 0,
    "sliding_window": 1,
    "kv_bytes_per_token": 0,
    "window_bytes_per_token": 0,
    "kv_layers": 0,
    "window_layers": 0,
    "state_bytes": 0,
    "state_layers": 0,
    "kv_unified_per_slot": 1,
}


@dataclass(frozen=True, slots=True)
class LlamaCppOptions:
    """Flags of `llama-server` and, below `sliding_window`, values that it reads from the model. EngineError for an invalid one."""

    parallel: int | None = None
    """Slots (`--parallel`, `-np`); None is llama.cpp's own choice: four, and one pool for all of them."""
    ctx_size: int = 131_072
    """Tokens of KV of all slots together (`--ctx-size`, `-c`)."""
    kv_unified: bool | None = None
    """One pool for all slots (`--kv-unified`); None: only if `parallel` is not given."""
    kv_unified_per_slot: int | None = None
    """The most tokens of one slot of a shared pool (`--kv-unified-per-slot`); None: the whole pool."""
    cache_ram: int = 8192
    """MiB of host memory for saved prompts (`--cache-ram`); 0 is none, -1 no limit of bytes. Without that limit, all of them
    together may have `ctx_size` tokens."""
    cache_idle_slots: bool = True
    """True if a new request saves all other slots to host memory, and with one pool clears them (`--cache-idle-slots`)."""
    slot_prompt_similarity: float = 0.1
    """The least common part of a prompt for which its slot is chosen (`--slot-prompt-similarity`); 0 turns that off."""
    cache_reuse: int = 0
    """The shortest chunk that is moved to another position (`--cache-reuse`); 0 is none."""
    batch_size: int = 2048
    ubatch_size: int = 512
    swa_full: bool = False
    """True if layers with a window keep all tokens (`--swa-full`)."""
    ctx_checkpoints: int = 32
    """Checkpoints of the window or the state of a slot (`--ctx-checkpoints`)."""
    checkpoint_min_step: int = 8192
    """Tokens between two of them (`--checkpoint-min-step`)."""
    sliding_window: int | None = None
    """The model's window in tokens; None: all layers attend to everything."""
    kv_bytes_per_token: int = 131_072
    """Bytes of KV of a token in layers without a window: 128 KiB are those of Llama 3.1 8B in f16."""
    window_bytes_per_token: int = 0
    """Bytes of KV of a token in layers with a window."""
    kv_layers: int = 32
    """Layers without a window; each has 24 bytes in the header of a saved prompt."""
    window_layers: int = 0
    """Layers with a window."""
    state_bytes: int = 0
    """Bytes of one state of all layers that have one."""
    state_layers: int = 0
    """Layers with a state that cannot go back: Mamba, Gated DeltaNet, short convolutions."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), _LEAST.get(field.name)
            if least is not None and value is not None and value < least:
                raise EngineError(
                    f"{field.name} is {value}; llama.cpp accepts {least} or more", hint=f"remove {field.name}"
                )
        if self.slots > MOST_SLOTS:
            raise EngineError(
                f"parallel is {self.slots}; llama.cpp accepts {MOST_SLOTS} at most", hint="lower --parallel"
            )
        if self.state_layers and self.sliding_window is not None:
            raise EngineError(
                "a model with a window and states is not in these rules", hint="leave --sliding-window out"
            )
        if not 0 <= self.slot_prompt_similarity <= 1:
            raise EngineError(
                f"slot_prompt_similarity is {self.slot_prompt_similarity}, not a share",
                hint="use a number from 0 to 1; 0 turns it off",
            )

    @property
    def slots(self) -> int:
        """Number of prompts kept in place."""
        return AUTO_SLOTS if self.parallel is None else self.parallel

    @property
    def unified(self) -> bool:
        """Return whether all slots share one pool."""
        return self.parallel is None if self.kv_unified is None else self.kv_unified

    @property
    def pool_ctx(self) -> int:
        """Tokens of one pool: that of all slots, or of each."""
        each = _round_up(self.ctx_size, _CONTEXT_STEP)
        return each if self.unified else _round_up(each // self.slots, _CONTEXT_STEP)

    @property
    def total_ctx(self) -> int:
        """Tokens of all pools."""
        return self.pool_ctx if self.unified else self.pool_ctx * self.slots

    @property
    def slot_ctx(self) -> int:
        """The most tokens of one slot."""
        return self.pool_ctx if self.kv_unified_per_slot is None else min(self.pool_ctx, self.kv_unified_per_slot)

    @property
    def kept_window(self) -> int | None:
        """Return the window beyond which tokens may be lost, 0 with states; None where all are kept."""
        if self.state_layers:
            return 0
        return None if self.swa_full else self.sliding_window

    @property
    def saves_idle_slots(self) -> bool:
        """`cache_idle_slots` needs the list in host memory."""
        return self.cache_idle_slots and self.cache_ram != 0

    @property
    def host_bytes(self) -> int | None:
        """Return the limit of the list in host memory; None where it has none."""
        return self.cache_ram * _MIB if self.cache_ram > 0 else None


def _round_up(tokens: int, step: int) -> int:
    return max(-(-tokens // step), 1) * step
