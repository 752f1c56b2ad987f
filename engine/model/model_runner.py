"""The runner that computes: a forward pass on paged K/V for every step."""

from __future__ import annotations

from collections.abc import Callable

import torch

from kvtool.engine.attention.attention_plan import AttentionPlanner
from kvtool.engine.attention.cpu_costs import measure_costs
from kvtool.engine.attention.cpu_planner import CpuPlanner
from kvtool.engine.attention.decode_planner import DecodePlanner
from kvtool.engine.batch import Batch
from kvtool.engine.blocks.block_tables import BlockTables
from kvtool.engine.config import DecodeMode
from kvtool.engine.engine_error import EngineError
from kvtool.engine.kv_dtype import AUTO, find_kv_dtype
from kvtool.engine.model.decode_graphs import CudaRecorder, DecodeGraphs
from kvtool.engine.model.decoder import AttentionPlans, Decoder
from kvtool.engine.model.device import processors
from kvtool.engine.model.kv_store import KVStore, storage_dtype
from kvtool.engine.request import Request
from kvtool.engine.step import EngineStep
from kvtool.kernels import torch_twins

OnLogits = Callable[[Request, torch.Tensor], None]


def _reads_in_place(model: Decoder, kv_cache_dtype: str) -> bool:
    """Return whether attention is a CPU's own, which needs caches of the model's type."""
    if model.kernels is not torch_twins or model.device.type != "cpu":
        return False
    return kv_cache_dtype == AUTO or storage_dtype(find_kv_dtype(kv_cache_dtype), model.device) == model.dtype


def shares_by_default(model: Decoder, kv_cache_dtype: str) -> bool:
    """Return whether `auto` may be prefix-aware: not where torch reads request by request."""
    in_place = _reads_in_place(model, kv_cache_dtype)
    return in_place or (model.config.plain_attention and model.kernels is not torch_twins)


def attention_shortfall(model: Decoder) -> str:
    """Return why other kernels compute attention than the rest; empty where they do not."""
    if model.config.plain_attention or model.kernels is torch_twins:
        return ""
    return "the Triton kernels have no windows, sinks, softcaps and latent vectors, so torch computes attention"


