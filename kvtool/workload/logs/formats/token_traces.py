"""Records without text: token ids, or ids of blocks of tokens."""

from __future__ import annotations

import re
from operator import itemgetter
from typing import Any

import numpy as np

from kvtool.workload.logs.records.record import Record, Unit, kind, seconds, whole
from kvtool.workload.logs.records.record_format import Fields, RecordFormat, Turns
from kvtool.workload.turn import HashedPrompt, Ids, Turn

BAILIAN_BLOCK = 16  # tokens for each hash in Bailian's traces
_LOCAL_SCOPE = 1 << 32  # ids of one trace; those of trace n are moved to n * _LOCAL_SCOPE
_PLAIN_ORDER = ("hash_ids", "input_length", "output_length", "timestamp")
_PLAIN = frozenset(_PLAIN_ORDER)
_plain_fields = itemgetter(*_PLAIN_ORDER)
_WHOLE = 1 << 31
"""Lengths are less, as `whole` has it."""
_TIMESTAMP = re.compile(rb'"timestamp": ?([0-9]{1,9})[,} ]')
"""A time from the start of a trace, in milliseconds: greater ones may be of a clock."""
TOKEN_FIELDS = ("token_ids", "prompt_token_ids", "input_tok_ids", "input_ids")


def token_ids(record: Record) -> Turns:
    """Return token ids of the prompt, and of the answer where they are there (LLMServingSim, vLLM's logs)."""
    name, value = record.required(*TOKEN_FIELDS)
    ids = ids_of(record, value, name)
    if not len(ids):
        raise record.error(f"`{name}` is empty", name)
    for field in ("output_ids", "output_tok_ids", "output_token_ids"):
        if record.fields.get(field) is not None:
            return [record.turn(token_ids=ids, output_ids=ids_of(record, record.fields[field], field))]
    return [record.turn(token_ids=ids)]


def mooncake(record: Record) -> Turns:
    """Return a request of a Mooncake trace; its block size is not in the file."""
    return [_hashed(record, record.where.block_size, "ms")]


def plain_mooncake(fields: Any, written: tuple[str, int, int], label: str, group: str, block_size: int) -> Turn | None:
    """Return the turn that `mooncake` makes of a record with its usual fields and no others; None for anything to be looked at
    twice."""
    if type(fields) is not dict or fields.keys() != _PLAIN:
        return None
    ids, length, answer, time = _plain_fields(fields)
    if (
        type(ids) is not list
        or set(map(type, ids)) != {int}
        or type(length) is not int
        or type(answer) is not int
        or not 0 <= answer < _WHOLE
        or not 0 < length < _WHOLE
        or not (len(ids) - 1) * block_size < length < (len(ids) + 1) * block_size
    ):
        return None
    prompt = HashedPrompt(ids, length, block_size)
    arrival = seconds(time, "ms")
    return Turn(group, hashed=prompt, output_tokens=answer, arrival=arrival, id=f"{label}:0", written=written)


def plain_time(fields: Any) -> float | None:
    """Return when a request arrived whose record has the usual fields of `mooncake` and no others; None: it is to be looked at."""
    if type(fields) is not dict or fields.keys() != _PLAIN:
        return None
    return seconds(fields["timestamp"], "ms")


def time_in_line(data: bytes) -> float | None:
    """Return the same, without parsing: the line has just four keys, and no texts, which have quotes, too."""
    if data.count(b'"') != 2 * len(_PLAIN):
        return None
    found = _TIMESTAMP.search(data)
    return None if found is None else float(found[1]) * 1e-3


def bailian(record: Record) -> Turns:
    """Return a request of a Bailian trace: like Mooncake's, in blocks of 16 and with times in seconds."""
    return [_hashed(record, BAILIAN_BLOCK, "s")]


