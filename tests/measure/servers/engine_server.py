"""A server that is kvtool's own engine: its counters, its answers and its KV events are those that vLLM would publish."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from kvtool.accounting.event_writer import event_fields
from kvtool.config.asked_run import RunOptions
from kvtool.engine.blocks.block_keys import Lora
from kvtool.engine.clock import VirtualClock
from kvtool.engine.config import EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.groups.kv_group import CachePlan
from kvtool.engine.request import Request
from kvtool.engine.runner import DryRunner
from kvtool.measure.servers.kv_events.event_batches import EventBatch, read_payload
from kvtool.profiler.opening import open_workload
from kvtool.text.tokens.tokenizer import Tokenizers
from kvtool.workload.jobs import JobMaker
from kvtool.workload.logs.logs import LogOptions
from kvtool.workload.prompts_in_memory import MemorySource
from tests.measure.servers.made_metrics import vllm_metrics

_ANSWER = 4
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
"""Bounds of vLLM's histogram of prompt lengths, as far as they matter here."""


class Clock:
    """The common clock of some servers, a second a step."""

    def __init__(self) -> None:
        self.now = 1_795_334_000.0

    def tick(self) -> float:
        """The next second."""
        self.now += 1
        return self.now


@dataclass
class Answered:
    """What a server says of a request."""

    prompt: int
    cached: int
    session: str
    sent: float


