from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from huggingface_hub.errors import LocalEntryNotFoundError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

from kvtool.errors import KvtoolError, NotAvailableError
from kvtool.text.tokens import tokenizer, tokenizer_files
from kvtool.text.tokens.backends import open_backend
from kvtool.text.tokens.cuts import Cuts, find_cuts
from kvtool.text.tokens.tokenizer import Tokenizer, load_tokenizer
from kvtool.text.tokens.tokenizer_files import TokenizerFiles
from kvtool.text.traced import Origin, Traced

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "tokenizers"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
DEEPSEEK_FIRST = "[一-龥\u3040-ゟ\u30a0-ヿ]+"
CORPUS = [
    "the cat\n\nsat on 12 mats, didn't it?\n  if x:\r\n\treturn {'a': 1} // done!!\n",
    "héllo wörld\n\n\n 中文 text 🎉🎉\n/* c */",
] * 4


def byte_level(
    pre_tokenizer: pre_tokenizers.PreTokenizer, *, nfc: bool = False, special: list[str]
) -> tokenizers.Tokenizer:
    """A small byte-level tokenizer, trained here: merges over line breaks and spaces included."""
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizer
    if nfc:
        backend.normalizer = normalizers.NFC()
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(CORPUS, trainer)
    return backend


def split(pattern: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def gpt2() -> tokenizers.Tokenizer:
    return byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), special=["<|end|>"])


def digits_gpt2() -> tokenizers.Tokenizer:
    steps = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    return byte_level(pre_tokenizers.Sequence(steps), special=["<|end|>"])


def llama3() -> tokenizers.Tokenizer:
    steps = [split(LLAMA3), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    return byte_level(pre_tokenizers.Sequence(steps), nfc=True, special=["<|end|>", "<|im_start|>"])


def deepseek() -> tokenizers.Tokenizer:
    last = (
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
        "| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
    )
    steps = [split(r"\p{N}{1,3}"), split(DEEPSEEK_FIRST), split(last)]
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    return byte_level(pre_tokenizers.Sequence(steps), special=["<|end|>"])


def prefix_space() -> tokenizers.Tokenizer:
    return byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True), special=["<|end|>"])


def newline_token() -> tokenizers.Tokenizer:
    return byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), special=["<|end|>", "\na"])


def first_metaspace() -> tokenizers.Tokenizer:
    return byte_level(pre_tokenizers.Metaspace(prepend_scheme="first"), special=["<|end|>"])


LOCAL = {f.__name__: f for f in (gpt2, digits_gpt2, llama3, deepseek, prefix_space, newline_token, first_metaspace)}


@pytest.fixture(scope="module")
def tekken() -> Tokenizer:
    return load_tokenizer(None)


