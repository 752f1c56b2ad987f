"""The embedded engine on the CPU beside transformers' continuous batching and, if it is given, vLLM for CPUs.

One small Llama (27.7 M parameters, fp32, random from a seed, made here and kept in a temporary folder), 32 requests of 2,048 shared
and 64 own tokens, 16 output tokens, prefix cache on in every engine. TTFT is the time from submission to the first token of a
request that runs alone, with its prefix new (cold) and cached (warm, median of 5); total is all 32 requests, submitted at once with
a prefix that is new. Every engine runs in a process of its own, on all cores, and in turn; the best round counts. The last row is
the matrix products alone (see `product_floor.py`): a bound for every engine that multiplies in fp32 with oneDNN.

    python benchmarks/vs_transformers.py [--vllm-python PATH] [--busy]

With --busy, a program that computes without end runs beside the engines. PATH is
the interpreter of an environment with vLLM (also: $VLLM_PYTHON). transformers comes with kvtool.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from timing import beside_a_busy_program, machine

SHARED, OWN = 2_048, 64
VOCABULARY = 8_640
FLOOR = "products only"
"""What is timed beside the engines, so that one sees how much faster any of them can become."""
Run = dict[str, Any]


def save_model(folder: Path, seed: int) -> int:
    """A Llama in Hugging Face's layout; returns how many parameters it has."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=512, intermediate_size=1_536, num_hidden_layers=6, num_attention_heads=8,
        num_key_value_heads=4, max_position_embeddings=4_096, tie_word_embeddings=False, eos_token_id=None,
    )  # fmt: skip
    model: Any = LlamaForCausalLM(config)
    model.save_pretrained(folder)
    return sum(weights.numel() for weights in model.parameters())


def make_prompts(requests: int) -> np.ndarray:
    """int64[2, requests, SHARED + OWN]: two sets, one shared prefix each."""
    rng = np.random.default_rng(0)
    ids = rng.integers(3, VOCABULARY, (2, requests, SHARED + OWN))
    ids[:, :, :SHARED] = ids[:, :1, :SHARED]
    return ids


def run(python: str, engine: str, model: Path, prompts: Path, outputs: int) -> Run:
    name, words = "generate_with.py", [engine, model, prompts, str(outputs)]
    if engine == FLOOR:
        name, words = "product_floor.py", [model, prompts, str(outputs), str(SHARED)]
    done = subprocess.run([python, Path(__file__).with_name(name), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{engine} failed:\n{done.stderr[-3000:]}")
    result: Run = json.loads(done.stdout)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vllm-python", default=os.environ.get("VLLM_PYTHON"), metavar="PATH")
    parser.add_argument("--requests", type=int, default=32)
    parser.add_argument("--outputs", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--busy", action="store_true", help="a program that computes without end beside them")
    parser.add_argument("--skip", nargs="*", default=[], help="engines to leave out")
    options = parser.parse_args()
    pythons = {
        "kvtool": sys.executable,
        "vllm": options.vllm_python,
        "transformers": sys.executable,
        FLOOR: sys.executable,
    }
    engines = {name: python for name, python in pythons.items() if python is not None and name not in options.skip}
    print(machine())
    if options.vllm_python is None:
        print("no vLLM to compare with: give --vllm-python PATH")
    with tempfile.TemporaryDirectory() as temporary:
        model, prompts = Path(temporary, "model"), Path(temporary, "prompts.npy")
        print(
            f"{save_model(model, 0) / 1e6:.1f} M parameters, {options.requests} requests, {options.outputs} tokens out"
        )
        np.save(prompts, make_prompts(options.requests))
        runs: dict[str, list[Run]] = {name: [] for name in engines}
        with beside_a_busy_program(wanted=options.busy):
            for _ in range(options.rounds):
                for name, python in engines.items():
                    runs[name].append(run(python, name, model, prompts, options.outputs))
    best = {name: {key: min(r[key] for r in done) for key in ("cold", "warm", "total")} for name, done in runs.items()}
    tokens = options.requests * options.outputs
    for name, times in best.items():
        line = f"{name:13} TTFT cold {times['cold']:7.3f} s  warm {times['warm']:7.3f} s  total {times['total']:7.2f} s"
        line += f"  {tokens / times['total']:7.1f} tokens/s"
        if name != "kvtool" and "kvtool" in best:
            ratios = (f"{key} {times[key] / best['kvtool'][key]:.2f}" for key in times)
            pairs = zip(runs[name][0]["tokens"], runs["kvtool"][0]["tokens"], strict=name != FLOOR)
            line += f"  times kvtool's: {', '.join(ratios)}"
            line += f"; {sum(a == b for a, b in pairs)} answers the same" if name != FLOOR else ""
        print(line)


if __name__ == "__main__":
    main()
