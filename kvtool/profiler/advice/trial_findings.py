"""Findings of trials: the place, what it costs, and what the fix gave."""

from __future__ import annotations

from collections import Counter
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
    no_gain_finding,
    place_of,
)
from kvtool.diagnose.severity import severity_in_run
from kvtool.diagnose.slots import Slot
from kvtool.fixes.fix import Fix
from kvtool.fixes.history_kept import HISTORY_KEPT
from kvtool.fixes.moves.passages_last import PASSAGES
from kvtool.profiler.advice.advisor import Advice, KeptFix
from kvtool.profiler.advice.left_to_do import SEND_THE_SAME, ends_its_message, left_to_do
from kvtool.profiler.advice.made_steps import ALL_MADE, GOES_ALONG, MENDED_TOO, MadeSteps
from kvtool.profiler.advice.trials import carried, total_rate
from kvtool.profiler.pair_command import PairCommand
from kvtool.profiler.run.run_books import TimeBook
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run_model import ModelSizes
from kvtool.results.choices import Severity
from kvtool.results.finding import Finding, LoggedPlace, Rerun, as_severe
from kvtool.text.terminal.numbers import plural

_UNNAMED = (KV107.code, KV201.code)
_OF_THE_CAUSE = (
    *("code", "severity", "path", "line", "column", "in_source", "logged", "snippet", "width", "message"),
    *("tokens_lost", "points", "share_tokens", "confidence", "example", "ttft_seconds"),
)
"""Fields of a finding that say what is in the way; the others say what is done about it."""


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
            of_steps = self._of_steps(group, steps, edited or steps, together, self._together(group, advice.proof))
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
                if stuck.asked or is_paid_once(cause) or ends_its_message(stuck)
                else self._severity(cause, group),
                fix=left_to_do(stuck, group, self._plan, marked=bool(hosted is not None and hosted.layouts)),
            )
            found.append(None if finding is None else self._priced(finding, cause, group))
        return without_repeated_places([finding for finding in found if finding is not None])

    def unverified(
        self, groups: Collection[str], fixes_of: Callable[[SlotCause], Sequence[Fix]], why: str
    ) -> list[Finding]:
        """Return the differences in order or format in groups of which predictions advise nothing.

        They are facts of the text. `why` says why the gain of a fix is not verified.
        """
        found: list[Finding] = []
        for name in groups:
            group = self._groups[name]
            for cause in self._result.causes.of_group(name):
                if "cosmetic" not in wins(cause.kind.code):
                    continue
                what = next((fix.what for fix in fixes_of(cause)), SEND_THE_SAME)
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
        self, group: GroupTotals, steps: Sequence[KeptFix], made: Sequence[KeptFix], together: Rerun, all_of_it: Rerun
    ) -> list[Finding | None]:
        """Return the findings of steps: of those that are `made` with what these give together, of others with `all_of_it`."""
        # What a step's cause blocked was seen with the fixes before it made; its share is that of the run without any.
        known = self._known(group)
        found: list[Finding | None] = []
        for number, step in enumerate(steps):
            rerun, count = (together, len(made)) if step in made else (all_of_it, 1)
            first = known.get(step.cause.slot)
            lost = 0 if first is None else first.blocked
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
        counted = f". An earlier change already blocks {elsewhere:,} of the tokens after it" if elsewhere > 0 else ""
        if counted and number:
            others = "the other fix" if number == 1 else "the other fixes"
            counted = f". It costs up to {elsewhere:,} tokens more after {others}"
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


def led_by_a_loss(
    steps: Sequence[Finding | None], along: Sequence[Finding | None], small: Sequence[Finding | None] = ()
) -> tuple[list[Finding | None], list[Finding | None]]:
    """Return the findings of fixes, and what these mend beside them; the first fix has the tokens of all `small` ones.

    Where the first fix is of a cause that lost nothing by itself, it is told of the costliest that it mends in the same message,
    unless its own says more; the other one is told as mended with it.
    """
    told, others = list(steps), list(along)
    first = told[0] if told else None
    if first is None:
        return told, [*others, *small]
    rest = [other for other in small if other is not None]
    if not first.tokens_lost and first.logged is not None:
        place = first.logged.part, first.logged.content
        mended = [
            other
            for other in (*others, *rest)
            if other is not None and other.tokens_lost and other.logged is not None
            if (other.logged.part, other.logged.content) == place
            if other.code not in _UNNAMED or first.code in _UNNAMED
        ]
        if mended:
            costliest = max(mended, key=lambda each: each.tokens_lost)
            first, other = _with_cause_of(first, costliest), _with_cause_of(costliest, first)
            others = [other if each is costliest else each for each in others]
            rest = [each for each in rest if each is not costliest]
    for each in rest:
        first = _with_tokens_of(first, each)
    told[0] = first if not rest else first.model_copy(update={"message": f"{first.message}. {_smaller(len(rest))}"})
    return told, others


