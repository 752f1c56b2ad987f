"""What the two halves of `advisor.py` share: one tokenizer and template, and a rate for a log, with or without fixes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kvtool.accounting.ledger.totals import TokenTotals
from kvtool.accounting.plan import Plan
from kvtool.engine.config import EngineConfig
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.prediction.latency import LatencyModel, find_accelerator
from kvtool.fixes.fix import Fix, combined
from kvtool.profiler.profiler import Profiler, ReportOptions
from kvtool.profiler.run.purposes import explained_run
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run.run_setup import RunSetup
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.terminal.progress import Progress
from kvtool.text.tokens.tokenizer import load_tokenizer
from kvtool.workload.jobs import JobMaker
from kvtool.workload.logs.files.locations import locate
from kvtool.workload.logs.logs import LogOptions, LogSource
from kvtool.workload.render import Renderer

LATENCY = LatencyModel(find_geometry("llama-3.1-8b"), find_accelerator("h100"))
LEAST_GAIN = 0.01
"""Hit rate that the oracle must win for a scenario to count for the captured gain."""


def plan_of(block_size: int, num_blocks: int | None = None) -> Plan:
    """A plan with an unlimited cache, or one of so many blocks."""
    return Plan(EngineConfig(block_size=block_size, num_blocks=num_blocks), LATENCY)


class Bench:
    """The tokenizer and template that all scenarios share."""

    def __init__(self) -> None:
        tokenizer = load_tokenizer(None, offline=True)
        self.renderer = Renderer(lambda: tokenizer, lambda loaded: ChatTemplate.load(None, loaded))

    def account(self, plan: Plan, log: Path, fixes: Sequence[Fix] = ()) -> RunResult:
        """One pass over a log."""
        maker = JobMaker(self.renderer, seed=0)
        rewrite = combined(fixes) if fixes else None
        accountant = explained_run(RunSetup(plan, maker, Progress(None)), explain=False, rewrite=rewrite)
        return accountant.run(LogSource([str(log)], LogOptions()))

    def rate(self, plan: Plan, log: Path, fixes: Sequence[Fix] = ()) -> float:
        """The hit rate of a log."""
        return TokenTotals.of(self.account(plan, log, fixes).ledger.totals()).hit_rate

    def profiler(self, plan: Plan, log: Path) -> Profiler:
        """A profiler of a log, with advice."""
        source = LogSource([str(log)], LogOptions())
        return Profiler(
            source, self.renderer, plan, ReportOptions(), progress=Progress(None), locate=locate, path=str(log)
        )

    def tokens(self, text: str) -> int:
        """How many tokens a text has."""
        return len(self.renderer.tokenizer.encode_ids(text))


_BENCH: list[Bench] = []


def bench() -> Bench:
    """The one of this process."""
    if not _BENCH:
        _BENCH.append(Bench())
    return _BENCH[0]
