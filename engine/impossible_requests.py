"""Find requests that an engine could never run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from kvtool.engine.config import EngineConfig
from kvtool.engine.engine_error import EngineError


def check_fits(
    name: str, prompt: int, outputs: int, config: EngineConfig, blocks_of: Callable[[int], int] | None = None
) -> None:
    """Raise EngineError, which calls the request `name`, if this configuration could never run it.

    `blocks_of` returns the blocks for a number of tokens; None: as for one group of layers.
    """
    if prompt < 1:
        raise EngineError(f"{name} has an empty prompt")
    if outputs < 1:
        raise EngineError(f"{name} requests no output token")
    if prompt >= config.max_model_len:
        raise EngineError(
            f"{name} has {prompt} prompt tokens; the model accepts at most {config.max_model_len - 1}, plus one output token",
            hint="raise --max-model-len",
        )
    most = min(prompt + outputs - 1, config.max_model_len)
    # A full pool or a reset can preempt a request, and then its answer so far is computed again with its prompt.
    if not config.enable_chunked_prefill and most > config.max_num_batched_tokens:
        what = "prompt tokens" if most == prompt else "tokens of prompt and answer"
        raise EngineError(
            f"{name} has {most} {what}, more than a step's {config.max_num_batched_tokens}, and chunked prefill is off",
            hint="raise --max-num-batched-tokens",
        )
    needed = -(-most // config.block_size) if blocks_of is None else blocks_of(most)
    if config.num_blocks is not None and needed > config.num_blocks - 1:
        raise EngineError(
            f"{name} needs {needed} blocks for {most} tokens; the whole cache has {config.num_blocks - 1}",
            hint="raise --capacity",
        )


def most_tokens(config: EngineConfig) -> int:
    """Return the most tokens of prompt and answer that `check_fits` accepts, with one group of layers."""
    most = config.max_model_len if config.enable_chunked_prefill else config.max_num_batched_tokens
    return most if config.num_blocks is None else min(most, (config.num_blocks - 1) * config.block_size)


def all_fitting(
    prompts: npt.NDArray[np.int64], outputs: npt.NDArray[np.int64], config: EngineConfig
) -> npt.NDArray[np.bool_]:
    """Return which of many requests `check_fits` accepts, with one group of layers."""
    most = np.minimum(prompts + outputs - 1, config.max_model_len)
    fits = (prompts >= 1) & (outputs >= 1) & (prompts < config.max_model_len) & (most <= most_tokens(config))
    return np.asarray(fits)
