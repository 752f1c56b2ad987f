"""Recorded hashes, sizes and asynchronous totals of vLLM against ours, and what replay says of them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvtool.engine.replay import Replay, compare, main

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "oracle" / "vllm-0.33"
BATCHED = sorted(RECORDED.glob("b[0-9]*.json"))
recorded = pytest.mark.skipif(not BATCHED, reason="no recorded vLLM workloads beside this checkout")
Json = dict[str, Any]


@recorded
@pytest.mark.parametrize("path", BATCHED, ids=lambda path: path.stem)
def test_asynchronous_scheduling_agrees(path: Path) -> None:
    assert (True, None) in compare(path)


@recorded
def test_the_asynchronous_expectations_are_not_the_synchronous_ones() -> None:
    """Else the test above would show nothing."""
    different = 0
    for path in BATCHED:
        case = json.loads(path.read_text(encoding="utf-8"))
        case["expected_async_scheduling"], steps = copy.deepcopy(case["expected_async_scheduling"]), "engine_steps"
        del case["expected_async_scheduling"]["totals"][steps]
        case["expected"] = {**case["expected"], **case["expected_async_scheduling"], "trace": None}
        different += any(Replay(case).run().differences())
    assert different >= 8


@recorded
@pytest.mark.parametrize("kind", ["hash", "sizing"])
def test_recorded_vectors_agree(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = RECORDED / f"{kind}_vectors.json"
    assert main([str(path)]) == 0
    assert capsys.readouterr().out == f"agree   {path}\n1 of 1 agree\n"


def hash_vectors() -> Json:
    """Made with cbor2 and xxhash."""
    return {
        "kind": "hash_vectors",
        "block_size": 4,
        "token_ids": [0, 23, 24, 255, 256, 65535, 65536, 2**31 - 1, 5],
        "vectors": [
            {
                "algo": "xxhash_cbor",
                "seed": "PYTHONHASHSEED=0",
                "variant": "plain",
                "none_hash": "1ebe36576dcb573f26b99533a20aaeca",
                "block_hashes": ["cd09d8ae700da635d72fa41ccddba746", "a7a9489afab0a5cf96422fc35f372ba1"],
                "event_int64": [0xD72FA41CCDDBA746, 0x96422FC35F372BA1],
            }
        ],
    }


def sizing_vectors() -> Json:
    """Two layers of 3 heads of 8 in float32: keys and values of a token are 2 * 3 * 8 * 2 * 4 = 384 bytes."""
    return {
        "kind": "sizing_vectors",
        "rows": [
            {
                "name": "toy",
                "layers": 2,
                "kv_heads_per_rank": 3,
                "head_size": 8,
                "dtype": "torch.float32",
                "block_size": 4,
                "available_bytes": 1536 * 11 - 1,
                "max_model_len": 15,
                "page_bytes_per_layer": 768,
                "bytes_per_block": 1536,
                "num_gpu_blocks": 10,
                "usable_blocks": 9,
                "logged_kv_tokens": 40,
                "max_concurrency": 2.5,
            }
        ],
    }


def batched() -> Json:
    """One prompt of three tokens with two of output, in blocks of two: the second is full when the first output is computed."""
    expected = {
        "requests": [{"id": "a", "num_cached_tokens": 0, "admissions": [[0, 0]], "num_preemptions": 0}],
        "evictions": [],
        "preemptions": [],
        "totals": {"stored_blocks": 2, "engine_steps": 2, "queries": 3, "hits": 0, "evictions": 0},
    }
    return {
        "params": {"mode": "batched", "block_size": 2, "num_blocks": 6},
        "actions": [],
        "requests": [{"id": "a", "step": 0, "token_ids": [1, 2, 3], "output_ids": [7, 8]}],
        "expected": {
            **expected,
            "kv_events": [["S", 0, ["a:0"], None], ["S", 1, ["a:1"], "a:0"]],
            "final_free_queue": [[3, None], [4, None], [5, None], [2, "a:1"], [1, "a:0"]],
            "finish_order": ["a"],
        },
        # the second output is known when a third step, with nothing to do, has been scheduled; two more drain the queue
        "expected_async_scheduling": {**expected, "totals": {**expected["totals"], "engine_steps": 5}},  # type: ignore[dict-item]
    }


def write(path: Path, case: object) -> str:
    path.write_text(json.dumps(case))
    return str(path)


def put(case: Json, path: list[str | int], value: object) -> Json:
    target: Any = case
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return case


def test_vectors_worked_out_by_hand_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [write(tmp_path / "h.json", hash_vectors()), write(tmp_path / "s.json", sizing_vectors())]
    assert main(names) == 0
    assert capsys.readouterr().out == f"agree   {names[0]}\nagree   {names[1]}\n2 of 2 agree\n"


def test_a_batched_case_has_a_line_for_asynchronous_scheduling(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = write(tmp_path / "b.json", batched())
    assert main([name]) == 0
    assert capsys.readouterr().out == (
        f"agree   {name}\nasync   agree   {name}\n1 of 1 agree, 1 of 1 with asynchronous scheduling\n"
    )


def test_an_asynchronous_difference_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = put(batched(), ["expected_async_scheduling", "totals", "queries"], 4)
    name = write(tmp_path / "b.json", case)
    assert main([name]) == 1
    assert capsys.readouterr().out == (
        f"agree   {name}\nasync   differ  {name}: totals: queries is 3, vLLM has 4\n"
        "1 of 1 agree, 0 of 1 with asynchronous scheduling\n"
    )


FALSEHOODS: list[tuple[Callable[[], Json], list[str | int], object, str]] = [
    (hash_vectors, ["vectors", 0, "none_hash"], "00", "vectors[0] (xxhash_cbor, plain): none_hash is 1ebe"),
    (hash_vectors, ["vectors", 0, "block_hashes", 1], "00", "vectors[0] (xxhash_cbor, plain): block_hashes is"),
    (hash_vectors, ["vectors", 0, "event_int64", 1], 0, "vectors[0] (xxhash_cbor, plain): event_int64 is"),
    (hash_vectors, ["vectors", 0, "variant"], "lora", "vectors[0] (xxhash_cbor, lora): block_hashes is"),
    (hash_vectors, ["vectors", 0, "variant"], "cache_salt=s", "vectors[0] (xxhash_cbor, cache_salt=s): block_hashes"),
    (hash_vectors, ["vectors", 0, "seed"], "default (unset)", "vectors[0] (xxhash_cbor, plain): none_hash is"),
    (hash_vectors, ["token_ids", 0], 1, "vectors[0] (xxhash_cbor, plain): block_hashes is"),
    (sizing_vectors, ["rows", 0, "bytes_per_block"], 3072, "rows[0] (toy): bytes_per_block is 1536, vLLM has 3072"),
    (sizing_vectors, ["rows", 0, "num_gpu_blocks"], 11, "rows[0] (toy): num_gpu_blocks is 10, vLLM has 11"),
    (sizing_vectors, ["rows", 0, "max_concurrency"], 3.0, "rows[0] (toy): max_concurrency is 2.5, vLLM has 3.0"),
]


def test_one_false_vector_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for make, path, value, difference in FALSEHOODS:
        name = write(tmp_path / "v.json", put(make(), path, value))
        assert main([name]) == 1
        output = capsys.readouterr().out
        assert output.startswith(f"differ  {name}: {difference}")
        assert output.endswith("\n0 of 1 agree\n")


BROKEN: list[Json] = [
    {"kind": "hash_vectors"},
    {"kind": "sizing_vectors", "rows": [{}]},
    {"kind": ["hash_vectors"]},
    {"kind": "weather"},
    put(hash_vectors(), ["vectors", 0, "algo"], "md5"),
    put(hash_vectors(), ["vectors", 0, "seed"], "random"),
    put(hash_vectors(), ["block_size"], 0),
    put(hash_vectors(), ["token_ids", 0], "x"),
    put(sizing_vectors(), ["rows", 0, "dtype"], "torch.int4"),
    put(batched(), ["expected_async_scheduling"], []),
    put(batched(), ["expected_async_scheduling", "requests"], 3),
]


def test_malformed_vectors_are_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for case in BROKEN:
        name = write(tmp_path / "v.json", case)
        assert main([name]) == 2
        *agree, line, summary = capsys.readouterr().out.splitlines()
        assert line.startswith(f"refused {name}: ")
        assert len(agree) == summary.count("1 of 1 agree")


def test_a_row_that_is_refused_hides_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vectors = hash_vectors()
    [good] = vectors["vectors"]
    vectors["vectors"] = [{**good, "seed": "random"}, good]
    name = write(tmp_path / "v.json", vectors)
    assert main([name]) == 2
    assert f"refused {name}: vectors[0] (xxhash_cbor, plain): unknown seed `random`" in capsys.readouterr().out
    vectors["vectors"][1] = {**good, "none_hash": "00"}
    assert main([write(tmp_path / "v.json", vectors)]) == 1
    assert f"differ  {name}: vectors[1] (xxhash_cbor, plain): none_hash is" in capsys.readouterr().out
