"""Attention of a tile of queries over paged keys and values, which is the work of both the prefill and the decode kernel.

Steps of TOKENS keys and values are read through block ids and folded into the running softmax of ROWS queries (Milakov and
Gimelshein 2018; the order of work is FlashAttention-2's, Dao 2023). Scores s_j are kept in base 2. The state between steps is

    acc f32[ROWS, WIDTH] = sum_j 2^(s_j - top) v_j / unit,  top f32[ROWS] = max_j s_j,  total f32[ROWS] = sum_j 2^(s_j - top)

where `unit` is 1 but for values with a scale of each token: see `_fold`.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _block_ids(table, start, end, TOKENS: tl.constexpr, PAGE: tl.constexpr):
    """Return the blocks of tokens [start, start + TOKENS): one id if they share a block, else int32[TOKENS]; 0 from `end` on."""
    if PAGE % TOKENS == 0:  # `start` is a multiple of TOKENS
        tokens = start
    else:
        tokens = start + tl.arange(0, TOKENS)
    return tl.load(table + tokens // PAGE, mask=tokens < end, other=0)


@triton.jit
def _offsets(ids, start, stride_block, stride_slot, TOKENS: tl.constexpr, PAGE: tl.constexpr):
    """Return int64[TOKENS]: the starts of the tokens' rows; a cache can be larger than 2^31 numbers."""
    if PAGE % TOKENS == 0:
        slots = start % PAGE + tl.arange(0, TOKENS)
    else:
        slots = (start + tl.arange(0, TOKENS)) % PAGE
    return ids.to(tl.int64) * stride_block + slots * stride_slot


@triton.jit
def _load_tile(
    cache,
    ids,
    start,
    end,
    stride_block,
    stride_slot,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    TOKENS: tl.constexpr,
    PAGE: tl.constexpr,
    TAIL: tl.constexpr,
):
    """Load [TOKENS, WIDTH] as stored; zeros beyond D and, in a tail, from token `end` on, where a block may contain anything."""
    dims = tl.arange(0, WIDTH)
    pointers = cache + _offsets(ids, start, stride_block, stride_slot, TOKENS, PAGE)[:, None] + dims[None, :]
    if TAIL:
        inside = (start + tl.arange(0, TOKENS) < end)[:, None]
        if D != WIDTH:
            inside = inside & (dims < D)[None, :]
        return tl.load(pointers, mask=inside, other=0.0)
    if D != WIDTH:
        return tl.load(pointers, mask=(dims < D)[None, :], other=0.0)
    return tl.load(pointers)


@triton.jit
def _load_scales(scales, ids, start, end, stride_block, TOKENS: tl.constexpr, PAGE: tl.constexpr, TAIL: tl.constexpr):
    """Load f32[TOKENS]; zeros in a tail from token `end` on."""
    pointers = scales + _offsets(ids, start, stride_block, 1, TOKENS, PAGE)
    if TAIL:
        return tl.load(pointers, mask=start + tl.arange(0, TOKENS) < end, other=0.0)
    return tl.load(pointers)


@triton.jit
def _fold(
    q,  # COMPUTE[ROWS, WIDTH]
    ids,  # of the tokens' blocks, as from `_block_ids`
    start,
    end,
    last,  # int32[ROWS]: the last token that each row sees; read in a tail
    acc,
    top,
    total,
    unit,
    factor,  # scores are q.k * factor, in base 2
    k_cache,  # of one head
    v_cache,
    k_scale,  # f32, of one head, or nothing
    v_scale,
    k_stride_block,
    k_stride_slot,
    v_stride_block,
    v_stride_slot,
    k_scale_stride,
    v_scale_stride,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    TOKENS: tl.constexpr,
    PAGE: tl.constexpr,
    TAIL: tl.constexpr,
    COMPUTE: tl.constexpr,
    K_SCALED: tl.constexpr,
    V_SCALED: tl.constexpr,
):
    """Return the state after the tile at `start`; unless TAIL, each row sees all of the tile's tokens.

    Scales of keys go to the scores, where they are exact. Scales of values go to the probabilities, which must fit COMPUTE: they
    are taken relative to the largest scale so far, `unit`, so that they do not vanish in fp16 however small the values are.
    """
    k = _load_tile(k_cache, ids, start, end, k_stride_block, k_stride_slot, D, WIDTH, TOKENS, PAGE, TAIL)
    scores = tl.dot(q, tl.trans(k.to(COMPUTE)), input_precision="ieee")
    if K_SCALED:
        scores = scores * _load_scales(k_scale, ids, start, end, k_scale_stride, TOKENS, PAGE, TAIL)[None, :]
    if TAIL:
        tokens = start + tl.arange(0, TOKENS)
        scores = tl.where(tokens[None, :] <= last[:, None], scores, float("-inf"))
    top_now = tl.maximum(top, tl.max(scores, 1) * factor)
    shift = top_now
    if TAIL:  # a row that has seen nothing yet
        shift = tl.where(top_now == float("-inf"), 0.0, top_now)
    p = tl.exp2(scores * factor - shift[:, None])
    decay = tl.exp2(top - shift)
    total = total * decay + tl.sum(p, 1)
    if V_SCALED:
        scales = _load_scales(v_scale, ids, start, end, v_scale_stride, TOKENS, PAGE, TAIL)
        unit_now = tl.maximum(unit, tl.max(scales, 0))
        p = p * (scales / unit_now)[None, :]
        decay = decay * (unit / unit_now)
        unit = unit_now
    v = _load_tile(v_cache, ids, start, end, v_stride_block, v_stride_slot, D, WIDTH, TOKENS, PAGE, TAIL)
    acc = tl.dot(p.to(COMPUTE), v.to(COMPUTE), acc * decay[:, None], input_precision="ieee")
    return acc, top_now, total, unit


