"""Random layers, planned by vLLM's own planner and ours: where $VLLM_SCHEDULER is a command that runs a Python with vLLM."""

from __future__ import annotations

import json
import os
import random
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kvtool.engine.engine_error import EngineError
from kvtool.engine.groups.capacity import PlannedPool
from kvtool.engine.groups.model_plan import ServeOptions, plan_model
from kvtool.engine.groups.planner import Speculation, plan_cache
from kvtool.engine.groups.recorded_plan import recorded_layers, recorded_options
from kvtool.engine.model.configs.geometry import Geometry
from kvtool.engine.model.configs.layer_shapes import attention, delta_net, kimi_delta, latent, mamba2
from kvtool.engine.model.configs.served_model import ServedModel

if not os.environ.get("VLLM_SCHEDULER"):
    pytest.skip("a vLLM whose planner can be imported is needed: $VLLM_SCHEDULER", allow_module_level=True)

pytestmark = pytest.mark.vllm
COUNT = int(os.environ.get("VLLM_SCHEDULER_PLANS", "400"))
"""Of random plans."""


def random_kind(chance: random.Random, kind: str, padded: int | None) -> dict[str, Any]:
    if kind == "mamba":
        shapes = [[3, chance.choice((8, 16, 24))], [2, chance.choice((4, 8)), 4]]
        spec: dict[str, Any] = {
            "kind": kind,
            "shapes": shapes,
            "dtypes": ["bfloat16", chance.choice(("float32", "bfloat16"))],
        }
        if padded:
            spec["page_size_padded"] = padded
        if chance.random() < 0.2:
            spec["block_size"] = chance.choice((16, 64, 8192))
        if chance.random() < 0.3:
            spec |= {"num_prefill_checkpoint_blocks": 1, "prefill_checkpoint_alignment": chance.choice((1, 16))}
        return spec
    spec = {"kind": kind, "dtype": chance.choice(("bfloat16", "bfloat16", "bfloat16", "fp8"))}
    spec |= (
        {"head_size": 576}
        if kind == "mla"
        else {"kv_heads": chance.choice((1, 2, 4)), "head_size": chance.choice((64, 128, 96))}
    )
    if kind == "sliding":
        spec["window"] = chance.choice((1, 17, 64, 128, 1000))
    if kind == "chunked":
        spec["chunk"] = chance.choice((32, 96, 1024))
    if chance.random() < 0.05:
        spec["dcp_sharded"] = False
    if chance.random() < 0.2:
        spec["block_size"] = chance.choice((1, 8, 16, 24, 128, 8192))
    if kind != "mla" and chance.random() < 0.05:
        spec["head_size_v"] = chance.choice((64, 96))
    if kind != "mla" and chance.random() < 0.05:
        spec["page_size_padded"] = chance.choice((1 << 20, 1 << 24))
    return spec


def random_case(chance: random.Random) -> dict[str, Any]:
    alike = chance.random() < 0.6
    shape = {"kv_heads": chance.choice((1, 2, 4)), "head_size": chance.choice((64, 128))}
    padded = chance.choice((None, 65536, 1 << 20)) if chance.random() < 0.5 else None
    kinds: dict[str, dict[str, Any]] = {}
    for letter in "ABCDE"[: chance.choice((1, 2, 2, 2, 3, 3, 4, 5))]:
        kind = chance.choice(("full", "full", "sliding", "sliding", "mla", "chunked", "mamba", "mamba"))
        kinds[letter] = random_kind(chance, kind, padded)
        if alike and kind not in ("mamba", "mla"):
            kinds[letter] |= {**shape, "dtype": "bfloat16"}
    order = list(kinds) + chance.choices(list(kinds), k=chance.randrange(30))
    chance.shuffle(order)
    drafts = None
    if chance.random() < 0.4:
        draft = dict(kinds[chance.choice(order)]) if chance.random() < 0.6 else random_kind(chance, "full", None)
        kinds["Z"] = {**draft, "draft": True}
        order += ["Z"] * chance.choice((1, 1, 2))
        drafts = {
            "method": chance.choice(("eagle", "eagle3", "mtp", "mtp", "ngram", "draft_model", "dflash")),
            "num_speculative_tokens": chance.randrange(1, 5),
            "mtp_modules": chance.choice((1, 1, 3)),
            "disable_lookahead_block_hashes": chance.random() < 0.3,
            "disable_eagle_block_drop": chance.random() < 0.2,
        }
    return {
        "params": {
            "layers": {"kinds": kinds, "order": "".join(order)},
            "block_size": chance.choice((16, 16, 32, 64, 528)),
            "max_num_batched_tokens": chance.choice((512, 2048, 8192)),
            "max_model_len": chance.choice((1, 1000, 4096, 131_072)),
            "concurrent_batches": chance.choice((1, 2)),
            "disable_hybrid_kv_cache_manager": chance.random() < 0.2,
            "spec": drafts,
            "enable_prefix_caching": chance.random() < 0.85,
            "prefix_match_unit": chance.choice((8, 16, 48)) if chance.random() < 0.2 else None,
            "kv_cache_layout": chance.choice(("LBNHC", "LBNHC", "LBNHC", "BLHNC", "BLNHC", "LHBNC", "BHLNC")),
            "dcp": chance.choice((1, 1, 1, 1, 2, 4)),
        },
        "available_bytes": chance.choice((1 << 24, 1 << 30, 40 << 30)) + chance.randrange(1 << 20),
    }