@pytest.fixture(scope="module")
def plain_tekken() -> tokenizers.Tokenizer:
    """The library's own tokenizer of the built-in vocabulary, without our cuts and memory."""
    return tokenizers.Tokenizer.from_buffer(tokenizer_files.find_tokenizer(None, offline=True).data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("tokenizers")
    for name, make in LOCAL.items():
        make().save(str(path / f"{name}.json"))
    yield path
    shutil.rmtree(path)


def named(name: str, folder: Path) -> tuple[Tokenizer, tokenizers.Tokenizer]:
    """A tokenizer of ours and the library's own for the same file."""
    path = (
        SHARED / f"{name}.tokenizer.json" if name in ("TinyLlama_v1.1", "llm-d-test-model") else folder / f"{name}.json"
    )
    if not path.is_file():
        pytest.skip(f"{path} is not here")
    return load_tokenizer(str(path)), tokenizers.Tokenizer.from_file(str(path))


# fmt: off
PIECES = [
    "\n", "\n\n", "\r\n", " ", "  ", "\t", "/", "//", "!", "#", "'s", "'",
    "1", "1234", "a", "Ab", "the cat", "\u00a0", "\u2028", "\u180e",
    "中", "ゟ", "é", "e\u0301", "\u0301", "🎉", "\0", "\x1b[0m", "\x1c", "\x85", "{", "}", ":", "(", "<", "[", "|",
    "▁", "\u017f", "İ",
    "[INST]", "[/INST]", "<s>", "</s>", "<|end|>", "<|im_start|>", "[SYSTEM_PROMPT]", "<SPECIAL_20>", "[CLS]", "[INST", "<|end|",
]
# fmt: on
chunks = st.one_of(st.sampled_from(PIECES), st.text(max_size=3))
fuzz = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("name", ["tekken", *LOCAL, "TinyLlama_v1.1", "llm-d-test-model"])
def test_ids_are_those_of_the_whole_text(
    name: str, folder: Path, tekken: Tokenizer, plain_tekken: tokenizers.Tokenizer
) -> None:
    ours, theirs = (tekken, plain_tekken) if name == "tekken" else named(name, folder)

    @fuzz
    @given(st.lists(chunks, max_size=25).map("".join), st.booleans())
    def check(text: str, special: bool) -> None:
        expected = theirs.encode(text, add_special_tokens=special).ids
        assert ours.encode(Traced(text), add_special_tokens=special).ids.tolist() == expected
        assert ours.encode(text, add_special_tokens=special).ids.tolist() == expected  # now from memory

    check()


@pytest.mark.parametrize("name", ["tekken", "gpt2", "llama3", "TinyLlama_v1.1", "llm-d-test-model"])
def test_tokens_lead_back_to_the_text_in_order(name: str, folder: Path, tekken: Tokenizer) -> None:
    ours = tekken if name == "tekken" else named(name, folder)[0]
    covers = name not in (
        "llm-d-test-model",
        "llama3",
    )  # BERT drops white space; NFC gives no place to what it composes

    @fuzz
    @given(st.lists(chunks, max_size=20).map("".join))
    def check(text: str) -> None:
        prompt = ours.encode(Traced.of(text, Origin("f", text=text)), add_special_tokens=True)
        ranges = [prompt.char_range(token) for token in range(len(prompt))]
        at = reached = 0
        for found in ranges:
            assert found is not None
            start, stop = found
            assert at <= stop <= len(text)
            assert start <= stop
            if covers:
                assert start <= reached
            at = start
            reached = max(reached, stop)
        if covers and text:
            assert reached == len(text)
        for char in range(len(text)):
            token = prompt.token_at(char)
            assert token <= len(prompt)

    check()


def test_known_patterns_are_cut_and_others_are_not(folder: Path) -> None:
    def cuts(name: str) -> Cuts:
        return find_cuts(json.loads((folder / f"{name}.json").read_bytes()))

    assert cuts("gpt2").starts("one\ntwo\n\n three<|end|>four") == [0, 3, 7, 15]
    assert cuts("digits_gpt2").starts("one\ntwo") == [0, 3]
    assert cuts("llama3").starts("one\ntwo\n\n three\n/four") == [0, 4]
    assert cuts("deepseek").starts("one\n2") == [0, 4]
    assert cuts("prefix_space").starts("one\ntwo<|end|>") == [0, 7]
    assert cuts("newline_token").starts("one\ntwo") == [0]
    assert cuts("first_metaspace") == Cuts()
    assert cuts("gpt2").starts("") == []


def test_added_tokens_that_take_white_space_in_forbid_cuts(folder: Path) -> None:
    spec = json.loads((folder / "gpt2.json").read_bytes())
    spec["added_tokens"][0]["lstrip"] = True
    assert find_cuts(spec) == Cuts()


def test_a_changed_pattern_is_not_taken_for_a_known_one(folder: Path) -> None:
    spec = json.loads((folder / "llama3.json").read_bytes())
    step = spec["pre_tokenizer"]["pretokenizers"][0]
    for change in (r"|\n[a-z]+", r"|(?<=\n)x"):
        step["pattern"]["Regex"] = LLAMA3 + change
        assert find_cuts(spec).lines is None
    step["pattern"]["Regex"] = LLAMA3.replace(r"\s*[\r\n]+|\s+(?!\S)", r"\s+(?!\S)|\s*[\r\n]+")
    assert find_cuts(spec).lines is None
    spec["normalizer"] = {"type": "NFKC"}
    step["pattern"]["Regex"] = LLAMA3
    assert find_cuts(spec).lines is None


@pytest.mark.parametrize("unit", ["word and 12ab34 more, ", "abc123", "x", " ", '{"k": [1, 2]}, ', "!/"])
def test_long_lines_have_the_same_ids(
    tekken: Tokenizer, plain_tekken: tokenizers.Tokenizer, folder: Path, unit: str
) -> None:
    text = unit * (20_000 // len(unit))  # longer than what is cut
    prompt = tekken.encode(Traced(text), add_special_tokens=False)
    assert prompt.ids.tolist() == plain_tekken.encode(text, add_special_tokens=False).ids
    ours, small = named("gpt2", folder)
    assert ours.encode_ids(text).tolist() == small.encode(text, add_special_tokens=False).ids


def test_long_lines_are_cut_inside(tekken: Tokenizer) -> None:
    prompt = tekken.encode(Traced("some words " * 10_000), add_special_tokens=False)
    assert prompt.char_starts is not None
    sizes = np.diff([*prompt.char_starts, 110_000])
    assert sizes.max() <= 16_384


def test_special_tokens_and_bos(tekken: Tokenizer) -> None:
    prompt = tekken.encode("[INST]hi[/INST]", add_special_tokens=True)
    assert prompt.ids[:2].tolist() == [1, 3]
    assert prompt.ids[-1] == 4
    assert prompt.ids.dtype == np.int32
    assert tekken.decode(prompt.ids) == "<s>[INST]hi[/INST]"
    assert (tekken.bos_token, tekken.eos_token, tekken.name) == ("<s>", "</s>", "tekken")
    assert tekken.token_text(3) == "[INST]"
    assert tekken.token_text(10**8) == "<100000000>"
    assert tekken.is_token("[TOOL_CONTENT]")
    assert not tekken.is_token("<|im_start|>")
    assert tekken.vocab_size == 131_072
    assert tekken.encode("", add_special_tokens=True).ids.tolist() == [1]
    assert len(tekken.encode_ids("")) == 0


def test_broken_text_and_ids_do_not_crash(tekken: Tokenizer) -> None:
    text = Traced("ok\ud800\n\udfffé\0\x1b[1m")
    prompt = tekken.encode(text, add_special_tokens=False)
    assert tekken.decode(prompt.ids) == "ok\ufffd\n\ufffdé\0\x1b[1m"
    assert prompt.char_range(len(prompt) - 1) is not None
    assert prompt.token_at(len(text) - 1) == len(prompt) - 1
    half = tekken.encode_ids("🎉")[:1]
    assert "\ufffd" in tekken.decode(half)
    assert tekken.decode([-5, 10**9]) == ""


def test_a_huge_word_is_refused(tekken: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvtool.text.tokens.tokenizer._PIECE_CHARACTERS", 20_000)
    with pytest.raises(KvtoolError, match="20,001 characters that tokenizer `tekken` cannot split"):
        tekken.encode_ids("x" * 20_001)
    assert len(tekken.encode_ids("x y" * 20_001)) > 0


def test_folder_with_configuration(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "llama3.json", tmp_path / "tokenizer.json")
    config = {
        "bos_token": {"content": "<|im_start|>"},
        "eos_token": "<|end|>",
        "chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}],
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = load_tokenizer(str(tmp_path), offline=True)
    assert tokenizer.chat_template == "d"
    assert tokenizer.special_tokens == {"bos_token": "<|im_start|>", "eos_token": "<|end|>"}
    (tmp_path / "chat_template.jinja").write_text("from the file")
    assert load_tokenizer(str(tmp_path / "tokenizer.json")).chat_template == "from the file"
    assert load_tokenizer(str(folder / "llama3.json")).fingerprint == tokenizer.fingerprint
    assert load_tokenizer(str(folder / "gpt2.json")).fingerprint != tokenizer.fingerprint


@pytest.mark.parametrize("name", ["tokenizer_config.json", "special_tokens_map.json"])
@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("[" * 100_000, "1:501", "nested too deeply"),
        ('{\n "a": ' + '{"a":' * 100_000, "2:2502", "nested too deeply"),
        ('{\n "a": ' + "9" * 5_000 + "}", "2:7", "Exceeds the limit"),
        ('{\n "a" 1}', "2:6", "Expecting ':' delimiter"),
        ("[1]", "1:1", "not a JSON object"),
        ('{"a": "\udcff"}', "1:8", "not UTF-8"),
    ],
)
def test_configuration_that_is_no_json(
    name: str, text: str, place: str, message: str, folder: Path, tmp_path: Path
) -> None:
    shutil.copy(folder / "llama3.json", tmp_path / "tokenizer.json")
    (tmp_path / name).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(KvtoolError, match=message) as caught:
        load_tokenizer(str(tmp_path), offline=True)
    assert str(caught.value.place) == f"{tmp_path / name}:{place}"


def test_names_of_templates_that_are_no_text(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "llama3.json", tmp_path / "tokenizer.json")
    config = {"chat_template": [{"name": ["default"], "template": "x"}, {"name": "default", "template": "d"}]}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert load_tokenizer(str(tmp_path), offline=True).chat_template == "d"


def test_post_processor_tokens_on_both_sides(folder: Path, tmp_path: Path) -> None:
    backend = tokenizers.Tokenizer.from_file(str(folder / "llama3.json"))
    ids = [("<|im_start|>", backend.token_to_id("<|im_start|>")), ("<|end|>", backend.token_to_id("<|end|>"))]
    backend.post_processor = processors.TemplateProcessing(single="<|im_start|> $A <|end|>", special_tokens=ids)
    backend.save(str(tmp_path / "both.json"))
    tokenizer = load_tokenizer(str(tmp_path / "both.json"))
    prompt = tokenizer.encode(Traced("one\ntwo"), add_special_tokens=True)
    assert prompt.ids.tolist() == backend.encode("one\ntwo").ids
    assert prompt.char_range(0) == (0, 0)
    assert prompt.char_range(len(prompt) - 1) == (7, 7)
    assert tokenizer.bos_token == "<|im_start|>"


def test_files_that_are_no_tokenizer(tmp_path: Path) -> None:
    for content, message in [
        (b"{}", "not a tokenizer.json"),
        (b"hello", "not a tokenizer.json"),
        (b"\xff\x00", "not a tokenizer.json"),
        (b'{"model": {"type": "nonsense"}}', "cannot be loaded"),
    ]:
        path = tmp_path / "t.json"
        path.write_bytes(content)
        with pytest.raises(KvtoolError, match=message):
            load_tokenizer(str(path))


def test_places_without_a_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(KvtoolError, match=r"no tokenizer\.json in"):
        load_tokenizer(str(tmp_path))
    with pytest.raises(KvtoolError, match="no such file or folder"):
        load_tokenizer(str(tmp_path / "missing.json"))
    with pytest.raises(KvtoolError, match="no such file or folder"):
        load_tokenizer("a b/c?")
    with pytest.raises(KvtoolError):
        load_tokenizer("x\0y")


def test_offline_and_not_cached() -> None:
    with pytest.raises(
        NotAvailableError, match="tokenizer `no-such-org/no-such-model` is not cached and --offline is set"
    ) as caught:
        load_tokenizer("no-such-org/no-such-model", offline=True)
    assert caught.value.exit_code == 4
    assert caught.value.hint == "pass -t ./tokenizer.json, or leave -t out for the built-in tokenizer"


@pytest.mark.parametrize("asked", [True, False])
def test_a_hub_that_cannot_be_reached_is_asked_once(
    asked: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    calls: list[str] = []

    def fail(*_: object, **__: object) -> str:
        calls.append("asked")
        logging.getLogger("huggingface_hub.utils").warning("Retrying in 8s [Retry 4/5].")
        raise LocalEntryNotFoundError("An error happened while trying to locate the file on the Hub\nmore")

    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", (lambda *_, **__: None) if asked else fail)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", fail)
    with pytest.raises(
        NotAvailableError, match=r"`models/llama` is not a local folder.* hub cannot be reached$"
    ) as raised:
        load_tokenizer("models/llama")
    assert "-t ./tokenizer.json" in (raised.value.hint or "")
    assert (calls, *capfd.readouterr()) == (["asked"], "", "")


def test_hub_cache_comes_first(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(folder / "gpt2.json", tmp_path / "tokenizer.json")

    def cached(repo: str, file: str) -> str | None:
        assert repo == "org/model"
        return str(tmp_path / file) if (tmp_path / file).is_file() else None

    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", cached)
    assert load_tokenizer("org/model", offline=True).name == "org/model"


class TestConversionCache:
    @pytest.fixture(autouse=True)
    def conversions(self, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """A cache of its own, and a conversion that is counted and quick."""
        calls: list[str] = []

        def converted() -> bytes:
            calls.append("built in")
            return (folder / "gpt2.json").read_bytes()

        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.setattr(tokenizer, "open_backend", open_backend)  # each load opens it again
        monkeypatch.setattr(tokenizer_files, "cache_folder", lambda: tmp_path / "cache" / "tokenizers")
        monkeypatch.setattr(tokenizer_files, "built_in_json", converted)
        return calls

    def test_converts_once(self, conversions: list[str], tmp_path: Path) -> None:
        first = load_tokenizer(None)
        second = load_tokenizer(None)
        assert conversions == ["built in"]
        assert first.fingerprint == second.fingerprint
        assert len(list((tmp_path / "cache" / "tokenizers").iterdir())) == 1

    @pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"\0" * 50])
    def test_a_corrupt_cache_is_replaced(self, conversions: list[str], tmp_path: Path, damage: bytes) -> None:
        load_tokenizer(None)
        (cached,) = (tmp_path / "cache" / "tokenizers").iterdir()
        whole = cached.read_bytes()
        cached.write_bytes(damage)
        load_tokenizer(None)
        assert len(conversions) == 2
        assert cached.read_bytes() == whole

    @pytest.mark.parametrize("device", [None, "/dev/zero"])
    def test_a_cache_without_an_end_is_replaced(
        self, conversions: list[str], tmp_path: Path, device: str | None
    ) -> None:
        load_tokenizer(None)
        (cached,) = (tmp_path / "cache" / "tokenizers").iterdir()
        whole = cached.read_bytes()
        cached.unlink()
        if device is None:
            os.mkfifo(cached)
        else:
            cached.symlink_to(device)
        load_tokenizer(None)
        assert len(conversions) == 2
        assert cached.read_bytes() == whole

    def test_a_cache_that_cannot_be_written_does_not_matter(self, conversions: list[str], tmp_path: Path) -> None:
        (tmp_path / "cache").write_text("a file where the folder should be")
        assert load_tokenizer(None).vocab_size > 0
        assert len(conversions) == 1


def test_loading_the_cached_tokenizer_imports_nothing_heavy(tekken: Tokenizer) -> None:
    code = (
        "import sys; from kvtool.text.tokens.tokenizer import load_tokenizer; load_tokenizer(None); "
        "print([m for m in ('torch', 'transformers', 'mistral_common.tokens', 'pydantic') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_token_ids_beyond_32_bits_are_refused(byte_spec: str) -> None:
    spec = json.loads(byte_spec)
    spec["model"]["vocab"]["a"] = 1 << 31
    tokenizer = Tokenizer(TokenizerFiles("wide", "wide", json.dumps(spec).encode, {}, None))
    with pytest.raises(KvtoolError, match="token ids of 2\\^31 and more"):
        tokenizer.encode("a", add_special_tokens=False)


def test_a_tokenizer_that_does_not_end_is_refused() -> None:
    with pytest.raises(KvtoolError, match="larger than"):
        load_tokenizer("/dev/zero")


def test_a_name_that_no_repository_has_is_refused() -> None:
    for name in ["1..10", "a--b", "a/b..c"]:
        with pytest.raises(KvtoolError, match="a Hugging Face repository cannot have this name"):
            load_tokenizer(name, offline=True)
