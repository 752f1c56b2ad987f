"""Answers of sweeps in words: tiers, split fleets, routers, replicas, times to live and block sizes."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.accounting.caches.cache_rules import lifetime
from kvtool.profiler.what_if.table_clock import ROUND_ROBIN
from kvtool.report.views.plans.what_if_rows import moment
from kvtool.results.documents.what_if import SweepRow
from kvtool.text.terminal.numbers import in_words, per_second, percent, plural

NONE_WITHIN = "No setting serves a request within the objectives"
_LITTLE = 0.02
"""Relative change of a time below which two times count as equal."""
_NEAR = 1.1
"""Within a tenth of the shortest wait, a smaller fleet does as well."""
ENOUGH = 0.95
"""Part of the maximum hit rate above which a larger setting is hardly worth its price."""


def link_words(bandwidth: float | None) -> str:
    """Return `14 GB/s`; None is a link without a limit."""
    return "any bandwidth" if bandwidth is None else per_second(bandwidth)


def tier_words(row: SweepRow) -> str:
    """Return the tiers below the GPU: `100 blocks of host memory`."""
    parts = []
    if row.host_blocks:
        parts.append(f"{row.host_blocks:,} blocks of host memory")
    if row.disk_blocks:
        parts.append(f"{row.disk_blocks:,} on disk")
    return in_words(parts) or "no tier"


def tier_answer(rows: Sequence[SweepRow], block_size: int) -> str:
    """Say whether a tier pays, by the clock where there is one, and from which length on a load does. The first row has no tier."""
    today, tiers = rows[0], rows[1:]
    if not tiers:
        return "No tier to compare"
    if today.ttft_p99 is None:
        most = max(tiers, key=lambda row: (row.hit_rate + (row.loaded_rate or 0.0), -(row.host_blocks or 0)))
        return (
            f"Hit rate {percent(today.hit_rate)} with GPU memory alone; with {tier_words(most)} {percent(most.hit_rate)}, and "
            f"{percent(most.loaded_rate or 0.0)} more is loaded"
        )
    if today.goodput is not None:
        best = max(tiers, key=lambda row: (row.goodput or 0.0, -(row.host_blocks or 0)))
        if not best.goodput and not today.goodput:
            waits = f"TTFT p99 {moment(today.ttft_p99)} without a tier, {moment(best.ttft_p99 or 0.0)}"
            return f"{NONE_WITHIN}: {waits} with {_with_link(best)}. {_break_even(best, block_size)}"
        pays = (best.goodput or 0.0) > today.goodput * (1 + _LITTLE)
        said = f"{today.goodput:,.2f} requests/s within the objectives without one, {best.goodput or 0.0:,.2f}"
    else:
        best = min(tiers, key=lambda row: (row.ttft_p99 or 0.0, row.host_blocks or 0))
        pays = _shorter(best.ttft_p99, today.ttft_p99)
        said = f"TTFT p99 {moment(today.ttft_p99)} without one, {moment(best.ttft_p99 or 0.0)}"
    saved = 1 - (best.computed_tokens or 0) / today.computed_tokens if today.computed_tokens else 0.0
    less = f", {percent(saved)} fewer prompt tokens computed" if saved > 0 else ""
    return f"{'A tier pays' if pays else 'No tier pays'}: {said} with {_with_link(best)}{less}. {_break_even(best, block_size)}"


def _with_link(row: SweepRow) -> str:
    return f"{tier_words(row)} at {link_words(row.bandwidth if row.host_blocks else row.disk_bandwidth)}"


def _break_even(row: SweepRow, block_size: int) -> str:
    if row.break_even_tokens is None:
        return "Loading over this link is always slower than computing"
    if row.break_even_tokens <= block_size:
        return f"Loading is faster than computing for every block of {block_size:,} tokens"
    return f"Loading is faster than computing from {row.break_even_tokens:,} tokens on"


def split_words(row: SweepRow) -> str:
    """Return `1 + 3`: replicas for prefill and for decode."""
    return "mixed" if row.prefill_replicas is None else f"{row.prefill_replicas} + {row.decode_replicas}"


def split_answer(rows: Sequence[SweepRow]) -> str:
    """Say whether to split the fleet, with gains and losses; of several fleets the largest."""
    largest = max((row.replicas or 0 for row in rows), default=0)
    of_largest = [row for row in rows if (row.replicas or 0) == largest]
    told = _of_one_fleet(of_largest)
    return told if len(of_largest) == len(rows) or not told else f"Of {largest:,} replicas: {told[0].lower()}{told[1:]}"


def _of_one_fleet(rows: Sequence[SweepRow]) -> str:
    mixed, splits = rows[0], rows[1:]
    if not splits:
        return ""
    if mixed.goodput is not None:
        best = max(splits, key=lambda row: row.goodput or 0.0)
        of_best, of_mixed = best.goodput or 0.0, mixed.goodput
        if not of_best and not of_mixed:
            return f"{NONE_WITHIN}: split {split_words(best)} {_times(best, mixed)}"
        said = f"{of_best:.2f} requests/s within the objectives split {split_words(best)}, {of_mixed:.2f} mixed"
        if of_best > of_mixed * (1 + _LITTLE):
            return f"A split pays: {said}; {_times(best, mixed)}"
        if of_best < of_mixed * (1 - _LITTLE):
            return f"No split pays: {said}; {_times(best, mixed)}"
        return f"A split changes little: {said}; {_times(best, mixed)}"
    best = min(splits, key=lambda row: (row.ttft_p99 or 0.0, row.tpot_p99 or 0.0))
    shorter = [
        row for row in splits if _shorter(row.ttft_p99, mixed.ttft_p99) and _shorter(row.tpot_p99, mixed.tpot_p99)
    ]
    if shorter:
        best = min(shorter, key=lambda row: row.ttft_p99 or 0.0)
        return f"Split {split_words(best)} shortens both: {_times(best, mixed)}"
    calm = min(splits, key=lambda row: row.tpot_p99 or 0.0)
    if _shorter(calm.tpot_p99, mixed.tpot_p99):
        return f"Split {split_words(calm)} shortens TPOT and lengthens TTFT: {_times(calm, mixed)}. Set --slo to weigh them"
    return f"No split pays: {split_words(best)} has {_times(best, mixed)}"


def _shorter(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is None and other is None
    return one < other * (1 - _LITTLE)


def _times(row: SweepRow, mixed: SweepRow) -> str:
    parts = [
        f"{name} p99 {moment(one)} instead of {moment(other)}"
        for name, one, other in (("TTFT", row.ttft_p99, mixed.ttft_p99), ("TPOT", row.tpot_p99, mixed.tpot_p99))
        if one is not None and other is not None
    ]
    if row.transfer_p99 is not None:
        parts.append(f"a transfer takes {moment(row.transfer_p99)} at p99")
    return ", ".join(parts)


def routing_answer(rows: Sequence[SweepRow]) -> str:
    """Return the answer on routers or replicas; empty where no row has a time."""
    timed = [(row.ttft_p99, row) for row in rows if row.ttft_p99 is not None]
    if not timed:
        return ""
    goodputs = [row.goodput for row in rows if row.goodput is not None]
    none = f"{NONE_WITHIN}. " if goodputs and not any(goodputs) else ""
    return none + (_of_replicas(timed) if rows[0].axis == "replicas" else _of_routers(timed))


def _of_routers(timed: Sequence[tuple[float, SweepRow]]) -> str:
    """Name the router that waits least, today's, that with most hits, and that with the highest goodput."""
    best, row = min(timed, key=lambda each: each[0])
    told = f"{row.routing} has the shortest wait: TTFT p99 {moment(best)} with {plural(row.replicas or 0, 'replica')}"
    today = next((each for each in timed if each[1].routing == ROUND_ROBIN), None) or max(
        timed, key=lambda each: each[0]
    )
    if today[1] is not row:
        told += f", {today[1].routing} {moment(today[0])}"
    hits, most = max(((row.hit_rate, row) for _, row in timed), key=lambda each: each[0])
    if most is not row and hits > row.hit_rate:
        assert most.ttft_p99 is not None
        rates = f"{percent(hits)} instead of {percent(row.hit_rate)}"
        told += f". {most.routing} has the highest hit rate, {rates}, but TTFT p99 is {moment(most.ttft_p99)}"
    served, good = max(((row.goodput or 0.0, row) for _, row in timed), key=lambda each: each[0])
    if served > (row.goodput or 0.0):
        told += f". {good.routing} serves most within the objectives: {served:.2f} requests/s instead of {row.goodput or 0.0:.2f}"
    return f"{told}."


