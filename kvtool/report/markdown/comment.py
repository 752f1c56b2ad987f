"""Markdown: a comment on a pull request, the verdict first, details folded away; and GitHub's step summary."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence

from kvtool.diagnose.finding_cost import by_cost
from kvtool.report.answer import Answer, answer_of, fixed_rate
from kvtool.report.markdown.render import section_lines, table_lines
from kvtool.report.markdown.text import block as fenced
from kvtool.report.markdown.text import code, prose
from kvtool.report.places import relative
from kvtool.report.views.agents.agent_probe import probe_section
from kvtool.report.views.checks import STATUS
from kvtool.report.views.facts import has_breakdown, is_predictable
from kvtool.report.views.fates import fate_name, fate_shares
from kvtool.report.views.findings import changed_lines, gain_of, measured_cost, name_of
from kvtool.report.views.groups import groups_table
from kvtool.report.views.report_blocks import COST, TOKENS, sections
from kvtool.report.write_options import WriteOptions
from kvtool.results.check import CheckResult
from kvtool.results.finding import Finding, Snippet
from kvtool.results.report import Report
from kvtool.results.verdict import Check
from kvtool.text.terminal.console import cell_width, sanitize
from kvtool.text.terminal.numbers import percent, plural

MARKER = "<!-- kvtool -->"
"""By this an action finds its own comment again."""
_LIMIT = 60_000
"""Characters; GitHub takes 65,536 in a comment."""
_ROOM = 300
"""Kept free for the sentence that says what was left out."""
_MOST_FINDINGS = 20
_MOST_PATCH = 8_000
_MOST_GROUPS = 100


def write(result: CheckResult, options: WriteOptions) -> str:
    """Return a comment of at most 60,000 characters; what did not fit is counted at its end."""
    return document(result, options, limit=_LIMIT, size=len)


def document(result: CheckResult, options: WriteOptions, *, limit: int, size: Callable[[str], int]) -> str:
    """Return the same within `limit`, measured by `size`."""
    page = _Page(limit - _ROOM, size)
    page.add(f"{MARKER}\n### {prose(result.verdict.sentence)}\n")
    for notice in result.verdict.notices:
        page.add(f"\n> **Note:** {prose(notice)}\n", "note")
    if len(result.reports) == 1:
        page.add(_answer(answer_of(result.reports[0], command=options.command)))
    _checks(page, result.verdict.checks, options.root)
    _workloads(page, result)
    for probe in result.probes:
        page.add("\n".join(section_lines(probe_section(probe))) + "\n", "table")
    _findings(page, result.findings, options.root)
    for report in result.reports:
        name = code(report.workload) if len(result.reports) > 1 else ""
        for section in sections((*COST, *TOKENS), report, "pages"):
            page.add("\n".join(section_lines(section, name)) + "\n", "table")
        page.add(_details(report, name), "table")
    page.add(f"\n<sub>kvtool {prose(result.version)}{_counted(result)}</sub>\n")
    return page.text()


def _answer(answer: Answer) -> str:
    """Return the hit rate, the largest loss with its line, and the next command."""
    lines = [f"- **{label}:** {prose(text)}" for label, text in answer.lines]
    if answer.command:
        lines[-1] += f": {code(f'kvtool {shlex.join(answer.command)}')}"
    return "\n" + "\n".join(lines) + "\n"


class _Page:
    """Pieces of text, as long as there is room for whole ones."""

    def __init__(self, room: int, size: Callable[[str], int]) -> None:
        self._room = room
        self._size = size
        self._pieces: list[str] = []
        self._left_out: dict[str, int] = {}

    def add(self, text: str, noun: str = "line") -> bool:
        """Return whether there was room; a piece without is counted as a `noun`."""
        needed = self._size(text)
        if needed > self._room:
            self._left_out[noun] = self._left_out.get(noun, 0) + 1
            return False
        self._room -= needed
        self._pieces.append(text)
        return True

    def text(self) -> str:
        if self._left_out:
            counts = ", ".join(plural(count, noun) for noun, count in self._left_out.items())
            self._pieces.append(f"\n**Cut:** {counts} left out here; the JSON report is complete.\n")
        return "".join(self._pieces)


def _checks(page: _Page, checks: Sequence[Check], root: str) -> None:
    """Add a table of those that are not met, and how many are."""
    unmet = [check for check in checks if check.status != "pass"]
    if unmet:
        page.add("\n| Check | Status | Result | Place |\n|---|---|---|---|\n")
    for check in unmet:
        place = _place(check.path, check.line, check.column, root, cell=True)
        cells = (code(check.id, cell=True), _status(check), prose(check.message, cell=True), place)
        page.add(f"| {' | '.join(cells)} |\n", "check")
    if passed := len(checks) - len(unmet):
        page.add(f"\n{plural(passed, 'check')} passed.\n")


def _status(check: Check) -> str:
    word = STATUS[check.status].word
    return f"**{word}**" if check.status == "fail" else word


def _workloads(page: _Page, result: CheckResult) -> None:
    if not result.reports:
        return
    page.add("\n| Workload | Requests | Hit rate | With fixes | Maximum as written | Baseline |\n")
    page.add("|---|--:|--:|--:|--:|---|\n")
    for report in result.reports:
        totals = report.totals
        partial = " (partial)" if report.partial else ""
        cells = (
            code(report.workload, cell=True) + partial,
            f"{totals.requests:,}",
            percent(report.known_hit_rate),
            percent(fixed) if (fixed := fixed_rate(report)) is not None else "-",
            percent(totals.reachable_hit_rate),
            _baseline(report, result.verdict.checks),
        )
        page.add(f"| {' | '.join(cells)} |\n", "workload")


def _baseline(report: Report, checks: Iterable[Check]) -> str:
    for check in checks:
        if check.kind == "baseline" and check.workload == report.workload and check.group is None:
            return f"{_status(check)}: {prose(check.message, cell=True)}"
    return "-"


def _findings(page: _Page, findings: Sequence[Finding], root: str) -> None:
    if not findings:
        return
    page.add(f"\n#### {plural(len(findings), 'finding')}\n\n")
    found = by_cost(findings)
    for finding in found[:_MOST_FINDINGS]:
        page.add(_finding(finding, root), "finding")
    if len(found) > _MOST_FINDINGS:
        page.add(f"\n{plural(len(found) - _MOST_FINDINGS, 'finding')} with smaller losses not listed.\n")


def _finding(finding: Finding, root: str) -> str:
    """Return one item of a list: place, message, cost, fix and gain."""
    cost, gain = measured_cost(finding), gain_of(finding)
    group = f" in {code(finding.group)}" if finding.group else ""
    name = name_of(finding.code)
    head = f"- **{prose(finding.code)}** {finding.severity}{f', {prose(name)}' if name else ''}{group}, "
    lines = [
        head + _finding_place(finding, root),
        prose(finding.message) + (f" ({prose(cost)})" if cost else ""),
    ]
    if finding.fix:
        lines.append(f"**Fix:** {prose(finding.fix)}" + (f": {prose(gain)}" if gain else ""))
    if finding.example is not None:
        lines.append(f"**See:** {code(finding.example.command)}")
    lines += [f"**Note:** {prose(warning)}" for warning in finding.warnings]
    text = "<br>\n  ".join(lines) + "\n"
    if pair := changed_lines(finding):
        text += _indented(fenced("\n".join(_marked(label, line) for label, line in pair)))
    elif finding.snippet is not None:
        text += _indented(fenced(_marked(str(finding.line) if finding.in_source else "...", finding.snippet)))
    if finding.patch and len(finding.patch) <= _MOST_PATCH:
        text += f"\n  <details><summary>Patch</summary>\n\n{_indented(fenced(finding.patch, 'diff'))}\n  </details>\n"
    return text


def _marked(label: str, snippet: Snippet) -> str:
    """Return a line, with carets under what the finding is about."""
    before, meant = (
        sanitize(snippet.text[low:high]) for low, high in ((0, snippet.start), (snippet.start, snippet.stop))
    )
    carets = f"{' ' * len(label)} | {' ' * cell_width(before)}{'^' * max(cell_width(meant), 1)}"
    return f"{label} | {sanitize(snippet.text)}\n{carets}"


def _indented(text: str) -> str:
    """Indent text for a list item."""
    return "".join(f"  {line}".rstrip(" ") + "\n" for line in text.split("\n"))


def _finding_place(finding: Finding, root: str) -> str:
    """Return `log.jsonl:12`, `messages[0] (system), line 3` in a log, else a place in a file."""
    logged = finding.logged
    if logged is None:
        return _place(finding.path, finding.line, finding.column, root)
    return f"{code(f'{relative(finding.path, root) or finding.path}:{logged.record}')}, {code(logged.told)}"


def _place(path: str, line: int, column: int, root: str, *, cell: bool = False) -> str:
    if not path:
        return "no file"
    path = relative(path, root) or path
    return code(f"{path}:{line}:{column}" if line else path, cell=cell)


def _details(report: Report, name: str) -> str:
    """Return groups and the token breakdown of a workload, folded."""
    lines = [*([f"\n**{name}**"] if name else []), "\n<details><summary>Groups and token breakdown</summary>\n"]
    if not is_predictable(report):
        return "\n".join([*lines, *(f"\n- {prose(note)}" for note in report.notes), "\n</details>\n"])
    lines += table_lines(groups_table(report, {}, _MOST_GROUPS, {}))
    if has_breakdown(report):
        lines += ["", "| Token breakdown | Tokens | Share |", "|---|--:|--:|"]
        lines += [
            f"| {fate_name(fate)} | {count:,} | {share} |" for fate, count, share in fate_shares(report.fates) if count
        ]
    lines += [f"\n- {prose(note)}" for note in report.notes]
    return "\n".join([*lines, "\n</details>\n"])


def _counted(result: CheckResult) -> str:
    requests = sum(report.totals.requests for report in result.reports)
    parts = [plural(requests, "request")] if result.reports else []
    parts += [f"{plural(result.ignored, 'finding')} ignored by comments"] if result.ignored else []
    return "".join(f" · {part}" for part in parts)
