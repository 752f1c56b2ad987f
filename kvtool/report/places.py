"""Places as other tools know them: paths relative to the root of the repository, and fingerprints that outlive an edit above."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from kvtool.results.check import CheckResult
from kvtool.results.finding import Finding
from kvtool.results.verdict import Check
from kvtool.text.templates.built_in import BUILT_IN_TEMPLATES
from kvtool.text.terminal.console import sanitize

_NO_FILES = ("", "-", "stdin")
_SUFFIXES = frozenset(
    (
        ".yaml",
        ".yml",
        ".toml",
        ".json",
        ".jsonl",
        ".gz",
        ".zst",
        ".txt",
        ".md",
        ".markdown",
        ".j2",
        ".jinja",
        ".jinja2",
        ".py",
        *(".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs"),
    )
)
_NAMES = re.compile(r"`([^`]{1,200})`")


@dataclass(frozen=True, slots=True)
class OutputPlace:
    """A place in a file, whose path is relative to the root; `line` 0 is the whole file, `column` 0 the whole line."""

    path: str
    line: int = 0
    column: int = 0
    width: int = 0


def relative(path: str, root: str) -> str | None:
    """Return the path relative to `root`, with `/`; None where it leads out of it, or is no file (standard input).

    Links are followed only where the path as it is written leads out.
    """
    if path in _NO_FILES or path.startswith(BUILT_IN_TEMPLATES) or "\0" in path:
        return None
    here, there = os.path.abspath(root), os.path.abspath(path)  # noqa: PTH100 - Path would keep `..`
    found = _below(there, here)
    if found is None:
        try:
            found = _below(os.path.realpath(there), os.path.realpath(here))
        except ValueError:  # a name that no file can have
            return None
    return None if found is None else PurePosixPath(found).as_posix()


def _below(path: str, folder: str) -> str | None:
    found = os.path.relpath(path, folder)
    return None if found in (os.curdir, os.pardir) or found.startswith(os.pardir + os.sep) else found


class Places:
    """Finds where below `root` the findings and checks of a result can be shown."""

    def __init__(self, result: CheckResult, root: str) -> None:
        self._root = root
        self._workloads = {found.identity: report.workload for report in result.reports for found in report.findings}

    def of_finding(self, finding: Finding) -> OutputPlace | None:
        """Return where it is or, if that is in no file below the root, the file of its workload; None where that is none either."""
        path = self._file(finding.path, finding.line)
        if path is None:
            return self._instead(self._workloads.get(finding.identity, ""))
        width = finding.width if finding.in_source else 0  # in a log, a value may be written longer than it is
        return OutputPlace(path, finding.line, finding.column if finding.line else 0, width)

    def elsewhere(self, finding: Finding) -> list[str]:
        """Return a sentence about where it really is, if that cannot be shown as a place; else none. No folder is named."""
        if self._file(finding.path, finding.line) is not None:
            return []
        name = PurePosixPath(finding.path).name
        where = f"in {sanitize(name)}{f':{finding.line}' if finding.line else ''}, " if name else ""
        return [f"It is {where}in no file below the root of the repository."]

    def in_log(self, finding: Finding) -> list[str]:
        """Return where in the record of a log it is, and the command that shows an example; it names no files out of the root."""
        lines = []
        if finding.logged is not None:
            lines.append(f"in: {finding.named_record}")
        if finding.example is not None and self._file(finding.path, finding.line) is not None:
            lines.append(f"see: {finding.example.command}")
        return [sanitize(line) for line in lines]

    def of_check(self, check: Check) -> OutputPlace | None:
        """Return where the gate is written or, if that is not below the root, the file of the workload."""
        path = self._file(check.path, check.line)
        return (
            self._instead(check.workload)
            if path is None
            else OutputPlace(path, check.line, check.column if check.line else 0)
        )

    def _instead(self, workload: str) -> OutputPlace | None:
        path = self._file(workload, 0)
        return None if path is None else OutputPlace(path)

    def _file(self, path: str, line: int) -> str | None:
        """Return the path below the root; a name without a line may be that of something else ("3 files", a prompt builder)."""
        if not line and PurePosixPath(path).suffix.lower() not in _SUFFIXES:
            return None
        return relative(path, self._root)


def fingerprints(findings: Sequence[Finding], root: str) -> list[str]:
    """Return one for each finding: the same from run to run, whatever moves lines or changes figures, and unique in the result.

    It is made of the code, the file, the group and the names that the message quotes; of several that share all of that, it
    counts which one it is from the top.
    """
    keys = [_identity(finding, root) for finding in findings]
    order = sorted(range(len(keys)), key=lambda index: (findings[index].line, findings[index].column, index))
    seen: Counter[str] = Counter()
    found = [""] * len(keys)
    for index in order:
        found[index] = _hash(keys[index], seen[keys[index]])
        seen[keys[index]] += 1
    return found


def check_fingerprint(check: Check, root: str) -> str:
    """Return that of a failed check: its id, with the path of the workload from the root, the same from any folder."""
    path = relative(check.workload, root) if PurePosixPath(check.workload).suffix.lower() in _SUFFIXES else None
    return _hash("check", check.id if path is None else path + check.id.removeprefix(check.workload))


def _identity(finding: Finding, root: str) -> str:
    path = relative(finding.path, root) or PurePosixPath(finding.path).name
    return json.dumps([finding.code, path, finding.group, _NAMES.findall(finding.message)])


def _hash(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
