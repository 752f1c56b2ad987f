"""What two token lists of llama.cpp share: from their start, and in chunks that may be moved. Lists are int32 in bytes."""

from __future__ import annotations

import numpy as np

from kvtool.engine.rules.rule_set import Ids

TOKEN_BYTES = 4

_FIRST = 256  # most lists that differ do so early: so many bytes are looked at before all are


def as_bytes(ids: Ids) -> bytes:
    """Return a token list that is compared at the speed of memory."""
    return np.ascontiguousarray(ids, dtype=np.int32).tobytes()


def as_ids(tokens: bytes) -> Ids:
    """Return the same list as numbers."""
    return np.frombuffer(tokens, dtype=np.int32)


def length(tokens: bytes) -> int:
    """Return the number of tokens of a list."""
    return len(tokens) // TOKEN_BYTES


def common_prefix(one: bytes, other: bytes) -> int:
    """Return the number of tokens that two lists share at their start."""
    size = min(len(one), len(other))
    if one[:_FIRST] != other[:_FIRST]:
        size = min(size, _FIRST)
    elif one[:size] == other[:size]:
        return size // TOKEN_BYTES
    differ = np.flatnonzero(as_ids(one[:size]) != as_ids(other[:size]))
    return int(differ[0]) if len(differ) else size // TOKEN_BYTES


def moved_chunks(cached: bytes, prompt: bytes, shared: int, least: int) -> list[tuple[int, int, int]]:
    """Chunks of at least `least` tokens behind the shared start that go to another place: (from, to, tokens), in order.

    The place in the prompt stays where it is until a chunk fits there; only the one in the cached tokens moves on.
    """
    held, wanted = as_ids(cached), as_ids(prompt)
    at, to, chunks = shared, shared, []
    while at < len(held) and to < len(wanted):
        # where the next token stands is where a chunk can begin; a chunk that is too short cannot hide a longer one
        begins = np.flatnonzero(held[at:] == wanted[to])
        for begin in begins:
            found = at + int(begin)
            tokens = common_prefix(cached[found * TOKEN_BYTES :], prompt[to * TOKEN_BYTES :])
            if tokens >= least:
                chunks.append((found, to, tokens))
                at, to = found + tokens, to + tokens
                break
        else:
            break
    return chunks
