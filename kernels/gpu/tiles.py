"""Tiles of the attention kernels, chosen for each architecture by hand.

The figures come from compiling to machine code: no spilled registers, and shared memory within the architecture's limit.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
from triton.runtime.driver import driver

_FIRST_E4M3 = 89
"""The first CUDA compute capability with e4m3 numbers; Triton refuses to compile for earlier ones."""


@dataclass(frozen=True, slots=True)
class Target:
    """The target of compilation: CUDA compute capability 90 as an int, gfx942 as a name."""

    backend: str  # "cuda", "hip", or "interpreter", where nothing is compiled
    arch: int | str

    def check_cache(self, dtype: torch.dtype) -> None:
        """Raise ValueError if Triton cannot cast to or from a cache's type for this target."""
        if dtype == torch.float8_e4m3fn and isinstance(self.arch, int) and self.arch < _FIRST_E4M3:
            raise ValueError(
                f"sm_{self.arch} has no float8_e4m3fn caches, sm_{_FIRST_E4M3} and later have; float8_e5m2 and int8 work"
            )


@dataclass(frozen=True, slots=True)
class Tile:
    """`rows` (queries x heads) meet `tokens` keys at a time; the loads of `stages` such steps are under way, on `warps` warps."""

    rows: int
    tokens: int
    stages: int
    warps: int


INTERPRETER = Target("interpreter", "none")


def current_target() -> Target:
    """Return the device that the next launch goes to, as Triton's active driver names it."""
    if triton.knobs.runtime.interpret:
        return INTERPRETER
    target = driver.active.get_current_target()
    return Target(target.backend, target.arch)


def decode_tile(
    target: Target, rows: int, head_dim: int, cache_bytes: int, query_bytes: int, *, scaled: bool = False
) -> Tile:
    """Return the tile for items of at most `rows` = queries x heads of a group; larger items need another tile.

    `cache_bytes` and `query_bytes` are those of one number; `scaled`: each token of the cache has scales, which take registers.
    """
    rows = min(width(rows), _most_rows(target, head_dim, cache_bytes, query_bytes))
    return _tile(target, rows, head_dim, query_bytes, scaled)


def prefill_tile(
    target: Target, rows: int, head_dim: int, cache_bytes: int, query_bytes: int, *, scaled: bool = False
) -> Tile:
    """Return the same for tiles of prefill; `prefill_rows` is where they are largest."""
    rows = min(width(rows), prefill_rows(target, head_dim, cache_bytes, query_bytes))
    return _tile(target, rows, head_dim, query_bytes, scaled)


def prefill_rows(target: Target, head_dim: int, cache_bytes: int, query_bytes: int) -> int:
    """Return the rows of a prefill tile where there are queries enough."""
    return _most_rows(target, head_dim, cache_bytes, query_bytes)


def width(size: int) -> int:
    """Return the least power of two for `size` rows or numbers of a head, at least 16 for a matrix product."""
    return max(16, 1 << (size - 1).bit_length())


def _most_rows(target: Target, head_dim: int, cache_bytes: int, query_bytes: int) -> int:
    wide = head_dim > 128
    if target.backend == "interpreter":
        return 32
    if query_bytes == 4:
        return 16 if wide or cache_bytes < 4 else 64
    return 64 if wide else 128


def _tile(target: Target, rows: int, head_dim: int, query_bytes: int, scaled: bool) -> Tile:
    wide = head_dim > 128
    if target.backend == "interpreter":
        return Tile(rows, 16, 1, 4)
    if query_bytes == 4:  # no tensor cores: each thread's share of a product has to stay small
        few = rows * width(head_dim) <= 2048
        if target.backend == "hip":
            return Tile(rows, 16, 2, 4 if few else 8)
        return Tile(rows, 16, 2, 8 if few else 16)
    tokens = 32 if scaled or wide else 64
    if target.backend == "hip":
        return Tile(rows, 32 if rows > 16 else tokens, 2, 4 if rows <= 64 else 8)
    if isinstance(target.arch, int) and 90 <= target.arch < 120:
        if wide:
            return Tile(rows, 32, 3 if rows == 16 else 2, 4 if rows == 16 else 8)
        return Tile(rows, tokens, 3, 4 if rows <= 64 else 8)
    stages = 3 if target.arch == 80 and not wide else 2  # the others have little shared memory
    if rows == 128:
        tokens = 16 if scaled else 32
    return Tile(rows, tokens, stages, 4 if rows == 16 else 8)