def _smaller(count: int) -> str:
    return f"The same fix removes {plural(count, 'smaller difference')}"


def _with_cause_of(finding: Finding, other: Finding) -> Finding:
    """Return what is done about a finding, told of the cause of another one."""
    return finding.model_copy(update={name: getattr(other, name) for name in _OF_THE_CAUSE})


def with_the_like(
    steps: Sequence[Finding | None], along: Sequence[Finding | None], *, of_passages: bool = False
) -> list[Finding]:
    """Return the findings of fixes, and what these mend beside them: of one code in one logged message as one, for it is one loss.

    So is what no name says more of on a line that is told, and all that differs in a message whose passages are
    moved. The first of them has the tokens of all, and says how many go with it.
    """
    told: list[Finding] = []
    first: dict[object, int] = {}
    more: Counter[int] = Counter()
    for finding in steps:
        if finding is not None:
            for key in _alike(finding):
                first.setdefault(key, len(told))
            told.append(finding)
    for finding in along:
        if finding is None:
            continue
        keys = _alike(finding)
        known = keys if finding.code in _UNNAMED else keys[:1]
        at = next((first[key] for key in known if key in first), None)
        if at is None and finding.code in _UNNAMED:
            at = next((number for number, step in enumerate(told) if _is_without_loss(step, finding)), None)
        if at is None and of_passages:
            at = next((number for number, step in enumerate(told) if _in_one_message(step, finding)), None)
        if at is None:
            at = len(told)
            told.append(finding)
        else:
            more[at] += 1
            told[at] = _with_tokens_of(told[at], finding)
        for key in keys:
            first.setdefault(key, at)
    for at, count in more.items():
        more_of_them = f"This message has {plural(count, 'more difference')} like it"
        told[at] = told[at].model_copy(update={"message": f"{told[at].message}. {more_of_them}"})
    return told


def _is_without_loss(step: Finding, finding: Finding) -> bool:
    """Return whether a fix mends in its message what its own cause is not to blame for: the loss that it mends is the other one."""
    return not step.tokens_lost and _in_one_message(step, finding)


def _in_one_message(step: Finding, finding: Finding) -> bool:
    one, other = step.logged, finding.logged
    return one is not None and other is not None and one.part == other.part


def _alike(finding: Finding) -> list[object]:
    """Return what a finding of a log has in common with others of one loss: code and message, and the line; nothing for other
    ones.
    """
    logged = finding.logged
    if logged is None:
        return []
    of_code = finding.code, logged.part
    return [of_code, (logged.part, logged.content, logged.line)] if logged.line else [of_code]


def without_repeated_places(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings, those of one code at one place of a group as one: values of several kinds on one line are one cause.

    The first of them, which has the fix, has the tokens of all.
    """
    kept: dict[object, Finding] = {}
    for finding in findings:
        key = id(finding) if finding.fix_key and _place_of(finding) in kept else _place_of(finding)
        first = kept.setdefault(key, finding)
        if first is not finding:
            kept[key] = _with_tokens_of(first, finding)
    return list(kept.values())


def _place_of(finding: Finding) -> object:
    """Return what tells the place of a finding from others: of what was logged the line of its text, whichever record has it."""
    logged = finding.logged
    if logged is not None and logged.line:
        return finding.group, finding.code, logged.part, logged.content, logged.line
    return (
        (finding.group, finding.code, finding.path, finding.line, finding.column) if finding.in_source else id(finding)
    )


def _with_tokens_of(finding: Finding, other: Finding) -> Finding:
    both: dict[str, object] = {
        "tokens_lost": finding.tokens_lost + other.tokens_lost,
        "points": finding.points + other.points,
        "share_tokens": (finding.share_tokens or 0.0) + (other.share_tokens or 0.0),
        "ttft_seconds": _added(finding.ttft_seconds, other.ttft_seconds),
    }
    if as_severe(other.severity, finding.severity):
        both["severity"] = other.severity
    return finding.model_copy(update=both)


def _added(one: float | None, other: float | None) -> float | None:
    return None if one is None and other is None else (one or 0.0) + (other or 0.0)


def drop_repeated_findings(advice: list[Finding], found: list[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Return both without what is told twice: where the run shows a cause with a fix that wins, it is not told as one without a
    fix.

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
