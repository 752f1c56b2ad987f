"""Tokenizers by ranks give the ids of the `tokenizers` library, and their files are made anew where they are damaged."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from kvtool.text.tokens import backends, rank_proof, tokenizer_files
from kvtool.text.tokens.backend import LibraryBackend
from kvtool.text.tokens.backends import open_backend
from kvtool.text.tokens.rank_proof import ranked_vocabulary, samples
from kvtool.text.tokens.ranked_backend import LONGEST, RankedBackend
from kvtool.text.tokens.ranked_vocabulary import RankedVocabulary, any_of
from kvtool.text.tokens.tokenizer_files import TokenizerFiles, find_tokenizer
from tests.conftest import NIGHTLY

ROOT = Path(__file__).resolve().parents[2]
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = LLAMA3.replace("{1,3}", "")
CORPUS = [
    (ROOT / "README.md").read_text(),
    "déjà vu, naïve; 中文文本 и русский текст 🎉🎉 \u017f ½ ª\u0301\n\t x\r\n" * 20,
]
SPECIAL = ["<|end|>", "<|end|>x", "<tool_call>", "[A B]", "é!"]
# fmt: off
PIECES = [
    "\n", "\r\n", " ", "  ", "\t", "/", "!", "'s", "'\u017f", "'RE", "'", "1", "1234", "a", "Ab", "ABC", "the", " token", "KV",
    "\u00a0", "\u2028", "\u180e", "\u0085", "\u3000", "中", "é", "e\u0301", "\u0301", "한", "\u1112\u1161", "Å", "🎉",
    "👩\u200d💻", "\U00020000", "\0", "\x1b[0m", "ǅ", "ʰ", "½", "ª", "\U0001d400", "\ufeff", "\ue000",
    "<|end|>", "<|end|>x", "<|en", "<tool_call>", "[A B]", "é!", "<s>", "[INST]", "[/INST]", "</s>",
]
# fmt: on
texts = st.lists(st.one_of(st.sampled_from(PIECES), st.text(st.characters(exclude_categories=["Cs"]), max_size=8)))


@cache
def trained(pattern: str, *, nfc: bool = False, ignore_merges: bool = False) -> str:
    """A tokenizer.json with a vocabulary that is trained here; "" for the pattern of GPT-2."""
    library = tokenizers.Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if nfc:
        library.normalizer = normalizers.NFC()  # type: ignore[assignment] # a property with a setter
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    library.pre_tokenizer = (  # type: ignore[assignment] # as above
        pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        if pattern
        else pre_tokenizers.ByteLevel(add_prefix_space=False)
    )
    library.decoder = decoders.ByteLevel()  # type: ignore[assignment] # as above
    trainer = trainers.BpeTrainer(
        vocab_size=1_200, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    library.train_from_iterator(CORPUS, trainer)
    library.add_special_tokens(SPECIAL[:3])
    library.add_tokens([tokenizers.AddedToken(text, normalized=False) for text in SPECIAL[3:]])
    return str(library.to_str())


SPECS: dict[str, Callable[[], str]] = {
    "gpt2": lambda: trained(""),
    "llama3": lambda: trained(LLAMA3, ignore_merges=True),
    "qwen": lambda: trained(QWEN, nfc=True),
}


@cache
def opened(spec: str, name: str = "t") -> tuple[RankedVocabulary | None, LibraryBackend]:
    """The vocabulary of a tokenizer.json, proven once for all tests, and the library's own."""
    library = LibraryBackend(TokenizerFiles(name, name, spec.encode, {}, None))
    return ranked_vocabulary(json.loads(spec), library), library


@pytest.fixture(scope="module")
def spec() -> str:
    return trained("")


@pytest.fixture(scope="module", params=["tekken", *SPECS])
def both(request: pytest.FixtureRequest) -> tuple[RankedBackend, LibraryBackend]:
    """A tokenizer by its ranks, which has been a file, and by the library."""
    if request.param == "tekken":  # which is proven once for all tests
        files = find_tokenizer(None, offline=True)
        built_in = open_backend(files)[0]
        assert isinstance(built_in, RankedBackend)
        return built_in, LibraryBackend(files)
    made, library = opened(SPECS[request.param]())
    assert made is not None
    vocabulary = RankedVocabulary.of_bytes(made.to_bytes())
    assert vocabulary is not None
    return RankedBackend(vocabulary, lambda: library), library


def test_ids_places_and_text_are_those_of_the_library(both: tuple[RankedBackend, LibraryBackend]) -> None:
    ours, theirs = both

    @given(texts.map("".join))
    def check(text: str) -> None:
        (ids,), (expected,) = ours.encode([text]), theirs.encode([text])
        assert ids.dtype == np.int32
        assert ids.tolist() == expected.tolist()
        assert ours.spans(text).tolist() == ours.spans(text, ids).tolist() == theirs.spans(text).tolist()
        assert ours.decode(expected.tolist()) == theirs.decode(expected.tolist())
        assert ours.decode(expected.tolist()[1::2]) == theirs.decode(expected.tolist()[1::2])

    check()


