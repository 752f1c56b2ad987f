"""Raising the hit rates that a configuration demands to those of today; nothing else in the file changes, none is lowered."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from kvtool.config.find import NAME
from kvtool.config.loading import ConfigFile
from kvtool.config.options.run_options import Reading
from kvtool.errors import KvtoolError, Place
from kvtool.fixes.edits.apply import write_files
from kvtool.gate.evaluate import exact, rate
from kvtool.results.check import CheckResult
from kvtool.results.gate_words import percents, subject
from kvtool.results.report import Group, Totals
from kvtool.text.files.text_files import read_source
from kvtool.text.quantities import parse_threshold

_BOM = "\ufeff"
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_HINT = "a gate applies to all requests of all workloads"


@dataclass(frozen=True, slots=True)
class Tightened:
    """The configuration file before and after, and what was raised in it, in words; `path` is as the user knows it."""

    path: str
    before: str
    after: str
    told: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Gate:
    """A hit rate that is demanded: of a group or, None, of each workload."""

    keys: tuple[str, ...]
    group: str | None
    limit: float


def check_tighten(file: ConfigFile | None, inputs: Sequence[str], reading: Reading, min_hit_rate: str | None) -> None:
    """KvtoolError, before anything is run, where there is nothing to raise, or today's rates would not be those of the gates."""
    if file is None:
        raise KvtoolError(f"--tighten needs a {NAME} with gates, and there is none", hint="create it with kvtool init")
    if not list(_gates(file)):
        raise KvtoolError(
            f"{file.path} demands no hit rate, so --tighten has nothing to raise",
            hint='write hit_rate = ">=0%" under [gate]; --tighten then raises it',
            place=file.place("gate"),
        )
    given = {
        "INPUT": inputs and file.config.workloads,
        "--group": reading.groups,
        "--requests (KVTOOL_REQUESTS)": reading.requests is not None,
        "--min-hit-rate": min_hit_rate is not None,
    }
    for name, is_given in given.items():
        if is_given:
            raise KvtoolError(f"--tighten uses the inputs and gates of {file.path}: omit {name}", hint=_HINT)
    status = Path(file.path).stat()
    if not status.st_mode & 0o222 or not os.access(file.path, os.W_OK):
        raise KvtoolError(f"cannot write {file.path}: it is write-protected", place=Place(file.path))


def tighten(file: ConfigFile, result: CheckResult) -> Tightened:
    """Raise what can be raised, and write it; where nothing can, or the check was interrupted, the file stays as it is.

    KvtoolError, with the file as it was, where it has changed since it was read or cannot be written.
    """
    before = read_source(Path(file.path), shown=file.path)
    if before.removeprefix(_BOM).replace("\r\n", "\n") != file.places.source:
        raise KvtoolError(f"`{file.path}` has changed since it was read", hint="no gate was raised; run it again")
    after, told = before, []
    for gate in sorted(_gates(file), key=lambda one: -_span(file, one)[0]):  # from the end, so that places stay
        lowest = _lowest(result, gate.group)
        if lowest is None:
            continue
        percent = int(100 * lowest)
        if Fraction(percent, 100) <= exact(gate.limit):
            continue
        start, stop = (_in_file(before, file.places.source, at) for at in _span(file, gate))
        after = after[:start] + _written(after[start:stop], percent) + after[stop:]
        was, now = percents(gate.limit, percent / 100)
        told.append(f"{file.place(*_path(gate))}: hit rate of {subject(gate.group)}: {was} -> {now}")
    tightened = Tightened(file.path, before, after, told[::-1])
    if told:
        write_files([tightened])
    return tightened


def _gates(file: ConfigFile) -> Iterator[_Gate]:
    gate = file.config.gate
    if gate.hit_rate is not None:
        yield _Gate((), None, gate.hit_rate)
    for name, options in gate.groups.items():
        if options.hit_rate is not None:
            yield _Gate(("groups", name), name, options.hit_rate)


def _path(gate: _Gate) -> tuple[str, ...]:
    return ("gate", *gate.keys, "hit_rate")


def _span(file: ConfigFile, gate: _Gate) -> tuple[int, int]:
    """Return the range of its value in the text."""
    return file.places.spots[(*file.prefix, *_path(gate))].value


def _lowest(result: CheckResult, group: str | None) -> Fraction | None:
    """Return the lowest rate of all workloads; None after an interruption, or without a run."""
    if result.verdict.outcome == "partial":
        return None
    sums: list[Totals | Group] = [
        each
        for report in result.reports
        for each in ([report.totals] if group is None else [one for one in report.groups if one.name == group])
    ]
    if not sums or not all(each.prompt_tokens for each in sums):
        return None
    return min(rate(each.hit_tokens, each.prompt_tokens) for each in sums)


def _in_file(whole: str, read: str, at: int) -> int:
    """Return a place of the text that was read, its line ends line feeds and no byte order mark in it, in the text of the file."""
    lines = whole.split("\n")[: read.count("\n", 0, at)]
    return at + whole.startswith(_BOM) + sum(line.endswith("\r") for line in lines)


def _written(value: str, percent: int) -> str:
    """Return a value of TOML with another rate, written as it was where that can be."""
    number = str(percent) if "%" in value else str(percent / 100)
    new = _NUMBER.sub(number, value, count=1)
    try:
        read = tomllib.loads(f"value = {new}")["value"]
        if (parse_threshold(read) if isinstance(read, str) else float(read)) == percent / 100:
            return new
    except ValueError:
        pass
    return f'">={percent}%"'
