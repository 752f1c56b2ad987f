"""Writing the baseline, and saying what changed in it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from kvtool.gate.baseline import Baseline, RecordedSums, WorkloadSums, load_baseline
from kvtool.gate.comparing import differences
from kvtool.results.gate_words import percents, subject
from kvtool.text.files.atomic_file import AtomicFile
from kvtool.text.terminal.numbers import percent

_MOST_TOLD = 20
"""Changes named on one screen."""


def update_baseline(path: str, now: Mapping[str, WorkloadSums], *, all_workloads: bool) -> list[str]:
    """Put these workloads (by their paths from the baseline's folder) into the file; says what changed in it.

    With `all_workloads` there are no others, and others in the file are dropped. A file that would not change is not written.
    KvtoolError where it cannot be written, or what is there is no baseline.
    """
    with _alone(path):
        before = load_baseline(path)
        kept = {} if before is None or all_workloads else dict(before.workloads)
        after = Baseline(workloads={**kept, **now})
        if before == after:
            return [f"the baseline {path} is unchanged"]
        with AtomicFile(path) as file:
            file.write(after.to_json().encode())
    told = _told(before, after)
    if len(told) > _MOST_TOLD:
        told = [*told[:_MOST_TOLD], f"and {len(told) - _MOST_TOLD:,} more changes"]
    told = [f"baseline: {text}" for text in told]
    return [f"the baseline {path} was {'written' if before is None else 'updated'}", *told]


@contextlib.contextmanager
def _alone(path: str) -> Iterator[None]:
    """Keep other updates of this file from reading or writing it, where the folder can be locked."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError, ValueError):  # what is wrong with the name is told when the file is written
            handle = os.open(Path(path).resolve().parent, os.O_RDONLY)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _told(before: Baseline | None, after: Baseline) -> list[str]:
    old = {} if before is None else before.workloads
    told: list[str] = []
    for name in sorted({*old, *after.workloads}):
        one, other = old.get(name), after.workloads.get(name)
        if other is None:
            told.append(f"{name}: removed")
        elif one is None:
            told.append(f"{name}: {percent(other.known_hit_rate)} of {other.prompt_tokens:,} prompt tokens")
        elif one != other:
            told += _workload(name, one, other)
    return told


def _workload(name: str, one: WorkloadSums, other: WorkloadSums) -> list[str]:
    told = [f"{name}: {text}" for text in differences(one.key, other.key)]
    told += _sums(f"{name}: {subject(None)}", one, other)
    for group in sorted({*one.groups, *other.groups}):
        was, now = one.groups.get(group), other.groups.get(group)
        if now is None:
            told.append(f"{name}: {group}: removed")
        elif was is None:
            told.append(f"{name}: {group}: {percent(now.known_hit_rate)}, new")
        else:
            told += _sums(f"{name}: {group}", was, now)
    return told


def _sums(label: str, one: RecordedSums, other: RecordedSums) -> list[str]:
    if one.known_hit_rate != other.known_hit_rate:
        return [f"{label}: {' -> '.join(percents(one.known_hit_rate, other.known_hit_rate))}"]
    if one.findings != other.findings and one.findings is not None and other.findings is not None:
        codes = [
            code
            for code in sorted({*one.findings, *other.findings})
            if one.findings.get(code) != other.findings.get(code)
        ]
        return [f"{label}: findings changed ({', '.join(codes)})"]
    return []