def _of_replicas(timed: Sequence[tuple[float, SweepRow]]) -> str:
    """Name the fewest replicas that do about as well as any, and the fewest that were tried.

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
        told += ". More replicas gain less than 10%"
    return f"{told}."


def ttl_answer(rows: Sequence[SweepRow], reachable: float) -> str:
    """Name the shortest time that keeps most of what an unlimited cache hits; empty where no row has a time."""
    tried = sorted(((row.ttl_seconds, row) for row in rows if row.ttl_seconds is not None), key=lambda each: each[0])
    if not tried:
        return ""
    (shortest, first), (longest, last) = tried[0], tried[-1]
    if len(tried) > 1 and percent(first.hit_rate) == percent(last.hit_rate):
        times = f"from {lifetime(shortest)} to {lifetime(longest)}"
        return f"The time to live has no effect {times}: hit rate {percent(first.hit_rate)}"
    enough = next(((ttl, row) for ttl, row in tried if row.hit_rate >= ENOUGH * reachable), None)
    if enough is None:
        return f"Every time to live is too short: hit rate {percent(last.hit_rate)} with {lifetime(longest)}"
    ttl, row = enough
    return f"A time to live of {lifetime(ttl)} is enough: hit rate {percent(row.hit_rate)}"


def block_size_answer(rows: Sequence[SweepRow]) -> str:
    """Name the size that hits most, and the largest that keeps most of that; of several capacities in the largest."""
    sizes = [(row.block_size, row) for row in rows if row.block_size is not None]
    if not sizes:
        return ""
    unlimited = any(row.capacity is None for _, row in sizes)
    room = None if unlimited else max(size * (row.capacity or 0) for size, row in sizes)
    tried = [
        (size, row)
        for size, row in sizes
        if (row.capacity is None if room is None else size * ((row.capacity or 0) + 1) > room)
    ]
    within = "" if room is None else f" in a cache of {plural(room, 'token')}"
    smallest, largest = min(size for size, _ in tried), max(size for size, _ in tried)
    rates = {percent(row.hit_rate) for _, row in tried}
    if len(rates) == 1 and smallest < largest:
        span = f"from {smallest:,} to {largest:,} tokens"
        return f"The block size has no effect {span}{within}: hit rate {rates.pop()}"
    size, best = max(tried, key=lambda each: (each[1].hit_rate, each[0]))
    told = f"Best block size{within}: {plural(size, 'token')}, hit rate {percent(best.hit_rate)}"
    widest, row = max((each for each in tried if each[1].hit_rate >= ENOUGH * best.hit_rate), key=lambda each: each[0])
    return told if widest <= size else f"{told}; {widest:,} tokens: {percent(row.hit_rate)}"
