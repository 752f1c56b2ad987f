"""A check from its inputs to its verdict: everything that `kvtool check` does but for the command line and the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from kvtool.config.options.lint_options import Selecting
from kvtool.config.options.shown_options import Showing
from kvtool.errors import KvtoolError, ProblemsError
from kvtool.gate.baseline import Baseline, WorkloadSums, load_baseline
from kvtool.gate.check_plan import CheckPlan
from kvtool.gate.collect import check_groups, config_demands, flag_demands, levels, workload_demands
from kvtool.gate.comparing import BaselineComparison, compare, required_check
from kvtool.gate.copied_prompts import differing_copies, uncached_groups, unguarded_files, without_verdict
from kvtool.gate.demand import Demand, held
from kvtool.gate.evaluate import evaluate, ungated_errors
from kvtool.gate.facts import Facts, JudgedFinding, Scope, facts_of
from kvtool.gate.opened import CheckedWorkload, Problems, open_all
from kvtool.gate.probed_agents import CheckedAgent, check_agents
from kvtool.gate.recording import entry_of
from kvtool.gate.updating import update_baseline
from kvtool.lint.lint_inputs import TextInput
from kvtool.lint.linting import lint, without_sources
from kvtool.lint.traffic_findings import not_ignored
from kvtool.profiler.document import saved_report
from kvtool.profiler.left_out import LeftOutRequests
from kvtool.profiler.patches import patches_of
from kvtool.profiler.profiler import ReportOptions
from kvtool.profiler.quotes import quoted
from kvtool.results.check import CheckResult, DifferingCopy
from kvtool.results.finding import Finding
from kvtool.results.report import Report
from kvtool.results.verdict import Check
from kvtool.results.verdict_of import judged, limits_that_cannot_fail, verdict_of
from kvtool.text.terminal.numbers import plural
from kvtool.text.terminal.progress import Progress
from kvtool.text.tokens.tokenizer import Tokenizers
from kvtool.version import __version__


@dataclass(slots=True)
class _Done:
    """A workload that was run."""

    workload: CheckedWorkload
    report: Report
    facts: Facts
    ignored: int
    left_out: Sequence[LeftOutRequests]


@dataclass(frozen=True, slots=True)
class _Texts:
    """Files that were only read: templates and Python files."""

    paths: Sequence[str] = ()
    findings: Sequence[Finding] = ()
    ignored: int = 0


class UnfinishedCheckError(ProblemsError):
    """Inputs that could not be read or run, so that there is no verdict; `findings` are those of the others, to be shown first."""

    def __init__(self, errors: list[KvtoolError], findings: Sequence[Finding]) -> None:
        super().__init__(errors)
        self.findings = sorted(findings, key=_by_cost)


def run_check(plan: CheckPlan, progress: Progress) -> CheckResult:
    """Run everything and judge it. Nothing is judged where an input is wrong: UnfinishedCheckError, once all others were run.

    KvtoolError, or ProblemsError, for all that is wrong with what is demanded, and nothing is run then. Raises KeyboardInterrupt
    where it was interrupted before there was anything to show; later, the result is partial.
    """
    plan.run.check()
    load = Tokenizers(offline=plan.offline)
    problems, unreadable = Problems(), Problems()
    workloads, inputs = open_all(plan.inputs, plan.run, load, unreadable)
    known = {name for one in workloads for name in one.groups or ()}
    if plan.names_all and all(one.groups is not None for one in workloads) and not unreadable.errors:
        problems.attempt(lambda: check_groups(plan.gate, plan.locate, sorted(known)))
    before = problems.attempt(lambda: _baseline(plan))
    problems.attempt(lambda: flag_demands("", error_on=plan.error_on, places=plan.error_on_places))
    problems.attempt(lambda: config_demands(plan.gate, plan.locate, plan.gate.groups))
    texts = unreadable.attempt(lambda: _texts(inputs.texts, plan, unreadable)) or _Texts()
    if problems.errors or not (workloads or texts.paths or plan.agents):
        problems.errors += unreadable.errors
    problems.tell()

    done, interrupted = _run_all(workloads, plan, progress, unreadable)
    agents: list[CheckedAgent] = []
    if not interrupted:
        unreadable.attempt(lambda: agents.extend(check_agents(plan.agents, lambda: load(None), progress)))
    if unreadable.errors:
        found = [finding for one in done for finding in one.report.findings]
        raise UnfinishedCheckError(unreadable.told, [*found, *texts.findings])
    if plan.names_all and not interrupted:
        known |= {name for one in done for name in one.facts.groups}
        check_groups(plan.gate, plan.locate, sorted(known))
    left = without_sources([*(each for one in done for each in one.report.findings), *texts.findings])
    texts = replace(texts, findings=[one for one in texts.findings if one in left])
    return _judged(done, plan, before, texts, agents, interrupted=interrupted)


def _texts(texts: Sequence[TextInput], plan: CheckPlan, unreadable: Problems) -> _Texts:
    """Return the findings in templates and Python files, as `kvtool lint` reports them, and their errors."""
    if not texts:
        return _Texts()
    paths = [one.path for one in texts]
    found = lint(replace(plan.run, inputs=paths), Selecting(), Showing(offline=plan.offline, quiet=True))
    unreadable.errors += found.problems
    return _Texts(paths, [quoted(one, plan.show_text) for one in found.findings], found.ignored)


def _baseline(plan: CheckPlan) -> Baseline | None:
    """Return the baseline to compare with; KvtoolError where one is required and there is none."""
    path = plan.baseline
    if path is None or plan.update_baseline:
        return None
    found = load_baseline(path)
    if found is None and plan.require_baseline:
        raise KvtoolError(
            f"--require-baseline is set, but there is no baseline {path}",
            hint="write it with kvtool check --update-baseline, and commit it with the prompts",
        )
    return found


def _run_all(
    workloads: Sequence[CheckedWorkload], plan: CheckPlan, progress: Progress, problems: Problems
) -> tuple[list[_Done], bool]:
    """Return all workloads, up to the one that was interrupted; what turns out to be wrong with one while it runs is collected."""
    done: list[_Done] = []
    try:
        for workload in workloads:
            one = problems.attempt(partial(_run, workload, plan, progress, problems))
            if one is None:
                continue
            done.append(one)
            if one.report.partial:
                return done, True
    except KeyboardInterrupt:
        if not done:
            raise
        return done, True
    return done, False


def _run(workload: CheckedWorkload, plan: CheckPlan, progress: Progress, problems: Problems) -> _Done:
    opened = workload.opened
    profiler = opened.profiler(ReportOptions(advice=plan.advice, views=plan.views, edits="none"), progress)
    report = opened.run(profiler)
    if not report.partial:
        problems.attempt(
            opened.check_read
        )  # what was not read to its end is not judged, and what was found in it is told
    kept = not_ignored(report.findings, list(opened.paths), allow_outside=plan.run.reading.allow_outside)
    ignored = len(report.findings) - len(kept)
    patches = patches_of(profiler, kept) if plan.show_text == "full" and not report.partial else {}
    report = report.model_copy(update={"findings": kept})
    named, limit = workload.groups or (), plan.run.reading.requests
    facts = facts_of(report, workload.name, path=workload.paths[0], limit=limit, groups=named)
    if plan.clock is not None and not report.partial:
        facts = replace(facts, fleet=plan.clock.fleet_of(opened, progress))
    saved = saved_report(report, show_text=plan.show_text, patches=patches)
    return _Done(workload, saved, facts, ignored, profiler.left_out)


def _judged(
    done: Sequence[_Done],
    plan: CheckPlan,
    before: Baseline | None,
    texts: _Texts,
    agents: Sequence[CheckedAgent],
    *,
    interrupted: bool,
) -> CheckResult:
    """Return the verdict of what was run, with a report for each workload."""
    notices: list[str] = []
    checks: list[Check] = []
    reports: list[Report] = []
    passed_over: list[Finding] = []
    now: dict[str, WorkloadSums] = {}
    copied: list[DifferingCopy] = []
    if before is None and plan.baseline_named and not plan.update_baseline:
        notices.append(
            f"there is no baseline {plan.baseline}, so nothing was compared: write one with --update-baseline"
        )
    if plan.agents_left_out:
        names = plural(plan.agents_left_out, "agent")
        notices.append(f"the configuration names {names}; kvtool check --run-agents runs them")
    for one in done:
        facts = replace(one.facts, partial=interrupted)
        alone = plan.command.to("profile", *one.workload.paths)
        who = f"{facts.workload}: no gate covers" if facts.total.requests else f"{facts.workload}:"
        notices += [f"{who} {left.said(alone)}" for left in one.left_out]
        notices += [f"{facts.workload}: {note}" for note in one.workload.opened.wrong_usage]
        demands = held(_demands(one, plan))
        found = evaluate(facts, demands)
        passed_over += ungated_errors(one.report.findings, demands)
        differing = differing_copies(one.workload.opened.source)
        copied += differing
        if plan.baseline is not None:
            chosen = (one.workload.groups or ()) if plan.run.reading.groups else ()
            config, paths = one.report.config, one.workload.paths
            name, sums = entry_of(facts, paths, config, plan.baseline, groups=chosen, with_findings=plan.advice)
            now[name] = sums
            if before is not None:
                compared = _compared(facts, sums, before.workloads.get(name), plan, plan.baseline)
                found += compared.checks
                notices += compared.notices
        found = without_verdict(found, differing)
        said = "\n".join(check.message for check in found)
        notices += [f"{copy.told}." for copy in differing if copy.told not in said]
        notices += [found for found in [unguarded_files(one.workload.opened.source)] if found]
        notices += uncached_groups(one.workload.opened.source)
        checks += found
        reports.append(judged(one.report, found, partial=interrupted))
    checks += _text_checks(texts, plan, partial=interrupted)
    checks += [check for agent in agents for check in agent.checks]
    passed_over += ungated_errors(texts.findings, _text_demands("", plan))
    notices += limits_that_cannot_fail(checks, reports)
    if before is not None and plan.runs_all and not interrupted:
        notices += [
            f"the baseline contains {name}, but this run does not check it"
            for name in before.workloads
            if name not in now
        ]
    if plan.update_baseline and plan.baseline is not None and interrupted:
        notices.append("interrupted: the baseline was not written")
    elif plan.update_baseline and plan.baseline is not None:
        notices += update_baseline(plan.baseline, now, all_workloads=plan.runs_all)
    findings = [*(found for report in reports for found in report.findings), *texts.findings]
    findings += [found for agent in agents for found in agent.findings]
    return CheckResult(
        version=__version__,
        verdict=verdict_of(
            checks,
            notices,
            partial=interrupted,
            ungated=sorted(passed_over, key=_by_cost),
            copied=[copy.short for copy in copied],
            reports=reports,
        ),
        copies=copied,
        inputs=list(texts.paths),
        reports=reports,
        probes=[agent.probe for agent in agents],
        findings=sorted(findings, key=_by_cost),
        ignored=texts.ignored + sum(one.ignored for one in done),
    )


def _by_cost(found: Finding) -> tuple[int, str, int, int, str, str, str]:
    return -found.tokens_lost, found.path, found.line, found.column, found.code, found.group, found.message


def _demands(one: _Done, plan: CheckPlan) -> list[Demand]:
    """Return all that is demanded of a workload, first what goes first."""
    return [
        *flag_demands(
            one.facts.path,
            min_hit_rate=plan.min_hit_rate,
            max_cost_per_1k=plan.max_cost_per_1k,
            error_on=plan.error_on,
            places=plan.error_on_places,
        ),
        *(() if plan.clock is None else plan.clock.demands(one.facts.path)),
        *workload_demands(one.workload.opened.source),
        *config_demands(plan.gate, plan.locate, list(one.facts.groups)),
    ]


def _compared(
    facts: Facts, now: WorkloadSums, before: WorkloadSums | None, plan: CheckPlan, path: str
) -> BaselineComparison:
    result = compare(facts, now, before, path=path, max_drop=plan.max_drop, levels=levels(plan.gate))
    if not result.problem:
        return result
    if plan.require_baseline:
        return BaselineComparison([required_check(facts, result.problem)])
    return BaselineComparison(notices=[f"{result.problem}; update it with kvtool check --update-baseline"])


def _text_checks(texts: _Texts, plan: CheckPlan, *, partial: bool) -> list[Check]:
    """Return the checks of demands on findings, for each of the files that were read."""
    seen: dict[str, list[JudgedFinding]] = {path: [] for path in texts.paths}
    for found in texts.findings:
        seen.setdefault(found.path, []).append(JudgedFinding(found.code, found.severity, ""))
    checks: list[Check] = []
    for path, of_file in sorted(seen.items()):
        checks += evaluate(Facts(path, Scope(), findings=of_file, partial=partial), _text_demands(path, plan))
    return checks


def _text_demands(path: str, plan: CheckPlan) -> list[Demand]:
    """Return what is demanded of the findings in a file that was read."""
    of_flags = flag_demands(path, error_on=plan.error_on, places=plan.error_on_places)
    demands = [*of_flags, *config_demands(plan.gate, plan.locate, ())]
    return held(demand for demand in demands if demand.kind == "findings")
