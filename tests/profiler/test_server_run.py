"""`kvtool profile --server`: the configuration of a server stands where no flag says it, and the report says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run
from tests.files import write
from tests.measure.servers.made_metrics import vllm_metrics
from tests.measure.servers.made_models import config_folder
from tests.measure.servers.metrics_server import pages, serving
from tests.measure.servers.test_server_facts import server_pages

for _needed in ("httpx", "prometheus_client"):
    pytest.importorskip(_needed, reason="the extra `live` is not installed")

WINDOWS_INFO = json.dumps(
    {
        "vllm_config": {
            "scheduler_config": {"max_num_batched_tokens": 2048, "max_num_seqs": 128, "async_scheduling": False},
            "parallel_config": {"tensor_parallel_size": 1},
        }
    }
)
RUN = ("--dry-run", "--no-advice", "--json", "--no-config")


@pytest.fixture(autouse=True)
def workload(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, bytes_json: str) -> None:
    """A workload that says of the engine what the server says otherwise."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KVTOOL_TOKENIZER", bytes_json)
    write(
        "w.yaml",
        "version: 1\nengine: {block_size: 8, max_num_seqs: 7, concurrency: 2}\n"
        "groups: [{name: a, text: 'What all of them begin with, and it is long enough for blocks. {{ n }}', requests: 6}]\n"
        "vars: {n: {counter: 1}}\n",
    )


def _profile(url: str, *flags: str, capsys: pytest.CaptureFixture[str]) -> Any:
    assert run(["profile", "w.yaml", "--server", url, *RUN, *flags]) == 0
    return json.loads(capsys.readouterr().out)


def test_no_flag_is_needed_and_each_fact_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(pages(server_pages())) as server:
        report = _profile(server.url, capsys=capsys)
        assert {path.split("?")[0] for path in server.asked} == {"/metrics", "/version", "/v1/models", "/server_info"}
    found = report["config"]
    names = ("block_size", "capacity_blocks", "max_model_len", "max_num_batched_tokens", "max_num_seqs", "concurrency")
    assert {name: found[name] for name in names} == {
        "block_size": 32,
        "capacity_blocks": 399,
        "max_model_len": 8192,
        "max_num_batched_tokens": 2048,
        "max_num_seqs": 128,
        "concurrency": 2,  # what no server says is the workload's
    }
    notes = " ".join(report["notes"])
    assert f"as {server.url} (vLLM 0.32.0, serves m): " in notes
    assert "num_gpu_blocks 400" in notes
    assert "max_num_seqs 128, async_scheduling off, policy priority (/server_info)" in notes
    assert "full attention in all layers (change with --model)" in notes
    assert report["config"]["hash_algo"] == "native"


def test_what_a_flag_says_goes_before_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(pages(server_pages())) as server:
        report = _profile(server.url, "--block-size", "16", "--capacity", "70", "--max-num-seqs", "3", capsys=capsys)
    found = report["config"]
    assert (found["block_size"], found["capacity_blocks"], found["max_num_seqs"]) == (16, 70, 3)
    assert "num_gpu_blocks" not in report["notes"][0]


