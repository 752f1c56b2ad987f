"""A request as a block trace keeps it: when, whose, how long, and which blocks; no text."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import xxhash

from kvtool.engine.blocks.hashing import NATIVE
from kvtool.workload.jobs import Job
from kvtool.workload.turn import Turn

_HALF, _ALL = 1 << 63, 1 << 64


class BlockRow(NamedTuple):
    """One request. `salt`, `session` and `call` are 64 bits of a hash of what the log has; None where it has nothing.

    `turn` counts the requests of a conversation, which come one after another, from 0. `call` names a call that is logged more than
    once, together with its prompt; `weak`: that may be the id of something else. `hash_ids` are the prompt's blocks: two are equal
    if they hold the same tokens from the start of their prompts on, whatever the salt. `answer_ids`: those after them that the
    answer fills; None where a trace names the blocks itself, its last one may be partial and of answers nothing is known.
    """

    arrival: float | None
    """Seconds on the clock of the log."""
    salt: int | None
    session: int | None
    turn: int
    status: int | None
    """Of HTTP, where the server said one; from 400 on the call was refused, and there are no blocks."""
    call: int | None
    weak: bool
    input_length: int
    output_length: int | None
    hash_ids: list[int]
    answer_ids: list[int] | None


def short_id(text: str | bytes) -> int:
    """Return 64 bits of a hash, as a signed number."""
    data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    return _signed(xxhash.xxh3_64_intdigest(data))


def _signed(number: int) -> int:
    return number - _ALL if number >= _HALF else number


def made_row(job: Job, turn: Turn, index: int, block_size: int, identity: str | None, *, weak: bool) -> BlockRow:
    """Return the row of a request of tokens.

    Of n different blocks, two have one id with a probability of about n² / 2^65: for 10^8 of them 0.03 %, for 10^9 3 %.
    """
    answer = job.computed_output()
    tokens = np.concatenate([job.ids, answer]) if len(answer) else job.ids
    full = len(tokens) // block_size
    ids = list[int]()
    if full:
        hashes = NATIVE.chain(tokens[: full * block_size], block_size, None, None, None)
        ids = np.frombuffer(b"".join(hashes), dtype="<i8")[::2].tolist()
    whole = len(job.ids) // block_size
    call = None
    if identity is not None:
        call = short_id(identity.encode(errors="surrogatepass") + b"\0" + job.ids.tobytes())
    return _row(turn, index, call, len(job.ids), job.request.max_tokens, ids[:whole], ids[whole:], weak=weak)


def named_row(turn: Turn, index: int, identity: str | None, *, weak: bool) -> BlockRow:
    """Return the row of a request of a trace that names its blocks itself; a longer name is shortened to 64 bits."""
    prompt = turn.hashed
    assert prompt is not None
    ids = [_short_name(each) for each in prompt.hash_ids]
    call = None if identity is None else short_id(identity + "\0" + ",".join(map(str, ids)))
    return _row(turn, index, call, prompt.num_tokens, turn.output_tokens, ids, prompt.answer, weak=weak)


def refused_row(turn: Turn, index: int) -> BlockRow:
    """Return the row of a request that its server did not take."""
    return _row(turn, index, None, 0, None, [], [], weak=False)


def _row(
    turn: Turn,
    index: int,
    call: int | None,
    tokens: int,
    output: int | None,
    ids: list[int],
    answer: list[int] | None,
    *,
    weak: bool,
) -> BlockRow:
    return BlockRow(
        arrival=turn.clock,
        salt=short_id(turn.salt) if turn.salt else None,
        session=None if turn.session is None else short_id(turn.session),
        turn=index,
        status=turn.call.status,
        call=call,
        weak=weak,
        input_length=tokens,
        output_length=output,
        hash_ids=ids,
        answer_ids=answer,
    )


def _short_name(block: int) -> int:
    if -_HALF <= block < _HALF:
        return block
    return short_id(block.to_bytes(block.bit_length() // 8 + 1, "little", signed=True))
