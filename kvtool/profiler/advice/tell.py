"""What was tried, told as findings: where, what it costs, and what the fix gave."""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.accounting.plan import Plan
from kvtool.diagnose.causes import Slot, SlotCause
from kvtool.diagnose.codes import varies
from kvtool.diagnose.findings import (
    WORTH_TELLING,
    Locate,
    fixed_finding,
    no_gain_finding,
    place_of,
)
from kvtool.diagnose.severity import severity_in_run
from kvtool.profiler.advice.advisor import Advice, KeptFix, StuckCause
from kvtool.profiler.advice.run_trials import carried
from kvtool.profiler.advice.trials import total_rate
from kvtool.profiler.pair_command import PairCommand
from kvtool.profiler.passes import PassResult
from kvtool.results.choices import Severity
from kvtool.results.finding import Finding, Rerun, as_severe

_GOES_ALONG = "it goes with the text that the fix above moves"

_PART_THE_LINE = "part the line, so that the value stands apart from the text that is shared"
_MOVED = f"moving its line to the end wins nothing (measured by running again): {_PART_THE_LINE}"
_WINS_NOTHING = "wins nothing in this run (measured by running again)"
_NOT_TRIED = "no fix of it could be tried: send the same each time, or what differs behind what is shared"


class Teller:
    """Turns the advice on a run into findings."""

    def __init__(
        self, result: PassResult, plan: Plan, *, locate: Locate, path: str, pair_command: PairCommand | None = None
    ) -> None:
        self._groups = {group.name: group for group in result.ledger.totals()}
        self._result = result
        self._plan = plan
        self._locate = locate
        self._path = path
        self._pair_command = pair_command or PairCommand()

    def findings(self, advice: Advice) -> list[Finding]:
        """One for each step that is kept, and one for each big loss that no fix wins back."""
        found: list[Finding | None] = []
        for name, steps in advice.kept.items():
            assert advice.proof is not None
            found += self._of_steps(self._groups[name], steps, advice.proof)
        for stuck in advice.stuck:
            group = self._groups[stuck.cause.group]
            cause = self._known(group).get(stuck.cause.slot)
            if cause is None:
                continue  # only what was tried brought it about
            block_size = self._plan.engine.block_size
            finding = no_gain_finding(
                cause,
                group,
                place=place_of(cause, self._locate, self._path),
                block_size=block_size,
                severity=self._severity(cause, group),
                fix=_left_to_do(stuck),
            )
            found.append(None if finding is None else self._priced(finding, cause, group))
        return [finding for finding in found if finding is not None]

    def _of_steps(self, group: GroupTotals, steps: list[KeptFix], proof: PassResult) -> list[Finding | None]:
        after = next(each for each in proof.ledger.totals() if each.name == group.name)
        together = Rerun(
            group_before=group.hit_rate,
            group_after=after.hit_rate,
            total_before=total_rate(self._result),
            total_after=total_rate(proof),
            group_alone=None,
            group_predicted=None,
        )
        # What a step's cause blocked was seen with the fixes before it made; its share is that of the run without any.
        known = self._known(group)
        found: list[Finding | None] = []
        for number, step in enumerate(steps):
            first = known.get(step.cause.slot)
            lost = 0 if first is None else first.blocked
            finding = fixed_finding(
                step.cause,
                together.model_copy(update={"group_alone": step.alone, "group_predicted": step.predicted}),
                place=place_of(step.cause, self._locate, self._path),
                block_size=self._plan.engine.block_size,
                severity=self._severity(step.cause, group),
                tokens_lost=lost,
                fix=step.fix.what,
                number=number,
                together=len(steps),
            )
            if finding is not None:
                finding = finding.model_copy(update=carried(step.fix))
                found.append(self._priced(finding, first or step.cause, group))
        return [*found, *self._closed_too(group, steps, proof, together)]

    def _closed_too(
        self, group: GroupTotals, steps: list[KeptFix], proof: PassResult, rerun: Rerun
    ) -> Iterator[Finding]:
        """Values that vary and went where the text around them went: no fix of their own was needed."""
        handled = {step.cause.slot for step in steps}
        left = {cause.slot: cause.share for cause in proof.causes.of_group(group.name)}
        for cause in self._result.causes.of_group(group.name):
            costs = cause.share >= WORTH_TELLING * group.prompt_tokens
            closed = left.get(cause.slot, 0.0) < cause.share / 2
            if cause.slot in handled or varies(cause.kind.code) != "value" or not (costs and closed):
                continue
            finding = fixed_finding(
                cause,
                rerun,
                place=place_of(cause, self._locate, self._path),
                block_size=self._plan.engine.block_size,
                severity=self._severity(cause, group),
                tokens_lost=cause.blocked,
                fix=_GOES_ALONG,
            )
            if finding is not None:
                yield self._priced(finding, cause, group).model_copy(update={"tier": steps[0].fix.tier})

    def _known(self, group: GroupTotals) -> dict[Slot, SlotCause]:
        """The causes of the run without any fix."""
        return {cause.slot: cause for cause in self._result.causes.of_group(group.name)}

    def _behind(self, cause: SlotCause, group: GroupTotals) -> int:
        """The tokens that stand behind a cause; of one that only a fix brought to light, as the run with that fix saw it."""
        return self._result.causes.behind(group.name, cause.slot) or cause.blocked

    def _severity(self, cause: SlotCause, group: GroupTotals) -> Severity:
        return severity_in_run(self._behind(cause, group), group.requests, group.prompt_tokens)

    def _priced(self, finding: Finding, cause: SlotCause, group: GroupTotals) -> Finding:
        """With its example and its cost: part of the group's tokens, fair share, and seconds of a mean request's predicted TTFT."""
        tokens = max(group.prompt_tokens, 1)
        elsewhere = self._behind(cause, group) - finding.tokens_lost
        counted = f"; behind text that differs first, where {elsewhere:,} of its tokens count" if elsewhere > 0 else ""
        return finding.model_copy(
            update={
                "message": finding.message + counted,
                "points": finding.tokens_lost / tokens,
                "share_tokens": cause.share,
                "confidence": cause.confidence,
                "example": self._pair_command.example(cause),
                "ttft_seconds": ttft_cost(self._plan, group, finding.tokens_lost),
            }
        )


