"""One loss reported once across files: what a template's own file says of it, and what the calls say that fill it elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os.path import realpath

from kvtool.lint.findings.template_findings import OPEN
from kvtool.lint.skeleton import Filled
from kvtool.results.choices import Severity
from kvtool.results.finding import Finding, as_severe

_MOST_CALLS = 3
"""Calls that a finding names."""


def merge_at_templates(
    findings: Iterable[Finding], fills: Mapping[tuple[object, ...], Filled], paths: Mapping[str, str]
) -> list[Finding]:
    """Merge the findings of a template and of the calls that fill it from other files into one, at the template.

    `fills` are the placeholders that findings put something into, by the identity of the finding; `paths` the linted files by
    their real paths. A clock that one call puts in is reported at that call. Several calls that fill one template are reported
    at the template, and so is a text that differs per request by its use.
    """
    given = list(findings)
    groups: dict[tuple[str, int, int], list[tuple[Finding, Filled]]] = {}
    of_file: dict[str, list[Finding]] = {}
    for one in given:
        filled = fills.get(one.identity)
        if filled is None:
            of_file.setdefault(one.path, []).append(one)
        elif (path := paths.get(realpath(filled.spot.path))) is not None:
            groups.setdefault((path, filled.first, filled.last), []).append((one, filled))
    new: list[Finding] = []
    gone: set[int] = set()
    for (path, first, last), calls in groups.items():
        own = [one for one in of_file.get(path, ()) if first <= one.line <= last]
        seen = any(one.confidence == 1.0 for one, _ in calls)
        if not own and seen and len({(one.path, one.line) for one, _ in calls}) < 2:
            continue
        put = [_moved(one, path, filled) for one, filled in calls]
        told, left_out = _one_of(own, put)
        new.append(told.model_copy(update={"message": f"{told.message}; {_filled_by([one for one, _ in calls])}"}))
        gone.update(id(one) for one in (*left_out, *(call for call, _ in calls)))
    return [one for one in given if id(one) not in gone] + new


def _moved(one: Finding, path: str, filled: Filled) -> Finding:
    """The finding of a call at the placeholder that it fills."""
    spot = filled.spot
    place = {"path": path, "line": spot.line, "column": spot.column, "width": spot.width, "snippet": None}
    return one.model_copy(update=place)


def _one_of(own: list[Finding], put: list[Finding]) -> tuple[Finding, list[Finding]]:
    """Merge the findings of a template into one, at the first place that surely varies; return it and those that it replaces."""
    every = [*own, *put]
    sure = [one for one in every if one.confidence > OPEN] or every
    first = min(map(_place, sure))
    at_first = [one for one in sure if _place(one) == first]
    told = max(at_first, key=lambda one: (_rank(one.severity), one.confidence))
    filled = {_place(one) for one in put}
    said = [one for one in own if one is told or one not in sure or _place(one) in filled or first in filled]
    worst = max((*said, *put), key=lambda one: _rank(one.severity))
    return told.model_copy(update={"severity": worst.severity}), said


def _place(one: Finding) -> tuple[int, int]:
    return one.line, one.column


def _rank(severity: Severity) -> int:
    return as_severe(severity, "warning") + as_severe(severity, "error")


def _filled_by(calls: list[Finding]) -> str:
    places = list(dict.fromkeys(f"{one.path}:{one.line}" for one in calls))
    shown = places[:_MOST_CALLS]
    more = f" and {len(places) - len(shown):,} more" if len(places) > len(shown) else ""
    listed = ", ".join(shown) if more or len(shown) < 2 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    return f"filled at {listed}{more}"