def test_real_texts_have_the_ids_of_the_library(both: tuple[RankedBackend, LibraryBackend]) -> None:
    ours, theirs = both
    files = [*ROOT.glob("workloads/**/*.*"), *ROOT.glob("docs/*.md"), *ROOT.glob("kvtool/text/**/*.py")]
    read = [
        path.read_text(encoding="utf-8") for path in files if path.suffix in (".txt", ".md", ".yaml", ".json", ".py")
    ]
    assert len(read) > 50
    for text, ids, expected in zip(read, ours.encode(read), theirs.encode(read), strict=True):
        assert np.array_equal(ids, expected), text[:80]


def test_tokens_are_written_as_in_the_library(both: tuple[RankedBackend, LibraryBackend]) -> None:
    ours, theirs = both
    assert ours.vocab_size == theirs.vocab_size
    assert (ours.prefix, ours.suffix) == (list(theirs.prefix), list(theirs.suffix))
    assert sorted(ours.newline_tokens()) == sorted(theirs.newline_tokens())
    for token in [*range(0, ours.vocab_size, 97), ours.vocab_size - 1, ours.vocab_size + 5, 1 << 30]:
        text = theirs.token_text(token)
        assert ours.token_text(token) == text
        if text is not None:
            assert ours.token_id(text) == theirs.token_id(text)
    for text in ("", "Ċ", "\n", "Ġthe", " the", "[INST]", "<|end|>", "nowhere to be found"):
        assert ours.token_id(text) == theirs.token_id(text)


@pytest.mark.parametrize("unit", ["A", "a", " ", "!", "\n", "中", "Aa", "a1", " \n", "\t ", "\u3000", "\u0301", "🎉"])
def test_long_words_come_to_the_ids_of_the_library(both: tuple[RankedBackend, LibraryBackend], unit: str) -> None:
    ours, theirs = both
    for size in (20_000, LONGEST, LONGEST + 1) if NIGHTLY or unit in (" ", "中", "Aa") else (LONGEST, LONGEST + 1):
        text = (unit * size)[:size]
        assert ours.encode([text])[0].tolist() == theirs.encode([text])[0].tolist()


def test_all_characters_that_are_encoded_by_ranks(both: tuple[RankedBackend, LibraryBackend]) -> None:
    ours, theirs = both
    vocabulary, _ = opened(SPECS["gpt2"]())
    assert vocabulary is not None
    stretches = list(samples(vocabulary))[
        :: 3 if NIGHTLY else 17
    ]  # odd: every second one is plain, the others are mixed
    assert sum(map(len, stretches)) > 5_000
    for ids, expected in zip(ours.encode(stretches), theirs.encode(stretches), strict=True):
        assert np.array_equal(ids, expected)


def changed(spec: str, **values: object) -> str:
    return json.dumps({**json.loads(spec), **values})


def with_model(spec: str, **values: object) -> str:
    return changed(spec, model={**json.loads(spec)["model"], **values})


def test_what_is_not_proven_is_left_to_the_library() -> None:
    for change in [
        lambda spec: with_model(spec, dropout=0.1),
        lambda spec: with_model(spec, continuing_subword_prefix="##"),
        lambda spec: with_model(spec, merges=json.loads(spec)["model"]["merges"][::-1]),
        lambda spec: with_model(spec, merges=json.loads(spec)["model"]["merges"][:-1]),
        lambda spec: changed(spec, normalizer={"type": "Lowercase"}),
        lambda spec: changed(spec, decoder=None),
        lambda spec: changed(spec, pre_tokenizer={"type": "Whitespace"}),
        lambda spec: changed(spec, pre_tokenizer={**json.loads(spec)["pre_tokenizer"], "add_prefix_space": True}),
        lambda spec: spec.replace('"lstrip":false', '"lstrip":true'),
        lambda spec: spec.replace('"normalized":false', '"normalized":true', 1),
    ]:
        spec = json.dumps(json.loads(trained("")), separators=(",", ":"), ensure_ascii=False)
        made, library = opened(spec)
        assert made is not None
        assert change(spec) != spec
        assert ranked_vocabulary(json.loads(change(spec)), library) is None


def test_a_token_that_no_merges_lead_to_is_not_looked_up() -> None:
    spec = json.loads(trained(""))
    model = spec["model"]
    model["vocab"]["zqzqj"] = 5_000
    made, library = opened(json.dumps(spec))
    assert made is not None
    assert list(made.unmerged) == [5_000]
    ours = RankedBackend(made, lambda: library)
    assert ours.encode(["zqzqj"])[0].tolist() == library.encode(["zqzqj"])[0].tolist() != [5_000]
    assert ours.decode([5_000]) == library.decode([5_000]) == "zqzqj"
    model["ignore_merges"] = True
    made, library = opened(json.dumps(spec))
    assert made is not None
    ours = RankedBackend(made, lambda: library)
    assert ours.encode(["zqzqj"])[0].tolist() == library.encode(["zqzqj"])[0].tolist() == [5_000]


