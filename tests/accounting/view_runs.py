"""Small workloads of token ids, accounted for with all views, and what to compare these with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from kvtool.accounting.plan import Plan
from kvtool.accounting.views.collector import ViewBook
from kvtool.engine.config import EngineConfig
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.prediction.latency import LatencyModel, find_accelerator
from kvtool.profiler.run.purposes import explained_run
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run.run_setup import RunSetup
from kvtool.results.choices import Rules
from kvtool.results.views import Views
from kvtool.text.terminal.progress import Progress
from kvtool.workload.jobs import JobMaker
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Conversation, HashedPrompt, Recorded, Turn

BLOCK = 4
LATENCY = LatencyModel(find_geometry("llama-3.1-8b"), find_accelerator("h100"))


class Given:
    """A workload of conversations of one turn each."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self._turns = turns

    def conversations(self) -> Iterator[Conversation]:
        return (Recorded(iter([replace(turn)])) for turn in self._turns)


def turn(ids: Sequence[int], outputs: Sequence[int] = (0,), *, group: str = "g", salt: str | None = None) -> Turn:
    """A request of token ids; with one output token, nothing of the answer is computed."""
    return Turn(group, token_ids=np.array(ids, np.int32), output_ids=np.array(outputs, np.int32), salt=salt)


def hashed(blocks: Sequence[int], num_tokens: int, *, group: str = "trace") -> Turn:
    """A request of which a trace names the blocks."""
    return Turn(group, hashed=HashedPrompt(list(blocks), num_tokens, BLOCK))


tokens = st.integers(0, 2)
requests = st.builds(
    turn,
    st.lists(tokens, min_size=1, max_size=14),
    st.lists(tokens, min_size=1, max_size=6),
    group=st.sampled_from("abc"),
    salt=st.sampled_from([None, None, "x"]),
)
workloads = st.lists(requests, min_size=1, max_size=16)


@st.composite
def traces(draw: st.DrawFn) -> list[Turn]:
    """Requests that name blocks, the last of which may be partial: it then has a name of its own, or none."""
    found = []
    for number in range(draw(st.integers(1, 12))):
        blocks = draw(st.lists(tokens, min_size=1, max_size=4))
        count = len(blocks) * BLOCK
        if draw(st.booleans()):
            part = draw(st.sampled_from([1, 3]))
            count += part
            if draw(st.integers(0, 3)):
                blocks = [*blocks, 1_000 + part + 10 * len(blocks)]
        found.append(hashed(blocks, count, group="ab"[number % 2]))
    return found


def watched(
    renderer: Renderer,
    turns: Sequence[Turn],
    *,
    rules: Rules = "vllm",
    concurrency: int | None = None,
    **engine: object,
) -> tuple[RunResult, Views]:
    """The run and what it has to draw."""
    config = EngineConfig(block_size=BLOCK, **engine)  # type: ignore[arg-type]
    book = ViewBook(BLOCK, whole_prompt_may_hit=rules == "block-lru")
    plan = Plan(config, LATENCY, rules=rules, concurrency=concurrency)
    accountant = explained_run(RunSetup(plan, JobMaker(renderer, seed=0), Progress(None)), per_request=True, views=book)
    result = accountant.run(Given(turns))
    views = book.views(result.ledger)
    assert views is not None
    assert views.timelines == book.timelines()
    return result, views
