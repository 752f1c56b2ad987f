"""What routers and counts of replicas came to, in words: the best by the clock, and how it compares with today's."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.profiler.what_if.table_clock import ROUND_ROBIN
from kvtool.report.words.what_if_columns import moment
from kvtool.report.words.what_if_fleet_words import NONE_WITHIN
from kvtool.results.documents.what_if import SweepRow
from kvtool.text.terminal.numbers import percent, plural

_NEAR = 1.1
"""Within a tenth of the shortest wait, a smaller fleet does as well."""


def routing_answer(rows: Sequence[SweepRow]) -> str:
    """Empty where no row has a time."""
    timed = [(row.ttft_p99, row) for row in rows if row.ttft_p99 is not None]
    if not timed:
        return ""
    goodputs = [row.goodput for row in rows if row.goodput is not None]
    none = f"{NONE_WITHIN}. " if goodputs and not any(goodputs) else ""
    return none + (_of_replicas(timed) if rows[0].axis == "replicas" else _of_routers(timed))


def _of_routers(timed: Sequence[tuple[float, SweepRow]]) -> str:
    """The router that waits least, beside today's, that which hits most, and that which serves most within the objectives."""
    best, row = min(timed, key=lambda each: each[0])
    told = f"{row.routing} waits least: TTFT p99 {moment(best)} with {plural(row.replicas or 0, 'replica')}"
    today = next((each for each in timed if each[1].routing == ROUND_ROBIN), None) or max(
        timed, key=lambda each: each[0]
    )
    if today[1] is not row:
        told += f", {today[1].routing} {moment(today[0])}"
    hits, most = max(((row.hit_rate, row) for _, row in timed), key=lambda each: each[0])
    if most is not row and hits > row.hit_rate:
        assert most.ttft_p99 is not None
        rates = f"{percent(hits)} against {percent(row.hit_rate)}"
        told += f". Most hits has {most.routing}, {rates}, and waits longer: p99 {moment(most.ttft_p99)}"
    served, good = max(((row.goodput or 0.0, row) for _, row in timed), key=lambda each: each[0])
    if served > (row.goodput or 0.0):
        told += f". Most within the objectives serves {good.routing}: {served:.2f} requests/s, {row.goodput or 0.0:.2f} there"
    return f"{told}."


def _of_replicas(timed: Sequence[tuple[float, SweepRow]]) -> str:
    """The fewest replicas that do about as well as any, beside the fewest that were tried.

    Well is what meets the objectives, where there are some and that can be, else what waits little.
    """
    shortest = min(wait for wait, _ in timed)
    served = max(row.goodput or 0.0 for _, row in timed)
    near = [
        (wait, row)
        for wait, row in timed
        if (_NEAR * (row.goodput or 0.0) >= served if served else wait <= _NEAR * shortest)
    ]
    enough = min(near, key=lambda each: (each[1].replicas or 0, -(each[1].goodput or 0.0), each[0]))
    fewest = min(timed, key=lambda each: (each[1].replicas or 0, each[0]))
    wait, row = enough
    within = "" if row.within_slo is None else f"{percent(row.within_slo)} within the objectives, "
    told = f"{plural(row.replicas or 0, 'replica')} with {row.routing}: {within}TTFT p99 {moment(wait)}"
    if fewest[1].replicas != row.replicas:
        told += f"; {plural(fewest[1].replicas or 0, 'replica')} with {fewest[1].routing}: {moment(fewest[0])}"
    if any((other.replicas or 0) > (row.replicas or 0) for _, other in timed):
        told += ". More replicas win less than a tenth"
    return f"{told}."
