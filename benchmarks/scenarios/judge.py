"""Holds a tool to the truth of a case: cause, place and fix together, gain, prediction, harm, and units that were torn."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from advisor_bench import LEAST_GAIN, Bench, bench, plan_of
from scenarios.case import Case, Cause, Pieces, write_rows
from scenarios.kinds import case_of

from kvtool.accounting.plan import Plan
from kvtool.fixes.fix import Fix, combined
from kvtool.fixes.turn_texts import texts_of
from kvtool.profiler.advice.kept_fixes import Advice
from kvtool.results.finding import Finding, Snippet
from kvtool.workload.logs.logs import LogOptions, LogSource

CAPTURED = 0.9
"""Share of the optimum that a right fix wins."""
TRIED = 0.5
"""Share of the optimum that a trial of advice in words must have measured."""
WORTH = 0.05
"""Hit rate that the ideal text must win for a case to be asked at all: a smaller cause may go unnamed."""
CLAIMED = 0.01
"""Hit rate above which a finding is a claim."""
_ASIDE = ("KV3", "KV203", "KV204")
_TEMPLATE = re.compile(r"</?s>|\[/?[A-Z_]{3,20}\]")
_VALUE = r"[\s\S]{0,160}?"


@dataclass(slots=True)
class Judged:
    """How one case went. None: the question does not arise."""

    case: str
    cause: bool | None = None
    place: bool | None = None
    fix: bool = False
    times: float | None = None
    """Findings for each planted cause: one is best."""
    false: int = 0
    """Findings that name what was not planted."""
    gain: float | None = None
    off: list[float] = field(default_factory=list)
    harmed: bool = False
    torn: int = 0
    units: int = 0
    over: bool = False
    """Whether the findings tell more tokens than were lost."""
    why: list[str] = field(default_factory=list)

    @property
    def right(self) -> bool:
        """Cause, place and fix together; nothing else claimed, no harm."""
        return self.cause is not False and self.place is not False and self.fix and not self.false and not self.harmed


def judge(kind: str, seed: int) -> dict[str, Judged]:
    """kvtool, and what simpler tools do, on the case of a seed; empty where it has too little to win."""
    from scenarios.peers import peers  # imports this module

    case = case_of(kind, seed)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        case.write(log)
        plan = plan_of(16)
        before = bench().rate(plan, log)
        best = optimum(bench(), case, plan, Path(folder) / "ideal.jsonl", before)
        if case.causes and best - before < WORTH:
            return {}
        found = {"kvtool": _kvtool(bench(), case, plan, log, before, best)}
        return found | peers(bench(), case, plan, Path(folder), before, best)


def optimum(bench: Bench, case: Case, plan: Plan, log: Path, before: float) -> float:
    """The rate of the ideal text, run again."""
    best = before
    for ideal in case.ideals:
        write_rows(log, [ideal(number) for number in range(case.requests)])
        best = max(best, bench.rate(plan, log))
    return best


def _kvtool(bench: Bench, case: Case, plan: Plan, log: Path, before: float, best: float) -> Judged:
    profiler = bench.profiler(plan, log)
    profile = profiler.run()
    advice = profiler.advice or Advice()
    fixes = advice.fixes
    told = [each for each in profile.findings if not each.code.startswith(_ASIDE) and each.severity != "info"]
    judged = Judged(f"{case.kind}/{case.name}-{case.seed}")
    _name(judged, case, told)
    after = bench.rate(plan, log, fixes) if fixes else before
    judged.gain = captured(before, after, best)
    judged.off = [abs(steps[-1].predicted - steps[-1].after) for steps in advice.kept.values() if steps]
    _tear(judged, case, log, fixes)
    judged.fix = _fix_right(judged, case, told, advice, before, best)
    if fixes:
        held_out = log.with_name("held_out.jsonl")
        case.write(held_out, first=case.requests)
        judged.harmed = bench.rate(plan, held_out, fixes) < bench.rate(plan, held_out) - 1e-9
    lost = sum(group.prompt_tokens - group.hit_tokens for group in bench.account(plan, log).ledger.totals())
    judged.over = sum(each.tokens_lost for each in told) > lost
    for wrong, what in ((judged.harmed, "harm"), (judged.over, "more tokens than were lost"), (judged.torn, "torn")):
        if wrong:
            judged.why.append(what)
    return judged


def captured(before: float, after: float, best: float) -> float | None:
    """The share of the optimum gain; None where there is none to win."""
    return min((after - before) / (best - before), 1.0) if best >= before + LEAST_GAIN else None


def _name(judged: Judged, case: Case, told: Sequence[Finding]) -> None:
    """Whether each cause was given its name at its place, and nothing else was."""
    placed = [(cause, [each for each in told if _at(cause, each)]) for cause in case.causes]
    if placed:
        judged.place = all(found for _, found in placed)
        judged.times = sum(len(found) for _, found in placed) / len(placed)
        judged.cause = all(any(_named(case, cause, each) for each in found) for cause, found in placed)
        judged.why += [f"not at its place: {'/'.join(cause.codes)}" for cause, found in placed if not found]
        judged.why += [
            f"{'/'.join(cause.codes)} is {','.join(each.code for each in found)}"
            for cause, found in placed
            if found and not any(_named(case, cause, each) for each in found)
        ]
    known = {id(each) for _, found in placed for each in found}
    false = [each for each in told if id(each) not in known and each.points >= CLAIMED]
    judged.false = len(false)
    judged.why += [
        f"false {each.code} {100 * each.points:.1f}: {each.snippet.text[:60] if each.snippet else ''!r}"
        for each in false
    ]


def _named(case: Case, cause: Cause, finding: Finding) -> bool:
    words = f"{finding.message} {finding.fix}".lower()
    return finding.code in cause.codes and (not case.says or any(word in words for word in case.says))


def _at(cause: Cause, finding: Finding) -> bool:
    if cause.part:
        return finding.code in cause.codes or (
            finding.logged is not None and finding.logged.part.startswith(cause.part)
        )
    if not cause.lines or finding.snippet is None:
        return not cause.lines or finding.code in cause.codes
    said = _line(finding.snippet)
    return any(said and (said in line or (line.strip() and line.strip() in said)) for line in cause.lines)


def _line(snippet: Snippet) -> str:
    """What the prompt's author wrote of a line, without what the chat template put around it."""
    marks = [found.span() for found in _TEMPLATE.finditer(snippet.text)]
    start = max((stop for _, stop in marks if stop <= snippet.start), default=0)
    stop = min((begin for begin, _ in marks if begin >= max(snippet.start, start + 1)), default=len(snippet.text))
    return snippet.text[start:stop].strip()


