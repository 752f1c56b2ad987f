"""Tekken vocabularies: as Mistral publishes them in a tekken.json, and the built-in one as it is packed into kvtool."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path

from kvtool.text.tokens.ranks import LONGEST, tokenizer_json

BUILT_IN_FILE = Path(__file__).with_name("tekken.zst")
"""The tokens of mistral-common's `tekken_240911.json` by rank: how many, the length of each in a byte, then their bytes."""
BUILT_IN_DIGEST = "1948e2d48b0e7377f1bb5f1210f1ae5f984934e75713fc07e2452729b8365316"
"""SHA-256 of that tekken.json: whoever names the file itself has the same tokenizer."""
NAMED_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}

_PATTERN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SPECIAL = 1_000
_NAMED = (
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]"),
    *(
        "[/TOOL_RESULTS]",
        "[TOOL_CALLS]",
        "[IMG]",
        "<pad>",
        "[IMG_BREAK]",
        "[IMG_END]",
        "[PREFIX]",
        "[MIDDLE]",
        "[SUFFIX]",
    ),
    *("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"),
)
"""The special tokens of files that do not list them, by rank."""


def built_in_json() -> bytes:
    """The tokenizer.json of the built-in vocabulary. OSError, or zstandard's own error, where the packed file is broken."""
    return _json(_built_in_tokens(), _special({}, _SPECIAL), _PATTERN)


@cache
def built_in_counter() -> Callable[[str], int]:
    """Counts the tokens that the built-in vocabulary has for a text, without what a prompt begins with.

    To make it takes a tenth of what the tokenizer takes where nothing is kept of an earlier run; it counts what is written like a
    special token as text, and a stretch of more than LONGEST characters in parts. A process makes it once.
    """
    from tiktoken import Encoding

    ranks = {token: rank for rank, token in enumerate(_built_in_tokens())}
    encoding = Encoding("built in", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens={})

    def count(text: str) -> int:
        return sum(len(encoding.encode_ordinary(text[at : at + LONGEST])) for at in range(0, len(text), LONGEST))

    return count


def _built_in_tokens() -> list[bytes]:
    """By rank. OSError, or zstandard's own error, where the packed file is broken."""
    from zstandard import ZstdDecompressor

    packed = ZstdDecompressor().decompress(BUILT_IN_FILE.read_bytes())
    count = int.from_bytes(packed[:4], "little")
    lengths, data = packed[4 : 4 + count], packed[4 + count :]
    return [data[start:end] for start, end in pairwise(accumulate(lengths, initial=0))]


def tekken_json(file: Mapping[str, object]) -> bytes:
    """The tokenizer.json of a tekken.json; ValueError, KeyError or TypeError where it is none."""
    from base64 import b64decode

    config, vocab, listed = file["config"], file["vocab"], file.get("special_tokens") or []
    if not isinstance(config, dict) or not isinstance(vocab, list) or not isinstance(listed, list):
        raise TypeError("not a Tekken vocabulary")
    special, pattern = int(config["default_num_special_tokens"]), config["pattern"]
    size = int(config["default_vocab_size"]) - special
    if not isinstance(pattern, str) or not 0 <= special <= len(vocab) or not 0 < size <= len(vocab):
        raise ValueError("not a Tekken vocabulary")
    if [entry["rank"] for entry in vocab[:size]] != list(range(size)):
        raise ValueError("not a Tekken vocabulary")
    tokens = [b64decode(entry["token_bytes"], validate=True) for entry in vocab[:size]]
    return _json(tokens, _special({int(entry["rank"]): str(entry["token_str"]) for entry in listed}, special), pattern)


def _special(listed: Mapping[int, str], count: int) -> list[str]:
    """The special tokens by rank: those that a file lists, else those of files without a list, and numbered ones for the rest."""
    named = listed or dict(enumerate(_NAMED))
    return [named.get(rank, f"<SPECIAL_{rank}>") for rank in range(count)]


def _json(tokens: Sequence[bytes], special: Sequence[str], pattern: str) -> bytes:
    """Special tokens have the first ids. Mistral's servers begin a prompt with <s>."""
    ranks = {token: len(special) + rank for rank, token in enumerate(tokens)}
    if len(ranks) != len(tokens) or "<s>" not in special:
        raise ValueError("not a Tekken vocabulary")
    return tokenizer_json(ranks, {text: rank for rank, text in enumerate(special)}, pattern=pattern, begin="<s>")