def lmcache_lookups(record: Record) -> Turns:
    """Return a line of LMCache's lookup log: hashes of the chunks of a prompt."""
    hashes: list[int] = []
    for i, value in enumerate(record.list_of("chunk_hashes")):
        try:
            hashes.append(int(value, 16) if isinstance(value, str) else whole_hash(value))
        except ValueError:
            raise record.error(f"chunk_hashes[{i}] must be a hash, not {kind(value)}", "chunk_hashes", i) from None
    size = record.count("chunk_size", least=1)
    prompt = _covered(record, HashedPrompt(hashes, record.count("seq_len", least=1), size), "seq_len", "chunk_hashes")
    return [record.turn(hashed=prompt)]


def weka(record: Record) -> Turns:
    """Return a session of kv-cache-tester (Weka): its requests and those of its sub-agents, in the order of their times."""
    size = record.count("block_size", least=1)
    local = record.fields.get("hash_id_scope", "local") != "global"
    found = _weka_requests(record, record.list_of("requests"), ("requests",), size, local)
    if not found:
        raise record.error("it contains no requests", "requests")
    start = next((time for time, _, _ in found if time is not None), 0.0)
    found.sort(key=lambda item: start if item[0] is None else item[0])
    turns = [
        record.turn(index=i, turns=max(len(found), 2), hashed=prompt, output_tokens=length)
        for i, (_, prompt, length) in enumerate(found)
    ]
    for turn, (time, _, _) in zip(turns, found, strict=True):
        turn.arrival = time
    return turns


def ids_of(record: Record, value: Any, *path: str | int) -> Ids:
    """Return a list of token ids as an array."""
    name = "".join(f"[{step}]" if isinstance(step, int) else step for step in path)
    try:
        ids = np.array(value if isinstance(value, list) else None)
    except ValueError:  # lists of different lengths
        ids = np.array(None)
    if ids.shape == (0,):
        return ids.astype(np.int32)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise record.error(f"`{name}` must be a list of token ids", *path)
    if ids.min() < 0 or ids.max() >= 1 << 31:
        at = int(np.argmax((ids < 0) | (ids >= 1 << 31)))
        raise record.error(f"`{name}` has {ids[at]}, which is not a token id", *path, at)
    return ids.astype(np.int32)


