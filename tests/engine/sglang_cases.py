"""Random workloads for SGLang's rules, in the form of the recorded cases."""

from __future__ import annotations

import random
from typing import Any

Case = dict[str, Any]


def random_case(seed: int, mode: str) -> Case:
    """A few dozen requests that share beginnings in many ways, in a pool that is too small, just enough, or large."""
    chance = random.Random(seed)
    page = chance.choice((1, 1, 1, 2, 4, 16, 64))
    scale = max(1, page * chance.choice((1, 2, 5)) // 4) * chance.choice((1, 3))
    words = chance.choice((2, 50, 1 << 20))
    keys = chance.choice(((None,), (None, "a"), ("a", "b", None)))
    salts = chance.choice(((None,), (None,), (None, "s")))
    stems = [_tokens(chance, words, 1, 12 * scale) for _ in range(chance.choice((1, 3, 8)))]
    texts: list[list[int]] = []
    requests: list[Case] = []
    arrival = chance.randrange(2)
    for _ in range(chance.choice((3, 20, 45))):
        prompt = _prompt(chance, words, scale, stems, texts)
        output = _tokens(chance, words, 1, chance.choice((1, 2, 9 * scale)))
        texts.append(prompt + output)
        request: Case = {"prompt": prompt, "output": output}
        if key := chance.choice(keys):
            request["extra_key"] = key
        if salt := chance.choice(salts):
            request["cache_salt"] = salt
        if chance.random() < 0.4:
            request["priority"] = chance.randrange(-1, 4)
        requests.append(request)
    longest = max(_least_pool(len(each["prompt"]), len(each["output"]), page) for each in requests)
    together = sum(len(each["prompt"]) + len(each["output"]) for each in requests)
    capacity = chance.choice((longest, longest, int(longest * 1.3), 2 * longest, 4 * longest, longest + together // 3))
    engine: Case = {
        "page_size": page,
        "eviction": chance.choice(("lru", "lfu", "slru", "priority")),
        "capacity": -(-capacity // page) * page,
    }
    if engine["eviction"] == "slru" and chance.random() < 0.5:
        engine["eviction_config"] = {"protected_threshold": chance.randrange(1, 5)}
    if chance.random() < 0.35:
        engine["chunked_prefill_size"] = page * chance.choice((1, 2, max(3, longest // page // 3)))
    if mode == "queue":
        engine |= {
            "policy": chance.choice(("fcfs", "lpm", "lpm", "dfs-weight")),
            "new_token_ratio": chance.choice((0.0, 0.1, 0.5, 0.7, 1.0)),
            "max_prefill_tokens": chance.choice((longest // 2, longest, 3 * longest, 16384)),
            "max_running": chance.choice((1, 2, 4, 16)),
        }
        for request in requests:
            arrival += chance.random() < 0.15
            request["arrival"] = arrival
    return {"engine": engine, "mode": mode, "requests": requests, "seed": seed}


def _least_pool(prompt: int, output: int, page: int) -> int:
    """Tokens of the smallest pool in which SGLang runs a request: a prompt leaves 6 or a page, most answers a page, too."""
    if output == 1:
        return prompt + 1 + max(6, page)
    return max(prompt + 7, -(-prompt // page) * page + page + 1 + output)


def _tokens(chance: random.Random, words: int, least: int, most: int) -> list[int]:
    return [chance.randrange(words) for _ in range(chance.randint(least, max(least, most)))]


def _prompt(chance: random.Random, words: int, scale: int, stems: list[list[int]], texts: list[list[int]]) -> list[int]:
    """A new text, one behind a common stem, a turn behind an earlier text, the same again, or one cut or changed."""
    kind = chance.random()
    if kind < 0.35 or not texts:
        return chance.choice(stems) + _tokens(chance, words, 1, 6 * scale)
    earlier = chance.choice(texts)
    if kind < 0.55 and len(earlier) < 60 * scale:
        return earlier + _tokens(chance, words, 1, 6 * scale)
    if kind < 0.7:
        return list(earlier)
    if kind < 0.85:
        return earlier[: chance.randint(1, len(earlier))]
    if kind < 0.93:
        at = chance.randrange(len(earlier))
        return [*earlier[:at], chance.randrange(words), *earlier[at + 1 :]]
    return _tokens(chance, words, 1, 20 * scale)
