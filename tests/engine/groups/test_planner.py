"""From layers to groups: recorded plans of vLLM, and each rule by itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvtool.engine.engine_error import EngineError
from kvtool.engine.groups.capacity import PlannedPool
from kvtool.engine.groups.kv_group import CachePlan
from kvtool.engine.groups.layer_spec import AttentionLayer, LayerSpec, MambaLayer
from kvtool.engine.groups.planner import PlanOptions, Speculation, plan_cache
from kvtool.engine.groups.recorded_plan import recorded_layers, recorded_options
from kvtool.engine.kv_dtype import find_kv_dtype
from kvtool.engine.replay import main

RECORDED = Path(__file__).resolve().parents[4] / "shared" / "oracle" / "vllm-0.33-hybrid"
CASES = sorted(RECORDED.glob("h*.json"))
recorded = pytest.mark.skipif(not CASES, reason="no recorded vLLM workloads beside this checkout")
BF16, FP32 = find_kv_dtype("bf16"), find_kv_dtype("fp32")
NOT_PLANNED = ("groups", "coordinator", "cache_block_size")


@recorded
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_recorded_plan_comes_out(path: Path) -> None:
    case = json.loads(path.read_text(encoding="utf-8"))
    params, resolved = case["params"], case["resolved"]
    plan = plan_cache(recorded_layers(params), recorded_options(params))
    wanted = {name: value for name, value in resolved.items() if name not in NOT_PLANNED}
    assert {name: getattr(plan, name) for name in wanted} == wanted
    names = (
        "kind",
        "layers",
        "eagle",
        "spec_id",
        "window",
        "extra_retained",
        "chunk",
        "spec_blocks",
        "ckpt_blocks",
        "ckpt_align",
    )
    for group, want in zip(plan.groups, resolved["groups"], strict=True):
        assert {name: getattr(group, name) for name in names if name in want} == {
            n: want[n] for n in names if n in want
        }
        assert group.block_size == want["block_size"] * (params["dcp"] if want["dcp_sharded"] else 1)
        assert list(group.page_bytes) == want["page_bytes"]
        assert group.mamba_align == (want.get("mode", "align") == "align")


@recorded
def test_all_recorded_sizes_come_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = RECORDED / "sizing_hybrid.json"
    assert main([str(path)]) == 0
    rows = json.loads(path.read_text(encoding="utf-8"))
    assert len(rows["rows"]) == 72
    for name in ("bytes_per_block", "logged_kv_tokens", "scheduler_block_size"):
        wrong = {**rows, "rows": [{**rows["rows"][0], name: rows["rows"][0][name] + 1}]}
        (tmp_path / "wrong.json").write_text(json.dumps(wrong), encoding="utf-8")
        assert main([str(tmp_path / "wrong.json")]) == 1
    assert f"{name} is 16, vLLM has 17" in capsys.readouterr().out


def full(**changes: Any) -> AttentionLayer:
    spec: dict[str, Any] = {
        "kind": "full",
        "block_size": 16,
        "kv_heads": 2,
        "head_size": 64,
        "value_size": 64,
        "dtype": BF16,
    }
    return AttentionLayer(**{**spec, **changes})


def window(tokens: int, **changes: Any) -> AttentionLayer:
    return full(kind="sliding", window=tokens, **changes)


def mla(**changes: Any) -> AttentionLayer:
    return full(kind="mla", kv_heads=1, head_size=576, value_size=0, **changes)


def state(count: int = 512, **changes: Any) -> MambaLayer:
    return MambaLayer(**{"block_size": 16, "states": (((count,), FP32),), **changes})


def planned(*layers: LayerSpec, **options: Any) -> CachePlan:
    return plan_cache(layers, PlanOptions(**options))


def shape(plan: CachePlan) -> list[tuple[str, int, int]]:
    return [(group.kind, group.layers, group.block_size) for group in plan.groups]


def test_plain_attention_is_one_group() -> None:
    plan = planned(*[full()] * 3)
    assert shape(plan) == [("full", 3, 16)]
    assert (plan.bytes_per_block, plan.scheduler_block_size, plan.hit_alignment) == (3 * 16 * 2 * 2 * 128, 16, 16)


def test_layers_without_a_cache_have_no_group() -> None:
    plan = planned()
    assert (plan.groups, plan.bytes_per_block) == ((), 0)
    assert PlannedPool.of(1 << 30, plan).num_blocks == 1


def test_windows_form_groups_as_large_as_the_fewest_layers() -> None:
    """Gemma 3: five windows to one full layer."""
    plan = planned(*([window(64)] * 5 + [full()]) * 2, window(64))
    assert shape(plan) == [("sliding", 2, 16)] * 5 + [("sliding", 1, 16), ("full", 2, 16)]
    assert [group.spec_id for group in plan.groups] == [0] * 6 + [6]


def test_a_few_more_layers_of_a_kind_make_no_further_group() -> None:
    plan = planned(*[window(64), full()] * 3, full(draft=True), speculation=Speculation(method="eagle", tokens=2))
    assert shape(plan) == [("sliding", 3, 16), ("full", 4, 16)]
    assert [group.eagle for group in plan.groups] == [False, True]
    assert plan.bytes_per_block == 4 * full().page_bytes


def test_a_smaller_page_gets_longer_blocks_and_one_that_does_not_divide_is_padded() -> None:
    plan = planned(window(64), full(head_size=128, value_size=128))
    assert shape(plan) == [("sliding", 1, 32), ("full", 1, 16)]
    assert (plan.scheduler_block_size, plan.hash_block_size) == (32, 16)
    padded = planned(window(64, head_size=48, value_size=48), full())
    assert [group.page_bytes for group in padded.groups] == [(8192,)] * 2
    assert shape(padded) == [("sliding", 1, 16), ("full", 1, 16)]


def test_mla_beside_windows_that_do_not_fit_it_is_one_group() -> None:
    plan = planned(mla(), window(64, kv_heads=4, head_size=96, value_size=96))
    assert [group.kind for group in plan.groups] == ["mla"]
    assert plan.groups[0].page_bytes == (18432, 24576)
    with pytest.raises(EngineError, match="no plan for these layers"):
        planned(mla(), state(1 << 14))


def test_the_hybrid_manager_may_be_off() -> None:
    assert shape(planned(window(64), full(), disable_hybrid_kv_cache_manager=True)) == [("full", 2, 16)]
    with pytest.raises(EngineError, match="do not become one kind"):
        planned(window(64), full(), state(), disable_hybrid_kv_cache_manager=True)
    with pytest.raises(EngineError, match="only where they are the same"):
        planned(window(64), window(65), full(), disable_hybrid_kv_cache_manager=True)


def test_hits_inside_of_blocks_need_states_and_no_longer_windows() -> None:
    layers = [state(block_size=64), full(block_size=64)]
    assert planned(*layers, prefix_match_unit=16).hit_alignment == 16
    assert not planned(*layers).partial_hits
    assert not planned(*layers, window(8, block_size=64), prefix_match_unit=16).partial_hits
    with pytest.raises(EngineError, match="does not divide"):
        planned(*layers, prefix_match_unit=48)
    with pytest.raises(EngineError, match="needs several KV cache groups"):
        planned(full(), prefix_match_unit=8)


def test_context_parallelism_lengthens_blocks_of_tokens_only() -> None:
    plan = planned(full(), state(), decode_context_parallel_size=4)
    assert shape(plan) == [("full", 1, 64), ("mamba", 1, 16)]
    assert (plan.scheduler_block_size, plan.hash_block_size) == (64, 16)
    with pytest.raises(EngineError, match="cannot divide layers that see a window"):
        planned(window(64), full(), decode_context_parallel_size=2)


def test_layouts_say_what_they_cannot_hold() -> None:
    with pytest.raises(EngineError, match="BHLNC cannot hold pages of several sizes"):
        planned(window(64, head_size=48, value_size=48), full(), kv_cache_layout="BHLNC")
    packed = planned(full(kv_heads=1), window(22), window(22), kv_cache_layout="BLHNC")
    assert [group.page_bytes for group in packed.groups] == [(4096,), (8192,), (8192,)]


def test_what_one_request_holds() -> None:
    plan = planned(
        window(100), full(), state(block_size=32, ckpt_blocks=1), max_num_batched_tokens=64, concurrent_batches=2
    )
    pool = PlannedPool.of(100 * plan.bytes_per_block, plan)
    assert pool.blocks_per_request(1000) == (-(-(99 + 128) // 16) + 1, -(-1000 // 16), 3)
    assert pool.max_concurrency(1000) == 100 / (16 + 63 + 3)
    assert pool.tokens(1000) == int(100 / 82 * 1000)
    longest = pool.longest_request()
    assert pool.holds(longest)
    assert not pool.holds(longest + 1)
    assert PlannedPool.of(2 * plan.bytes_per_block, plan).longest_request() == 0


def test_unknown_speculation_is_refused() -> None:
    with pytest.raises(EngineError, match="unknown method"):
        Speculation(method="magic", tokens=1)  # type: ignore[arg-type]  # as a file may say it
    with pytest.raises(EngineError, match="at least 1"):
        Speculation(method="eagle", tokens=0)