@dataclass
class EngineServer:
    """One server; a test asks it and writes down what it published."""

    clock: Clock
    block_size: int = 16
    blocks: int = 400
    caching: bool = True
    plan: CachePlan | None = None
    engine_label: str = "0"
    version: str = "0.32.0"
    external: int | None = None
    """Tokens that it asked a second tier for, in vain."""
    skipped: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._numbers = itertools.count()
        self.start()

    def start(self) -> None:
        """Begin with an empty cache and counters of 0."""
        self.created = self.clock.tick()
        config = EngineConfig(
            block_size=self.block_size if self.plan is None else self.plan.hash_block_size,
            num_blocks=self.blocks,
            enable_prefix_caching=self.caching,
            hash_algo="sha256",
            max_num_batched_tokens=2048,
            plan=self.plan,
        )
        latency = open_workload(
            RunOptions(inputs=["x"]), Tokenizers(offline=True), source=MemorySource([{"prompt": "x"}], LogOptions())
        )
        self._engine = Engine(config, DryRunner(), VirtualClock(latency.planned.plan.latency), record_events=True)
        self.queries = self.hits = self.prompt = self.requests = self.preemptions = 0
        self.sizes: list[int] = []
        self._seq = 0

    def serve(
        self, ids: Sequence[int], *, salt: str | None = None, lora: str | None = None, logprobs: bool = False
    ) -> Answered:
        """One request, alone."""
        return self.serve_all([ids], salt=salt, lora=lora, logprobs=logprobs)[0]

    def serve_all(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        salt: str | None = None,
        lora: str | None = None,
        logprobs: bool = False,
        answer: int = _ANSWER,
    ) -> list[Answered]:
        """Requests that run together."""
        sent = self.clock.tick()
        requests = []
        for ids in prompts:
            number = next(self._numbers)
            outputs = [3 + (number * 31 + at) % 200 for at in range(answer)]
            requests.append(
                Request(
                    f"s{number}",
                    len(ids),
                    prompt_ids=np.asarray(ids, dtype=np.int32),
                    output_ids=outputs,
                    max_tokens=answer,
                    cache_salt=salt,
                    lora=None if lora is None else Lora(lora, f"/adapters/{lora}"),
                    skip_reading_cache=logprobs,
                )
            )
            self._engine.add(requests[-1])
        while self._engine.busy:
            self._engine.step()
            self._publish(requests[0].id if len(requests) == 1 else None)
        for request in requests:
            self.prompt += request.num_prompt_tokens
            self.requests += 1
            self.sizes.append(request.num_prompt_tokens)
            if self.caching and not logprobs:
                self.queries += request.num_prompt_tokens
                self.hits += request.num_cached_tokens
            self.preemptions += request.num_preemptions
        return [Answered(each.num_prompt_tokens, each.num_cached_tokens, each.id, sent) for each in requests]

    def clear(self) -> None:
        """Empty the cache."""
        assert self._engine.scheduler.reset_prefix_cache()
        self._publish(None)

    def _publish(self, session: str | None) -> None:
        groups = self.plan.groups if self.plan is not None else ()
        size = self._engine.config.block_size
        events = [event_fields(each, size, groups=groups) for each in self._engine.cache.take_events()]
        if not events or not self.caching:
            return
        if session is not None:
            events = [{**each, "session_id": session} if each["type"] == "BlockStored" else each for each in events]
        payload = msgspec.msgpack.encode([self.clock.tick(), events, int(self.engine_label)])
        line = {"at": self.clock.now, "topic": "", "seq": self._seq, "payload_b64": base64.b64encode(payload).decode()}
        self._seq += 1
        self.messages.append(line)

    def batches(self, first: int = 0) -> Iterator[EventBatch]:
        """What was published, from that message on."""
        for each in self.messages[first:]:
            yield read_payload(base64.b64decode(each["payload_b64"]), each["seq"])

    def metrics(self, **config: str) -> str:
        """What /metrics says now."""
        size = self.block_size if self.plan is None else self.plan.cache_block_size
        config = {"num_gpu_blocks": str(self.blocks), "block_size": str(size), **config}
        config |= {"enable_prefix_caching": str(self.caching), "effective_attention_block_size": str(size)}
        labels = f'engine="{self.engine_label}",model_name="m"'
        name = "vllm:request_prompt_tokens"
        lines = [f"# TYPE {name} histogram"]
        bounds = [(str(bound), sum(size <= bound for size in self.sizes)) for bound in _SIZES]
        bounds.append(("+Inf", len(self.sizes)))
        lines += [f'{name}_bucket{{{labels},le="{bound}"}} {count}.0' for bound, count in bounds]
        lines += [f"{name}_sum{{{labels}}} {sum(self.sizes)}.0", f"{name}_count{{{labels}}} {len(self.sizes)}.0", ""]
        return vllm_metrics(
            prompt=self.prompt,
            queries=self.queries,
            cached=self.hits,
            external_queries=self.external,
            preemptions=self.preemptions,
            requests=self.requests,
            generated=_ANSWER * self.requests,
            created=self.created,
            engine=self.engine_label,
            config=config,
            more="\n".join(lines),
        )

    def pages(self, **config: str) -> dict[str, str | bytes]:
        """What it answers to GET."""
        return {
            "/metrics": self.metrics(**config),
            "/version": json.dumps({"version": self.version}),
            "/v1/models": json.dumps({"data": [{"id": "m", "root": "m", "parent": None, "max_model_len": 65536}]}),
        }

    def write(self, folder: Path, before: str | None = None, *, events: bool = True) -> Path:
        """The folder of a recording, without its requests."""
        folder.mkdir(parents=True, exist_ok=True)
        if before is not None:
            (folder / "metrics_before.txt").write_text(before)
        (folder / "metrics_after.txt").write_text(self.metrics())
        if events:
            (folder / "kv_events.jsonl.gz").write_bytes(gzip.compress(_lines(self.messages)))
        return folder


def _lines(rows: Sequence[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def tokens_of(texts: Sequence[str]) -> Iterator[list[int]]:
    """The tokens of prompts, as a server with kvtool's own tokenizer reads them."""
    source = MemorySource([{"prompt": text} for text in texts], LogOptions(by_time=False))
    opened = open_workload(RunOptions(inputs=["made"]), Tokenizers(offline=True), source=source)
    maker = JobMaker(opened.renderer, seed=0)
    for each in source.conversations():
        turn = each.next_turn(None)
        assert turn is not None
        yield maker.make(turn).ids.tolist()


def log_row(text: str, answered: Answered, **fields: object) -> dict[str, Any]:
    """A request of a log, with what the server reported."""
    usage = {
        "prompt_tokens": answered.prompt,
        "completion_tokens": _ANSWER,
        "prompt_tokens_details": {"cached_tokens": answered.cached},
    }
    return {
        "request": {"prompt": text, "max_tokens": _ANSWER, **fields},
        "response": {"usage": usage, "choices": [{"text": "", "token_ids": [3] * _ANSWER, "finish_reason": "length"}]},
    }


def write_log(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """A log."""
    path.write_bytes(_lines(rows))
    return path
