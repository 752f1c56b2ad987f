"""Decode steps as CUDA graphs: the host does one copy and one launch a step, for any number of layers.

A graph is recorded for a shape, which is a batch size and the sizes of its plan, all rounded up. Its inputs are one int32 buffer,
so that a step copies once. The unused rest is padding: rows without a slot, items without tokens, outputs without parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from kvtool.engine.attention.attention_plan import AttentionPlan, Phase
from kvtool.engine.attention.decode_plan import DecodePlan
from kvtool.engine.batch import Batch
from kvtool.engine.model.decoder import AttentionPlans, Decoder
from kvtool.engine.model.kv_store import KVStore
from kvtool.engine.no_garbage_collection import uncollected

Int32 = npt.NDArray[np.int32]
Replay = Callable[[], None]
Recorder = Callable[[Callable[[], None]], Replay]
"""Run a function once and return a callable that runs it again on the same memory."""

_MOST_GRAPHS = 48
"""Graphs kept at once, a bound on their memory; beyond it all are recorded again."""
_ALIGNMENT = 4  # numbers: pointers that are multiples of 16 bytes, for which Triton compiles wide loads


class CudaRecorder:
    """Record CUDA graphs that share their memory; only one of them runs at a time.

    Free them all together. They are recorded on a stream of their own: graphs of one stream share cuBLAS's workspace, and newer
    versions of torch free it with the first graph (pytorch#193402).
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch's own
        self._first: torch.cuda.CUDAGraph | None = (
            None  # kept: torch does not record into memory that no graph has any more
        )

    def __call__(self, run: Callable[[], None]) -> Replay:
        here = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(here)
        with torch.cuda.stream(self._stream):
            run()  # compile everything first: compiling is not allowed while a graph is recorded
        here.wait_stream(self._stream)
        graph = torch.cuda.CUDAGraph()
        pool = None if self._first is None else self._first.pool()
        # Garbage may have graphs and modules of the device: to free these in the middle of a recording may end it.
        with uncollected(), torch.cuda.graph(graph, pool=pool, stream=self._stream):
            run()
        if self._first is None:
            self._first = graph
        return graph.replay


class _Shape(NamedTuple):
    """The sizes for which a graph is recorded."""

    rows: int
    phases: tuple[tuple[int, int], ...]  # items and most queries of each
    queries: int
    blocks: int

    @classmethod
    def of(cls, batch: Batch, plan: DecodePlan) -> _Shape:
        return cls(
            _batch_size(len(batch.input_ids)),
            tuple((_power_of_two(len(phase.items)), _power_of_two(phase.most_queries)) for phase in plan.phases),
            _power_of_two(len(plan.query_index)),
            _power_of_two(len(plan.block_index)),
        )


@dataclass(frozen=True, slots=True)
class _Graph:
    fields: dict[str, Int32]
    """Views of the host's buffer, by name."""
    host: torch.Tensor
    inputs: torch.Tensor
    logits: torch.Tensor  # [rows, vocab]
    tokens: torch.Tensor  # int64[rows]
    replay: Replay


class DecodeGraphs:
    """Run decode steps of a model on a cache by recorded graphs; if there are too many, all are dropped."""

    def __init__(self, model: Decoder, kv: KVStore, recorder: Recorder) -> None:
        self._model = model
        self._kv = kv
        self._record = recorder
        self._graphs: dict[_Shape, _Graph] = {}
        self._num_blocks = kv.num_blocks

    def run(self, batch: Batch, plan: DecodePlan) -> tuple[torch.Tensor, torch.Tensor]:
        """Return logits [B, vocab] and the likeliest tokens int64[B] of a batch of B requests with one query each.

        The tensors of `batch` are on the CPU. The result is valid until the next call.
        """
        if self._kv.num_blocks != self._num_blocks:  # the cache has moved, and graphs know addresses
            self._graphs.clear()
            self._num_blocks = self._kv.num_blocks
        shape = _Shape.of(batch, plan)
        graph = self._graphs.get(shape)
        if graph is None:
            if len(self._graphs) == _MOST_GRAPHS:
                self._graphs.clear()
            graph = self._recorded(shape, batch, plan)
        else:
            _fill(graph.fields, batch, plan)
            graph.inputs.copy_(graph.host, non_blocking=True)
            graph.replay()
        count = len(batch.input_ids)
        return graph.logits[:count], graph.tokens[:count]

    def _recorded(self, shape: _Shape, batch: Batch, plan: DecodePlan) -> _Graph:
        """Return a new graph, which has run once for this step."""
        device = self._model.device
        sizes = _sizes(shape)
        ends = np.cumsum([-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes.values()])
        starts = [0, *ends[:-1].tolist()]
        host = torch.zeros(int(ends[-1]), dtype=torch.int32, pin_memory=device.type == "cuda")
        inputs = torch.zeros_like(host, device=device)
        slices = {name: slice(start, start + size) for (name, size), start in zip(sizes.items(), starts, strict=True)}
        fields = {name: host.numpy()[part] for name, part in slices.items()}
        tensors = {name: inputs[part] for name, part in slices.items()}
        logits = torch.empty(shape.rows, self._model.config.vocab_size, device=device, dtype=self._model.dtype)
        tokens = torch.empty(shape.rows, device=device, dtype=torch.int64)
        nothing = torch.empty(0, device=device, dtype=torch.int32)
        padded = AttentionPlan(
            tiles=nothing.view(0, 5),
            tile_queries=1,
            phases=tuple(
                Phase(tensors[f"items {index}"].view(-1, 4), most_queries)
                for index, (_, most_queries) in enumerate(shape.phases)
            ),
            query_index=tensors["query_index"],
            block_index=tensors["block_index"],
            part_start=tensors["part_start"],
            part_index=tensors["part_index"],
            out_rows=tensors["out_rows"],
            num_parts=shape.queries,
        )

        def run() -> None:
            computed = self._model.forward(
                Batch(
                    input_ids=tensors["input_ids"].long(),
                    positions=tensors["positions"].long(),
                    slot_mapping=tensors["slot_mapping"].long(),
                    query_start=nothing,
                    seq_lens=nothing,
                    block_table=nothing.view(0, 0),
                    logits_at=tensors["input_ids"],  # one per row: all rows
                    sampled=(),
                    num_blocks=self._num_blocks,
                ),
                self._kv,
                AttentionPlans({None: padded}),
            )
            logits.copy_(computed)
            torch.argmax(computed, dim=-1, out=tokens)

        _fill(fields, batch, plan)
        inputs.copy_(host)
        replay = self._record(run)
        replay()  # a graph that is being recorded computes nothing
        graph = _Graph(fields, host, inputs, logits, tokens, replay)
        self._graphs[shape] = graph
        return graph


def _sizes(shape: _Shape) -> dict[str, int]:
    """Return numbers in each part of the input buffer."""
    return {
        "input_ids": shape.rows,
        "positions": shape.rows,
        "slot_mapping": shape.rows,
        **{f"items {index}": 4 * count for index, (count, _) in enumerate(shape.phases)},
        "query_index": shape.queries,
        "block_index": shape.blocks,
        "part_start": shape.rows + 1,
        "part_index": shape.queries,
        "out_rows": shape.rows,
    }


def _fill(fields: dict[str, Int32], batch: Batch, plan: DecodePlan) -> None:
    """Write a step into the host's buffer; the padding after it computes nothing and writes nothing."""
    padded = {
        "input_ids": (batch.input_ids.numpy(), 0),
        "positions": (batch.positions.numpy(), 0),
        "slot_mapping": (batch.slot_mapping.numpy(), -1),
        **{f"items {index}": (phase.items.reshape(-1), 0) for index, phase in enumerate(plan.phases)},
        "query_index": (plan.query_index, 0),
        "block_index": (plan.block_index, 0),
        "part_start": (plan.part_start, int(plan.part_start[-1])),
        "part_index": (plan.part_index, 0),
        "out_rows": (plan.out_rows, 0),
    }
    for name, (values, padding) in padded.items():
        field = fields[name]
        field[: len(values)] = values
        field[len(values) :] = padding


_BATCH_SIZES = (1, 2, 4, *range(8, 64, 8), *range(64, 257, 16))


def _batch_size(count: int) -> int:
    """Return the smallest recorded size of at least `count`; above all of them, the next multiple of 64."""
    return next((size for size in _BATCH_SIZES if count <= size), -(-count // 64) * 64)


def _power_of_two(count: int) -> int:
    return 1 << max(count - 1, 0).bit_length()
