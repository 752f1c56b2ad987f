"""Judges many cases, and prints a table by kind and by tool."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat

from scenarios.judge import Judged, judge

_HEADS = ("cases", "cause", "place", "fix", "right", "false", "times", "gain", "off", "harm", "torn", "over")
_SIMPLER = ("cases", "cause", "place", "false", "gain", "torn")


def run(
    kinds: Sequence[str], seeds: Sequence[int], processes: int, *, verbose: bool
) -> dict[str, dict[str, list[Judged]]]:
    """What each tool got of each kind."""
    found: dict[str, dict[str, list[Judged]]] = {}
    with ProcessPoolExecutor(processes) as pool:
        for kind in kinds:
            for seed, judged in zip(seeds, pool.map(judge, repeat(kind), seeds), strict=False):
                for tool, each in judged.items():
                    found.setdefault(tool, {}).setdefault(kind, []).append(each)
                own = judged.get("kvtool")
                if verbose and own is not None and not own.right:
                    print(f"{own.case} (seed {seed}): {'; '.join(own.why) or 'wrong'}", flush=True)
    return found


def show(found: dict[str, dict[str, list[Judged]]]) -> None:
    """kvtool by kind, then all tools over all kinds."""
    print("".join(f"{head:>8}" if head else f"{head:<20}" for head in ("", *_HEADS)))
    for kind, cases in found["kvtool"].items():
        _row(kind, cases, _HEADS)
    _row("all", _all(found["kvtool"]), _HEADS)
    print()
    print("".join(f"{head:>8}" if head else f"{head:<20}" for head in ("", *_SIMPLER)))
    for tool, kinds in found.items():
        _row(tool, _all(kinds), _SIMPLER)


def figures(cases: Iterable[Judged]) -> dict[str, float | None]:
    """What a row says."""
    judged = list(cases)
    gains = [each.gain for each in judged if each.gain is not None]
    times = [each.times for each in judged if each.times is not None]
    off = [error for each in judged for error in each.off]
    units = sum(each.units for each in judged)
    return {
        "cases": len(judged),
        "cause": _share(judged, lambda each: each.cause),
        "place": _share(judged, lambda each: each.place),
        "fix": _share(judged, lambda each: each.fix),
        "right": _share(judged, lambda each: each.right),
        "false": sum(each.false > 0 for each in judged) / len(judged),
        "times": statistics.fmean(times) if times else None,
        "gain": statistics.fmean(gains) if gains else None,
        "off": statistics.fmean(off) if off else None,
        "harm": sum(each.harmed for each in judged) / len(judged),
        "torn": sum(each.torn for each in judged) / units if units else None,
        "over": sum(each.over for each in judged) / len(judged),
    }


def _all(kinds: dict[str, list[Judged]]) -> list[Judged]:
    return [each for cases in kinds.values() for each in cases]


def _share(judged: Iterable[Judged], of: Callable[[Judged], bool | None]) -> float | None:
    answers = [answer for each in judged if (answer := of(each)) is not None]
    return sum(answers) / len(answers) if answers else None


def _row(name: str, cases: list[Judged], heads: Sequence[str]) -> None:
    told = figures(cases)
    print(f"{name:<20}" + "".join(_shown(head, told[head]) for head in heads))


def _shown(head: str, value: float | None) -> str:
    if value is None:
        return f"{'-':>8}"
    return f"{value:>8.0f}" if head == "cases" else f"{value:>8.3f}"
