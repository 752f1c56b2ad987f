"""Read the source of runs: plainly, with a second process that reads ahead, or divided between two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

from kvtool.accounting.plan import Plan
from kvtool.accounting.servers.server import Server
from kvtool.engine.engine_error import EngineError
from kvtool.engine.request import Request
from kvtool.fixes.fix import CombinedFixes
from kvtool.profiler.run.cause_sample import CauseSample
from kvtool.profiler.run.compared_ahead import ComparedAhead
from kvtool.profiler.run.ledger_writers import CauseWriter
from kvtool.profiler.run.run_setup import RunSetup
from kvtool.workload.ahead.ahead import read_ahead
from kvtool.workload.ahead.divided import divided
from kvtool.workload.drive import rewritten
from kvtool.workload.jobs import Job, Prepared
from kvtool.workload.kept_requests import KeptRequests
from kvtool.workload.turn import Conversation, Source, Turn

Read = Callable[[Source], AbstractContextManager[Iterator[Conversation]]]
"""Reader of a source's conversations."""


def read_plainly(setup: RunSetup) -> Read:
    """Read in this process alone, and rewrite."""
    return lambda source: nullcontext(rewritten(source.conversations(), setup.rewrite))


def read_by_two(setup: RunSetup, server: Server, ledger: CauseWriter, *, compares: bool) -> Read:
    """Have a second process read ahead, where much is to be found out about each request; it may compare them, too."""
    if not setup.in_order_of_log:
        return read_plainly(setup)
    if compares and setup.plan.limit is None and server.traits.follows_engine:
        ledger.ahead = ComparedAhead(ledger.ledger, lambda turn, made: _is_entered(setup.plan, server, turn, made))
    return lambda source: read_ahead(source, setup.maker, jobs=setup.jobs, finds=ledger.ahead)


def _is_entered(plan: Plan, server: Server, turn: Turn, made: Prepared) -> bool:
    """Return whether a run will enter a request in the ledger."""
    if turn.call.has_failed or plan.leaves_out(turn):
        return False
    prompt = made.prompt
    request = Request("", len(prompt), prompt_ids=prompt.ids, output_ids=made.output, cache_salt=turn.salt)
    try:
        server.admit(Job(turn, prompt, request, prompt.ids, 1, ""))
    except EngineError:
        return False
    return True


def read_divided(setup: RunSetup, looks: CauseSample | None = None) -> Read:
    """Divide kept requests between two processes; only those that `looks` takes need their texts.

    Use it for runs that need only the tokens of other requests.
    """
    rewrite = setup.rewrite
    if not isinstance(rewrite, CombinedFixes) or not setup.in_order_of_log or setup.plan.cache is not None:
        return read_plainly(setup)

    def read(source: Source) -> AbstractContextManager[Iterator[Conversation]]:
        if not isinstance(source, KeptRequests):
            return nullcontext(rewritten(source.conversations(), rewrite))
        whole = [looks is not None and looks.take(turn.group, 1) for turn in source.turns]
        return divided(source, rewrite, setup.maker, jobs=setup.jobs, whole=whole)

    return read