@given(st.lists(st.text("ab|(", min_size=1, max_size=4), min_size=1, max_size=8), st.text("ab|(", max_size=20))
def test_the_longest_of_the_leftmost_texts_is_found(texts: list[str], text: str) -> None:
    found = [match.group() for match in any_of(texts).finditer(text)]
    assert found == re.findall("|".join(map(re.escape, sorted(texts, key=len, reverse=True))), text)


class TestCache:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        folder = tmp_path / "cache"
        monkeypatch.setattr(backends, "cache_folder", lambda: folder)
        monkeypatch.setattr(backends, "_WORTH_IT", 0)
        monkeypatch.setattr(rank_proof, "_ASKED", ((0, 0x2FF),))
        return folder

    @staticmethod
    def files(spec: str) -> TokenizerFiles:
        return TokenizerFiles("t", tokenizer_files._digest(spec.encode()), spec.encode, {}, None)

    def test_the_file_is_read_and_the_library_is_not_opened(
        self, spec: str, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, described = open_backend(self.files(spec))
        (kept,) = folder.iterdir()
        assert isinstance(first, RankedBackend)
        assert described == {key: value for key, value in json.loads(spec).items() if key != "model"}
        monkeypatch.setattr(backends, "LibraryBackend", None)
        second, again = open_backend(self.files(spec))
        assert isinstance(second, RankedBackend)
        assert again == described
        assert second.encode(["the cache"])[0].tolist() == first.encode(["the cache"])[0].tolist()
        assert list(folder.iterdir()) == [kept]

    @pytest.mark.parametrize(
        "damage",
        [
            lambda file: file[:0],
            lambda file: b"{}" + file[2:],
            lambda file: file[: len(file) // 2],
            lambda file: file[:-1],
            lambda file: file[:30],
            lambda file: file + b"x",
            lambda file: file[:500] + bytes([file[500] ^ 1]) + file[501:],
            lambda file: file[:-200] + bytes([file[-200] ^ 128]) + file[-199:],
        ],
    )
    def test_a_damaged_file_is_made_anew(self, spec: str, folder: Path, damage: Callable[[bytes], bytes]) -> None:
        open_backend(self.files(spec))
        (kept,) = folder.iterdir()
        whole = kept.read_bytes()
        kept.write_bytes(damage(whole))
        assert isinstance(open_backend(self.files(spec))[0], RankedBackend)
        assert kept.read_bytes() == whole

    def test_a_pipe_in_its_place_is_not_waited_for(self, spec: str, folder: Path) -> None:
        open_backend(self.files(spec))
        (kept,) = folder.iterdir()
        whole = kept.read_bytes()
        kept.unlink()
        os.mkfifo(kept)
        assert isinstance(open_backend(self.files(spec))[0], RankedBackend)
        assert kept.read_bytes() == whole

    def test_what_is_not_by_ranks_is_not_tried_again(
        self, spec: str, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = with_model(spec, dropout=0.5)
        assert isinstance(open_backend(self.files(other))[0], LibraryBackend)
        assert len(list(folder.iterdir())) == 1
        monkeypatch.setattr(backends, "_proven", None)
        backend, described = open_backend(self.files(other))
        assert isinstance(backend, LibraryBackend)
        assert "model" in described

    def test_a_cache_that_cannot_be_written_is_not_asked(
        self, spec: str, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder.write_text("a file where the folder should be")
        monkeypatch.setattr(backends, "_proven", None)
        assert isinstance(open_backend(self.files(spec))[0], LibraryBackend)

    def test_a_difference_that_the_proof_missed_is_found_by_trying(
        self, spec: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        encode = RankedBackend.encode

        def wrong(self: RankedBackend, texts: list[str]) -> list[np.ndarray]:
            return [ids[::-1] for ids in encode(self, texts)]

        monkeypatch.setattr(RankedBackend, "encode", wrong)
        assert isinstance(open_backend(self.files(spec))[0], LibraryBackend)

    def test_those_used_last_are_kept(self, spec: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(backends, "_MOST_FILES", 2)
        specs = [with_model(spec, dropout=0.1 * number) for number in range(1, 4)]
        for number, each in enumerate(specs):
            open_backend(self.files(each))
            for path in folder.iterdir():  # one hour apart, as clocks of file systems are coarse
                age = path.stat().st_mtime - 3_600
                os.utime(path, (age, age))
            if number == 1:
                open_backend(self.files(specs[0]))
        kept = {path.name.partition("-")[0] for path in folder.iterdir()}
        assert kept == {self.files(each).digest[:32] for each in (specs[0], specs[2])}
