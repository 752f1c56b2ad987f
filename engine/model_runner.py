"""The runner that computes: a forward pass on paged K/V for every step."""

from __future__ import annotations

from collections.abc import Callable

import torch

from kvtool.engine.batch import Batch
from kvtool.engine.errors import EngineError
from kvtool.engine.kv_dtype import AUTO
from kvtool.engine.kv_store import KVStore
from kvtool.engine.model import Decoder
from kvtool.engine.request import Request
from kvtool.engine.step import Step

OnLogits = Callable[[Request, torch.Tensor], None]


class ModelRunner:
    """Runs steps on a model, taking the likeliest token where outputs are free.

    Logits are computed for each request's first output token, and for later ones only where they are free. `on_logits` sees all of
    them, float[vocab] for a request, before the tokens are returned.
    """

    def __init__(
        self,
        model: Decoder,
        block_size: int,
        num_blocks: int | None = None,
        *,
        kv_cache_dtype: str = AUTO,
        on_logits: OnLogits | None = None,
    ) -> None:
        self.model = model
        self.block_size = block_size
        self.kv = KVStore(
            model.config, block_size, num_blocks, device=model.device, dtype=model.dtype, cache_dtype=kv_cache_dtype
        )
        self.on_logits = on_logits

    @torch.inference_mode()
    def run(self, step: Step) -> list[int | None]:
        """A new token for each scheduled request that samples, None for the others."""
        if not step.num_tokens:
            return [None] * len(step.scheduled)
        batch = Batch.build(step, self.block_size)
        self._check_vocabulary(batch)
        self.kv.reserve(batch.num_blocks)
        logits = self.model.forward(batch.to(self.model.device), self.kv)
        # Waits for the device, so that the first token's time is known even if that token is forced.
        free = dict(zip(batch.sampled, logits.argmax(dim=-1).tolist(), strict=True))
        if self.on_logits is not None:
            for index, row in zip(batch.sampled, logits, strict=True):
                self.on_logits(step.scheduled[index].request, row)
        tokens: list[int | None] = []
        for index, item in enumerate(step.scheduled):
            forced = item.request.next_forced() if item.samples else None
            tokens.append(free.get(index) if forced is None else forced)
        return tokens

    def _check_vocabulary(self, batch: Batch) -> None:
        low, high = (int(value) for value in torch.aminmax(batch.input_ids))
        size = self.model.config.vocab_size
        if low < 0 or high >= size:
            raise EngineError(
                f"token {low if low < 0 else high} is not in the model's vocabulary of {size}",
                hint="the model and the tokenizer must belong together",
            )
