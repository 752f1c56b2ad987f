"""--events-out: KV events, their hashes, and how private they are."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer as Backend

from kvtool.cli.app import run
from kvtool.engine.blocks.vllm_hashing import VllmHasher, event_hash
from kvtool.profiler.profiler import Profiler
from kvtool.text.terminal.progress import Progress
from tests.cli.engine_flags.conftest import TOKENS, Capture, Document, refused, samples


def events_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_events_of_a_small_cache(folder: Path, document: Document) -> None:
    found = document("--dry-run", "--capacity", "20", "--events", "e.jsonl")
    events = events_of(folder / "e.jsonl")
    assert {event["type"] for event in events} == {"BlockStored", "BlockRemoved"}
    removed = [event for event in events if event["type"] == "BlockRemoved"]
    assert len(removed) == found["totals"]["evictions"] > 0
    stored = sum(len(event["block_hashes"]) for event in events if event["type"] == "BlockStored")
    assert stored - len(removed) == found["kv_cache"]["filled_blocks"]
    assert sorted(path.name for path in folder.iterdir()) == ["e.jsonl", "w.yaml"]


SALTED = '{"prompt": "A prompt of more than three blocks, one byte a token.", "cache_salt": "tenant-a"}\n'


def test_events_are_private_and_say_so(folder: Path, bytes_json: str, capsys: Capture) -> None:
    (folder / "log.jsonl").write_text(SALTED, encoding="utf-8")
    flags = ["profile", "log.jsonl", "-t", bytes_json, "--dry-run", "--events", "e.jsonl"]
    assert run(flags) == 0
    said = "written: e.jsonl (KV events; prompts as token ids: --events-no-tokens leaves them out)\n"
    assert capsys.readouterr().err == said
    assert stat.S_IMODE((folder / "e.jsonl").stat().st_mode) == 0o600
    assert '"tenant-a"' in (folder / "e.jsonl").read_text(encoding="utf-8")
    assert run([*flags, "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_events_without_tokens(folder: Path, bytes_json: str, capsys: Capture) -> None:
    (folder / "log.jsonl").write_text(SALTED, encoding="utf-8")
    flags = ["profile", "log.jsonl", "-t", bytes_json, "--dry-run", "--events"]
    assert run([*flags, "with.jsonl"]) == 0
    capsys.readouterr()
    assert run([*flags, "without.jsonl", "--events-no-tokens"]) == 0
    assert capsys.readouterr().err == ""
    assert stat.S_IMODE((folder / "without.jsonl").stat().st_mode) == 0o600
    [whole], [rest] = events_of(folder / "with.jsonl"), events_of(folder / "without.jsonl")
    assert (len(whole["token_ids"]), whole["extra_keys"]) == (48, [["tenant-a"], None, None])
    assert rest == whole | {"token_ids": None, "extra_keys": [None, None, None]}


def test_events_of_hashes_hold_no_prompt(folder: Path, bytes_json: str, capsys: Capture) -> None:
    trace = '{"timestamp": 0, "input_length": 1024, "output_length": 1, "hash_ids": [1, 2]}\n'
    (folder / "trace.jsonl").write_text(trace, encoding="utf-8")
    assert run(["profile", "trace.jsonl", "--dry-run", "--events", "e.jsonl"]) == 0
    assert capsys.readouterr().err == ""


def test_no_tokens_of_no_events(folder: Path, capsys: Capture) -> None:
    assert "--events-no-tokens says what --events leaves out" in refused(
        ["profile", "w.yaml", "--events-no-tokens"], capsys
    )


@pytest.mark.parametrize("seed", [None, "7"])
def test_hashes_are_those_of_a_server(
    seed: str | None, folder: Path, bytes_json: str, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed is not None:
        monkeypatch.setenv("PYTHONHASHSEED", seed)
    text = "A prompt of more than three blocks, one byte a token."
    (folder / "p.txt").write_text(text, encoding="utf-8")
    found = document("--dry-run", "--events", "e.jsonl", "--hash-algo", "sha256_cbor", name="p.txt")
    assert found["config"]["hash_algo"] == "sha256_cbor"
    ids = np.array(Backend.from_file(bytes_json).encode(text).ids, np.int32)
    [event] = events_of(folder / "e.jsonl")
    chain = VllmHasher("sha256_cbor", seed).chain(ids, 16, None, None, None)
    assert event["block_hashes"] == [event_hash(one) for one in chain]
    assert event["token_ids"] == ids[:48].tolist()
    assert (event["parent_block_hash"], event["block_size"]) == (None, 16)


VECTORS = Path(__file__).resolve().parents[4] / "shared" / "oracle" / "vllm-0.33" / "hash_vectors.json"


@pytest.mark.skipif(not VECTORS.is_file(), reason="no recorded vLLM hashes beside this checkout")
@pytest.mark.parametrize("salt", [None, "tenant-a"])
@pytest.mark.parametrize("algorithm", ["sha256", "sha256_cbor", "xxhash_cbor"])
def test_hashes_are_those_that_vllm_gave(
    algorithm: str, salt: str | None, folder: Path, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = json.loads(VECTORS.read_text(encoding="utf-8"))
    variant = "plain" if salt is None else f"cache_salt={salt}"
    (vector,) = [one for one in recorded["vectors"] if (one["algo"], one["variant"]) == (algorithm, variant)]
    if vector["seed"].startswith("PYTHONHASHSEED="):
        monkeypatch.setenv("PYTHONHASHSEED", vector["seed"].partition("=")[2])
    else:
        monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    prompt = {"prompt": recorded["token_ids"]} | ({} if salt is None else {"cache_salt": salt})
    (folder / "log.jsonl").write_text(json.dumps(prompt) + "\n", encoding="utf-8")
    size = str(recorded["block_size"])
    document("--dry-run", "--events", "e.jsonl", "--hash-algo", algorithm, "--block-size", size, name="log.jsonl")
    [event] = events_of(folder / "e.jsonl")
    assert event["block_hashes"] == vector["event_int64"]
    assert len(event["block_hashes"]) > 1


def test_only_the_main_pass_writes_events(folder: Path, document: Document) -> None:
    plain, others = ("--dry-run", "--events", "a.jsonl"), ("--concurrency", "1", "--kv-cache-dtype", "fp8")
    document(*plain, "--capacity", "40")
    document("--dry-run", "--events", "b.jsonl", "--capacity", "40MiB", *others)
    assert events_of(folder / "a.jsonl") == events_of(folder / "b.jsonl")


@pytest.mark.parametrize("flag", ["--events", "--metrics"])
@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("none/e.out", "cannot write none/e.out: No such file or directory"),
        (".", "cannot write .: it is a directory"),
        ("w.yaml", "w.yaml is an input, too"),
        ("-", "needs a file"),
    ],
)
def test_a_path_that_cannot_be_written(
    flag: str, path: str, said: str, folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Profiler, "run", lambda _: pytest.fail("work was begun"))
    assert said in refused(["profile", "w.yaml", flag, path], capsys)
    assert [each.name for each in folder.iterdir()] == ["w.yaml"]
    assert (folder / "w.yaml").read_text(encoding="utf-8") == TOKENS


def test_one_file_cannot_be_both(folder: Path, capsys: Capture) -> None:
    err = refused(["profile", "w.yaml", "--events", "x", "--metrics", "./x"], capsys)
    assert "--metrics ./x is the file of --events, too" in err


def test_bad_input_leaves_files_as_they_were(folder: Path, bytes_json: str, capsys: Capture) -> None:
    (folder / "bad.jsonl").write_text(f'{{"prompt": "{"good " * 20}"}}\n' * 3 + "not json\n", encoding="utf-8")
    (folder / "m.prom").write_text("of yesterday", encoding="utf-8")
    before = sorted(path.name for path in folder.iterdir())
    flags = ["--dry-run", "-t", bytes_json, "--events", "e.jsonl", "--metrics", "m.prom"]
    assert "bad.jsonl:4" in refused(["profile", "bad.jsonl", *flags], capsys)
    assert sorted(path.name for path in folder.iterdir()) == before
    assert (folder / "m.prom").read_text(encoding="utf-8") == "of yesterday"


def test_block_lru_has_no_events(folder: Path, capsys: Capture) -> None:
    err = refused(["profile", "w.yaml", "--rules", "block-lru", "--events", "e.jsonl"], capsys)
    assert "--rules block-lru has none" in err


def test_ctrl_c_leaves_whole_lines(
    folder: Path, bytes_json: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    advance = Progress.advance

    def interrupted(self: Progress, number: int = 1) -> None:
        advance(self, number)
        if self._done == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "advance", interrupted)
    assert run(["profile", "w.yaml", "-t", bytes_json, "--dry-run", "--json", "--events", "e", "--metrics", "m"]) == 130
    totals = json.loads(capsys.readouterr().out)["totals"]
    assert len(events_of(folder / "e")) == totals["requests"] == 5
    assert samples(folder / "m")["vllm:prompt_tokens_total"] == totals["prompt_tokens"]
