"""What the tests of the small kernels, in torch and in Triton, have in common: projections with caches to fill, and bad calls."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from kvtool.kernels.kv_quantization import MAXIMA, storage_view

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
UNTOUCHED = 0x55  # in every byte of a cache: a number of every type, and none that a kernel comes to by chance
STEP = {torch.float8_e4m3fn: 2.0**-4, torch.float8_e5m2: 2.0**-3}
"""How far the nearest number of a type is at most, relative to the number itself."""


def random(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def angles(tokens: int, dim: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and signed sin [T, 1, D]."""
    angle = 10 * random(tokens, 1, dim // 2, seed=99)
    cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)
    return torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """In float64, pair by pair, as the product of complex numbers."""
    half = x.shape[-1] // 2
    number = torch.complex(x[..., :half].double(), x[..., half:].double())
    turned = number * torch.complex(cos[..., :half].double(), sin[..., half:].double())
    return torch.cat((turned.real, turned.imag), dim=-1)


def normed(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """In float64."""
    wide = x.double()
    return wide / (wide.square().mean(-1, keepdim=True) + eps).sqrt() * weight.double()


@dataclass(frozen=True)
class Fill:
    """T tokens of a projection and the caches that their keys and values go to; every third token goes nowhere."""

    qkv: torch.Tensor  # [T, Hq + 2 * Hkv, D], a slice of something wider
    k_cache: torch.Tensor
    v_cache: torch.Tensor
    slots: torch.Tensor
    k_scale: float | torch.Tensor
    v_scale: float | torch.Tensor

    @property
    def kv_heads(self) -> int:
        return self.k_cache.shape[1]

    @property
    def k(self) -> torch.Tensor:
        return self.qkv[:, -2 * self.kv_heads : -self.kv_heads]

    @property
    def v(self) -> torch.Tensor:
        return self.qkv[:, -self.kv_heads :]

    def again(self) -> Fill:
        """The same, with caches and scales of its own."""

        def copy(x: Any) -> Any:
            return x.clone() if isinstance(x, torch.Tensor) else x

        return replace(
            self,
            k_cache=self.k_cache.clone(),
            v_cache=self.v_cache.clone(),
            k_scale=copy(self.k_scale),
            v_scale=copy(self.v_scale),
        )

    def same(self, other: Fill) -> bool:
        """Whether caches and scales have the same bytes."""
        pairs = [(self.k_cache, other.k_cache), (self.v_cache, other.v_cache)]
        for mine, its in ((self.k_scale, other.k_scale), (self.v_scale, other.v_scale)):
            if isinstance(mine, torch.Tensor) and isinstance(its, torch.Tensor):
                pairs.append((mine, its))
        return all(torch.equal(mine.view(torch.uint8), its.view(torch.uint8)) for mine, its in pairs)

    def check_stored(self, k: torch.Tensor, v: torch.Tensor, tolerance: float) -> None:
        """The caches hold k, v, float64[T, Hkv, D], to the nearest that they can; what is in no token's slot is untouched."""
        page = self.k_cache.shape[2]
        for x, cache, scale in ((k, self.k_cache, self.k_scale), (v, self.v_cache, self.v_scale)):
            rest = torch.ones(cache.shape[:3], dtype=torch.bool)
            for token, slot in enumerate(self.slots.tolist()):
                if slot < 0:
                    continue
                at = slot // page, slice(None), slot % page
                rest[at] = False
                own = scale[at][:, None].double() if isinstance(scale, torch.Tensor) else torch.tensor(scale).double()
                largest = MAXIMA.get(cache.dtype, math.inf)
                wanted, stored = x[token], cache[at].double()
                if cache.dtype in MAXIMA:
                    if isinstance(scale, torch.Tensor):
                        torch.testing.assert_close(
                            own[:, 0], wanted.abs().amax(-1) / largest, rtol=max(tolerance, 1e-6), atol=0
                        )
                    wanted, stored = (wanted / own).clamp(-largest, largest) * own, stored * own
                relative = STEP.get(cache.dtype, torch.finfo(cache.dtype).eps if cache.is_floating_point() else 0.0)
                least = (
                    0.5 if cache.dtype == torch.int8 else 2.0**-10 if cache.dtype == torch.float8_e4m3fn else 2.0**-17
                )
                bound = (relative + tolerance) * wanted.abs() + (least * own if cache.dtype in MAXIMA else 0.0)
                assert ((stored - wanted).abs() <= bound + tolerance).all()
            untouched = storage_view(cache).view(torch.uint8).view(*cache.shape, -1)[rest]
            assert (untouched == UNTOUCHED).all()
            if isinstance(scale, torch.Tensor):
                assert (scale.view(torch.uint8).view(*scale.shape, -1)[rest] == UNTOUCHED).all()


def fill(
    dtype: torch.dtype,
    cache_dtype: torch.dtype,
    *,
    tokens: int = 7,
    q_heads: int = 4,
    kv_heads: int = 2,
    dim: int = 16,
    page: int = 4,
    dynamic: bool = False,
    seed: int = 0,
) -> Fill:
    """Slots are scattered; caches and scales are one layer's of something larger, whose other layer stands between the blocks."""
    blocks = -(-tokens // page) + 2
    shape = (blocks, kv_heads, page, dim)

    def layer(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        size = torch.empty((), dtype=dtype).element_size()
        whole = torch.full((shape[0], 2, *shape[1:-1], shape[-1] * size), UNTOUCHED, dtype=torch.uint8).view(dtype)
        return whole[:, 1]

    generator = torch.Generator().manual_seed(seed)
    slots = torch.randperm(blocks * page, generator=generator)[:tokens]
    slots[2::3] = -1
    heads = q_heads + 2 * kv_heads
    qkv = random(tokens, heads + 1, dim, dtype=dtype, seed=seed)[:, 1:]
    scales = (layer(shape[:3], torch.float32), layer(shape[:3], torch.float32)) if dynamic else (0.03, 0.02)
    if cache_dtype not in MAXIMA:
        scales = (1.0, 1.0)
    return Fill(qkv, layer(shape, cache_dtype), layer(shape, cache_dtype), slots, *scales)


CACHES = [
    *((dtype, dtype, False) for dtype in FLOATS),
    (torch.float32, torch.bfloat16, False),
    *((torch.bfloat16, cache, dynamic) for cache in MAXIMA for dynamic in (False, True)),
    (torch.float16, torch.int8, True),
    (torch.float32, torch.float8_e4m3fn, True),
]
"""Types of projections and of caches, and whether each token and head gets a scale of its own."""


def bad_calls(kernels: Any) -> list[tuple[str, Callable[[], object]]]:
    """Calls of a module's or namespace's kernels that must fail, each with what the message has to say."""
    x, weight = torch.zeros(3, 8), torch.zeros(8)
    cos, sin = angles(3, 8)
    heads = torch.zeros(3, 4, 8)
    ok = fill(torch.float32, torch.int8, tokens=3, q_heads=2, dim=8)
    store = (ok.k, ok.v, ok.k_cache, ok.v_cache, ok.slots)
    rope = (ok.qkv, cos, sin, ok.k_cache, ok.v_cache, ok.slots)
    out, part, lse = torch.zeros(3, 2, 8), torch.zeros(5, 2, 8), torch.zeros(5, 2)

    def i32(*numbers: int) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.int32)

    parts = (i32(0, 2, 3), i32(0, 1, 4), i32(0, 2))
    return [
        (r"\[3, 8\], not \[7\]", lambda: kernels.rms_norm(x, torch.zeros(7), 1e-6)),
        (r"\[3, 4, 8\], not \[3, 8\]", lambda: kernels.rms_norm(heads, torch.zeros(3, 8), 1e-6)),
        ("weight must be float32, not float16", lambda: kernels.rms_norm(x, weight.half(), 1e-6)),
        ("x must be float32 .*, not int64", lambda: kernels.rms_norm(x.long(), weight.long(), 1e-6)),
        (r"strides \[1, 8\]", lambda: kernels.rms_norm(torch.zeros(8, 8).T, weight, 1e-6)),
        ("empty rows", lambda: kernels.rms_norm(torch.zeros(3, 0), torch.zeros(0), 1e-6)),
        (r"delta must be \[3, 8\], not \[2, 8\]", lambda: kernels.add_rms_norm(x, x[:2], weight, 1e-6)),
        ("7 elements of a head cannot be paired", lambda: kernels.rotary(heads[..., :7], cos[..., :7], sin[..., :7])),
        (r"sin must be \[3, 1, 8\], not \[2, 1, 8\]", lambda: kernels.rotary(heads, cos, sin[:2])),
        ("cos must be float32, not bfloat16", lambda: kernels.rotary(heads, cos.bfloat16(), sin)),
        ("9 columns", lambda: kernels.swiglu(torch.zeros(2, 9))),
        (r"gate_up must be \[any, any\]", lambda: kernels.swiglu(torch.zeros(2, 3, 8))),
        (r"v must be \[3, 2, 8\], not \[2, 2, 8\]", lambda: kernels.store_kv(ok.k, ok.v[:2], *store[2:])),
        (
            "slot_mapping has 16, which is not in \\[-1, 12\\)",
            lambda: kernels.store_kv(*store[:4], torch.tensor([0, 16, 1])),
        ),
        ("slot_mapping has -2", lambda: kernels.store_kv(*store[:4], torch.tensor([0, -2, 1]))),
        ("slot_mapping must be int64", lambda: kernels.store_kv(*store[:4], ok.slots.int())),
        ("v must be float32, not float16", lambda: kernels.store_kv(ok.k, ok.v.half(), *store[2:])),
        ("v_cache must be int8", lambda: kernels.store_kv(*store[:3], ok.v_cache.float(), ok.slots)),
        ("k_scale must be a positive number, not 0.0", lambda: kernels.store_kv(*store, 0.0)),
        (r"v_scale must be \[3, 2, 4\]", lambda: kernels.store_kv(*store, 1.0, torch.ones(2, 2, 4))),
        (
            "k_scale is a tensor, but .*float16 is not quantized",
            lambda: kernels.store_kv(*store[:2], ok.k_cache.half(), ok.v_cache.half(), ok.slots, torch.ones(3, 2, 4)),
        ),
        ("4 heads, but 4 are keys", lambda: kernels.rotary_store_kv(ok.qkv[:, :4], *rope[1:])),
        (r"cos must be \[3, 1, 8\]", lambda: kernels.rotary_store_kv(ok.qkv, cos[:, :, :4], *rope[2:])),
        (r"qk_norm must be \[4, 8\], not \[2, 8\]", lambda: kernels.rotary_store_kv(*rope, qk_norm=torch.ones(2, 8))),
        ("slot_mapping has 16", lambda: kernels.rotary_store_kv(*rope[:5], torch.tensor([0, 16, 1]))),
        (r"partial_lse must be \[5, 2\]", lambda: kernels.merge_states(part, lse[:4], *parts, out)),
        ("partial_out must be float32", lambda: kernels.merge_states(part.half(), lse, *parts, out)),
        (r"partial_out must be \[any, 2, 8\]", lambda: kernels.merge_states(part[:, :, :4], lse, *parts, out)),
        (r"part_start must be \[3\], not \[2\]", lambda: kernels.merge_states(part, lse, i32(0, 3), *parts[1:], out)),
        ("part_start has 4", lambda: kernels.merge_states(part, lse, i32(0, 2, 4), *parts[1:], out)),
        ("part_start descends by 2", lambda: kernels.merge_states(part, lse, i32(0, 3, 1), *parts[1:], out)),
        ("part_index has 5", lambda: kernels.merge_states(part, lse, parts[0], i32(0, 1, 5), parts[2], out)),
        ("out_rows has 3", lambda: kernels.merge_states(part, lse, *parts[:2], i32(0, 3), out)),
    ]
