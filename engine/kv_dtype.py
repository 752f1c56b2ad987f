"""The types in which keys and values can be kept, by the names of the command line."""

from __future__ import annotations

from dataclasses import dataclass

from kvtool.engine.engine_error import EngineError


@dataclass(frozen=True, slots=True)
class KVDtype:
    """The storage of one number of the KV cache.

    fp8 is stored with scale 1.0, as vLLM does by default: its range fits keys and values, and it clamps larger numbers. int8
    always has a scale for every token and head: with one for all, its even steps would be too coarse for small vectors.
    """

    name: str
    torch_name: str
    bytes: int
    scale_bytes: int = 0
    """Bytes of the scale of each token's and head's key, and again of its value."""

    def vector_bytes(self, head_dim: int) -> int:
        """Return a key or a value of one token and head, with its scale."""
        return head_dim * self.bytes + self.scale_bytes

    @property
    def quantized(self) -> bool:
        return self.bytes == 1


KV_DTYPES = {
    dtype.name: dtype
    for dtype in (
        KVDtype("fp32", "float32", 4),
        KVDtype("fp16", "float16", 2),
        KVDtype("bf16", "bfloat16", 2),
        KVDtype("fp8_e4m3", "float8_e4m3fn", 1),
        KVDtype("fp8_e5m2", "float8_e5m2", 1),
        KVDtype("int8", "int8", 1, scale_bytes=4),
    )
}
AUTO = "auto"
KV_CACHE_DTYPES = (AUTO, "fp16", "bf16", "fp8_e4m3", "fp8_e5m2", "int8")
"""Values of `--kv-cache-dtype`; vLLM's other names for them are accepted as well."""

_ALIASES = {
    "float32": "fp32",
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
    "fp8": "fp8_e4m3",
    "int8_per_token_head": "int8",
}


def find_kv_dtype(name: str, model_dtype: str = "bf16") -> KVDtype:
    """Return a type by its name; `auto` is the model's own."""
    wanted = model_dtype if name == AUTO else name
    try:
        return KV_DTYPES[_ALIASES.get(wanted, wanted)]
    except KeyError:
        raise EngineError(f"unknown KV cache dtype `{name}`", hint=f"use one of {', '.join(KV_CACHE_DTYPES)}") from None
