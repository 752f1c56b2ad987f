"""Raising the hit rates that a configuration demands to those of today; none is lowered, and no other value changes."""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from kvtool.config.find import NAME
from kvtool.config.loading import ConfigFile
from kvtool.config.options.run_options import Reading
from kvtool.errors import KvtoolError, Place
from kvtool.fixes.edits.apply import write_files
from kvtool.gate.config_text import MOST_GROUPS, group_gate, refreshed
from kvtool.gate.evaluate import exact, rate
from kvtool.results.check import CheckResult
from kvtool.results.gate_words import gate_percent, percents, subject
from kvtool.results.report import Group, Report, Totals
from kvtool.results.worst_loss import loss_sentence
from kvtool.text.files.text_files import read_source
from kvtool.text.files.toml_places import TomlPlaces
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


def can_tighten(
    file: ConfigFile | None, result: CheckResult, inputs: Sequence[str], reading: Reading, min_hit_rate: str | None
) -> bool:
    """Return whether --tighten with the same options would raise a limit of a check that passed."""
    if file is None or result.verdict.outcome != "pass":
        return False
    try:
        check_tighten(file, inputs, reading, min_hit_rate)
        return bool(plan_tightening(file, result).told)
    except KvtoolError:
        return False


def lowered_limits(before: ConfigFile, after: ConfigFile) -> list[str]:
    """Return, in words, each hit rate that a new configuration demands less of than the one before, or no more at all."""
    now = {gate.group: gate.limit for gate in _gates(after)}
    found = []
    for gate in _gates(before):
        limit = now.get(gate.group, now.get(None, 0.0))
        if limit < gate.limit:
            found.append(f"hit rate of {subject(gate.group)}: {' -> '.join(percents(gate.limit, limit))}")
    return found


def tighten(file: ConfigFile, result: CheckResult) -> Tightened:
    """Raise what can be raised, and write it; where nothing can, or the check was interrupted, the file stays as it is.

    KvtoolError, with the file as it was, where it has changed since it was read or cannot be written.
    """
    tightened = plan_tightening(file, result)
    if tightened.told:
        write_files([tightened])
    return tightened


def plan_tightening(file: ConfigFile, result: CheckResult) -> Tightened:
    """Return the file with its limits at today's rates; where some groups have limits, the others get one.

    KvtoolError where it has changed since it was read, and where the rates are those of prompts that no application sends.
    """
    if result.copies:
        copy = result.copies[0]
        raise KvtoolError(
            f"no gate was raised: {copy.difference}, and your service sends the original",
            hint=f"{copy.remedy}, or copy all prompts again: {shlex.join(['kvtool', *copy.copy_again])}",
        )
    before = read_source(Path(file.path), shown=file.path)
    if before.removeprefix(_BOM).replace("\r\n", "\n") != file.places.source:
        raise KvtoolError(f"`{file.path}` has changed since it was read", hint="no gate was raised; run it again")
    told: dict[tuple[str, ...], str] = {}
    added = _missing(file, result)
    after = _with_gates(before, file, added)
    if after is None:
        added, after = {}, before
    for gate in sorted(_gates(file), key=lambda one: -_span(file, one)[0]):  # from the end, so that places stay
        lowest = _lowest(result, gate.group)
        if lowest is None:
            continue
        percent = gate_percent(lowest)
        if Fraction(percent) / 100 <= exact(gate.limit):
            continue
        start, stop = (_in_file(before, file.places.source, at) for at in _span(file, gate))
        after = after[:start] + _written(after[start:stop], percent) + after[stop:]
        was, now = percents(gate.limit, float(percent / 100))
        told[_path(gate)] = f"{subject(gate.group)}: {was} -> {now}"
    told = dict(reversed(told.items()))
    told |= {("gate", "groups", name, "hit_rate"): f"{subject(name)}: {share}% (new)" for name, share in added.items()}
    if told:
        after = _refreshed(after, file, result, [*added, *file.config.gate.groups])
    places = TomlPlaces(after.removeprefix(_BOM).replace("\r\n", "\n"), file.path)
    return Tightened(
        file.path,
        before,
        after,
        [f"{places.place((*file.prefix, *path))}: hit rate of {text}" for path, text in told.items()],
    )


