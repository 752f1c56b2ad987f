"""Small queues for SGLang's rules, worked out by hand; what each is about is its name. test_sglang_peer.py asks SGLang the same."""

from __future__ import annotations

from itertools import count
from typing import Any

Case = dict[str, Any]

ENGINE: Case = {
    "page_size": 1,
    "eviction": "lru",
    "capacity": 100_000,
    "policy": "fcfs",
    "max_running": 64,
    "new_token_ratio": 1.0,
    "max_prefill_tokens": 100_000,
}
_FRESH = count(1_000_000, 1_000)


def own(tokens: int) -> list[int]:
    """Tokens that no other prompt has."""
    start = next(_FRESH)
    return list(range(start, start + tokens))


def asked(*prompt: list[int], answer: int = 1, arrival: int = 0) -> Case:
    return {"prompt": [token for piece in prompt for token in piece], "output": own(answer), "arrival": arrival}


def case(batches: list[list[int]], cached: list[int], requests: list[Case], **engine: Any) -> Case:
    return {
        "engine": {**ENGINE, **engine},
        "mode": "queue",
        "requests": requests,
        "expected": {"prefill_batches": batches, "cached_tokens": cached},
    }


HEAD, OTHER = own(32), own(40)


def warm(passes: int) -> list[Case]:
    """The oldest prompt is asked again behind one whose answer needs room, when the queue was sorted so often."""
    before = [asked(OTHER), asked(own(40)), *[asked([each]) for each in range(passes - 2)]]
    alone = [{**request, "arrival": arrival} for arrival, request in enumerate(before)]
    return [*alone, asked(own(10), answer=21, arrival=passes), asked(OTHER, own(1), arrival=passes)]


QUEUES: dict[str, Case] = {
    "under fcfs alike prompts that come together share nothing": case(
        [[0, 1]], [0, 0], [asked(HEAD, own(4)), asked(HEAD, own(4))]
    ),
    "under lpm the second that shares 32 tokens comes last": case(
        [[0, 2, 1]],
        [0, 0, 0],
        [asked(HEAD, own(4)), asked(HEAD, own(4)), asked(own(9))],
        policy="lpm",
    ),
    "31 shared tokens are not enough to come last": case(
        [[0, 1, 2]],
        [0, 0, 0],
        [asked(HEAD[:31], own(4)), asked(HEAD[:31], own(4)), asked(own(9))],
        policy="lpm",
    ),
    "who finds 32 in the tree is compared with those before, who finds 33 is not": case(
        [[0, 1], [4, 5, 2, 6, 3]],
        [0, 0, 32, 32, 33, 33, 0],
        [
            asked(HEAD, [7], own(3)),
            asked(OTHER[:32], own(3)),
            asked(OTHER[:32], own(4), arrival=1),
            asked(OTHER[:32], own(4), arrival=1),
            asked(HEAD, [7], own(4), arrival=1),
            asked(HEAD, [7], own(4), arrival=1),
            asked(own(5), arrival=1),
        ],
        policy="lpm",
    ),
    "the longest match goes first": case(
        [[0], [3, 2, 1]],
        [0, 10, 20, 30],
        [
            asked(OTHER),
            asked(OTHER[:10], own(4), arrival=1),
            asked(OTHER[:20], own(4), arrival=1),
            asked(OTHER[:30], own(4), arrival=1),
        ],
        policy="lpm",
    ),
    "more than 128 that wait are taken as they came": case(
        [[0], list(range(1, 130))],
        [0, *[0] * 128, 30],
        [asked(OTHER), *[asked(own(3), arrival=1) for _ in range(128)], asked(OTHER[:30], own(4), arrival=1)],
        policy="lpm",
        max_running=200,
    ),
    "128 that wait are sorted": case(
        [[0], [128, *range(1, 128)]],
        [0, *[0] * 127, 30],
        [asked(OTHER), *[asked(own(3), arrival=1) for _ in range(127)], asked(OTHER[:30], own(4), arrival=1)],
        policy="lpm",
        max_running=200,
    ),
    "depth first, where the most wait, and a node after what is below it": case(
        [[0, 1], [5, 6, 3, 2, 4]],
        [0, 0, 20, 30, 20, 35, 35],
        [
            asked(HEAD),
            asked(OTHER),
            asked(HEAD[:20], own(4), arrival=1),
            asked(OTHER[:30], own(4), arrival=1),
            asked(HEAD[:20], own(4), arrival=1),
            asked(OTHER[:35], own(4), arrival=1),
            asked(OTHER[:35], own(4), arrival=1),
        ],
        policy="dfs-weight",
    ),
    "a batch has fewer tokens than max_prefill_tokens, unless one request has more": case(
        [[0], [1, 2], [3]],
        [0, 0, 0, 0],
        [asked(own(150)), asked(own(60)), asked(own(39)), asked(own(1))],
        max_prefill_tokens=100,
    ),
    "max_running_requests": case(
        [[0, 1], [2], [3]], [0, 0, 0, 0], [asked(own(5), answer=each) for each in (3, 2, 2, 1)], max_running=2
    ),
    "a prompt, its answer and a page must be less than what is free": case(
        [[0, 1], [2]], [0, 0, 0], [asked(own(39)), asked(own(20)), asked(own(35))], capacity=100
    ),
    "one token less is let in": case(
        [[0, 1, 2]], [0, 0, 0], [asked(own(39)), asked(own(20)), asked(own(34))], capacity=100
    ),
    "no more than 4,096 tokens of an answer are reserved": case(
        [[0, 1]], [0, 0], [asked(own(10), answer=4_500), asked(own(2_000))], capacity=6_200
    ),
    "a share of the answers of those that run is kept free": case(
        [[0, 1], [2]],
        [0, 0, 0],
        [asked(own(10), answer=60), asked(own(5)), asked(own(56))],
        capacity=100,
        new_token_ratio=0.5,
    ),
    "where nothing ran before, the next pass tries again": case(
        [[0], [1]],
        [0, 0],
        [asked(own(10), answer=60), asked(own(40))],
        capacity=100,
        new_token_ratio=0.5,
    ),
    "each 32nd pass touches what waits": case(
        [[each] for each in range(34)], [*[0] * 33, 40], warm(32), capacity=130, max_running=1
    ),
    "no other pass does": case([[each] for each in range(33)], [0] * 33, warm(31), capacity=129, max_running=1),
    "chunks": case(
        [[0], [0], [0, 1], [1, 2]],
        [0, 0, 0],
        [asked(own(40)), asked(own(20)), asked(own(4))],
        page_size=4,
        chunked_prefill_size=16,
    ),
    "a chunk is found by others": case(
        [[0], [0, 1]], [0, 32], [asked(OTHER), asked(OTHER[:32], own(9))], chunked_prefill_size=32
    ),
}
