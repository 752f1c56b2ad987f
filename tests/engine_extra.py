"""Which tests need the extra `engine`, and whether it is installed. A light environment runs all others."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

MARKER = "engine"
NEED_IT = (
    "benchmarks/test_gpu_bench.py",
    "cli/engine_flags",
    "engine/test_attention_plan.py",
    "engine/test_batch.py",
    "engine/test_cpu_attention.py",
    "engine/test_decode_graphs.py",
    "engine/test_families.py",
    "engine/test_kv_dtypes.py",
    "engine/test_model.py",
    "engine/test_model_config.py",
    "engine/test_products.py",
    "engine/test_rope.py",
    "engine/test_same_outputs.py",
    "engine/test_triton_engine.py",
    "engine/test_weights.py",
    "engine/test_windows.py",
    "kernels",
    "measure/test_audit.py",
    "measure/test_bench.py",
    "measure/test_budget.py",
    "measure/test_local.py",
)
"""Files and folders below `tests` that import torch."""


@cache
def is_here() -> bool:
    """Whether torch and transformers are installed."""
    return find_spec("torch") is not None and find_spec("transformers") is not None
