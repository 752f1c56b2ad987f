"""Sessions as recordings have them, made with the engine in the place of the server: no prompts of others."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from kvtool.accounting.event_writer import event_fields
from kvtool.accounting.served_cache import ServedCache
from kvtool.config.asked_run import RunOptions
from kvtool.engine.clock import VirtualClock
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.groups.capacity import PlannedPool
from kvtool.engine.groups.model_plan import ServeOptions
from kvtool.engine.model.configs.find_served import find_served
from kvtool.engine.prediction.latency import LatencyModel
from kvtool.engine.runner import DryRunner
from kvtool.profiler.opening import open_workload
from kvtool.text.tokens.tokenizer import Tokenizers
from kvtool.workload.jobs import JobMaker
from kvtool.workload.logs.logs import LogOptions
from kvtool.workload.prompts_in_memory import MemorySource

BLOCK = 16
BLOCKS = 200
LENGTH = 2048
SECRET = "the-vault-opens-at-nine"
ANSWER = [4, 5, 6, 7]
_WORDS = ["ledger", "harbour", "copper", "violet", "meadow", "signal", "lantern", "orchard", "timber", "pebble"]


def prompts(count: int = 12) -> list[str]:
    """Prompts of a shared beginning and one of three tasks, each with words of its own at the end."""
    shared = f"You answer questions about the harbour. {SECRET}. " + " ".join(_WORDS * 8)
    return [
        f"{shared} Task {number % 3}: {' '.join(_WORDS[number % 3 :] * 4)} Question {number} about {_WORDS[number % 10]}."
        for number in range(count)
    ]


@dataclass
class MadeSession:
    """What the files of a recording say; a test changes it, and writes it."""

    rows: list[dict[str, Any]]
    batches: list[list[dict[str, Any]]]
    queries: int
    hits: int
    created: tuple[float, float] = (100.0, 100.0)
    dropped: set[int] = field(default_factory=set)
    """Numbers of batches that nobody received."""
    blocks: int = BLOCKS
    served: ServedCache | None = None
    """The cache of a model that has more than one group of full attention."""
    root: str = "nowhere"

    def write(self, folder: Path) -> Path:
        """The folder of a recording."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "requests.jsonl.gz").write_bytes(gzip.compress(_lines(self.rows)))
        messages = [
            {"at": 1.0, "topic": "", "seq": 7 + seq, "payload_b64": base64.b64encode(_payload(events)).decode()}
            for seq, events in enumerate(self.batches)
            if seq not in self.dropped
        ]
        (folder / "kv_events.jsonl.gz").write_bytes(gzip.compress(_lines(messages)))
        if self.served is not None:
            row = {"id": "m", "root": self.root, "parent": None, "max_model_len": LENGTH}
            (folder / "models.json").write_text(json.dumps({"data": [row]}))
            steps = {"max_num_batched_tokens": 8192, "async_scheduling": False}
            (folder / "server_info.json").write_text(json.dumps({"vllm_config": {"scheduler_config": steps}}))
        (folder / "metrics_before.txt").write_text(self.metrics(0, 0, self.created[0]))
        (folder / "metrics_after.txt").write_text(self.metrics(self.queries, self.hits, self.created[1]))
        return folder

    def metrics(self, queries: int, hits: int, created: float) -> str:
        """The counters and the configuration, as /metrics has them."""
        labels = 'engine="0",model_name="m"'
        lines = []
        for name, value in (("queries", 5000 + queries), ("hits", 3000 + hits)):
            lines += [
                f"# TYPE vllm:prefix_cache_{name}_total counter",
                f"vllm:prefix_cache_{name}_total{{{labels}}} {value}.0",
                f"# TYPE vllm:prefix_cache_{name}_created gauge",
                f"vllm:prefix_cache_{name}_created{{{labels}}} {created}",
            ]
        config = (
            f'block_size="{BLOCK}",cache_dtype="auto",enable_prefix_caching="True",engine="0",num_gpu_blocks="{self.blocks}",'
            'num_gpu_blocks_override="None",prefix_caching_hash_algo="sha256",sliding_window="None"'
        )
        if self.served is not None:
            tokens = PlannedPool(self.served.planned.plan, self.blocks).tokens(LENGTH)
            config += f',kv_cache_size_tokens="{tokens}"'
        lines += ["# TYPE vllm:cache_config_info gauge", f"vllm:cache_config_info{{{config}}} 1.0", ""]
        return "\n".join(lines)


