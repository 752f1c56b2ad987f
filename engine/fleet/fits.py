"""Which requests a replica could never run."""

from __future__ import annotations

from kvtool.engine.config import EngineConfig
from kvtool.engine.engine_error import EngineError
from kvtool.engine.fleet.fleet_request import FleetRequest


def check_fits(request: FleetRequest, config: EngineConfig) -> None:
    """Raise EngineError, as the engine does, for a request that this configuration could never run."""
    name, prompt = f"request {request.number + 1}", request.prompt_tokens
    if prompt < 1:
        raise EngineError(f"{name} has an empty prompt")
    if prompt >= config.max_model_len:
        raise EngineError(
            f"{name} has {prompt} prompt tokens; the model takes {config.max_model_len - 1} and at least one more of output",
            hint="raise --max-model-len",
        )
    most = min(prompt + request.output_tokens - 1, config.max_model_len)
    if not config.enable_chunked_prefill and most > config.max_num_batched_tokens:
        raise EngineError(
            f"{name} has {most} tokens of prompt and answer, more than a step's {config.max_num_batched_tokens}, and "
            "chunked prefill is off",
            hint="raise --max-num-batched-tokens",
        )
    blocks = -(-most // config.block_size)
    if config.num_blocks is not None and blocks > config.num_blocks - 1:
        raise EngineError(
            f"{name} needs {blocks} blocks for {most} tokens; the whole cache has {config.num_blocks - 1}",
            hint="raise --capacity",
        )
