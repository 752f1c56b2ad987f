"""Documents of what-if with rows of every axis, as tests of pages and formats draw them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvtool.results.documents.what_if import SweepRow, WhatIfDocument
from kvtool.results.next_step import PREVIEW_EDIT


def document(rows: list[SweepRow], **fields: Any) -> WhatIfDocument:
    """Of 1,000 blocks that are looked up 400 can be hit."""
    told: dict[str, Any] = {
        "schema": "kvtool.what-if/1",
        "input": "traffic.jsonl",
        "rules": "vllm",
        "block_size": 16,
        "requests": 50,
        "references": 1000,
        "distinct_blocks": 600,
        "reachable_blocks": 400,
        "reachable_hit_rate": 0.4,
        "sampled": 1.0,
        "notes": [],
    }
    return WhatIfDocument(rows=rows, **(told | fields))


def row(axis: str | None, rate: float, **fields: Any) -> SweepRow:
    """A row of an axis that hits this part of the references."""
    told: dict[str, Any] = {"references": 1000, "hit_blocks": 1000 * rate, "hit_rate": rate, "sure": "exact"}
    return SweepRow.model_validate({"axis": axis, **told, **fields})


def capacity(**fields: Any) -> WhatIfDocument:
    """A curve in steps of two, with today's room and the memory of a block."""
    rates = (0.02, 0.05, 0.11, 0.2, 0.31, 0.39, 0.4)
    rows = [row("capacity", rate, capacity=10 * 2**step) for step, rate in enumerate(rates)]
    return document(rows, **({"capacity": 100, "bytes_per_block": 2 << 20} | fields))


def sampled() -> WhatIfDocument:
    """The same from a tenth of the blocks, with errors."""
    rows = [
        one.model_copy(update={"error": 0.03 if one.hit_rate > 0.03 else 0.05, "sure": "sampled"})
        for one in capacity().rows
    ]
    return document(rows, sampled=0.1, notes=["2 failed or refused requests left out"])


def policies() -> WhatIfDocument:
    """All seven at three capacities."""
    rows = [
        row("policy", rate + step / 100, policy=policy, capacity=size, sure="bound" if policy == "opt" else "exact")
        for size, rate in ((10, 0.05), (100, 0.2), (1000, 0.3))
        for step, policy in enumerate(("lru", "fifo", "lfu", "slru", "priority", "opt"))
    ]
    return document(rows, capacity=50)


def one_capacity() -> WhatIfDocument:
    """Policies where there is nothing to go along."""
    return document([one for one in policies().rows if one.capacity == 100])


def ttls() -> WhatIfDocument:
    """From half a minute to a day."""
    seconds = (30.0, 60.0, 300.0, 3600.0, 86400.0)
    return document([row("ttl", 0.08 * step, ttl_seconds=each) for step, each in enumerate(seconds)])


