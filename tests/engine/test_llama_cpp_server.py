"""llama.cpp's rules beside a real server, with toy models and random options and requests: where $XLLAMACPP_PYTHON names the Python
of an environment that has xllamacpp and gguf."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kvtool.engine.engine_error import EngineError
from kvtool.engine.rules.llama_cpp import LlamaCppCache
from kvtool.engine.rules.llama_cpp_options import LlamaCppOptions
from tests.conftest import some
from tests.engine.test_llama_cpp_rules import asked

if not os.environ.get("XLLAMACPP_PYTHON"):
    pytest.skip("a llama.cpp is needed: $XLLAMACPP_PYTHON", allow_module_level=True)

pytestmark = pytest.mark.llama

_ROW = 2 * 64 * 2
"""Bytes of keys and values of a toy layer: 64 numbers of 16 bits each."""
_STATES = {"lfm2": (1, 5, 5 * 2 * 64 * 4), "mamba": (0, 6, 6 * (2 + 4) * 128 * 4)}
"""Layers with attention, layers with a state, and the bytes of one state of all layers: two inputs of each convolution, and in
Mamba four numbers a channel."""

Asks = list[dict[str, Any]]


def random_options(chance: random.Random, model: int | str | None) -> LlamaCppOptions:
    window = model if isinstance(model, int) else None
    attending, states, state_bytes = _STATES.get(str(model), (2 if window is None else 1, 0, 0))
    slots, unified = chance.choice([1, 1, 2, 4]), chance.random() < 0.5
    context = chance.choice([256, 512, 700, 1500])
    return LlamaCppOptions(
        parallel=slots,
        kv_unified=unified,
        ctx_size=context * chance.choice([1, 2]) if unified else context * slots,
        cache_ram=chance.choice([0, -1, 1, 1, 8192]),
        cache_idle_slots=chance.random() < 0.6,
        slot_prompt_similarity=chance.choice([0, 0.1, 0.1, 0.5]),
        cache_reuse=chance.choice([0, 0, 4]),
        batch_size=chance.choice([2048, 2048, 100]),
        ubatch_size=chance.choice([512, 64, 16]),
        swa_full=window is not None and chance.random() < 0.2,
        ctx_checkpoints=chance.choice([0, 1, 3, 32]),
        checkpoint_min_step=chance.choice([0, 100, 8192]),
        sliding_window=window,
        kv_bytes_per_token=_ROW * attending,
        kv_layers=attending,
        window_bytes_per_token=0 if window is None else 5 * _ROW,
        window_layers=0 if window is None else 5,
        state_layers=states,
        state_bytes=state_bytes,
    )


def random_requests(chance: random.Random, context: int) -> Asks:
    """Prompts that begin like earlier ones, go on after their answers, or had text taken out or replaced; some do not fit."""
    seen: list[tuple[list[int], list[int]]] = [([5, 6, 7], [8])]
    found: Asks = []

    def text(tokens: int) -> list[int]:
        return [chance.randrange(3, 250) for _ in range(tokens)]

    for _ in range(25):
        prompt, answer = chance.choice(seen)
        kind, at = chance.random(), chance.randrange(len(prompt))
        if kind < 0.3:
            prompt = prompt + answer + text(chance.randint(1, 60))
        elif kind < 0.5:
            prompt = prompt[:at] + prompt[at + chance.randint(1, 60) :]
        elif kind < 0.65:
            prompt = prompt[:at] + text(chance.randint(1, 40)) + prompt[at:]
        elif kind < 0.8:
            prompt = text(chance.randint(1, context // 2))
        prompt = prompt[: context - chance.choice([-1, 0, 1, 2, 30, 30, 30])] or [5]
        tokens, force = chance.choice([1, 2, 9, 60]), chance.randrange(3, 250)
        request: dict[str, Any] = {"prompt": prompt, "n_predict": tokens, "force": force}
        if chance.random() < 0.06:
            request["cache_prompt"] = False
        if chance.random() < 0.06:
            request["id_slot"] = chance.randrange(5)
        found.append(request)
        seen.append((prompt, [force] * tokens))
    return found


def told(options: LlamaCppOptions, requests: Asks, folder: Path, model: int | str | None) -> list[int | None]:
    """By the server."""
    params = {
        "n_parallel": options.slots,
        "kv_unified": options.unified,
        "n_ctx": options.ctx_size,
        "cache_ram_mib": options.cache_ram,
        "cache_idle_slots": options.cache_idle_slots,
        "slot_prompt_similarity": options.slot_prompt_similarity,
        "n_cache_reuse": options.cache_reuse,
        "n_batch": options.batch_size,
        "n_ubatch": options.ubatch_size,
        "swa_full": options.swa_full,
        "n_ctx_checkpoints": options.ctx_checkpoints,
        "checkpoint_min_step": options.checkpoint_min_step,
    }
    job = folder / "job.json"
    job.write_text(json.dumps({"params": params, "window": model, "requests": requests}))
    command = [
        os.environ["XLLAMACPP_PYTHON"],
        str(Path(__file__).with_name("llama_cpp_peer.py")),
        str(job),
        str(folder),
    ]
    with (folder / "llama.log").open("wb") as log:
        ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, timeout=300, check=False)
    assert ran.returncode == 0, (folder / "llama.log").read_text(errors="replace")
    found: list[int | None] = json.loads(ran.stdout)
    return found


def predicted(options: LlamaCppOptions, requests: Asks) -> list[int | None]:
    cache = LlamaCppCache(options)
    found: list[int | None] = []
    for request in requests:
        own = {name: request[name] for name in ("cache_prompt", "id_slot") if name in request}
        try:
            served = cache.serve(asked(request["prompt"], [request["force"]] * request["n_predict"], **own))
        except EngineError:
            found.append(None)
        else:
            found.append(served.cached)
        cache.check()
    return found


@pytest.mark.parametrize("seed", some(range(12), 3))
@pytest.mark.parametrize("model", [None, 16, 64, "lfm2", "mamba"])
def test_random_requests_hit_what_the_server_tells(model: int | str | None, seed: int, tmp_path: Path) -> None:
    chance = random.Random(f"{model} {seed}")
    options = random_options(chance, model)
    requests = random_requests(chance, options.slot_ctx)
    assert predicted(options, requests) == told(options, requests, tmp_path, model)
