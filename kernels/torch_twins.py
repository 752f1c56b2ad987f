"""All kernels in torch: CPUs run them, and tests compare the Triton kernels with them."""

from __future__ import annotations

import torch

from kvtool.kernels.merge_states import merge_states
from kvtool.kernels.paged_decode import paged_decode
from kvtool.kernels.paged_prefill import paged_prefill
from kvtool.kernels.rms_norm import add_rms_norm, rms_norm
from kvtool.kernels.rotary import rotary
from kvtool.kernels.rotary_store_kv import rotary_store_kv
from kvtool.kernels.store_kv import store_kv
from kvtool.kernels.swiglu import swiglu

__all__ = [
    "NAME",
    "add_rms_norm",
    "merge_states",
    "paged_decode",
    "paged_prefill",
    "prefill_queries",
    "rms_norm",
    "rotary",
    "rotary_store_kv",
    "store_kv",
    "swiglu",
]

NAME = "torch"
_PREFILL_QUERIES = 256
"""Queries of a tile on CPUs; bounds the memory of a tile's scores."""


def prefill_queries(q_dtype: torch.dtype, group: int, head_dim: int, cache_dtype: torch.dtype) -> int:
    """Return queries in a tile of `paged_prefill`."""
    del q_dtype, group, head_dim, cache_dtype
    return _PREFILL_QUERIES