def block_sizes() -> WhatIfDocument:
    """Unlimited, and with the room of 3,200 tokens."""
    rows = [
        row("block-size", (0.4 if room is None else 0.2) - 0.03 * step, block_size=16 << step, capacity=held)
        for step in range(5)
        for room, held in ((None, None), (3200, 3200 // (16 << step)))
    ]
    return document(rows)


ROUTERS = {
    "round-robin": (0.1314, 32.2, 1.016),
    "least-loaded": (0.1316, 19.1, 1.032),
    "longest-prefix": (0.1387, 88.39, 4.0),
    "first-block-hash": (0.3105, 21.8, 1.061),
    "sglang (gateway 0.3.1)": (0.3055, 14.3, 1.1),
    "llm-d (0.3)": (0.2947, 14.3, 1.05),
    "vllm-stack-loadaware": (0.271, 13.9, 1.053),
    "dynamo (0.7)": (0.2364, 12.0, 1.007),
    "least-ttft": (0.26, 10.0, 1.012),
}
"""What the design's table says: hit rate, TTFT p99 in seconds, imbalance."""


def fleet_row(axis: str | None, rate: float, p99: float, **fields: Any) -> SweepRow:
    """A row with a clock."""
    times = {"ttft_p50": p99 / 5, "ttft_p99": p99, "tpot_p50": 0.01, "tpot_p99": 0.02}
    return row(axis, rate, **({"sure": "predicted", "imbalance": 1.1, **times} | fields))


def routers() -> WhatIfDocument:
    """Ten rules on four replicas, two of them nearly alike, and the bound."""
    rows = [
        fleet_row("routing", rate, p99, routing=name, replicas=4, imbalance=imbalance)
        for name, (rate, p99, imbalance) in ROUTERS.items()
    ]
    rows.append(row("routing", 0.366, routing="oracle", replicas=4, sure="bound"))
    return document(rows)


def many_routers() -> WhatIfDocument:
    """The same on four counts of replicas: more points than labels have room for."""
    rows = [
        one.model_copy(update={"replicas": count, "ttft_p99": (one.ttft_p99 or 36.0) * 4 / count})
        for count in (2, 4, 6, 8)
        for one in routers().rows
    ]
    return document(rows)


def replicas() -> WhatIfDocument:
    """Two routers on two to eight engines, with an objective that six meet."""
    rows = [
        fleet_row(
            "replicas",
            0.3 - 0.01 * count,
            40 * factor / count**2,
            routing=name,
            replicas=count,
            within_slo=min(1.0, count / 6),
            goodput=0.5 * count,
            gpus=6,
        )
        for name, factor in (("least-loaded", 1.0), ("sglang", 0.8))
        for count in range(2, 9)
    ]
    return document(rows)


def tiers() -> WhatIfDocument:
    """No tier, then three sizes at four bandwidths, the slowest of which never pays."""
    rows = [
        fleet_row("tier", 0.1, 7.5, capacity=100, host_blocks=0, disk_blocks=0, computed_tokens=9000, loaded_rate=0.0)
    ]
    rows += [
        fleet_row(
            "tier",
            0.1,
            9.0 - 1.2 * step - host / 1000,
            capacity=100,
            host_blocks=host,
            disk_blocks=0,
            bandwidth=bandwidth,
            computed_tokens=8000,
            loaded_rate=0.1,
            break_even_tokens=None if step == 0 else 16384 >> (2 * step),
        )
        for host in (100, 200, 400)
        for step, bandwidth in enumerate((1e9, 4e9, 14e9, 56e9))
    ]
    return document(rows, capacity=100)


def sizes_of_tiers() -> WhatIfDocument:
    """Counted, without a clock."""
    rows = [
        row("tier", 0.1, capacity=100, host_blocks=host, disk_blocks=0, loaded_rate=0.001 * host)
        for host in (0, 50, 100, 200)
    ]
    return document(rows)


def one_split() -> WhatIfDocument:
    """Eight replicas, cut in every way, beside the mixed fleet."""
    rows = [fleet_row("pd", 0.3, 5.8, replicas=8, goodput=3.0)]
    rows += [
        fleet_row(
            "pd",
            0.3,
            80.0 / prefill**2,
            replicas=8,
            prefill_replicas=prefill,
            decode_replicas=8 - prefill,
            goodput=0.5 * min(prefill, 2 * (8 - prefill)),
            bandwidth=450e9,
            transfer_p99=0.03,
        )
        for prefill in range(1, 8)
    ]
    return document(rows)


def splits() -> WhatIfDocument:
    """Fleets of two to seven, each cut in every way: a map."""
    rows = [
        fleet_row("pd", 0.3, 20.0 / total, replicas=total, within_slo=min(total / 10, 1.0)) for total in range(2, 8)
    ]
    rows += [
        fleet_row(
            "pd",
            0.3,
            20.0 / prefill + 10.0 / decode,
            replicas=prefill + decode,
            prefill_replicas=prefill,
            decode_replicas=decode,
            within_slo=min(1.0, 0.12 * min(prefill, decode) * 3),
        )
        for prefill in range(1, 7)
        for decode in range(1, 8 - prefill)
    ]
    return document(rows)


def wide_splits() -> WhatIfDocument:
    """Up to ten of each by the time alone: more columns than a phone has room for."""
    rows = [
        fleet_row("pd", 0.3, 99.0 / prefill + 10.0 / decode, prefill_replicas=prefill, decode_replicas=decode)
        for prefill in range(1, 11)
        for decode in range(1, 11)
    ]
    return document(rows)


def table() -> WhatIfDocument:
    """The table: what to change first, rows with commands, bounds, and what is missing."""
    said = "kvtool what-if traffic.jsonl --gpu-memory 80GiB --use-timestamps"
    changes = (
        ("today", "today", 0.2, "", "exact"),
        ("prompts", "fix 1: move `now` behind the rules", 0.35, " --fixed 1", "exact"),
        ("capacity", "cache x 2", 0.3, " --capacity 200", "exact"),
        ("tier", "host memory 256 GiB", 0.28, " --host-memory 256GiB", "predicted"),
        ("capacity", "an unlimited cache", 0.4, "", "bound"),
    )
    rows = [
        fleet_row(
            None,
            rate,
            4.0 - 5 * rate,
            kind=kind,
            change=change,
            does=change,
            computed_tokens=round(16000 * (1 - rate)),
            command=f"{said}{flags}",
            sure=sure,
            gpus=round(10 - 10 * rate),
        )
        for kind, change, rate, flags, sure in changes
    ]
    answer = [
        "Change first, without more hardware: move `now` behind the rules. It computes 18.8% fewer prompt tokens.",
        "With more hardware: cache x 2.",
        f"{PREVIEW_EDIT}: {said} --fixed 1",
    ]
    missing = [{"change": "another router", "why": "there is one replica: say --replicas 4"}]
    return document(rows, answer=answer, missing=missing)


CASES: dict[str, Callable[[], WhatIfDocument]] = {
    "capacity": capacity,
    "sampled": sampled,
    "policies": policies,
    "one_capacity": one_capacity,
    "ttls": ttls,
    "block_sizes": block_sizes,
    "routers": routers,
    "many_routers": many_routers,
    "replicas": replicas,
    "tiers": tiers,
    "sizes_of_tiers": sizes_of_tiers,
    "one_split": one_split,
    "splits": splits,
    "wide_splits": wide_splits,
    "table": table,
    "one_row": lambda: capacity().model_copy(update={"rows": capacity().rows[:1]}),
    "no_rows": lambda: document([]),
    "answer_alone": lambda: table().model_copy(update={"rows": []}),
    "odd_commands": lambda: table().model_copy(
        update={
            "answer": [f"{PREVIEW_EDIT}: kvtool 'what"],
            "rows": [one.model_copy(update={"command": 'kvtool "what if'}) for one in table().rows],
        }
    ),
}
