"""What simpler tools say and do on the same cases, held to the same truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import peer_promptcachelint
from advisor_bench import Bench
from scenarios.case import Case, Record, write_rows
from scenarios.judge import Judged, captured, is_whole

from kvtool.accounting.plan import Plan
from kvtool.diagnose.values.classify import DETECTORS, classify_in

Told = tuple[str, str]
"""A code, and the line it was given to ("" where it has none)."""


def peers(bench: Bench, case: Case, plan: Plan, folder: Path, before: float, best: float) -> dict[str, Judged]:
    """Each of them by name. pcdlint 0.3.0 reads Python source only: it has nothing to say about a log."""
    found = {
        "patterns only": _judged(case, list(_matches(case))),
        "first divergence": _judged(case, _first_divergences(case)),
        "stable lines first": _sorted(bench, case, plan, folder, before, best),
    }
    if peer_promptcachelint.installed():
        told = peer_promptcachelint.findings(_Logged(case))  # type: ignore[arg-type]  # it asks for records only
        found["promptcachelint"] = _judged(case, [(code, span[0] if span else "") for code, span in told])
    return found


@dataclass(frozen=True)
class _Logged:
    """A case as promptcachelint is given it."""

    case: Case

    @property
    def requests(self) -> int:
        return self.case.requests

    def record(self, number: int) -> Record:
        return self.case.record(number)


def _judged(case: Case, told: list[Told]) -> Judged:
    judged = Judged(case.name)
    known: set[Told] = set()
    if case.causes:
        judged.cause = judged.place = True
    for cause in case.causes:
        placed = [each for each in told if _at(each, cause.lines) or (cause.part and each[0] in cause.codes)]
        known.update(placed)
        judged.place = bool(judged.place and placed)
        judged.cause = bool(judged.cause and any(code in cause.codes for code, _ in placed))
    judged.false = len(set(told) - known)
    judged.fix = case.best == "none"
    return judged


def _at(told: Told, lines: frozenset[str]) -> bool:
    said = told[1].strip()
    return bool(said) and any(said in line or (line.strip() and line.strip() in said) for line in lines)


def _text(case: Case, number: int) -> str:
    return str(case.record(number)["messages"][0]["content"])


def _matches(case: Case) -> Iterator[Told]:
    for line in _text(case, 0).split("\n"):
        for kind, pattern in DETECTORS:
            if pattern.search(line):
                yield kind.code, line


def _first_divergences(case: Case) -> list[Told]:
    seen: Counter[Told] = Counter()
    before = _text(case, 0)
    for number in range(1, case.requests):
        text = _text(case, number)
        at = next((index for index, (a, b) in enumerate(zip(before, text, strict=False)) if a != b), None)
        if at is not None:
            low = text.rfind("\n", 0, at) + 1
            seen[classify_in(text, at, at)[0].code, text[low:].split("\n", 1)[0]] += 1
        before = text
    return [told for told, _ in seen.most_common(1)]


def _sorted(bench: Bench, case: Case, plan: Plan, folder: Path, before: float, best: float) -> Judged:
    """The lines of the first message that all requests have, first; the others behind them."""
    texts = [_text(case, number).split("\n") for number in range(case.requests)]
    everywhere = set.intersection(*(set(lines) for lines in texts))
    rows: list[dict[str, Any]] = []
    judged = Judged(case.name)
    for number, lines in enumerate(texts):
        row = case.record(number)
        row["messages"][0]["content"] = "\n".join(sorted(lines, key=lambda line: line not in everywhere))
        rows.append(row)
        units = [unit for unit in case.units(number) if unit]
        judged.units += len(units)
        judged.torn += sum(not is_whole(unit, [str(each.get("content")) for each in row["messages"]]) for unit in units)
    log = folder / "sorted.jsonl"
    write_rows(log, rows)
    judged.gain = captured(before, bench.rate(plan, log), best)
    return judged
