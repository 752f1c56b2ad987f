"""How a server is configured, from what it answers and from recordings; and each fault of a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvtool.errors import KvtoolError
from kvtool.measure.servers.http_exchange import ServerConnection, ServerError
from kvtool.measure.servers.server_address import server_address
from kvtool.measure.servers.server_facts import ServerFacts, ask_server, kept_info, recorded_facts
from tests.measure.servers.made_metrics import vllm_metrics
from tests.measure.servers.metrics_server import Answer, Page, always, ok, pages, serving
from tests.measure.servers.recordings import recording

for _needed in ("httpx", "prometheus_client"):
    pytest.importorskip(_needed, reason="the extra `live` is not installed")

KEY = "sk-secret-of-a-test"
MODELS = json.dumps(
    {
        "data": [
            {"id": "a", "parent": "m", "root": "x"},
            {"id": "m", "parent": None, "root": "o/n", "max_model_len": 8192},
        ]
    }
)
ALONE = json.dumps({"data": [{"id": "m", "parent": None, "root": "tekken", "max_model_len": 8192}]})
INFO = json.dumps(
    {
        "vllm_config": {
            "cache_config": {"block_size": 32},
            "scheduler_config": {
                "max_num_batched_tokens": 2048,
                "max_num_seqs": 128,
                "async_scheduling": False,
                "policy": "priority",
            },
        }
    }
)


_DEFAULT_SCHEDULER = {
    "enable_chunked_prefill": True,
    "policy": "fcfs",
    "watermark": 0.0,
    "long_prefill_token_threshold_adaptive": False,
    "scheduler_reserve_full_isl": True,
    "prefill_schedule_interval": 1,
    "tensor_parallel": 1,
}


def _asked(answer: Answer, *, timeout: float = 5.0) -> ServerFacts:
    with serving(answer) as server, ServerConnection(server_address(server.url), timeout=timeout) as connection:
        return ask_server(connection)


def server_pages(**changed: str) -> dict[str, str | bytes]:
    found = {
        "/metrics": vllm_metrics(),
        "/version": '{"version": "0.32.0"}',
        "/v1/models": ALONE,
        "/server_info": INFO,
    }
    return {
        path: body for path, body in {**found, **{f"/{key}": value for key, value in changed.items()}}.items() if body
    }


def test_a_recording_says_how_its_server_was_configured() -> None:
    for folder in ["eviction", "concurrent", "sequential", "own-prompts"]:
        facts = recorded_facts(recording(folder))
        small = folder in ("eviction", "concurrent")
        assert facts.options() == {
            "block_size": 32,
            "num_gpu_blocks": 400 if small else 32_768,
            "enable_prefix_caching": True,
            "hash_algo": "sha256_cbor" if small else "sha256",
            "kv_cache_dtype": "auto",
            "max_model_len": 8192 if small else 16_384,
            "max_num_batched_tokens": 2048,
            "max_num_seqs": 128,
            "async_scheduling": False,
            "release": "0.32",
            **_DEFAULT_SCHEDULER,
        }
        assert facts.capacity == (399 if small else 32_767)
        assert (facts.version, facts.model, facts.refused, facts.notes) == ("0.32.0", "m", (), ())
        facts.check()


def test_a_recording_without_a_word_on_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KvtoolError, match="does not say how the server was configured"):
        recorded_facts(tmp_path)


def test_a_server_is_asked_and_each_fact_has_its_place() -> None:
    facts = _asked(pages(server_pages()))
    assert {name: fact.said_by for name, fact in facts.facts.items() if name == "tokenizer" or not fact.assumed} == {
        "server": "/metrics",
        "version": "/version",
        "release": "/version",
        "model_name": "/v1/models",
        "tokenizer": "assumed",
        "block_size": "/metrics",
        "num_gpu_blocks": "/metrics",
        "enable_prefix_caching": "/metrics",
        "hash_algo": "/metrics",
        "kv_cache_dtype": "/metrics",
        "max_model_len": "/v1/models",
        "max_num_batched_tokens": "/server_info",
        "max_num_seqs": "/server_info",
        "async_scheduling": "/server_info",
        "policy": "/server_info",
    }
    assert facts.date is not None
    assert facts.notes == ()
    assert facts.value("policy") == "priority"


@pytest.mark.parametrize(
    ("root", "taken"),
    [
        *(("o/n", True), ("model", True), ("empty", False), ("nowhere", False)),
        *(("/models/m", False), ("./o", False), ("a/b/c", False)),
    ],
)
def test_the_tokenizer_is_the_model_where_it_can_be_found_from_here(
    root: str, taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("model", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "model" / "tokenizer.json").write_text("{}")
    models = json.dumps({"data": [{"id": "m", "root": root}]})
    facts = _asked(pages(server_pages(**{"v1/models": models})))
    assert facts.value("tokenizer") == (root if taken else None)


def test_a_recording_keeps_drafts_and_no_path() -> None:
    drafts = {"method": "eagle3", "num_speculative_tokens": 2, "model": "/srv/secret", "disable_eagle_block_drop": None}
    config = {
        "scheduler_config": {"policy": "fcfs"},
        "model_config": {"model": "/srv/secret"},
        "speculative_config": drafts,
    }
    assert kept_info({"vllm_config": config}) == {
        "vllm_config": {
            "scheduler_config": {"policy": "fcfs"},
            "speculative_config": {"method": "eagle3", "num_speculative_tokens": 2},
        }
    }
    for hostile in (None, [], {"vllm_config": 3}, {"vllm_config": {}}, "text"):
        assert kept_info(hostile) is None


def test_what_a_server_does_not_say_is_assumed() -> None:
    facts = _asked(pages(server_pages(server_info="", version="", **{"v1/models": ""})))
    assumed = {name for name, fact in facts.facts.items() if fact.assumed}
    assert assumed >= {
        "version",
        "release",
        "tokenizer",
        "max_model_len",
        "max_num_batched_tokens",
        "max_num_seqs",
        "async_scheduling",
        "policy",
        "model",
        "kv_cache_size_tokens",
    }
    assert facts.model == "m"
    assert "max_num_seqs" not in facts.options()


def test_what_cannot_be_predicted_is_refused_with_the_reason() -> None:
    for changed, reason in [
        ({"metrics": vllm_metrics(config={"mamba_cache_mode": "all"})}, "`mamba_cache_mode` is all"),
        ({"metrics": vllm_metrics(more='vllm:lora_requests_info{max_lora="2"} 1\n')}, "LoRA adapters"),
        ({"v1/models": MODELS}, "LoRA adapters"),
        (
            {"server_info": json.dumps({"vllm_config": {"parallel_config": {"decode_context_parallel_size": 4}}})},
            "4 accel",
        ),
        ({"metrics": "sglang:prompt_tokens_total 1\n"}, "it is SGLang"),
    ]:
        facts = _asked(pages(server_pages(**changed)))
        with pytest.raises(KvtoolError, match=reason):
            facts.check()


def test_signs_of_several_groups_are_seen_without_the_model() -> None:
    for changed, sign in [
        ({"metrics": vllm_metrics(config={"sliding_window": "4096"})}, "a sliding window of 4096 tokens"),
        ({"metrics": vllm_metrics(config={"effective_attention_block_size": "544"})}, "as with hybrid models"),
        ({"metrics": vllm_metrics(config={"mamba_block_size": "544"})}, "its layers have states"),
        ({"metrics": vllm_metrics(more="vllm:spec_decode_num_drafts_total 1\n")}, "speculative decoding"),
        (
            {"server_info": json.dumps({"vllm_config": {"speculative_config": {"method": "mine"}}})},
            "speculative decoding",
        ),
        ({"metrics": vllm_metrics(config={"kv_cache_size_tokens": "2105"})}, "400 blocks of 32 hold 2,105 tokens"),
        ({"metrics": vllm_metrics(config={"kv_cache_size_tokens": "12800"})}, None),
        ({}, None),
    ]:
        facts = _asked(pages(server_pages(**changed)))
        facts.check()
        assert (facts.several is None) if sign is None else (sign in (facts.several or ""))


def test_answers_of_other_shapes_say_nothing() -> None:
    for hostile in ['"text"', "[]", '{"data": 3}', '{"data": [3, {"id": "\\u001b[2J", "root": 7}]}', "{"]:
        facts = _asked(pages(server_pages(server_info=hostile, version=hostile, **{"v1/models": hostile})))
        assert facts.version is None
        assert facts.model == "m"
        assert facts.value("block_size") == 32


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ((401, {}, b"{}"), r"requires an API key \(HTTP 401\)"),
        ((403, {}, b"{}"), r"denies access \(HTTP 403\)"),
        ((404, {}, b"{}"), r"has no such page \(HTTP 404\)"),
        ((429, {"Retry-After": "7"}, b""), r"is overloaded \(HTTP 429\)"),
        ((500, {}, b"boom"), r"failed \(HTTP 500\)"),
        ((418, {}, b""), r"refuses \(HTTP 418\)"),
        ((302, {"Location": "http://other.example/metrics"}, b""), "redirects to another host; kvtool does not follow"),
        ((302, {"Location": "/metrics"}, b""), "redirects more than 3 times"),
        ((200, {}, b"x" * 10_000_001), "answers with more than 10 MB"),
    ],
)
def test_faults_of_a_server_are_a_sentence_and_exit_4(
    page: Page, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVTOOL_API_KEY", KEY)
    with pytest.raises(ServerError, match=message) as raised:
        _asked(always(page))
    assert raised.value.exit_code == 4
    assert KEY not in f"{raised.value.message} {raised.value.hint}"
    if page[0] == 429:
        assert raised.value.retry_after == 7
        assert raised.value.passes


def test_a_server_that_hangs_is_left_after_the_timeout() -> None:
    with pytest.raises(ServerError, match=r"did not answer in 0.2 s") as raised:
        _asked(always(None), timeout=0.2)
    assert raised.value.passes


def test_a_server_that_is_not_there_is_said_so() -> None:
    with serving(pages({})) as server:
        gone = server.url
    with pytest.raises(ServerError, match="does not answer"), ServerConnection(server_address(gone)) as connection:
        ask_server(connection)


def test_text_that_is_no_metrics_is_a_sentence() -> None:
    with pytest.raises(KvtoolError, match="not a metric in the Prometheus format"):
        _asked(pages({"/metrics": "<html>\n"}))


def test_a_redirect_on_the_same_host_is_followed() -> None:
    def answer(path: str, before: int) -> Page:
        return ok(vllm_metrics()) if path == "/metrics/" else (307, {"Location": f"{path}/"}, b"")

    with pytest.raises(ServerError, match="redirects more than"):
        _asked(answer)  # /version/ leads to /version//, and so on
    facts = _asked(lambda path, before: answer(path, before) if "metrics" in path else (404, {}, b""))
    assert facts.value("block_size") == 32


def test_the_key_goes_into_the_header_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another")
    with serving(pages(server_pages())) as server, ServerConnection(server_address(server.url)) as connection:
        ask_server(connection)
        assert not any("authorization" in headers for headers in server.headers)  # that key is for its owner's host
    monkeypatch.setenv("KVTOOL_API_KEY", KEY)
    with serving(pages(server_pages())) as server, ServerConnection(server_address(server.url)) as connection:
        ask_server(connection)
        assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
        assert not any(KEY in path for path in server.asked)
    assert server_address("https://api.openai.com/v1").headers({"OPENAI_API_KEY": "sk-x"}) == {
        "Authorization": "Bearer sk-x"
    }
    with pytest.raises(KvtoolError, match="KVTOOL_API_KEY is not a valid API key") as raised:
        server_address("http://h").headers({"KVTOOL_API_KEY": f"{KEY}\r\nHost: x"})
    assert KEY not in raised.value.message


def test_a_url_is_taken_as_users_write_it() -> None:
    for url, root in [
        ("http://localhost:8000", "http://localhost:8000"),
        ("http://localhost:8000/", "http://localhost:8000"),
        ("http://localhost:8000/v1/", "http://localhost:8000"),
        ("https://h/base/metrics", "https://h/base"),
        ("HTTP://h:1/v1", "http://h:1"),
        ("http://[::1]:8000/metrics", "http://[::1]:8000"),
    ]:
        assert server_address(url).root == root


def test_what_is_no_url_of_a_server_is_refused_without_its_secret() -> None:
    for url in [
        *("localhost:8000", "ftp://h", "http://", "http://h:x", "http://h:99999", "http://a b/", "http://h/\x1b[2J"),
        *("http://a..b/", f"http://{'a' * 64}.example/"),
        *(f"http://u:{KEY}@h/", f"http://h/metrics?key={KEY}", f"http://h/#{KEY}", "http://[::1/"),
    ]:
        with pytest.raises(KvtoolError) as raised:
            server_address(url)
        assert KEY not in f"{raised.value.message} {raised.value.hint}"


def test_only_the_same_host_is_the_same_origin() -> None:
    here = server_address("http://h:8000")
    assert here.same_origin("http://h:8000/x")
    assert here.same_origin("https://h/x")
    for other in ("http://h:8001/", "http://g:8000/", "ftp://h:8000/", "http://h:x/", "http://h.evil.example:8000/"):
        assert not here.same_origin(other)
    assert not server_address("https://h").same_origin("http://h")
