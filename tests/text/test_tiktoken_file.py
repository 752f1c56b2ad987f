"""`-t` with a list of ranks as tiktoken writes it, and with a folder that takes transformers' code."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest
import tiktoken

from kvtool.errors import KvtoolError
from kvtool.text.tokens import tiktoken_file, tokenizer_files
from kvtool.text.tokens.tokenizer import load_tokenizer
from tests.measure.test_engine_extra import BLOCKED

COUNTS = {"r50k_base": 50_256, "p50k_base": 50_280, "cl100k_base": 100_256, "o200k_base": 199_998}
TEXT = "It's 12345 O'CLOCK, don't you think?\n\n  Déjà vu: 中文 / 3.14 \t x\r\n\n end  "


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here one list of ranks is of several kinds."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setattr(tokenizer_files, "cache_folder", lambda: folder)


def ranks() -> dict[bytes, int]:
    """All bytes, and pairs and words of English that words are made of."""
    tokens = [bytes([byte]) for byte in range(256)]
    return {
        token: rank for rank, token in enumerate([*tokens, b"It", b"'s", b" d", b"on", b"12", b"345", b"CL", b"\n\n"])
    }


def written(known: dict[bytes, int]) -> bytes:
    return b"".join(b64encode(token) + b" %d\n" % rank for token, rank in known.items())


@pytest.mark.parametrize("name", COUNTS)
def test_words_are_cut_as_tiktoken_cuts_them(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tiktoken_ext import openai_public

    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", lambda *_, **__: ranks())
    monkeypatch.setattr(openai_public, "data_gym_to_mergeable_bpe_ranks", lambda *_, **__: ranks())
    made = getattr(openai_public, name)()
    theirs = tiktoken.Encoding(
        name, pat_str=made["pat_str"], mergeable_ranks=ranks(), special_tokens=made["special_tokens"]
    )
    kind = tiktoken_file._KINDS[COUNTS[name]]
    assert dict(kind.special) == made["special_tokens"]
    monkeypatch.setattr(tiktoken_file, "_KINDS", {len(ranks()): kind})
    path = tmp_path / f"{name}.tiktoken"
    path.write_bytes(written(ranks()))
    ours = load_tokenizer(str(path))
    assert ours.encode(TEXT, add_special_tokens=True).ids.tolist() == theirs.encode_ordinary(TEXT)
    text = f"a{next(iter(kind.special))}b"
    assert ours.encode(text, add_special_tokens=True).ids.tolist() == theirs.encode(text, allowed_special="all")


def test_a_model_file_of_ranks_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiktoken_file, "_KINDS", {len(ranks()): tiktoken_file._KINDS[128_000]})
    (tmp_path / "tokenizer.model").write_bytes(written(ranks()))
    tokenizer = load_tokenizer(str(tmp_path))
    assert tokenizer.encode("It", add_special_tokens=True).ids.tolist() == [128000, 256]
    assert tokenizer.bos_token == "<|begin_of_text|>"


def test_ranks_of_nobody_knows_what(tmp_path: Path) -> None:
    (tmp_path / "mine.tiktoken").write_bytes(written(ranks()))
    with pytest.raises(KvtoolError, match="has 264 ranks, and kvtool knows neither its word rules") as caught:
        load_tokenizer(str(tmp_path / "mine.tiktoken"))
    assert caught.value.exit_code == 2


def test_a_line_that_is_no_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiktoken_file, "_KINDS", {3: tiktoken_file._KINDS[50_256]})
    (tmp_path / "x.tiktoken").write_bytes(b"YQ== 0\nYg== 1\nbroken\n")
    with pytest.raises(KvtoolError, match="line 3 is not a Base64 token with its rank"):
        load_tokenizer(str(tmp_path / "x.tiktoken"))


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """A folder with a list of words only, as old models have it."""
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\nworld\n", encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}), encoding="utf-8")
    return tmp_path


@pytest.mark.engine
def test_transformers_makes_what_is_not_there(words: Path) -> None:
    tokenizer = load_tokenizer(str(words))
    assert tokenizer.encode("hello world", add_special_tokens=True).ids.tolist() == [2, 5, 6, 3]


def test_without_transformers_it_is_a_sentence(words: Path) -> None:
    code = f"""{BLOCKED}
from kvtool.errors import NotAvailableError
from kvtool.text.tokens.tokenizer import load_tokenizer
try:
    load_tokenizer({str(words)!r})
except NotAvailableError as error:
    print(error, error.hint)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.endswith("transformers is not installed pip install 'kvtool[engine]'\n"), done.stderr
