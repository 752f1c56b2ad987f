"""Random workloads over random layers, in the form of recorded cases without what is expected."""

from __future__ import annotations

import random
from typing import Any

from kvtool.engine.engine_error import EngineError
from kvtool.engine.groups.planner import plan_cache
from kvtool.engine.groups.recorded_plan import recorded_layers, recorded_options

Case = dict[str, Any]

FAMILIES = [
    "F",
    "SF",
    "SF",
    "SFSF",
    "FSS",
    "SFT",
    "S",
    "SSSSSF",
    "ST",
    "GF",
    "SGF",
    "CF",
    "CCCF",
    "C",
    "L",
    "ML",
    "M",
    "MF",
    "MF",
    "MMMF",
    "MMMF",
    "MNF",
    "MSF",
    "MMFSS",
    "MFE",
    "SFE",
    "EF",
    "FZ",
    "SFZ",
    "SFZ",
    "MMMFZ",
    "MFZ",
    "LZ",
    "MSFZ",
    "SZ",
    "GFZ",
    "EFZ",
]
"""Layers by letter; Z is a draft layer like F, E one that exports states, G has pages of another size."""


def random_case(chance: random.Random) -> Case:
    """One that a planner accepts."""
    while True:
        case = _case(chance)
        params = case["params"]
        try:
            plan = plan_cache(recorded_layers(params), recorded_options(params))
        except EngineError:
            continue
        if params["prefix_cache_retention_interval"]:
            params["prefix_cache_retention_interval"] *= plan.scheduler_block_size
        return case


