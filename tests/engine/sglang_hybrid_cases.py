"""Random workloads for SGLang's rules of windows and states: one request after the other, in a pool without a limit."""

from __future__ import annotations

import random

from tests.engine.sglang_cases import Case

KINDS = ("window", "no_buffer", "extra_buffer")


def random_hybrid_case(seed: int, kind: str) -> Case:
    """Conversations and forks of them, in windows and on grids of many lengths, with and without chunks."""
    chance = random.Random(seed)
    engine: Case = {"page_size": chance.choice((1, 1, 4, 16))}
    chunks = [None, None, engine["page_size"] * chance.choice((8, 16, 40))]
    if kind == "window":
        engine["window"] = chance.choice((8, 24, 64, 100, 128, 130))
    else:
        engine["mamba_radix_cache_strategy"] = kind
        engine["page_size"] = 1
    if kind == "extra_buffer":
        page = engine["page_size"] = chance.choice((1, 1, 64, 128))
        engine["mamba_track_interval"] = chance.choice((64, 128, 256))
        chunks = [None, None, *((64, 100, 320) if page == 1 else (128, 256, 384))]
    if chunk := chance.choice(chunks):
        engine["chunk"] = chunk
    words, texts, requests = chance.choice((2, 3, 50)), [[]], []
    for _ in range(chance.randrange(4, 28)):
        text = chance.choice(texts)
        kept = chance.choice((len(text), len(text), chance.randrange(len(text) + 1)))
        prompt = (text[:kept] + _words(chance, words, (1, 5, 20, 90, 200)))[:900]
        answer = _words(chance, words, (1, 2, 9, 60, 150, 320))
        texts.append(prompt + answer if chance.random() < 0.6 else prompt)
        requests.append({"prompt": prompt, "output": answer})
    return {"seed": seed, "engine": engine, "requests": requests}


def _words(chance: random.Random, words: int, lengths: tuple[int, ...]) -> list[int]:
    return [chance.randrange(words) for _ in range(chance.choice(lengths))]
