"""Predicted is actual, with a real vLLM: where $VLLM_PYTHON names the Python of an environment that has it."""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

if not os.environ.get("VLLM_PYTHON"):
    pytest.skip("a vLLM is needed: $VLLM_PYTHON", allow_module_level=True)
pytest.importorskip("httpx", reason="needs the extra `live`")
pytest.importorskip("zmq", reason="needs the extra `live`")

from kvtool.cli.app import run
from tests.measure.servers.made_models import GPT_OSS, WINDOWS
from tests.measure.servers.real_vllm import BLOCKS, real_vllm, toy_model

pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_model(tmp_path_factory.mktemp("vllm") / "toy")


@pytest.fixture(scope="module")
def server(model: Path) -> Iterator[str]:
    with real_vllm(model) as url:
        yield url


def workload(
    path: Path, count: int, seed: int, words_shared: tuple[int, ...] = (20, 60, 150, 300), *, chats: bool = True
) -> str:
    """Requests that share beginnings of several lengths, more of them than the cache holds; some or all are completions."""
    chance = random.Random(seed)
    words = [f"w{chance.randrange(10**6)}" for _ in range(400)]
    beginnings = [" ".join(chance.choices(words, k=chance.choice(words_shared))) for _ in range(12)]
    lines: list[dict[str, Any]] = []
    for number in range(count):
        text = f"{chance.choice(beginnings)} {' '.join(chance.choices(words, k=chance.randrange(1, 40)))}"
        asked: dict[str, Any] = (
            {"messages": [{"role": "user", "content": text}]} if chats and number % 4 else {"prompt": text}
        )
        lines.append({**asked, "max_tokens": chance.choice((1, 4, 9))})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def replayed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[dict[str, Any], int]:
    code = run(["replay", "--json", "-q", *arguments])
    out, err = capsys.readouterr()
    assert out, err
    return json.loads(out), code


def test_one_at_a_time_all_agree(server: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = [workload(tmp_path / "w.jsonl", 300, 1), "--server", server, "--yes", "--reset", "--max-tokens", "4"]
    document, code = replayed(capsys, *asked, "-t", str(model))
    assert (code, document["answered"], document["agree"], document["disagree"]) == (0, 300, 300, [])
    assert document["counters_agree"] is True
    assert document["config"]["capacity_blocks"] == BLOCKS - 1
    events = document["events"]
    assert events["predicted"] == events["recorded"] == events["agree"] > 1000
    assert events["by"] == "hash"
    assert document["times"]["measured_cold"] >= document["times"]["measured_warm"]


def test_eight_at_once_agree_as_admitted(
    server: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [workload(tmp_path / "w.jsonl", 160, 2), "--server", server, "--yes", "--reset", "--max-tokens", "8"]
    document, code = replayed(capsys, *asked, "-t", str(model), "--concurrency", "8")
    assert (code, document["answered"]) == (0, 160)
    is_known = not any("show the order of requests in the server" in note for note in document["notes"])
    assert document["agree"] == 160 or not is_known
    assert {each["cause"] for each in document["disagree"]} <= {"order", "steps"}
    assert document["counters_agree"] is True


@pytest.mark.parametrize(
    ("config", "more"),
    [
        (WINDOWS, ()),
        (WINDOWS, ("--disable-hybrid-kv-cache-manager",)),
        (WINDOWS, ("--scheduling-policy", "priority")),
        (GPT_OSS, ("--dtype", "bfloat16")),
    ],
)
def test_a_model_with_windows_agrees_by_its_own_config(
    config: dict[str, object], more: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    windows = toy_model(tmp_path / "model", config)
    chats = config is not GPT_OSS  # vLLM writes its chats in a vocabulary that a toy has not
    path = workload(tmp_path / "w.jsonl", 150, 4, (10, 30, 60, 150), chats=chats)
    with real_vllm(windows, *more, length=2048) as url:
        document, code = replayed(capsys, path, "--server", url, "--yes", "--reset", "--max-tokens", "4")
        assert (code, document["answered"], document["agree"]) == (0, 150, 150)
        events = document["events"]
        assert (events["agree"], events["by"]) == (events["recorded"], "hash")
        together, _ = replayed(capsys, path, "--server", url, "--yes", "--reset", "--concurrency", "6")
        is_followed = any("reached the scheduler" in note for note in together["notes"])
        assert together["agree"] >= (150 if is_followed else 0.9 * 150)  # on a busy machine the search may give up
        assert {each["cause"] for each in together["disagree"]} <= {"order", "steps"}


def test_a_restart_in_the_middle_is_reported(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = workload(tmp_path / "w.jsonl", 20, 3)
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        with real_vllm(model) as url:
            replayed(
                capsys, path, "--server", url, "--yes", "-t", str(model), "--record", str(folder), "--max-tokens", "4"
            )
    whole = joined(*folders, tmp_path / "whole")
    document, code = replayed(capsys, "--recorded", str(whole), "-t", str(model))
    assert code == 1
    assert "restart" in {each["cause"] for each in document["causes"]}
    assert document["agree"] + len(document["disagree"]) == 40
    assert {each["cause"] for each in document["disagree"]} == {"restart"}


def joined(first: Path, second: Path, folder: Path) -> Path:
    """One recording of two that followed each other."""
    folder.mkdir()
    rows = [lines(each / "requests.jsonl.gz") for each in (first, second)]
    shift = max(row["done"] for row in rows[0]) + 1
    for row in rows[1]:
        row["n"] += len(rows[0])
        row |= {name: row[name] + shift for name in ("sent", "first", "done") if name in row}
    events = [each for part in (first, second) for each in lines(part / "kv_events.jsonl.gz")]
    for name, found in (("requests.jsonl.gz", [*rows[0], *rows[1]]), ("kv_events.jsonl.gz", events)):
        (folder / name).write_bytes(gzip.compress("".join(json.dumps(each) + "\n" for each in found).encode()))
    for name, part in (("metrics_before.txt", first), ("metrics_after.txt", second), ("server_info.json", first)):
        (folder / name).write_bytes((part / name).read_bytes())
    (folder / "models.json").write_bytes((first / "models.json").read_bytes())
    return folder


def lines(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path) as found:
        return [json.loads(line) for line in found]