def test_what_the_server_does_not_say_is_assumed_and_said_so(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(pages(server_pages(server_info=""))) as server:
        report = _profile(server.url, capsys=capsys)
    assert report["config"]["max_num_batched_tokens"] == 8192
    assert report["config"]["max_num_seqs"] == 7  # the workload's own word
    assumed = next(note for note in report["notes"] if note.startswith("assumed"))
    assert "max_num_batched_tokens 8,192" in assumed
    assert "async_scheduling off" in assumed


def test_hashes_are_the_servers_where_events_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(pages(server_pages())) as server:
        report = _profile(server.url, "--events", "events.jsonl", capsys=capsys)
    assert report["config"]["hash_algo"] == "sha256_cbor"


def test_a_server_without_prefix_caching_caches_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(pages(server_pages(metrics=vllm_metrics(config={"enable_prefix_caching": "False"})))) as server:
        report = _profile(server.url, capsys=capsys)
    assert report["config"]["enable_prefix_caching"] is False
    assert report["totals"]["hit_rate"] == 0


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (("--offline",), 2, "--server needs the network, and --offline forbids it"),
        (("--provider", "openai"), 2, "describes another cache than --server"),
        (("--replicas", "2"), 2, "describes another cache than --server"),
    ],
)
def test_what_does_not_go_together_is_told(
    flags: tuple[str, ...], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(pages(server_pages())) as server:
        assert run(["profile", "w.yaml", "--server", server.url, *RUN, *flags]) == code
        assert server.asked == []
    assert words in " ".join(capsys.readouterr().err.split())


def test_a_server_that_cannot_be_predicted_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(pages(server_pages(metrics=vllm_metrics(config={"sliding_window": "4096"})))) as server:
        assert run(["profile", "w.yaml", "--server", server.url, *RUN]) == 2
    assert "sliding window of 4096 tokens" in " ".join(capsys.readouterr().err.split())
    assert run(["profile", "w.yaml", "--server", server.url, *RUN]) == 4
    assert "does not answer" in " ".join(capsys.readouterr().err.split())


def _windows(**changed: str) -> dict[str, str | bytes]:
    """The pages of a server with a Gemma-like model, whose folder is here."""
    row = {"id": "m", "root": config_folder(Path("gemma")), "parent": None, "max_model_len": 2048}
    labels = {"kv_cache_size_tokens": "2105", "sliding_window": "None"}
    found = {
        "metrics": vllm_metrics(config=labels),
        "v1/models": json.dumps({"data": [row]}),
        "server_info": WINDOWS_INFO,
    }
    return server_pages(**{**found, **changed})


def test_the_servers_model_is_followed_as_if_a_flag_named_it(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(pages(_windows())) as server:
        report = _profile(server.url, capsys=capsys)
    config = report["config"]
    assert (config["model"], config["model_from"], config["tensor_parallel"]) == ("gemma", "server", 1)
    assert config["kv_cache_groups"].count("sliding 32") == 5
    assert config["prefix_cache_retention_interval"] == 0
    assert any("6 KV cache groups" in note for note in report["notes"])
    asked = ["profile", "w.yaml", "-m", "gemma", "-b", "32", "--num-gpu-blocks", "400", "--max-num-seqs", "128"]
    assert run([*asked, "--max-model-len", "2048", "--max-num-batched-tokens", "2048", *RUN]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert report["totals"] == alone["totals"]


def test_a_server_of_several_groups_and_no_known_model_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = json.dumps({"data": [{"id": "m", "root": "/nowhere/m", "max_model_len": 2048}]})
    with serving(pages(_windows(**{"v1/models": nowhere}))) as server:
        assert run(["profile", "w.yaml", "--server", server.url, *RUN]) == 2
        message = " ".join(capsys.readouterr().err.split())
        assert "the server's model is unknown, and 400 blocks of 32 hold 2,105 tokens" in message
        assert "--model" in message
        report = _profile(server.url, "-m", "gemma", capsys=capsys)
        assert report["config"]["model_from"] == "given"
        assert run(["profile", "w.yaml", "--server", server.url, *RUN, "-m", "gpt-oss-20b"]) == 2
        assert "gpt-oss-20b does not have as much KV cache" in " ".join(capsys.readouterr().err.split())


def test_the_scheduler_of_the_server_is_the_engines(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    from kvtool.profiler.opening import Opened

    seen: list[Any] = []
    made = Opened.profiler
    monkeypatch.setattr(
        Opened, "profiler", lambda self, *a, **k: seen.append(self.planned.plan.engine) or made(self, *a, **k)
    )
    steps = {
        "policy": "priority",
        "watermark": 0.25,
        "long_prefill_token_threshold": 64,
        "max_num_active_seqs": 5,
        "enable_chunked_prefill": False,
        "prefill_schedule_interval": 2,
        "max_num_seqs": 9,
        "max_num_batched_tokens": 4096,
    }
    info = json.dumps({"vllm_config": {"scheduler_config": steps}})
    with serving(pages(server_pages(server_info=info))) as server:
        report = _profile(server.url, capsys=capsys)
    assert {name: getattr(seen[0], name) for name in steps} == steps
    shown = " ".join(report["notes"])
    for said in (
        "watermark 0.25",
        "long_prefill_token_threshold 64",
        "max_num_active_seqs 5",
        "enable_chunked_prefill off",
    ):
        assert said in shown


def test_the_weights_of_the_servers_model_are_not_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(pages(_windows())) as server:
        assert (
            run(["profile", "w.yaml", "--server", server.url, "--measure-budget", "0.2", "--json", "--no-config"]) == 0
        )
    assert json.loads(capsys.readouterr().out)["config"]["measured_model"] == "embedded"
