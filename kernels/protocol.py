"""The kernels that a decoder is made of; `torch_twins` and `gpu.triton_kernels` are modules that have them all."""

from __future__ import annotations

from typing import Protocol

import torch

from kvtool.kernels.kv_quantization import Scale


class Kernels(Protocol):
    """Implemented by modules, so that each function can be used alone; the functions' own docstrings give the shapes."""

    @property
    def NAME(self) -> str:  # noqa: N802 - a module's constant
        """Readable name."""
        ...

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor: ...

    def add_rms_norm(
        self, x: torch.Tensor, delta: torch.Tensor, weight: torch.Tensor, eps: float
    ) -> tuple[torch.Tensor, torch.Tensor]: ...

    def swiglu(self, gate_up: torch.Tensor) -> torch.Tensor: ...

    def rotary(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor: ...

    def store_kv(
        self,
        k: torch.Tensor,
        v: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        slot_mapping: torch.Tensor,
        k_scale: Scale = 1.0,
        v_scale: Scale = 1.0,
    ) -> None: ...

    def rotary_store_kv(
        self,
        qkv: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        slot_mapping: torch.Tensor,
        k_scale: Scale = 1.0,
        v_scale: Scale = 1.0,
        *,
        qk_norm: torch.Tensor | None = None,
        eps: float = 0.0,
    ) -> torch.Tensor: ...

    def prefill_queries(self, q_dtype: torch.dtype, group: int, head_dim: int, cache_dtype: torch.dtype) -> int: ...

    def paged_prefill(
        self,
        q: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        block_table: torch.Tensor,
        query_start: torch.Tensor,
        seq_lens: torch.Tensor,
        tiles: torch.Tensor,
        tile_queries: int,
        out: torch.Tensor,
        partial_out: torch.Tensor,
        partial_lse: torch.Tensor,
        scale: float | None = None,
        k_scale: Scale = 1.0,
        v_scale: Scale = 1.0,
    ) -> None: ...

    def paged_decode(
        self,
        q: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        items: torch.Tensor,
        query_index: torch.Tensor,
        block_index: torch.Tensor,
        most_queries: int,
        partial_out: torch.Tensor,
        partial_lse: torch.Tensor,
        scale: float | None = None,
        k_scale: Scale = 1.0,
        v_scale: Scale = 1.0,
    ) -> None: ...

    def merge_states(
        self,
        partial_out: torch.Tensor,
        partial_lse: torch.Tensor,
        part_start: torch.Tensor,
        part_index: torch.Tensor,
        out_rows: torch.Tensor,
        out: torch.Tensor,
    ) -> None: ...
