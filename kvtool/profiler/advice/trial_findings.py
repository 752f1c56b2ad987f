"""Findings of trials: the place, what it costs, and what the fix gave."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.accounting.plan import Plan
from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.diagnose.codes import varies, wins
from kvtool.diagnose.codes.layout.kv201 import KV201
from kvtool.diagnose.codes.values.kv107 import KV107
from kvtool.diagnose.diagnosis_thresholds import THRESHOLDS
from kvtool.diagnose.findings import (
    CLAIM,
    Locate,
    described,
    fixed_finding,
    is_paid_once,
    is_worth_finding,
    logged_cause,
    no_gain_finding,
    place_of,
)
from kvtool.diagnose.severity import severity_in_run
from kvtool.diagnose.slots import Slot
from kvtool.fixes.fix import Fix
from kvtool.fixes.history_kept import HISTORY_KEPT
from kvtool.fixes.moves.passages_last import PASSAGES
from kvtool.profiler.advice.kept_fixes import Advice, KeptFix
from kvtool.profiler.advice.left_to_do import SEND_THE_SAME, ends_its_message, left_to_do, minimum_above
from kvtool.profiler.advice.made_steps import ALL_MADE, GOES_ALONG, MENDED_TOO, MadeSteps
from kvtool.profiler.advice.merged_findings import led_by_a_loss, with_the_like, without_repeated_places
from kvtool.profiler.advice.trials import carried, total_rate
from kvtool.profiler.pair_command import PairCommand
from kvtool.profiler.run.run_books import TimeBook
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run_model import ModelSizes
from kvtool.results.choices import Severity
from kvtool.results.finding import Finding, LoggedPlace, Rerun, as_severe
from kvtool.text.terminal.numbers import plural


class Teller:
    """Turns the advice on a run into findings."""

    def __init__(
        self, result: RunResult, plan: Plan, *, locate: Locate, path: str, pair_command: PairCommand | None = None
    ) -> None:
        self._groups = {group.name: group for group in result.ledger.totals()}
        self._result = result
        self._plan = plan
        self._one_model = ModelSizes.of(result.book(TimeBook).models, plan).one
        self._locate = locate
        self._path = path
        self._pair_command = pair_command or PairCommand()
        self._templates: dict[tuple[str, str], int] = {}

    def findings(self, advice: Advice, made: MadeSteps = ALL_MADE) -> list[Finding]:
        """Return one for each step that is kept, with what it mends beside its cause, and one for each big loss that no fix wins
        back.

        Where only some of the steps are made together, what those won is what their run hits; the others are told as tried.
        """
        found: list[Finding | None] = []
        closed: set[tuple[str, Slot]] = set()
        for name, steps in advice.kept.items():
            assert advice.proof is not None
            group = self._groups[name]
            edited = [step for step in steps if step.fix.key in made.keys]
            together = self._together(group, made.proof if edited and made.proof is not None else advice.proof)
            too, small = self._closed_too(group, steps, advice.proof)
            closed |= {(name, cause.slot) for cause in (*too, *small)}
            along = [self._goes_along(cause, group, edited or steps, together) for cause in (*too, *small)]
            all_of_it = self._together(group, advice.proof)
            of_steps = self._of_steps(group, steps, edited or steps, together, all_of_it, small)
            told = with_the_like(
                *led_by_a_loss(of_steps, along[: len(too)], along[len(too) :]),
                of_passages=any(step.fix.kind == PASSAGES for step in steps),
            )
            if small and told:
                severity = severity_in_run(told[0].tokens_lost, group.requests, group.prompt_tokens)
                if as_severe(severity, told[0].severity):
                    told[0] = told[0].model_copy(update={"severity": severity})
            keys = {step.fix.name for step in edited} | ({""} if edited else set())
            found += [made.told(each) if made.keys and each.fix_key not in keys else each for each in told]
        hosted = self._result.counts.hosted
        for stuck in advice.stuck:
            group = self._groups[stuck.cause.group]
            cause = self._known(group).get(stuck.cause.slot)
            if cause is None or (group.name, cause.slot) in closed:
                continue  # only what was tried brought it about, or it is told
            block_size = self._plan.base_block
            finding = no_gain_finding(
                cause,
                group,
                place=place_of(cause, self._locate, self._path),
                block_size=block_size,
                severity="info"
                if stuck.asked
                or is_paid_once(cause)
                or ends_its_message(stuck)
                or minimum_above(group, self._plan) is not None
                else self._severity(cause, group),
                fix=left_to_do(stuck, group, self._plan, marked=bool(hosted is not None and hosted.layouts)),
                tried=stuck.tried is not None,
            )
            found.append(None if finding is None else self._priced(finding, cause, group))
        return without_repeated_places([finding for finding in found if finding is not None])

    def unverified(
        self,
        groups: Collection[str],
        fixes_of: Callable[[SlotCause], Sequence[Fix]],
        is_proven: Callable[[str, str], bool],
        why: str,
    ) -> list[Finding]:
        """Return the differences in groups of which predictions advise nothing: those in order or format, which are facts of
        the text, and those of which reports prove that they cost.

        `is_proven` says so of a group and a part of its requests, `why` why the gain of a fix is not verified.
        """
        found: list[Finding] = []
        for name in groups:
            group = self._groups[name]
            for cause in self._result.causes.of_group(name):
                cosmetic = "cosmetic" in wins(cause.kind.code)
                if not cosmetic and not is_proven(name, cause.slot.part):
                    continue
                what = next((fix.what for fix in fixes_of(cause) if cosmetic), SEND_THE_SAME)
                finding = no_gain_finding(
                    cause,
                    group,
                    place=place_of(cause, self._locate, self._path),
                    block_size=self._plan.base_block,
                    severity=self._severity(cause, group),
                    fix=f"{what}. {why}",
                )
                found += [] if finding is None else [self._priced(finding, cause, group)]
        return without_repeated_places(found)

    def described(self, cause: SlotCause, group: GroupTotals) -> Finding:
        """Return a cause as information, with the two requests that tell it and what it costs."""
        place = place_of(cause, self._locate, self._path)
        finding = described(cause, CLAIM, place=place, block_size=self._plan.base_block)
        return self._priced(finding, cause, group)

    def _together(self, group: GroupTotals, proof: RunResult) -> Rerun:
        """Return what all fixes together gave a group."""
        after = next(each for each in proof.ledger.totals() if each.name == group.name)
        return Rerun(
            group_before=group.hit_rate,
            group_after=after.hit_rate,
            total_before=total_rate(self._result),
            total_after=total_rate(proof),
            group_alone=None,
            group_predicted=None,
        )

    def _of_steps(
        self,
        group: GroupTotals,
        steps: Sequence[KeptFix],
        made: Sequence[KeptFix],
        together: Rerun,
        all_of_it: Rerun,
        small: Sequence[SlotCause],
    ) -> list[Finding | None]:
        """Return the findings of steps: of those that are `made` with what these give together, of others with `all_of_it`.

        The first has the tokens of all `small` causes, and so the requests that lack or add its whole line.
        """
        # What a step's cause blocked was seen with the fixes before it made; its share is that of the run without any.
        known = self._known(group)
        found: list[Finding | None] = []
        for number, step in enumerate(steps):
            rerun, count = (together, len(made)) if step in made else (all_of_it, 1)
            first = known.get(step.cause.slot)
            lost = 0 if first is None else first.blocked
            lines = [] if number else [each for each in small if _is_the_whole_line(each, step.cause)]
            finding = fixed_finding(
                step.cause,
                rerun.model_copy(update={"group_alone": step.alone, "group_predicted": step.predicted}),
                place=place_of(step.cause, self._locate, self._path),
                block_size=self._plan.base_block,
                severity=self._severity(step.cause, group),
                tokens_lost=lost,
                fix=f"{step.fix.what}{break_even(step)}",
                together=count,
                # Their numbers and their order, which differ first, are not what varies.
                subject="text of passages" if step.fix.kind == PASSAGES else "",
                more_requests=sum(each.requests for each in lines),
            )
            if finding is not None:
                finding = finding.model_copy(update=carried(step.fix))
                if step.fix.kind == PASSAGES:
                    finding = finding.model_copy(update={"code": KV201.code})
                found.append(self._priced(finding, first or step.cause, group, number=number))
        return found

    def _closed_too(
        self, group: GroupTotals, steps: list[KeptFix], proof: RunResult
    ) -> tuple[list[SlotCause], list[SlotCause]]:
        """Return causes that went with the fixes of others: no fix of their own was needed. Those that are told, and small ones."""
        handled = {step.cause.slot for step in steps}
        left = {cause.slot: cause.share for cause in proof.causes.of_group(group.name)}
        told: list[SlotCause] = []
        small: list[SlotCause] = []
        for cause in self._result.causes.of_group(group.name):
            is_value = (
                varies(cause.kind.code) == "value" and cause.share >= THRESHOLDS.warning_share * group.prompt_tokens
            )
            if cause.slot in handled or is_paid_once(cause) or left.get(cause.slot, 0.0) >= cause.share / 2:
                continue  # what only other groups' fixes change is no gain of this group's
            if is_value or is_worth_finding(cause.blocked, group):
                told.append(cause)
            elif cause.blocked:
                small.append(cause)
        return told, small

    def _goes_along(
        self, cause: SlotCause, group: GroupTotals, steps: Sequence[KeptFix], rerun: Rerun
    ) -> Finding | None:
        moves = any(step.fix.tier == "P2" for step in steps)
        finding = fixed_finding(
            cause,
            rerun,
            place=place_of(cause, self._locate, self._path),
            block_size=self._plan.base_block,
            severity=self._severity(cause, group),
            tokens_lost=cause.blocked,
            fix=GOES_ALONG if moves and varies(cause.kind.code) == "value" else MENDED_TOO,
        )
        return (
            None
            if finding is None
            else self._priced(finding, cause, group).model_copy(update={"tier": steps[0].fix.tier})
        )

    def _known(self, group: GroupTotals) -> dict[Slot, SlotCause]:
        """Return the causes of the run without any fix."""
        return {cause.slot: cause for cause in self._result.causes.of_group(group.name)}

    def _behind(self, cause: SlotCause, group: GroupTotals) -> int:
        """Return the tokens that are after a cause; of one that only a fix brought to light, as the run with that fix saw it."""
        return self._result.causes.behind(group.name, cause.slot) or cause.blocked

    def _severity(self, cause: SlotCause, group: GroupTotals) -> Severity:
        return severity_in_run(self._behind(cause, group), group.requests, group.prompt_tokens)

    def _priced(self, finding: Finding, cause: SlotCause, group: GroupTotals, *, number: int = 0) -> Finding:
        """Return the finding with its example and its cost: part of the group's tokens, fair share, and seconds of a mean
        request's predicted TTFT. It is that of fix `number` (from 0) of those that were tried together.
        """
        tokens = max(group.prompt_tokens, 1)
        elsewhere = self._behind(cause, group) - finding.tokens_lost
        counted = ""
        if elsewhere > 0:
            are = "is" if elsewhere == 1 else "are"
            counted = f". {plural(elsewhere, 'more token')} after it {are} lost to an earlier change"
        if counted and number:
            others = "the other fix" if number == 1 else "the other fixes"
            counted = f". After {others}, it costs up to {elsewhere:,} tokens more"
        return finding.model_copy(
            update={
                "message": finding.message + counted,
                "points": finding.tokens_lost / tokens,
                "share_tokens": cause.share,
                "confidence": cause.confidence,
                "example": self._pair_command.example(cause),
                "logged": self._numbered(finding.logged, cause),
                "ttft_seconds": ttft_cost(self._plan, group, finding.tokens_lost) if self._one_model else None,
            }
        )

    def _numbered(self, place: LoggedPlace | None, cause: SlotCause) -> LoggedPlace | None:
        """Return the place with the number of the text around the value: groups of a log may write other lines there."""
        if place is None or not place.line:
            return place
        around = cause.excerpt[: cause.value_start], cause.excerpt[cause.value_stop :]
        number = self._templates.setdefault(around, len(self._templates) + 1)
        return place.model_copy(update={"template": number})


def break_even(step: KeptFix) -> str:
    """Say what shortening the history costs, and what keeping it costs; empty for other fixes, and without prices."""
    if step.fix.kind != HISTORY_KEPT or step.costs is None:
        return ""
    from kvtool.accounting.prices.bill import shown_money

    pruned, kept = (shown_money(cost) for cost in step.costs)
    return f" (pruning costs {pruned}, keeping everything {kept})"


def ttft_cost(plan: Plan, group: GroupTotals, tokens_lost: int) -> float:
    """Return what a loss adds to the predicted seconds of prefill of the group's mean request: with its mean hits, and with them
    and its part of what was lost.
    """
    requests = max(group.requests, 1)
    length = round(group.prompt_tokens / requests)
    if length < 1:
        return 0.0
    hit = min(round(group.hit_tokens / requests), length - 1)
    better = min(hit + round(tokens_lost / requests), length - 1)
    budget = plan.engine.max_num_batched_tokens
    return plan.latency.prefill_seconds(length, hit, budget) - plan.latency.prefill_seconds(length, better, budget)


def _is_the_whole_line(other: SlotCause, cause: SlotCause) -> bool:
    """Return whether another cause is that requests lack the line of a cause: a request differs there in only one of both ways."""
    if other.kind.code != KV107.code:
        return False
    line = logged_cause(cause)
    return line is not None and line.is_same_line(logged_cause(other))
