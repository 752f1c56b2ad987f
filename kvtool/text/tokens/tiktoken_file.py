"""Vocabularies as tiktoken writes them: in each line a token in Base64 and its rank. The rest of a tokenizer is not in the file."""

from __future__ import annotations

import re
from binascii import Error
from collections.abc import Mapping
from dataclasses import dataclass

from kvtool.errors import KvtoolError
from kvtool.text.tokens.ranks import tokenizer_json

_LINE = re.compile(rb"[A-Za-z0-9+/]+={0,2} \d{1,9}\r?\n")
_GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_CL100K = (
    rf"{_SHORT}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_UPPER, _LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]*[{_LOWER}]+{_SHORT}?|[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]+[{_LOWER}]*{_SHORT}?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_END = "<|endoftext|>"


@dataclass(frozen=True, slots=True)
class TiktokenKind:
    """The parts of a vocabulary that are not in its file."""

    pattern: str
    special: Mapping[str, int]
    named: Mapping[str, str]
    """As a tokenizer_config.json names them."""
    begin: str | None = None
    """The special token that prompts begin with."""


_FIM = {"<|fim_prefix|>": 100258, "<|fim_middle|>": 100259, "<|fim_suffix|>": 100260, "<|endofprompt|>": 100276}
_HEADERS = {"<|start_header_id|>": 128006, "<|end_header_id|>": 128007, "<|eot_id|>": 128009}
_LLAMA = {"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>"}
_KINDS = {
    50_256: TiktokenKind(_GPT2, {_END: 50256}, {"eos_token": _END}),  # r50k_base, GPT-2
    50_280: TiktokenKind(_GPT2, {_END: 50256}, {"eos_token": _END}),  # p50k_base
    100_256: TiktokenKind(_CL100K, {_END: 100257, **_FIM}, {"eos_token": _END}),  # cl100k_base
    199_998: TiktokenKind(_O200K, {_END: 199999, "<|endofprompt|>": 200018}, {"eos_token": _END}),  # o200k_base
    128_000: TiktokenKind(
        _CL100K,
        {"<|begin_of_text|>": 128000, "<|end_of_text|>": 128001, **_HEADERS},
        _LLAMA,
        begin="<|begin_of_text|>",
    ),  # Llama 3
    151_643: TiktokenKind(
        _CL100K.replace(r"\p{N}{1,3}", r"\p{N}"),
        {_END: 151643, "<|im_start|>": 151644, "<|im_end|>": 151645},
        {"eos_token": _END},
    ),  # Qwen
}
"""By the number of their tokens."""


def is_tiktoken(data: bytes) -> bool:
    """Return whether a file begins as one of these does."""
    return _LINE.match(data) is not None


def tiktoken_kind(name: str, data: bytes) -> TiktokenKind:
    """Return the parts of a vocabulary that are not in its file; KvtoolError for one that is not known."""
    count = data.count(b"\n") + (not data.endswith(b"\n"))
    if count not in _KINDS:
        raise KvtoolError(
            f"tokenizer `{name}` has {count:,} ranks, and kvtool knows neither its word rules nor its special tokens",
            hint="pass -t ./tokenizer.json of this model; known rank files: r50k, p50k, cl100k, o200k_base, Llama 3, Qwen",
        )
    return _KINDS[count]


def tiktoken_json(name: str, data: bytes, kind: TiktokenKind) -> bytes:
    """Its tokenizer.json; KvtoolError where a line is not a token and its rank."""
    from base64 import b64decode

    ranks: dict[bytes, int] = {}
    for line in data.splitlines():
        try:
            token, rank = line.split()
            ranks[b64decode(token, validate=True)] = int(rank)
        except (Error, ValueError) as error:
            number = len(ranks) + 1
            raise KvtoolError(f"tokenizer `{name}`: line {number} is not a Base64 token with its rank") from error
    return tokenizer_json(ranks, kind.special, pattern=kind.pattern, begin=kind.begin)