def _lines(values: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(value) + "\n" for value in values).encode()


def _payload(events: list[dict[str, Any]]) -> bytes:
    return msgspec.msgpack.encode([1.0, events, 0])


def chat_body(text: str) -> dict[str, Any]:
    """A prompt as a request of a chat."""
    return {"model": "m", "messages": [{"role": "user", "content": text}], "max_tokens": 4}


def made_session(
    texts: list[str] | None = None,
    *,
    blocks: int = BLOCKS,
    order: list[int] | None = None,
    body_of: Callable[[str], dict[str, Any]] = chat_body,
    model: str | None = None,
) -> MadeSession:
    """Every prompt as a request, one at a time; `order` is that of admission, where it is not that of sending.

    `model` is the folder of a model with several groups.
    """
    texts = prompts() if texts is None else texts
    bodies = [body_of(text) for text in texts]
    source = MemorySource(bodies, LogOptions(by_time=False))
    opened = open_workload(RunOptions(inputs=["made"]), Tokenizers(offline=True), source=source)
    maker = JobMaker(opened.renderer, seed=0)
    jobs = [maker.make(turn) for each in source.conversations() if (turn := each.next_turn(None)) is not None]
    config = EngineConfig(block_size=BLOCK, num_blocks=blocks, hash_algo="sha256", max_num_batched_tokens=8192)
    served = None
    if model is not None:
        serving = ServeOptions(block_size=BLOCK, max_model_len=LENGTH, max_num_batched_tokens=8192)
        served = ServedCache.of(find_served(model), serving)
        config = replace(config, plan=served.plan, block_size=served.block_size, max_model_len=LENGTH)
    groups = config.plan.groups if config.plan is not None else ()
    latency: LatencyModel = opened.planned.plan.latency
    engine = Engine(config, DryRunner(), VirtualClock(latency), record_events=True)
    rows: list[dict[str, Any]] = [{} for _ in bodies]
    batches: list[list[dict[str, Any]]] = []
    queries = hits = 0
    for number in order or range(len(bodies)):
        request = jobs[number].request
        request.output_ids, request.max_tokens = list(ANSWER), len(ANSWER)
        engine.add(request)
        while engine.busy:
            engine.step()
            events = [event_fields(event, BLOCK, groups=groups) for event in engine.cache.take_events()]
            named = [{**each, "session_id": f"s{number}"} if each["type"] == "BlockStored" else each for each in events]
            if named:
                batches.append(named)
        queries += request.num_prompt_tokens
        hits += request.num_cached_tokens
        rows[number] = {
            "n": number,
            "endpoint": "/v1/chat/completions",
            "body": bodies[number],
            "session_id": f"s{number}",
            "sent": float(number),
            "done": number + 0.5,
            "status": 200,
            "response": {
                "usage": {
                    "prompt_tokens": request.num_prompt_tokens,
                    "completion_tokens": len(ANSWER),
                    "prompt_tokens_details": {"cached_tokens": request.num_cached_tokens},
                },
                "choices": [
                    {"finish_reason": "length", "token_ids": ANSWER, "message": {"role": "assistant", "content": "x"}}
                ],
            },
        }
    batches[0].insert(0, {"type": "AllBlocksCleared"})
    return MadeSession(rows, batches, queries, hits, blocks=blocks, served=served, root=model or "nowhere")