def ours(case: dict[str, Any]) -> dict[str, Any]:
    params = case["params"]
    try:
        plan = plan_cache(recorded_layers(params), recorded_options(params))
    except EngineError as error:
        return {"error": error.message}
    pool, longest = PlannedPool.of(case["available_bytes"], plan), params["max_model_len"]
    if not pool.holds(longest):
        return {"error": "does not fit"}
    groups = ("kind", "block_size", "layers", "page_bytes", "spec_id", "eagle", "window", "extra_retained", "chunk")
    own = ("scheduler_block_size", "hash_block_size", "hit_alignment", "num_lookahead_tokens", "num_prefill_lookahead")
    return {
        "groups": [
            {**{name: getattr(g, name) for name in groups}, "page_bytes": list(g.page_bytes)} for g in plan.groups
        ],
        "num_gpu_blocks": pool.num_blocks,
        **{name: getattr(plan, name) for name in (*own, "num_hash_lookahead", "eagle_drop")},
        "tokens": pool.tokens(longest),
        "max_concurrency": pool.max_concurrency(longest),
    }


def asked_of_vllm(program: str, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a program beside this file says, run by vLLM's Python."""
    done = subprocess.run(
        [*shlex.split(os.environ["VLLM_SCHEDULER"]), str(Path(__file__).with_name(program))],
        input="".join(json.dumps(case) + "\n" for case in cases),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_random_layers_are_planned_as_vllm_plans_them() -> None:
    chance = random.Random(18)
    cases = [random_case(chance) for _ in range(COUNT)]
    theirs = asked_of_vllm("vllm_planner.py", cases)
    planned = refused = 0
    for case, answer in zip(cases, theirs, strict=True):
        mine = ours(case)
        if "error" in answer:
            refused += 1
            assert "error" in mine, (case, answer)
        else:
            planned += 1
            assert mine == answer, case
    print(f"{planned} plans agree, {refused} refused by both")
    assert planned > COUNT / 3


def random_state(chance: random.Random) -> dict[str, Any]:
    kind, latent = chance.choice(("mamba2", "delta", "kimi")), chance.random() < 0.3
    size = chance.choice((64, 128))
    heads = chance.choice((8, 16, 32, 48, 64))
    states = {
        "mamba2": [heads * size, heads, size, chance.choice((16, 128)), 4, chance.choice((1, 2, 8))],
        "delta": [chance.choice((8, 16)), heads, 128, size, 4],
        "kimi": [heads, size, 4],
    }
    return {
        "kind": kind,
        "state": states[kind],
        "dtypes": ["bf16", "fp32" if kind == "kimi" else chance.choice(("bf16", "fp32"))],
        "kv_heads": chance.choice((1, 2, 4, 8)),
        "head_size": 576 if latent else chance.choice((64, 128, 256)),
        "latent": latent,
        "kv_cache_dtype": chance.choice(("auto", "auto", "fp8")),
        "tensor_parallel": chance.choice((1, 1, 2, 4, 8)),
        "drafts": chance.choice((0, 0, 1, 3)),
        "block_size": chance.choice((None, None, None, 16, 64, 528, 4096)),
    }


def our_block(case: dict[str, Any]) -> dict[str, Any]:
    build = {"mamba2": mamba2, "delta": delta_net, "kimi": kimi_delta}[case["kind"]]
    state = build(*case["state"]) if case["kind"] == "kimi" else build(*case["state"], case["dtypes"][1])
    plain = latent(512, 64) if case["latent"] else attention(case["kv_heads"], case["head_size"])
    geometry = Geometry("random", 2, 8, 64, case["kv_heads"], 8, 8, 8, True)
    drafts = Speculation(method="ngram", tokens=case["drafts"]) if case["drafts"] else None
    options = ServeOptions(
        block_size=case["block_size"],
        kv_cache_dtype=case["kv_cache_dtype"],
        tensor_parallel=case["tensor_parallel"],
        speculation=drafts,
    )
    try:
        found = plan_model(ServedModel(geometry=geometry, layers=(state, plain)), options)
        tensors = state.states("bf16", case["tensor_parallel"], case["drafts"])
    except EngineError as error:
        return {"error": error.message}
    [page] = found.plan.groups[0].page_bytes
    return {
        "shapes": [list(shape) for shape, _ in tensors],
        "block_size": found.block_size,
        "page": None if page == found.state_bytes else page,
    }


def test_random_states_have_the_block_that_vllm_gives_them() -> None:
    chance = random.Random(19)
    cases = [random_state(chance) for _ in range(COUNT)]
    theirs = asked_of_vllm("vllm_block_size.py", cases)
    planned = 0
    for case, answer in zip(cases, theirs, strict=True):
        mine = our_block(case)
        if "error" in answer:
            assert "error" in mine, (case, answer)
        else:
            planned += 1
            assert mine == answer, case
    print(f"{planned} blocks agree")
    assert planned > COUNT / 3
