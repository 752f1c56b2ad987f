"""What the tests of replicas, times to live and providers share: small workloads by rules, through the accountant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from kvtool.accounting.caches.cache_rules import CacheRules
from kvtool.accounting.plan import Plan
from kvtool.engine.config import EngineConfig
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.prediction.latency import LatencyModel, find_accelerator
from kvtool.profiler.run.purposes import explained_run
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run.run_setup import RunSetup
from kvtool.text.terminal.progress import Progress
from kvtool.workload.jobs import JobMaker
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Conversation, Recorded, Turn

LATENCY = LatencyModel(find_geometry("llama-3.1-8b"), find_accelerator("h100"))
BLOCK = 4


class Given:
    """A workload of one conversation for each list of turns."""

    def __init__(self, *conversations: list[Turn]) -> None:
        self._conversations = conversations

    def conversations(self) -> Iterator[Conversation]:
        return iter([Recorded(iter([replace(turn) for turn in turns])) for turns in self._conversations])


def turn(ids: Sequence[int], at: float | None = None, outputs: Sequence[int] = (0,), **options: object) -> Turn:
    """A request of token ids that arrives at second `at`; with one output token, nothing of the answer is computed."""
    group = str(options.pop("group", "g"))
    tokens, answer = np.array(ids, np.int32), np.array(outputs, np.int32)
    return Turn(group, token_ids=tokens, output_ids=answer, arrival=at, **options)  # type: ignore[arg-type]


def numbers(start: int, count: int) -> list[int]:
    return list(range(start, start + count))


def account(
    renderer: Renderer,
    rules: CacheRules,
    *conversations: list[Turn],
    num_blocks: int | None = None,
    block_size: int = BLOCK,
    timed: bool = False,
    seed: int = 0,
    trace_rules: bool = False,
) -> RunResult:
    """One pass by rules; every fate is checked against the sums."""
    size = rules.provider.step if rules.provider is not None else block_size
    plan = Plan(
        EngineConfig(block_size=size, num_blocks=num_blocks),
        LATENCY,
        rules="block-lru" if trace_rules else "vllm",
        use_arrivals=timed,
        seed=seed,
        cache=rules,
    )
    accountant = explained_run(RunSetup(plan, JobMaker(renderer, seed=0), Progress(None)), per_request=True)
    result = accountant.run(Given(*conversations))
    for group in result.ledger.totals():
        assert sum(group.fates.values()) == group.prompt_tokens
        assert min(group.fates.values()) >= 0
    return result