def _tear(judged: Judged, case: Case, log: Path, fixes: Sequence[Fix]) -> None:
    """Count the units that are not whole any more once the fixes are made."""
    rewrite = combined(fixes)
    for conversation in LogSource([str(log)], LogOptions()).conversations():
        while (turn := conversation.next_turn(None)) is not None:
            after = rewrite(turn)
            assert turn.name is not None
            number = turn.name.record - 1
            was, now = ([str.__str__(at.text) for at in texts_of(each)] for each in (turn, after))
            stays = case.best == "words" and case.measured
            for at, unit in enumerate(case.units(number)):
                if unit:
                    judged.units += 1
                    judged.torn += not is_whole(unit, now) or (stays and not at and not _stands(unit, was, now))


def is_whole(unit: Pieces, texts: Sequence[str]) -> bool:
    """Whether the unit stands in one of the texts with nothing but values between its pieces."""
    pattern = _VALUE.join(re.escape(piece) for piece in unit)
    return any(re.search(pattern, text) for text in texts)


def _stands(unit: Pieces, was: Sequence[str], now: Sequence[str]) -> bool:
    """Whether the unit stands where it stood: the same text before it."""
    first = unit[0] or unit[1]
    old = next((text[: text.index(first)] for text in was if first in text), "")
    return any(text.startswith(old + first) for text in now)


def _fix_right(judged: Judged, case: Case, told: Sequence[Finding], advice: Advice, before: float, best: float) -> bool:
    fixes = advice.fixes
    if case.best == "none":
        judged.why += [f"claims {fix.key.split(':')[0]}" for fix in fixes]
        return not fixes
    if judged.torn:
        return False
    said = [each for each in told if each.fix and any(_at(cause, each) for cause in case.causes)]
    tried = (rerun for each in said for rerun in (each.rerun, each.tried) if rerun is not None)
    measured = any(rerun.group_after - rerun.group_before >= TRIED * (best - before) for rerun in tried)
    if case.best == "words":
        if case.measured and not measured:
            judged.why.append("nothing measured")
        return bool(said) and (measured if case.measured else not any(fix.tier == "P2" for fix in fixes))
    if judged.gain is not None and judged.gain < CAPTURED and not (case.or_words and measured and not fixes):
        judged.why.append(f"gain {judged.gain:.2f} by {','.join(fix.key.split(':')[0] for fix in fixes) or 'nothing'}")
        return False
    if case.warned and fixes and not any(fix.warnings for fix in fixes):
        judged.why.append("no look:")
        return False
    return True
