"""Judging of many files by more than one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import BinaryIO

from kvtool.lint.findings.file_result import JudgedText
from kvtool.lint.lint_inputs import TextInput
from kvtool.workload.ahead.child import Child, second_process

WORTH_IT = 400_000
"""Characters from which on a second process pays."""
_MOST_JOBS = 64
_USUAL_JOBS = 2

Judge = Callable[[TextInput], JudgedText]


def judge_all(texts: Sequence[TextInput], judge: Judge, jobs: int | None) -> list[JudgedText]:
    """Judge files by up to `jobs` processes; None: by two where that pays and there are two cores."""
    sizes = [len(one.text) for one in texts]
    if not second_process(jobs, pays=sum(sizes) >= WORTH_IT) or len(texts) < 2:
        return [judge(one) for one in texts]
    count = min(jobs or _USUAL_JOBS, len(texts), _MOST_JOBS)
    shares = list(_shares(sizes, count))
    with ExitStack() as stack:
        children: list[tuple[range, Child | None]] = []
        for share in shares[1:]:
            child = _begun([texts[number] for number in share], judge)
            if child is not None:
                stack.callback(child.close)
            children.append((share, child))
        results = [judge(texts[number]) for number in shares[0]]
        for share, child in children:
            found = [] if child is None else _received(child)
            # What a process did not get to, because it was killed, is done here.
            results += found[: len(share)]
            results += [judge(texts[number]) for number in share[len(found) :]]
    return results


def _shares(sizes: Sequence[int], count: int) -> Iterator[range]:
    """The files cut into `count` runs of about the same size: files of one folder stay together."""
    total, start, passed = sum(sizes), 0, 0
    for number, size in enumerate(sizes):
        passed += size
        left = count - 1
        if count > 1 and number + 1 < len(sizes) and passed * count >= total:
            yield range(start, number + 1)
            total, start, passed, count = total - passed, number + 1, 0, left
    yield range(start, len(sizes))


def _begun(texts: Sequence[TextInput], judge: Judge) -> Child | None:
    def work(stream: BinaryIO) -> None:
        packed = [judge(one).packed().encode() for one in texts]
        stream.writelines(line + b"\n" for line in packed)

    try:
        return Child(work)
    except OSError:  # there is no room for another process
        return None


def _received(child: Child) -> list[JudgedText]:
    """The results of a process that came whole."""
    lines = child.stream.read().split(b"\n")
    return [JudgedText.unpacked(line.decode()) for line in lines[:-1]]