def _kinds(chance: random.Random, block: int) -> dict[str, dict[str, Any]]:
    plain = {"kv_heads": 1, "head_size": 8}
    windows = chance.sample((1, 2, 3, 5, 9, 16, 22, 40), 2)
    # A state takes no more than a page of attention, so that both have the same block.
    state = {"kind": "mamba", "shapes": [[block * 4], [block * 2]], "dtypes": ["bfloat16", "float32"]}
    kinds = {
        "F": {"kind": "full", **plain},
        "S": {"kind": "sliding", **plain, "window": windows[0]},
        "T": {"kind": "sliding", **plain, "window": windows[1]},
        "C": {"kind": "chunked", **plain, "chunk": chance.choice((1, 2, 3, 6, 10)) * block},
        "L": {"kind": "mla", "head_size": 16},
        "M": dict(state),
        "N": {**state, "shapes": [[block * 8], [block * 2]]},
        "E": {
            **state,
            "num_prefill_checkpoint_blocks": 1,
            "prefill_checkpoint_alignment": chance.choice((1, 2, block)),
        },
        "G": {"kind": "sliding", "kv_heads": chance.choice((2, 3)), "head_size": 8, "window": windows[1]},
        "Z": {"kind": "full", **plain, "draft": True},
    }
    if chance.random() < 0.3:  # as windows beside full attention have shorter blocks of their own
        for kind in chance.sample(sorted(kinds), 4):
            kinds[kind]["block_size"] = max(block * chance.choice((1, 2, 4)) // chance.choice((1, 2, 4)), 1)
    return kinds


def _speculation(chance: random.Random, *, modules: bool) -> dict[str, Any]:
    method = chance.choice(("eagle", "eagle3", "mtp", "mtp", "ngram"))
    return {
        "method": method,
        "num_speculative_tokens": chance.choice((1, 2, 2, 3)),
        "mtp_modules": chance.choice((2, 3)) if method == "mtp" and modules and chance.random() < 0.5 else 1,
        "accept": [chance.randrange(4) for _ in range(chance.choice((1, 3, 4)))],
        "disable_lookahead_block_hashes": chance.random() < 0.4,
        "disable_eagle_block_drop": chance.random() < 0.1,
    }


def _case(chance: random.Random) -> Case:
    family = chance.choice(FAMILIES)
    block = chance.choice((1, 2, 2, 4, 4, 8))
    kinds = _kinds(chance, block)
    states = bool(set(family) & set("MNE"))
    drafts = None
    if "Z" in family or chance.random() < 0.15:
        drafts = _speculation(chance, modules=True)
    unit = chance.choice((1, 2, 4)) if states and block > 1 and chance.random() < 0.4 else None
    retention = chance.choice((0, 0, 0, None, None, 1, 2, 4))  # times the scheduler's block
    seqs = chance.choice((1, 2, 3, 5, 8))
    params = {
        "layers": {"kinds": {letter: kinds[letter] for letter in sorted(set(family))}, "order": family},
        "block_size": block,
        "num_blocks": chance.choice((24, 40, 60, 90, 200)),
        "max_num_batched_tokens": chance.choice((8, 16, 16, 32, 64, 128, 512)),
        "max_num_seqs": seqs,
        "enable_chunked_prefill": True,
        "mode": "batched",
        "max_model_len": chance.choice((2048, 2048, 2048, 100)),
        "enable_prefix_caching": chance.random() < 0.92,
        "watermark": chance.choice((0, 0, 0, 0.05, 0.2)),
        "scheduler_reserve_full_isl": chance.random() < 0.7,
        "long_prefill_token_threshold": chance.choice((0, 0, 0, 7, 16, 32)),
        "long_prefill_token_threshold_adaptive": chance.random() < 0.3,
        "prefill_schedule_interval": chance.choice((1, 1, 1, 2, 3, 5)),
        "max_num_active_seqs": chance.choice((None, None, None, max(1, seqs - 1))),
        "hash_algo": "sha256_cbor",
        "policy": chance.choice(("fcfs", "fcfs", "priority")),
        "prefix_cache_retention_interval": retention,
        "prefix_match_unit": unit,
        "disable_hybrid_kv_cache_manager": chance.random() < 0.05,
        "enable_mamba_shared_prefix_checkpoint": chance.random() < 0.3,
        "kv_cache_layout": "LBNHC",
        "dcp": 2 if chance.random() < 0.1 and not set(family) & set("STGC") else 1,
        "spec": drafts,
    }
    actions = []
    step = 0
    while chance.random() < 0.25:
        step += chance.randrange(1, 30)
        resets = ("reset_prefix_cache", "reset_prefix_cache_running")
        actions.append({"step": step, "action": chance.choice(resets)})
    return {"params": params, "actions": actions, "requests": _requests(chance, params, block)}


def _requests(chance: random.Random, params: dict[str, Any], block: int) -> list[dict[str, Any]]:
    room = min(params["max_model_len"] - 20, 16 * block + 10, (params["num_blocks"] - 1) * block // 3)
    stems = [[chance.randrange(32_000) for _ in range(max(room, 8))] for _ in range(3)]
    requests: list[dict[str, Any]] = []
    step = 0
    for number in range(chance.randrange(6, 28)):
        step += chance.choice((0, 0, 1, 1, 2, 6))
        length = chance.randrange(1, max(room, 2))
        if chance.random() < 0.25:  # one token is left, at once or after a hit
            length = chance.choice((1, length // block * block + 1))
        shared = chance.choice((0, length // 2, length, length // block * block))
        tokens = chance.choice(stems)[:shared]
        if requests and chance.random() < 0.35:  # a conversation goes on, or is asked again
            before = chance.choice(requests)
            tokens = [*before["token_ids"], *before["output_ids"]][:length]
            if chance.random() < 0.3:
                tokens = list(before["token_ids"])
        tokens = [*tokens, *(chance.randrange(32_000) for _ in range(max(length - len(tokens), 0)))] or [7]
        outputs = chance.choice((1, 1, 2, 5, 9, 3 * block))
        request: dict[str, Any] = {
            "id": f"r{number}",
            "step": step,
            "priority": chance.randrange(3),
            "token_ids": tokens,
            "output_ids": [chance.randrange(32_000) for _ in range(outputs)],
        }
        if chance.random() < 0.1:
            request["cache_salt"] = chance.choice(("t1", "t2"))
        if chance.random() < 0.1:
            request["lora"] = [chance.choice("xy"), chance.choice(("/x", "/y"))]
        if chance.random() < 0.05:
            request["prompt_logprobs"] = True
        if chance.random() < 0.1 and len(tokens) > 3:
            at = chance.randrange(len(tokens) - 1)
            size = chance.randrange(1, len(tokens) - at + 1)
            request["mm"] = [{"id": f"im{at}-{size}", "offset": at, "length": size}]
        elif chance.random() < 0.05:
            request["embeds"] = [chance.randrange(50) for _ in range(chance.randrange(1, max(room, 2)))]
            request["token_ids"] = []
        requests.append(request)
    return requests
