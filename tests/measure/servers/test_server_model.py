"""The model of a running server: read where it is, checked by the size of the cache, refused where it decides and is unknown."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvtool.accounting.served_cache import ServedCache
from kvtool.engine.engine_error import EngineError
from kvtool.engine.groups.capacity import PlannedPool
from kvtool.engine.groups.model_plan import ServeOptions
from kvtool.engine.model.configs.find_served import find_served, preset_sources
from kvtool.errors import KvtoolError
from kvtool.measure.servers.server_facts import ServerFacts, recorded_facts
from kvtool.measure.servers.server_model import server_model
from tests.conftest import some
from tests.measure.servers.made_metrics import vllm_metrics
from tests.measure.servers.made_models import config_folder

for _needed in ("httpx", "prometheus_client"):
    pytest.importorskip(_needed, reason="the extra `live` is not installed")


def facts_of(
    folder: Path, root: str, *, info: dict[str, Any] | None = None, length: int = 2048, **labels: str
) -> ServerFacts:
    """What a server with that model says."""
    folder.mkdir(exist_ok=True)
    (folder / "metrics_before.txt").write_text(vllm_metrics(config=labels))
    row = {"id": "m", "root": root, "parent": None, "max_model_len": length}
    (folder / "models.json").write_text(json.dumps({"data": [row]}))
    if info is not None:
        (folder / "server_info.json").write_text(json.dumps({"vllm_config": info}))
    return recorded_facts(folder)


def test_a_folder_that_is_here_is_read_and_fits(tmp_path: Path) -> None:
    root = config_folder(tmp_path / "gemma")
    facts = facts_of(tmp_path / "a", root, kv_cache_size_tokens="2105", prefix_cache_retention_interval="None")
    found = server_model(facts, {})
    assert found is not None
    assert (found.name, dict(found.options)) == (root, {"prefix_cache_retention_interval": "none"})


def test_an_unknown_model_with_several_groups_is_refused(tmp_path: Path) -> None:
    facts = facts_of(tmp_path / "a", "/nowhere/mine", kv_cache_size_tokens="2105")
    with pytest.raises(KvtoolError, match=r"model is unknown.*hold 2,105 tokens") as raised:
        server_model(facts, {})
    assert "--model" in (raised.value.hint or "")
    root = config_folder(tmp_path / "gemma")
    found = server_model(facts, {"model": root})
    assert found is not None
    assert found.name == root


def test_an_unknown_model_of_one_group_is_predicted_without_it(tmp_path: Path) -> None:
    assert server_model(facts_of(tmp_path / "a", "/nowhere/mine", kv_cache_size_tokens="12800"), {}) is None


def test_another_model_is_refused_and_a_name_that_is_no_evidence_is_left(tmp_path: Path) -> None:
    windows = facts_of(tmp_path / "a", "/nowhere/mine", kv_cache_size_tokens="2105")
    for name in ("llama-3.1-8b", "gpt-oss-20b"):
        with pytest.raises(KvtoolError, match=f"{name} does not"):
            server_model(windows, {"model": name})
    one_group = facts_of(tmp_path / "b", "openai/gpt-oss-20b", kv_cache_size_tokens="12800", length=8192)
    off = server_model(one_group, {})
    assert off is not None  # its server may have turned groups off, as connectors do
    assert off.options["disable_hybrid_kv_cache_manager"] is True
    told = facts_of(
        tmp_path / "c",
        "openai/gpt-oss-20b",
        kv_cache_size_tokens="12800",
        length=8192,
        info={"scheduler_config": {"disable_hybrid_kv_cache_manager": False}},
    )
    assert server_model(told, {}) is None


def test_a_config_that_cannot_be_read_is_a_sentence_where_it_decides(tmp_path: Path) -> None:
    for text in ["", "[]", "{", "\0", '{"architectures": 3}', '{"num_hidden_layers": 1e99}']:
        root = config_folder(tmp_path / "gemma")
        (tmp_path / "gemma" / "config.json").write_text(text)
        assert server_model(facts_of(tmp_path / "a", root, kv_cache_size_tokens="12800"), {}) is None
        with pytest.raises(KvtoolError, match="the server's model cannot be followed: "):
            server_model(facts_of(tmp_path / "b", root, kv_cache_size_tokens="2105"), {})


def test_drafts_of_an_unknown_method_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    facts_of(folder, "meta-llama/Llama-3.1-8B-Instruct", kv_cache_size_tokens="12800")
    metrics = (folder / "metrics_before.txt").read_text()
    (folder / "metrics_before.txt").write_text(metrics + "vllm:spec_decode_num_drafts_total 1\n")
    facts = recorded_facts(folder)
    with pytest.raises(KvtoolError, match="speculative decoding of an unknown method"):
        server_model(facts, {})
    given = '{"method": "eagle3", "num_speculative_tokens": 2}'
    found = server_model(facts, {"speculative_config": given})
    assert found is not None


@pytest.mark.parametrize("seed", some(range(25), 5))
def test_any_model_is_known_by_the_size_of_its_cache(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    names = sorted(preset_sources())
    name = chance.choice(names)
    info = {
        "scheduler_config": {
            "max_num_batched_tokens": chance.choice((512, 2048, 8192)),
            "async_scheduling": chance.random() < 0.5,
        },
        "parallel_config": {"tensor_parallel_size": chance.choice((1, 2))},
    }
    steps, parallel = info["scheduler_config"], info["parallel_config"]
    length = chance.choice((4096, 10_000, 40_000))
    options = ServeOptions(
        block_size=chance.choice((None, 16, 32)),
        tensor_parallel=parallel["tensor_parallel_size"],
        max_model_len=length,
        max_num_batched_tokens=steps["max_num_batched_tokens"],
        concurrent_batches=2 if steps["async_scheduling"] else 1,
        enable_prefix_caching=True,
    )
    served = ServedCache.of(find_served(name), options)
    blocks = chance.randrange(500, 100_000)
    labels = {
        "block_size": str(served.planned.plan.cache_block_size),
        "effective_attention_block_size": "None",
        "num_gpu_blocks": str(blocks),
        "kv_cache_size_tokens": str(PlannedPool(served.planned.plan, blocks).tokens(length)),
    }
    told = chance.random() < 0.5
    facts = facts_of(tmp_path / "a", preset_sources()[name], info=info if told else None, length=length, **labels)
    found = server_model(facts, {} if told else {"tensor_parallel": parallel["tensor_parallel_size"]})
    assert found is not None
    assert found.name == name
    as_reported = replace(options, block_size=served.planned.plan.cache_block_size)
    for other in chance.sample(names, 5):
        try:
            planned = ServedCache.of(find_served(other), as_reported).planned.plan
        except EngineError:
            continue
        same = planned.cache_block_size == served.planned.plan.cache_block_size
        tokens = PlannedPool(planned, blocks).tokens(length)
        if not told or (same and abs(tokens - int(labels["kv_cache_size_tokens"])) <= 1):
            continue
        if facts.several is not None:  # a server that shows one group may have turned groups off
            with pytest.raises(KvtoolError, match="does not have as much"):
                server_model(facts, {"model": other})
