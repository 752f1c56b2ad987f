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
from kvtool.engine.groups.planner import plan_cache
from kvtool.engine.groups.recorded_plan import recorded_layers, recorded_options

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


def test_random_layers_are_planned_as_vllm_plans_them() -> None:
    chance = random.Random(18)
    cases = [random_case(chance) for _ in range(COUNT)]
    done = subprocess.run(
        [*shlex.split(os.environ["VLLM_SCHEDULER"]), str(Path(__file__).with_name("vllm_planner.py"))],
        input="".join(json.dumps(case) + "\n" for case in cases),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    theirs = [json.loads(line) for line in done.stdout.splitlines()]
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
