"""All kernels in Triton."""

from __future__ import annotations

from kvtool.kernels.gpu.merge_states import merge_states
from kvtool.kernels.gpu.paged_decode import paged_decode
from kvtool.kernels.gpu.paged_prefill import paged_prefill, prefill_queries
from kvtool.kernels.gpu.rms_norm import add_rms_norm, rms_norm
from kvtool.kernels.gpu.rotary import rotary
from kvtool.kernels.gpu.rotary_store_kv import rotary_store_kv
from kvtool.kernels.gpu.store_kv import store_kv
from kvtool.kernels.gpu.swiglu import swiglu

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

NAME = "Triton"
