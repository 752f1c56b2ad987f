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
from kvtool.engine.replay import Replay, main

RECORDED = Path(__file__).resolve().parents[4] / "shared" / "oracle" / "vllm-0.33-hybrid"
CASES = sorted(RECORDED.glob("h*.json"))
recorded = pytest.mark.skipif(not CASES, reason="no recorded vLLM workloads beside this checkout")
BF16, FP32 = find_kv_dtype("bf16"), find_kv_dtype("fp32")
NOT_PLANNED = ("groups", "coordinator")


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


def described(order: str, **kinds: dict[str, Any]) -> dict[str, Any]:
    """Recorded parameters of layers, blocks of 16 tokens."""
    return {
        "layers": {"kinds": kinds, "order": order},
        "block_size": 16,
        "enable_prefix_caching": True,
        "dcp": 1,
        "prefix_match_unit": None,
        "disable_hybrid_kv_cache_manager": False,
        "kv_cache_layout": "LBNHC",
        "spec": None,
        "max_num_batched_tokens": 64,
    }


PLAIN = {"kind": "full", "kv_heads": 1, "head_size": 8}  # 32 bytes a token


def test_a_layer_has_its_own_block() -> None:
    """Its pages are made equal to those of the others from there."""
    for window, groups, scheduler_block, unit in [
        ({"kv_heads": 1, "block_size": 4}, [16, 16], 16, 16),  # four times as long, to fill the page
        ({"kv_heads": 2, "block_size": 4}, [16, 8], 16, 8),
        ({"kv_heads": 1, "block_size": 64}, [64, 64], 64, 64),  # the larger page wins
        ({"kv_heads": 4, "block_size": 12}, [48, 12], 48, 12),
        ({"kv_heads": 3, "block_size": 4}, [16, 4], 16, 4),  # 384 bytes do not divide 512, so they are padded
    ]:
        params = described("FS", F=PLAIN, S={"kind": "sliding", "head_size": 8, "window": 5, **window})
        plan = plan_cache(recorded_layers(params), recorded_options(params))
        assert [group.block_size for group in plan.groups] == groups
        assert (plan.scheduler_block_size, plan.hash_block_size) == (scheduler_block, unit)
        assert plan.cache_block_size == min(groups)


def test_one_group_has_the_block_of_its_layers() -> None:
    params = described("FF", F={**PLAIN, "block_size": 4}) | {"dcp": 2}
    plan = plan_cache(recorded_layers(params), recorded_options(params))
    assert (plan.scheduler_block_size, plan.hash_block_size, plan.cache_block_size) == (8, 8, 4)


def test_a_state_without_caching_has_one_long_block() -> None:
    state = {"kind": "mamba", "shapes": [[256]], "dtypes": ["bfloat16"], "page_size_padded": 512, "block_size": 8192}
    params = described("MF", M=state, F=PLAIN) | {"enable_prefix_caching": False}
    plan = plan_cache(recorded_layers(params), recorded_options(params))
    assert [group.block_size for group in plan.groups] == [8192, 16]
    assert plan.scheduler_block_size == plan.hash_block_size == 8192


def test_chunks_end_on_the_shortest_block() -> None:
    """vLLM cuts the prefill of a model with states by `cache_config.block_size`, whatever the blocks of the states are."""
    state = {"kind": "mamba", "shapes": [[256]], "dtypes": ["bfloat16"], "block_size": 32}
    params = described("MF", M=state, F=PLAIN) | {"num_blocks": 40, "mode": "batched"}
    requests = [{"id": "a", "step": 0, "token_ids": list(range(50)), "output_ids": [1]}]
    replay = Replay({"params": params, "actions": [], "requests": requests}).run()
    assert replay.config.plan is not None
    assert [group.block_size for group in replay.config.plan.groups] == [32, 16]
    assert [row["sched"] for row in replay.trace] == [{"a": [0, 48]}, {"a": [48, 2]}]


def test_a_field_of_a_layer_that_is_not_planned_is_refused() -> None:
    for kind, changes, message in [
        ("full", {"window": 5}, "unknown field 'window' of a full layer"),
        ("mla", {"head_size_v": 8}, "unknown field 'head_size_v' of a mla layer"),
        ("sliding", {"chunk": 5}, "unknown field 'chunk' of a sliding layer"),
        ("mamba", {"dcp_sharded": False}, "unknown field 'dcp_sharded' of a mamba layer"),
        ("chunked", {"tokens_per_state": 4}, "unknown field 'tokens_per_state' of a chunked layer"),
        ("ring", {}, "unknown kind of layer 'ring'"),
    ]:
        with pytest.raises(EngineError, match=message):
            recorded_layers(described("A", A={"kind": kind, **changes}))


def test_pages_and_values_of_a_recorded_layer_count() -> None:
    params = described("FG", F={**PLAIN, "head_size_v": 4}, G={**PLAIN, "page_size_padded": 4096})
    assert [layer.page_bytes for layer in recorded_layers(params)] == [16 * 12 * 2, 4096]


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
    with pytest.raises(EngineError, match="no plan for these kinds of layers"):
        planned(window(64), full(), state(), disable_hybrid_kv_cache_manager=True)
    with pytest.raises(EngineError, match="only if all have the same size"):
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
    with pytest.raises(EngineError, match="does not support layers with a window"):
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
    with pytest.raises(EngineError, match="unknown speculation method"):
        Speculation(method="magic", tokens=1)  # type: ignore[arg-type]  # as a file may say it
    with pytest.raises(EngineError, match="at least 1"):
        Speculation(method="eagle", tokens=0)
