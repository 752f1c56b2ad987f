"""The inputs of a check: opened all together, so that everything that is wrong with them is told at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from kvtool.config.asked_run import RunOptions
from kvtool.config.find import from_here
from kvtool.engine.engine_error import EngineError
from kvtool.errors import KvtoolError, ProblemsError, as_error, join_errors
from kvtool.lint.lint_inputs import CODE_SUFFIXES, TEMPLATE_SUFFIXES, WORKLOAD_SUFFIXES, Inputs, sort_inputs
from kvtool.profiler.opening import Opened, open_workload
from kvtool.text.terminal.streams import STDIN
from kvtool.text.tokens.tokenizer import Tokenizers
from kvtool.workload.logs.files.plain_text_files import PLAIN_SUFFIXES
from kvtool.workload.yaml.validate import did_you_mean

T = TypeVar("T")
ALONE = (*PLAIN_SUFFIXES, *TEMPLATE_SUFFIXES, *CODE_SUFFIXES, *WORKLOAD_SUFFIXES)
"""Ends of names of files that are no logs."""


@dataclass(frozen=True, slots=True)
class CheckedWorkload:
    """Inputs that are run together. `name` is what reports call them."""

    paths: Sequence[str]
    opened: Opened

    @property
    def name(self) -> str:
        return self.opened.name

    @property
    def groups(self) -> list[str] | None:
        return self.opened.group_names


@dataclass(slots=True)
class Problems:
    """Mistakes of the user's, collected to be told together."""

    errors: list[KvtoolError] = field(default_factory=list)

    def attempt(self, work: Callable[[], T]) -> T | None:
        """Return the result of `work`; None where it fails: its errors are kept."""
        try:
            return work()
        except (KvtoolError, EngineError, OSError) as error:
            mistake = as_error(error)
            if mistake is None:
                raise
            self.errors += mistake.errors if isinstance(mistake, ProblemsError) else [mistake]
        return None

    def tell(self) -> None:
        """Raise what was collected."""
        if self.errors:
            raise join_errors(self.told)

    @property
    def told(self) -> list[KvtoolError]:
        """Return the collected errors, each once."""
        found: dict[tuple[str, str], KvtoolError] = {}
        for error in self.errors:
            found.setdefault((str(error.place), error.message), error)
        return list(found.values())


def in_order(paths: Iterable[str]) -> list[str]:
    """Paths from the working folder where they are below it, each file once, in an order that is always the same."""
    shown: dict[str, str] = {}
    for path in sorted(path if path == STDIN else from_here(path) for path in paths):
        shown.setdefault(path if path == STDIN else os.path.realpath(path), path)
    return list(shown.values())


def open_all(
    paths: Sequence[str], options: RunOptions, load: Tokenizers, problems: Problems
) -> tuple[list[CheckedWorkload], Inputs]:
    """Return the workloads, and what is only read; what is wrong with one of them is collected. `options` are those of each run."""
    inputs = sort_inputs(paths)
    problems.errors += inputs.problems
    wanted = options.reading.groups
    workloads: list[CheckedWorkload] = []
    for run in [*inputs.runs, *([path] for path in inputs.foreign)]:  # a gate is told what it does not judge
        of_run = _of_groups(replace(options, inputs=run), ())
        opened = problems.attempt(partial(open_workload, of_run, load, keep_going=True))
        if opened is not None:
            workloads.append(CheckedWorkload(run, opened))
    if not wanted:
        return workloads, inputs
    known = [name for each in workloads for name in each.groups or ()]
    missing = [name for name in wanted if name not in known]
    if not problems.errors and all(each.groups is not None for each in workloads):  # else a log has them, or says so
        problems.errors += [
            KvtoolError(f"--group: no workload has a group `{name}`", hint=did_you_mean(name, known))
            for name in sorted(missing)
        ]
    chosen: list[CheckedWorkload] = []
    for each in workloads:
        names = [name for name in wanted if name in (missing if each.groups is None else each.groups)]
        of_names = _of_groups(replace(options, inputs=each.paths), names)
        source = None if each.groups is None else each.opened.source
        again = (
            problems.attempt(partial(open_workload, of_names, load, source=source, keep_going=True)) if names else None
        )
        if again is not None:
            chosen.append(CheckedWorkload(each.paths, again))
    return chosen, inputs


def _of_groups(options: RunOptions, groups: Sequence[str]) -> RunOptions:
    return replace(options, reading=replace(options.reading, groups=tuple(groups)))
