"""Tekken vocabularies without the libraries that they come from."""

from __future__ import annotations

import json
from base64 import b64encode
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from zstandard import ZstdCompressor

from kvtool.errors import KvtoolError
from kvtool.text.tokens import tekken
from kvtool.text.tokens.tokenizer import load_tokenizer
from kvtool.text.tokens.tokenizer_files import find_tokenizer
from tests.golden import UPDATE


def published() -> Path:
    """The file that the built-in tokenizer is made of, where the package that brings it is installed."""
    package = find_spec("mistral_common")
    if package is None or not package.submodule_search_locations:
        pytest.skip("mistral-common is not here")
    return Path(package.submodule_search_locations[0]) / "data" / "tekken_240911.json"


@pytest.fixture(scope="module")
def built_in() -> bytes:
    return tekken.built_in_json()


def test_the_packed_vocabulary_is_the_published_one(request: pytest.FixtureRequest, built_in: bytes) -> None:
    """`--update-golden` packs it anew."""
    source = published().read_bytes()
    vocabulary = json.loads(source)
    if request.config.getoption(UPDATE):
        tekken.BUILT_IN_FILE.write_bytes(packed(vocabulary))
    from hashlib import sha256

    assert sha256(source).hexdigest() == tekken.BUILT_IN_DIGEST
    assert built_in == tekken.tekken_json(vocabulary)


@pytest.mark.engine
def test_the_conversion_is_that_of_transformers(built_in: bytes) -> None:
    """All of it, merges included, but for the <s> that Mistral's servers put before a prompt."""
    from transformers.integrations.mistral import convert_tekken_tokenizer

    theirs = json.loads(
        convert_tekken_tokenizer(str(published()), chat_template="").backend_tokenizer.to_str()  # type: ignore[attr-defined]
    )
    ours = json.loads(built_in)
    assert ours.pop("post_processor")["single"][0] == {"SpecialToken": {"id": "<s>", "type_id": 0}}
    theirs.pop("post_processor")
    assert ours == theirs


def test_a_file_and_the_built_in_one_are_the_same_tokenizer(tmp_path: Path) -> None:
    copy = tmp_path / "tekken.json"
    copy.write_bytes(published().read_bytes())
    assert find_tokenizer(str(copy), offline=True).fingerprint == find_tokenizer(None, offline=True).fingerprint


def small(**changed: Any) -> dict[str, Any]:
    """A tekken.json of the bytes, two longer tokens and four special ones."""
    tokens = [bytes([byte]) for byte in range(256)] + [b"ab", b"abc"]
    config = {"pattern": r"\s+|\S+", "default_vocab_size": 262, "default_num_special_tokens": 4}
    vocab = [{"rank": at, "token_bytes": b64encode(data).decode()} for at, data in enumerate(tokens)]
    return {"config": config, "vocab": vocab} | changed


def test_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "tekken.json").write_text(json.dumps(small()), encoding="utf-8")
    tokenizer = load_tokenizer(str(tmp_path))
    assert tokenizer.encode("abcd", add_special_tokens=True).ids.tolist() == [1, 4 + 257, 4 + ord("d")]
    assert tokenizer.token_text(3) == "[INST]"


def test_special_tokens_that_are_listed(tmp_path: Path) -> None:
    listed = [{"rank": 0, "token_str": "<unk>"}, {"rank": 1, "token_str": "<s>"}, {"rank": 3, "token_str": "[THINK]"}]
    (tmp_path / "tekken.json").write_text(json.dumps(small(special_tokens=listed)), encoding="utf-8")
    tokenizer = load_tokenizer(str(tmp_path))
    assert [tokenizer.token_text(token) for token in range(4)] == ["<unk>", "<s>", "<SPECIAL_2>", "[THINK]"]


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"config": {}},
        small(vocab={}),
        small(vocab=small()["vocab"][1:]),
        small(vocab=[]),
        small(vocab=[{"rank": at, "token_bytes": "?"} for at in range(258)]),
        small(vocab=[{"rank": at, "token_bytes": "YQ=="} for at in range(258)]),
        small(special_tokens=[{"rank": 0, "token_str": "<unk>"}]),
        small(special_tokens=[1]),
    ],
)
def test_what_is_no_vocabulary(broken: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "tekken.json").write_text(json.dumps(broken), encoding="utf-8")
    with pytest.raises(KvtoolError, match=r"tekken\.json is not a Tekken vocabulary") as caught:
        _ = find_tokenizer(str(tmp_path), offline=True).data
    assert caught.value.exit_code == 2


def packed(vocabulary: dict[str, Any]) -> bytes:
    """What kvtool brings of a tekken.json."""
    from base64 import b64decode

    config = vocabulary["config"]
    size = config["default_vocab_size"] - config["default_num_special_tokens"]
    tokens = [b64decode(entry["token_bytes"]) for entry in vocabulary["vocab"][:size]]
    body = len(tokens).to_bytes(4, "little") + bytes(map(len, tokens)) + b"".join(tokens)
    return ZstdCompressor(level=22).compress(body)