class ModelRunner:
    """Run steps on a model, and take the likeliest token where outputs are free.

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
        decode_attention: DecodeMode = "auto",
        cuda_graphs: bool = True,
    ) -> None:
        """Create the runner.
        `decode_attention` selects how attention reads shared prefixes; `auto` is flat without `shares_by_default`. `cuda_graphs`
        replays decode steps on devices that can do so."""
        self.model = model
        self.block_size = block_size
        in_place = _reads_in_place(model, kv_cache_dtype)
        self.kv = KVStore(
            model.config,
            block_size,
            num_blocks,
            device=model.device,
            dtype=model.dtype,
            cache_dtype=kv_cache_dtype,
            by_head=in_place,
        )
        self.on_logits = on_logits
        self._tables = BlockTables()
        plain = model.config.plain_attention
        if not (plain or in_place) and decode_attention == "prefix-aware":
            raise EngineError(
                f"{model.config.name} has layers that {model.kernels.NAME} attention reads request by request here, "
                "not prefix by prefix",
                hint="use --decode-attention flat, or a float32 or bfloat16 model on cpu with --kv-cache-dtype auto",
            )
        self._planners: tuple[AttentionPlanner, AttentionPlanner] | None = None
        if plain and (model.kernels is not torch_twins or decode_attention == "prefix-aware"):
            # The last layer, where only some tokens attend, has a planner of its own: each goes on from its last plan.
            self._planners = self._make_planner(decode_attention), self._make_planner(decode_attention)
        self._cpu_planners: dict[int | None, CpuPlanner] = {}
        if in_place:
            windows = [model.config.window(layer) for layer in range(model.config.num_hidden_layers)]
            self._cpu_planners = {window: self._make_cpu_planner(decode_attention, window) for window in set(windows)}
            self._last_cpu_planner = self._make_cpu_planner(decode_attention, windows[-1])
        self._graphs = None
        # Torch's kernels read plans on the host, which cannot be recorded.
        if plain and cuda_graphs and model.device.type == "cuda" and model.kernels is not torch_twins:
            self._graphs = DecodeGraphs(model, self.kv, CudaRecorder(model.device))

    def _make_planner(self, mode: DecodeMode) -> AttentionPlanner:
        config, model = self.model.config, self.model
        heads, kv_heads, dim = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        parallel = processors(model.device)
        decode = DecodePlanner(
            self.block_size,
            heads,
            kv_heads,
            dim,
            vector_bytes=self.kv.vector_bytes,
            mode=mode,
            processors=parallel,
        )
        return AttentionPlanner(
            decode,
            model.device,
            tile_queries=model.kernels.prefill_queries(model.dtype, heads // kv_heads, dim, self.kv.k[0].dtype),
            num_kv_heads=kv_heads,
            block_size=self.block_size,
            processors=parallel,
        )

    def _make_cpu_planner(self, mode: DecodeMode, window: int | None) -> CpuPlanner:
        config, dtype = self.model.config, self.model.dtype
        heads, kv_heads, dim = config.num_attention_heads, config.cache_heads, config.cache_dim
        return CpuPlanner(
            self.block_size,
            token_bytes=self.kv.bytes_per_block // self.block_size,
            mode=mode,
            measure_costs=lambda: measure_costs(heads, kv_heads, dim, dtype),
            window=window,
        )

    @torch.inference_mode()
    def run(self, step: EngineStep) -> list[int | None]:
        """Return a new token for each scheduled request that samples, None for the others."""
        if not step.num_tokens:
            return [None] * len(step.scheduled)
        batch = Batch.build(step, self.block_size, self._tables)
        self._check_vocabulary(batch)
        self.kv.reserve(batch.num_blocks)
        if self.model.device.type == "cuda":
            with torch.cuda.device(self.model.device):
                logits, likeliest = self._compute(batch)
                torch.cuda.synchronize()  # a step's time is known even if its tokens are forced, and its buffers are free
        else:
            logits, likeliest = self._compute(batch)
        free = dict(zip(batch.sampled, likeliest.tolist(), strict=True))
        if self.on_logits is not None:
            for index, row in zip(batch.sampled, logits, strict=True):
                self.on_logits(step.scheduled[index].request, row)
        tokens: list[int | None] = []
        for index, item in enumerate(step.scheduled):
            forced = item.request.next_forced() if item.samples else None
            tokens.append(free.get(index) if forced is None else forced)
        return tokens

    def _compute(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Return logits of the batch's sampled requests, [len(batch.sampled), vocab], and the likeliest token of each."""
        device = self.model.device
        if self._cpu_planners and self._graphs is None:
            partly = batch.sampled and len(batch.logits_at) < len(batch.input_ids)
            plans = AttentionPlans(
                {window: planner.plan(batch) for window, planner in self._cpu_planners.items()},
                self._last_cpu_planner.plan(batch.of_logits()) if partly else None,
            )
            logits = self.model.forward(batch, self.kv, plans)
            return logits, logits.argmax(dim=-1)
        if self._planners is None:
            logits = self.model.forward(batch.to(device), self.kv)
            return logits, logits.argmax(dim=-1)
        planner, last_planner = self._planners
        requests = len(batch.seq_lens)
        if self._graphs is not None and len(batch.input_ids) == requests:
            table, seq_lens = batch.block_table.numpy(), batch.seq_lens.numpy()
            logits, tokens = self._graphs.run(batch, planner.decode.plan(table, seq_lens))
            if len(batch.sampled) == requests:
                return logits, tokens
            sampled = list(batch.sampled)
            return logits[sampled], tokens[sampled]
        plan = planner.plan(batch)
        last = last_planner.plan(batch.of_logits()) if len(batch.logits_at) < len(batch.input_ids) else None
        logits = self.model.forward(batch.to(device), self.kv, AttentionPlans({None: plan}, last))
        return logits, logits.argmax(dim=-1)

    def _check_vocabulary(self, batch: Batch) -> None:
        low, high = (int(value) for value in torch.aminmax(batch.input_ids))
        size = self.model.config.vocab_size
        if low < 0 or high >= size:
            raise EngineError(
                f"token {low if low < 0 else high} is not in the model's vocabulary of {size}",
                hint="use the tokenizer of this model",
            )