def whole_hash(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError
    return value


def _hashed(record: Record, block_size: int, unit: Unit) -> Turn:
    ids = _hash_ids(record, record.list_of("hash_ids"), "hash_ids")
    prompt = HashedPrompt(ids, record.count("input_length", least=1), block_size)
    return record.turn(hashed=_covered(record, prompt, "input_length", "hash_ids"), unit=unit)


def _hash_ids(record: Record, ids: list[Any], *path: str | int) -> list[int]:
    if set(map(type, ids)) - {int}:
        at = next(i for i, value in enumerate(ids) if type(value) is not int)
        raise record.error(f"{path[-1]}[{at}] must be a whole number, not {kind(ids[at])}", *path, at)
    return ids


def _covered(record: Record, prompt: HashedPrompt, length: str, hashes: str, *path: str | int) -> HashedPrompt:
    """Refuse ids that do not fit the length. The last block may be partial, and some traces leave it out."""
    size = prompt.block_size
    if (len(prompt.hash_ids) - 1) * size < prompt.num_tokens < (len(prompt.hash_ids) + 1) * size:
        return prompt
    blocks = -(-prompt.num_tokens // size)
    message = f"`{length}` is {prompt.num_tokens}, which is {blocks} blocks of {size}, but `{hashes}` has {len(prompt.hash_ids)}"
    ratio = prompt.num_tokens / max(len(prompt.hash_ids), 1)
    power = 1 << max(round(ratio) - 1, 0).bit_length()
    hint = (
        f"add --trace-block-size {power} if the trace has blocks of {power}"
        if prompt.hash_ids and power != size
        else None
    )
    raise record.error(message, *path, length, hint=hint)


def _weka_requests(
    record: Record, items: list[Any], path: tuple[str | int, ...], size: int, local: bool
) -> list[tuple[float | None, HashedPrompt, int | None]]:
    found: list[tuple[float | None, HashedPrompt, int | None]] = []
    for i, item in enumerate(items):
        if not isinstance(item, dict):
            raise record.error(f"requests[{i}] must be an object, not {kind(item)}", *path, i)
        nested = item.get("requests")
        if isinstance(nested, list):
            found += _weka_requests(record, nested, (*path, i, "requests"), size, local)
        if "hash_ids" not in item:
            if not isinstance(nested, list):
                raise record.error(f"requests[{i}] has no `hash_ids`", *path, i)
            continue
        ids = item["hash_ids"]
        if not isinstance(ids, list):
            raise record.error(f"`hash_ids` must be a list, not {kind(ids)}", *path, i, "hash_ids")
        ids = _hash_ids(record, ids, *path, i, "hash_ids")
        if local:
            if ids and not (min(ids) >= 0 and max(ids) < _LOCAL_SCOPE):
                raise record.error("`hash_ids` of one trace must be from 0 to 2^32", *path, i, "hash_ids")
            base = record.where.ordinal * _LOCAL_SCOPE
            ids = [base + each for each in ids]
        tokens = whole(record, item.get("in"), "in", *path, i, *(("in",) if "in" in item else ()), least=1)
        prompt = _covered(record, HashedPrompt(ids, tokens, size), "in", "hash_ids", *path, i)
        length = item.get("out")
        found.append(
            (
                seconds(item.get("t"), "s", fixed=True),
                prompt,
                None if length is None else whole(record, length, "out", *path, i, "out"),
            )
        )
    return found


def _is_bailian(fields: Fields) -> bool:
    return "hash_ids" in fields and ("chat_id" in fields or "parent_chat_id" in fields)


def _is_weka(fields: Fields) -> bool:
    if "requests" not in fields:
        return False
    if "block_size" in fields or "hash_id_scope" in fields:
        return True
    requests = fields["requests"]
    first = requests[0] if isinstance(requests, list) and requests else None
    return isinstance(first, dict) and "hash_ids" in first and "in" in first


_BAILIAN_EXAMPLE = """
{"chat_id": 1, "parent_chat_id": -1, "timestamp": 0, "input_length": 20, "output_length": 2, "hash_ids": [0, 1]}
"""
_MOONCAKE_EXAMPLE = """
{"timestamp": 0, "input_length": 600, "output_length": 2, "hash_ids": [0, 1]}
"""
_WEKA_EXAMPLE = """
{"id": "w1", "block_size": 64, "requests": [{"t": 0, "in": 70, "out": 2, "hash_ids": [0, 1]}]}
"""
_LMCACHE_LOOKUPS_EXAMPLE = """
{"timestamp": 0, "chunk_hashes": ["0a", "0b"], "seq_len": 300, "chunk_size": 256}
"""
_IDS_EXAMPLE = """
{"token_ids": [1, 15, 27]}
"""
FORMATS = (
    RecordFormat("bailian", "hash_ids + input_length + chat_id", _is_bailian, bailian, "s", example=_BAILIAN_EXAMPLE),
    RecordFormat(
        "mooncake",
        "hash_ids + input_length",
        lambda fields: "hash_ids" in fields,
        mooncake,
        "ms",
        example=_MOONCAKE_EXAMPLE,
    ),
    RecordFormat("weka", "requests + block_size", _is_weka, weka, example=_WEKA_EXAMPLE),
    RecordFormat(
        "lmcache-lookups",
        "chunk_hashes + seq_len",
        lambda fields: "chunk_hashes" in fields,
        lmcache_lookups,
        "s",
        example=_LMCACHE_LOOKUPS_EXAMPLE,
    ),
    RecordFormat(
        "token-ids",
        "token_ids",
        lambda fields: any(name in fields for name in TOKEN_FIELDS),
        token_ids,
        "s",
        example=_IDS_EXAMPLE,
    ),
)
