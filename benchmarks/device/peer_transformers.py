"""transformers' continuous batching, with paged attention and its own prefix cache, on the same geometry and prompts."""

from __future__ import annotations

import dataclasses
import importlib
import statistics
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch

from benchmarks.device.end_to_end import ThroughputResult, TtftResult, make_prompts
from kvtool.engine.model.configs.model_config import ModelConfig

_PAGE = 32
_NAME = "transformers"


class TransformersPeer:
    """A Llama of that geometry with random weights on the device, and its manager of continuous batching, which stays."""

    def __init__(
        self, config: ModelConfig, device: torch.device, dtype: torch.dtype, *, most_tokens: int, batch: int
    ) -> None:
        """`most_tokens`: what the cache holds; `batch`: requests at a time."""
        hf: Any = importlib.import_module("transformers")  # whose classes build themselves at run time, without types
        hf.logging.set_verbosity_error()
        self._hf = hf
        self._vocabulary = config.vocab_size
        geometry = hf.LlamaConfig(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=config.num_hidden_layers,
            num_attention_heads=config.num_attention_heads,
            num_key_value_heads=config.num_key_value_heads,
            head_dim=config.head_dim,
            max_position_embeddings=config.max_position_embeddings or 8192,
            tie_word_embeddings=config.tie_word_embeddings,
            bos_token_id=None,
            eos_token_id=None,
        )
        with torch.device(device):
            self._model: Any = hf.AutoModelForCausalLM.from_config(
                geometry, dtype=dtype, attn_implementation="sdpa"
            ).eval()
        wanted = {
            "page_size": _PAGE,
            "block_size": _PAGE,
            "num_blocks": -(-most_tokens // _PAGE) + batch,
            "max_batch_tokens": 8192,
            "max_requests_per_batch": batch,
            "max_blocks_per_request": 256,
        }
        known = {
            field.name for field in dataclasses.fields(hf.ContinuousBatchingConfig)
        }  # other ones in other versions
        self._batching = hf.ContinuousBatchingConfig(**{name: value for name, value in wanted.items() if name in known})

    def generate(self, prompts: Sequence[Sequence[int]], outputs: int) -> tuple[float, list[list[float]]]:
        """Host seconds, and for each prompt the times of its tokens since the submission, as far as transformers notes them."""
        began = time.perf_counter()
        done = self._model.generate_batch(
            [list(ids) for ids in prompts],
            generation_config=self._hf.GenerationConfig(max_new_tokens=outputs, do_sample=False, eos_token_id=-1),
            continuous_batching_config=self._batching,
            record_timestamps=True,
            persistent_manager=True,  # the prefix cache lives as long
        )
        seconds = time.perf_counter() - began
        answers = list(done.values())
        failed = [str(answer.error) for answer in answers if answer.error]
        if failed or len(answers) != len(prompts):
            raise RuntimeError(failed[0] if failed else f"{len(answers)} answers to {len(prompts)} prompts")
        return seconds, [[at - answer.created_time for at in answer.timestamps or ()] for answer in answers]

    def ttft(self, *, document: int, question: int, documents: int) -> TtftResult:
        """As `end_to_end.measure_ttft`; by the time that transformers notes for the first token, which leaves its queues out."""
        cold: list[float] = []
        warm: list[float] = []
        for index in range(documents + 1):
            prompts = make_prompts(2, document, question, self._vocabulary, index)
            for times, ids in zip((cold, warm), prompts, strict=True):
                seconds, tokens = self.generate([ids.tolist()], 1)
                times.append(tokens[0][0] if tokens[0] else seconds)
        return TtftResult(document, question, cold[1:], warm[1:])

    def throughput(self, *, batch: int, context: int, shared: int = 0, steps: int = 48) -> ThroughputResult:
        """As `end_to_end.measure_throughput`; steps are the times between tokens once every request has its first."""
        prompts = [ids.tolist() for ids in make_prompts(batch, shared, context - shared, self._vocabulary, 100)]
        chunks = -(-batch * context // 8192)
        _, times = self.generate(prompts, steps + chunks + 4)
        first = max(tokens[0] for tokens in times)
        last = min(tokens[-1] for tokens in times)
        inside = [[at for at in tokens if first <= at <= last] for tokens in times]
        gaps = [statistics.median(b - a for a, b in pairwise(own)) for own in inside if len(own) > 1]
        return ThroughputResult(batch, context, shared, _NAME, gaps, first)

    def warm_up(self, *, batch: int, context: int) -> None:
        """Whatever is made, compiled or captured at the first use."""
        self.generate([ids.tolist() for ids in make_prompts(batch, 0, context, self._vocabulary, 999)], 3)

    def close(self) -> None:
        """Ends the manager's thread and gives back its cache; the next section has the device to itself."""
        self._model.destroy_cached_continuous_batching_manager()
