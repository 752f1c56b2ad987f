"""Causes that counters and configurations show: each with the server that has it, and not with one that has not."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client", reason="needs the extra `live`")
pytest.importorskip("msgspec", reason="needs the extra `live`")

from kvtool.measure.servers.causes.asking import ask_servers
from kvtool.measure.servers.causes.counter_causes import counter_causes
from kvtool.measure.servers.causes.server_evidence import AskedServer, ServerEvidence
from kvtool.measure.servers.metrics.counters import scrape_of
from kvtool.measure.servers.metrics.exposition import parse_exposition
from kvtool.measure.servers.server_facts import recorded_facts
from kvtool.results.documents.server_cause import ServerCause
from tests.measure.servers.made_metrics import CREATED, vllm_metrics

SIZES = "vllm:request_prompt_tokens"


def server(text: str, before: str | None = None) -> AskedServer:
    """A server whose /metrics has this text, and before the span another one."""
    scrapes = [
        None if each is None else scrape_of(parse_exposition(each, shown="f"), shown="f") for each in (before, text)
    ]
    return AskedServer("http://h", before=scrapes[0], after=scrapes[1])


def causes(*servers: AskedServer, router: int | None = None) -> dict[str, ServerCause]:
    """By their names; each is there once."""
    found = list(counter_causes(ServerEvidence(servers, router_block_size=router), costly=0.05))
    assert len({each.cause for each in found}) == len(found)
    return {each.cause: each for each in found}


def sizes(counts: dict[str, int], total: int) -> str:
    """A histogram of prompt lengths."""
    labels = 'engine="0",model_name="m"'
    lines = [f"# TYPE {SIZES} histogram"]
    lines += [f'{SIZES}_bucket{{{labels},le="{bound}"}} {count}.0' for bound, count in counts.items()]
    return "\n".join(
        [*lines, f"{SIZES}_sum{{{labels}}} {total}.0", f"{SIZES}_count{{{labels}}} {counts['+Inf']}.0", ""]
    )


def test_a_server_without_any_of_them_has_none() -> None:
    config = {"num_gpu_blocks": "400", "kv_cache_size_tokens": "12768"}
    text = vllm_metrics(config=config, more=sizes({"20": 0, "50": 0, "5000": 9, "+Inf": 9}, 8000))
    assert causes(server(text), router=32) == {}


def test_caching_that_is_off_takes_all_prompt_tokens() -> None:
    found = causes(server(vllm_metrics(queries=0, cached=0, config={"enable_prefix_caching": "False"})))
    assert found["caching off"].tokens == 1000
    assert found["caching off"].basis == "counted"
    assert "--no-enable-prefix-caching" in found["caching off"].change
    assert "request fields" not in found


def test_prompts_of_less_than_a_block_cannot_hit() -> None:
    """A bucket with bounds on both sides of the block has prompts that may be short."""
    for short, near, basis, tokens in [
        (9, 9, "counted", 270),
        (4, 4, "at most", 80),
        (4, 5, "at most", 112),
        (4, 9, "possible", 240),
        (0, 3, "possible", 96),
    ]:
        more = sizes({"20": short, "50": near, "500": 9, "+Inf": 9}, 270)
        found = causes(server(vllm_metrics(more=more, cached=30)))["short prompts"]
        assert (found.basis, found.tokens) == (basis, tokens)
        assert "a block of 32" in found.why


def test_prompts_that_are_never_looked_up_are_requests_that_read_no_cache() -> None:
    found = causes(server(vllm_metrics(queries=300, cached=100)))["request fields"]
    assert (found.basis, found.tokens) == ("counted", 700)


def test_many_preemptions_are_a_fact_and_evictions_only_possible() -> None:
    assert causes(server(vllm_metrics(preemptions=3)))["capacity"].basis == "shown"
    room = 399 * 32
    for computed, possible in ((room, False), (room + 500, True)):
        found = causes(server(vllm_metrics(prompt=computed, cached=0, generated=0)))
        assert ("capacity" in found) is possible
    assert (found["capacity"].basis, found["capacity"].tokens) == ("possible", 500)


def test_a_few_preemptions_neither_prove_the_cause_nor_drop_the_bound_of_evictions() -> None:
    rng = random.Random(5)
    for _ in range(50):
        prompt, longest, preemptions = rng.randint(1, 9) * 100_000, rng.randint(1, 20) * 100, rng.randint(1, 60)
        text = vllm_metrics(
            prompt=prompt, cached=0, generated=0, preemptions=preemptions, more=sizes({str(longest): 9, "+Inf": 9}, 900)
        )
        found = causes(server(text))["capacity"]
        again, evicted = preemptions * longest, prompt - 399 * 32
        assert found.basis == ("shown" if again >= 0.05 * prompt else "possible")
        assert found.tokens == min(prompt, again + evicted)
    fits = causes(server(vllm_metrics(preemptions=1, more=sizes({"20": 9, "+Inf": 9}, 90))))["capacity"]
    assert (fits.basis, fits.tokens) == ("at most", 20)


def test_no_other_cause_takes_tokens_of_a_server_without_a_cache() -> None:
    off = {"enable_prefix_caching": "False", "sliding_window": "128"}
    text = vllm_metrics(prompt=900_000, queries=0, cached=0, preemptions=400, config=off)
    assert list(causes(server(text))) == ["caching off"]
    on = vllm_metrics(prompt=900_000, cached=0)
    assert set(causes(server(text), server(on))) == {"caching off", "capacity"}


def test_the_size_that_a_server_reports_is_its_capacity() -> None:
    found = causes(server(vllm_metrics(prompt=5000, cached=0, generated=0, config={"kv_cache_size_tokens": "2105"})))
    assert found["capacity"].tokens == 5000 - 2105
    assert "2,105" in found["capacity"].why


def test_files_of_one_process_are_its_counters_over_time(tmp_path: Path) -> None:
    texts = [vllm_metrics(prompt=1000 * (at + 1), cached=100 * at) for at in range(3)]
    texts.append(vllm_metrics(created=CREATED + 9, prompt=50, cached=0))
    paths = [tmp_path / f"{at}.txt" for at in range(4)]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    random.Random(3).shuffle(paths)
    evidence = ask_servers([str(path) for path in paths], seconds=None)
    assert sorted(server.counted.get("prompt") or 0 for server in evidence.servers) == [50, 2000]


def test_a_tier_that_never_has_anything_and_a_router_with_other_blocks() -> None:
    tier = causes(server(vllm_metrics(external_queries=600)))["chunk size"]
    assert (tier.basis, tier.tokens) == ("at most", 600)
    assert "chunk size" not in causes(server(vllm_metrics(external=200)))
    router = causes(server(vllm_metrics()), router=256)["chunk size"]
    assert router.basis == "shown"
    assert "256" in router.why
    assert "32" in router.change
    smallest = {
        "block_size": "4",
        "effective_attention_block_size": "256",
    }  # that of compressed states, as in DeepSeek V4
    assert "chunk size" not in causes(server(vllm_metrics(config=smallest)), router=256)


def test_a_restart_and_several_servers_are_facts() -> None:
    now = vllm_metrics(created=CREATED + 60, prompt=10, cached=0)
    assert causes(server(now, vllm_metrics()))["restart"].basis == "shown"
    older = vllm_metrics(created=CREATED - 60)
    assert causes(server(older, vllm_metrics()))["several servers"].basis == "shown"


def test_several_caches_may_scatter_prefixes() -> None:
    found = causes(server(vllm_metrics()), server(vllm_metrics()))["routing"]
    assert (found.basis, found.tokens) == ("possible", 1200)
    assert "blocks of 32 tokens" in found.change
    engines = vllm_metrics() + vllm_metrics(engine="1")
    assert "X-data-parallel-rank" in causes(server(engines))["routing"].change


def test_a_model_with_several_kinds_of_layers_keeps_less() -> None:
    """A release that reports no interval has no flag for it, and keeps all of a prompt."""
    for config in [{"sliding_window": "128"}, {"mamba_block_size": "784"}, {"kv_cache_size_tokens": "2105"}]:
        for interval, ends in ((None, False), ("None", False), ("64", False), ("0", True)):
            said = config if interval is None else {**config, "prefix_cache_retention_interval": interval}
            found = causes(server(vllm_metrics(config=said)))["model groups"]
            assert found.basis == "possible"
            assert ("only the end of each prompt" in found.why) is ends
            assert (
                f"--prefix-cache-retention-interval {config.get('mamba_block_size', '32')}:" in found.change
            ) is ends


def test_hits_inside_of_a_block_end_at_the_unit_that_the_server_reports() -> None:
    for unit in ("prefix_match_unit", "cache_hit_alignment_tokens"):
        config = {"block_size": "784", "mamba_block_size": "784", unit: "16"}
        assert server(vllm_metrics(config=config)).hit_unit == 16


def test_states_set_the_block_that_a_flag_cannot_shorten() -> None:
    more = sizes({"20": 9, "+Inf": 9}, 270)
    for states, wrong in ((None, True), ("784", False)):
        text = vllm_metrics(more=more, config={} if states is None else {"mamba_block_size": states})
        assert ("--block-size 16" in causes(server(text))["short prompts"].change) is wrong


def test_hidden_counters_give_no_cause() -> None:
    assert causes(AskedServer("http://h", trouble="hidden")) == {}


def test_the_chunk_of_a_connector_has_to_be_whole_blocks(tmp_path: Path) -> None:
    for extra, bad in [({"lmcache.chunk_size": 256}, False), ({"chunk_size": "100"}, True), ({"other": 100}, False)]:
        info = {"vllm_config": {"kv_transfer_config": {"kv_connector_extra_config": extra}}}
        for name, text in (
            ("server_info.json", json.dumps(info)),
            ("metrics_before.txt", vllm_metrics()),
            ("models.json", "{}"),
        ):
            (tmp_path / name).write_text(text, encoding="utf-8")
        asked = replace(server(vllm_metrics()), facts=recorded_facts(tmp_path))
        assert ("chunk size" in causes(asked)) is bad