def _missing(file: ConfigFile, result: CheckResult) -> dict[str, Decimal]:
    """Return percent of the groups that have no limit, where others have one, or one of all workloads cannot fail; none of groups
    that reuse nothing.
    """
    known = file.config.gate.groups
    room = MOST_GROUPS - len(known)
    lowest_of_all = _lowest(result, None)
    is_off = not file.config.gate.hit_rate and lowest_of_all is not None and not gate_percent(lowest_of_all)
    if (not is_off and all(options.hit_rate is None for options in known.values())) or room <= 0:
        return {}
    names = dict.fromkeys(group.name for report in result.reports for group in report.groups if group.name not in known)
    lowest = {name: rate for name in names if (rate := _lowest(result, name)) is not None}
    shares = {name: share for name, rate in lowest.items() if (share := gate_percent(rate))}
    return dict(sorted(shares.items(), key=lambda pair: -pair[1])[:room])


def _with_gates(text: str, file: ConfigFile, added: Mapping[str, Decimal]) -> str | None:
    """Return the text with tables of these groups after all other gates; None where it has no place for tables."""
    if not added:
        return text
    prefix, source = (*file.prefix, "gate"), file.places.source
    last = max(spot.value[1] for path, spot in file.places.spots.items() if path[: len(prefix)] == prefix)
    end = source.find("\n", last)
    at = _in_file(text, source, len(source) if end < 0 else end)
    written = "".join(f"{name}." for name in file.prefix)
    lines = [line for name, share in added.items() for line in ("", *group_gate(name, share, written))]
    new = "\r\n" if "\r\n" in text else "\n"
    at -= text[:at].endswith("\r")
    after = text[:at] + "".join(f"{new}{line}" for line in lines) + text[at:]
    return (
        after
        if _gates_in(after, file)
        == _gates_in(text, file) | {name: {"hit_rate": f">={share}%"} for name, share in added.items()}
        else None
    )


def _gates_in(text: str, file: ConfigFile) -> dict[str, object]:
    """Return the tables of groups in a text; none where it is no TOML."""
    try:
        table: object = tomllib.loads(text.removeprefix(_BOM))
    except ValueError:
        return {}
    for name in (*file.prefix, "gate", "groups"):
        table = table.get(name) if isinstance(table, dict) else None
    return dict(table) if isinstance(table, dict) else {}


def _refreshed(text: str, file: ConfigFile, result: CheckResult, gated: Collection[str]) -> str:
    """Return the text with the comments of `kvtool init` as they are true today."""
    places = TomlPlaces(text.removeprefix(_BOM).replace("\r\n", "\n"), file.path)
    reports = {os.path.normpath(report.workload): report for report in result.reports}
    rates: dict[int, float] = {}
    for number, pattern in enumerate(file.config.workloads):
        report = reports.get(file.resolve(pattern))
        line = places.place((*file.prefix, "workloads", number)).line
        if report is not None and line is not None:
            rates[line - 1] = report.known_hit_rate
    losses = [loss for report in result.reports if (loss := loss_sentence(report)) is not None]
    names = dict.fromkeys(group.name for report in result.reports for group in report.groups)
    return refreshed(text, rates=rates, losses=losses, ungated=[name for name in names if name not in gated])


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
    """Return the lowest rate of all workloads, as gates see it; None after an interruption, or without a run."""
    if result.verdict.outcome == "partial":
        return None
    sums: list[tuple[Report, Totals | Group]] = [
        (report, each)
        for report in result.reports
        for each in ([report.totals] if group is None else [one for one in report.groups if one.name == group])
    ]
    if not sums or not all(each.prompt_tokens for _, each in sums):
        return None
    return min(_rate(report, each, group) for report, each in sums)


def _rate(report: Report, sums: Totals | Group, group: str | None) -> Fraction:
    """Return the reported hit rate where there is one, else the predicted one."""
    reported = report.reported_share(group)
    return rate(sums.hit_tokens, sums.prompt_tokens) if reported is None else reported


def _in_file(whole: str, read: str, at: int) -> int:
    """Return a place of the text that was read, its line ends line feeds and no byte order mark in it, in the text of the file."""
    lines = whole.split("\n")[: read.count("\n", 0, at)]
    return at + whole.startswith(_BOM) + sum(line.endswith("\r") for line in lines)


def _written(value: str, percent: Decimal) -> str:
    """Return a value of TOML with another rate, written as it was where that can be."""
    number = str(percent) if "%" in value else str(percent / 100)
    new = _NUMBER.sub(number, value, count=1)
    try:
        read = tomllib.loads(f"value = {new}")["value"]
        if (parse_threshold(read) if isinstance(read, str) else float(read)) == float(percent / 100):
            return new
    except ValueError:
        pass
    return f'">={percent}%"'