def _left_to_do(stuck: StuckCause) -> str:
    """What a person may do about a cause that no fix removed; what was not run is not said to be measured."""
    if stuck.tried is None:
        return stuck.advice or (_NOT_TRIED if stuck.cause.structural else _PART_THE_LINE)
    if stuck.tried.key.startswith("move"):
        return _MOVED
    return f"{stuck.tried.what}: {_WINS_NOTHING}"


def one_of_each(advice: list[Finding], found: list[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Both without what is told twice: where the run shows a cause with a fix that wins, it is not told as one without a fix.

    The one that stays has the cost of either, whichever is larger.
    """
    tried = {(finding.code, finding.group) for finding in found if finding.tried is not None}
    twice = [each for each in advice if each.rerun is None and (each.code, each.group) in tried]
    costs = {(each.code, each.group): each for each in twice}
    kept = [each for each in advice if each not in twice]
    return kept, [_at_least(each, costs.pop((each.code, each.group), None)) for each in found]


def _at_least(finding: Finding, other: Finding | None) -> Finding:
    if other is None or other.tokens_lost <= finding.tokens_lost:
        return finding
    cost: dict[str, object] = {name: getattr(other, name) for name in ("tokens_lost", "points", "ttft_seconds")}
    if as_severe(other.severity, finding.severity):
        cost["severity"] = other.severity
    return finding.model_copy(update=cost)


def ttft_cost(plan: Plan, group: GroupTotals, tokens_lost: int) -> float:
    """What a loss adds to the predicted seconds of prefill of the group's mean request: with its mean hits, and with them and
    its part of what was lost."""
    requests = max(group.requests, 1)
    length = round(group.prompt_tokens / requests)
    if length < 1:
        return 0.0
    hit = min(round(group.hit_tokens / requests), length - 1)
    better = min(hit + round(tokens_lost / requests), length - 1)
    budget = plan.engine.max_num_batched_tokens
    return plan.latency.prefill_seconds(length, hit, budget) - plan.latency.prefill_seconds(length, better, budget)
