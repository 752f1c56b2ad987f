"""When the requests of a trace come, for what needs to know it."""

from __future__ import annotations

import numpy as np

from kvtool.errors import KvtoolError
from kvtool.workload.block_trace import CLOCKS_APART, BlockTrace


def check_arrivals(trace: BlockTrace, what: str) -> None:
    """KvtoolError where not all requests have a time, where time goes back, or where it is told by two clocks.

    `what` needs the times.
    """
    missing = np.flatnonzero(np.isnan(trace.arrivals))
    if len(missing):
        none = len(missing) == len(trace)
        which = "no request has one" if none else f"not all requests have one: request {int(missing[0]) + 1} has not"
        raise KvtoolError(
            f"{what} needs arrival times, and {which}",
            hint="a log with timestamps, or another axis: --sweep capacity",
            place=None if none else trace.untimed,
        )
    gaps = np.diff(trace.arrivals)
    strange = np.flatnonzero(np.abs(gaps) > CLOCKS_APART)
    if len(strange):
        at = int(strange[0])
        years = abs(float(gaps[at])) / CLOCKS_APART
        raise KvtoolError(
            f"requests {at + 1} and {at + 2} are {years:,.0f} years apart: their times are of two clocks",
            hint="plan for these logs apart, or write the times of both in the same unit from the same moment",
            place=trace.leap,
        )
    back = np.flatnonzero(gaps < 0)
    if len(back):
        at = int(back[0])
        raise KvtoolError(
            f"request {at + 2} of the log comes {-float(gaps[at]):,.3f} s before the one that stands before it",
            hint="sort the log by its arrival times",
        )