@triton.jit
def attend(
    q,  # COMPUTE[ROWS, WIDTH]
    table,  # block ids of a sequence
    begin,  # a multiple of PAGE
    whole,  # `begin` and a multiple of TOKENS: up to here, each row sees all tokens
    end,
    last,  # int32[ROWS]: the last token that each row sees
    kv_head,
    factor,  # scores are q.k * factor
    v_factor,  # values are stored numbers * v_factor
    k_cache,
    v_cache,
    k_scale,  # f32, or nothing
    v_scale,
    k_stride_block,
    k_stride_head,
    k_stride_slot,
    v_stride_block,
    v_stride_head,
    v_stride_slot,
    k_scale_stride_block,
    k_scale_stride_head,
    v_scale_stride_block,
    v_scale_stride_head,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    PAGE: tl.constexpr,
    COMPUTE: tl.constexpr,
    K_SCALED: tl.constexpr,
    V_SCALED: tl.constexpr,
    ROWS: tl.constexpr,
    TOKENS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Return f32[ROWS, WIDTH], the attention of each row over the tokens [begin, end), and f32[ROWS], the base-2 logarithm of its
    sum.

    Rows that see nothing have 0 and -inf. The second loop is a loop even for a single step, because an `if` takes more
    registers. Block ids are fetched a step ahead of their keys and values.
    """
    kv_head = kv_head.to(tl.int64)
    k_cache += kv_head * k_stride_head
    v_cache += kv_head * v_stride_head
    if K_SCALED:
        k_scale += kv_head * k_scale_stride_head
    if V_SCALED:
        v_scale += kv_head * v_scale_stride_head
    acc = tl.zeros([ROWS, WIDTH], tl.float32)
    top = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    unit = 1.0
    if V_SCALED:
        unit = 1.1754943508222875e-38  # no scale is smaller
    ids = _block_ids(table, begin, end, TOKENS, PAGE)
    for start in tl.range(begin, whole, TOKENS, num_stages=STAGES):
        next_ids = _block_ids(table, start + TOKENS, end, TOKENS, PAGE)
        acc, top, total, unit = _fold(
            q, ids, start, end, last, acc, top, total, unit, factor, k_cache, v_cache, k_scale, v_scale,
            k_stride_block, k_stride_slot, v_stride_block, v_stride_slot, k_scale_stride_block, v_scale_stride_block,
            D, WIDTH, TOKENS, PAGE, False, COMPUTE, K_SCALED, V_SCALED,
        )  # fmt: skip
        ids = next_ids
    for start in tl.range(whole, end, TOKENS, num_stages=STAGES):
        next_ids = _block_ids(table, start + TOKENS, end, TOKENS, PAGE)
        acc, top, total, unit = _fold(
            q, ids, start, end, last, acc, top, total, unit, factor, k_cache, v_cache, k_scale, v_scale,
            k_stride_block, k_stride_slot, v_stride_block, v_stride_slot, k_scale_stride_block, v_scale_stride_block,
            D, WIDTH, TOKENS, PAGE, True, COMPUTE, K_SCALED, V_SCALED,
        )  # fmt: skip
        ids = next_ids
    empty = total == 0.0
    safe = tl.where(empty, 1.0, total)
    out = acc * (unit * v_factor / safe)[:, None]
    return out, tl.where(empty, float("-inf"), top + tl.log2(safe))
