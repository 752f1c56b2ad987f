"""Prefill and decode on separate replicas: one pool computes prompts, a link sends them, and the other pool answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf, isnan, nan

import numpy as np

from kvtool.engine.engine_error import EngineError
from kvtool.engine.fleet.decode_replica import DecodeReplica
from kvtool.engine.fleet.fleet import MakeReplica, serve
from kvtool.engine.fleet.fleet_ledger import FleetLedger
from kvtool.engine.fleet.fleet_request import FleetRequest
from kvtool.engine.fleet.fleet_router import FleetRouter, RouterView
from kvtool.engine.fleet.fleet_run import Counts, FleetRun, Seconds
from kvtool.engine.fleet.shared_link import SharedLink

MakeDecodeReplica = Callable[[int, FleetLedger], DecodeReplica]


@dataclass(frozen=True, slots=True)
class SplitRun:
    """The result of a split fleet. Prefill gives the first token; the second follows the transfer."""

    run: FleetRun
    """Its replicas, hits and computed tokens are those of the prefill pool."""
    decode_replica: Counts
    """-1 where an answer has one token, which needs no decode."""
    transfer_bytes: Counts
    transfer_seconds: Seconds
    """Seconds from the first token until keys and values arrive; NaN where nothing is sent."""


def serve_split(
    requests: Sequence[FleetRequest],
    make_prefill: MakeReplica,
    make_decode: MakeDecodeReplica,
    pools: tuple[int, int],
    router: FleetRouter,
    link: SharedLink,
    token_bytes: float,
    *,
    view: RouterView = "events",
    index_blocks: int | None = None,
) -> SplitRun:
    """Serve requests, which are in order of arrival and numbered so, with so many replicas for prefill and for decode.

    The router chooses the prefill replica. Keys and values, `token_bytes` for a token, are sent with the first token, to the
    decode replica with the fewest blocks used and promised; cached ones are not sent. All transfers share the link. The prefill
    replica keeps nothing for a transfer: its blocks are free once the prompt is computed.
    """
    prefill, decode = pools
    if prefill < 1 or decode < 1:
        raise EngineError(f"a split fleet needs at least one replica in each pool, not {prefill} and {decode}")
    ledger = FleetLedger(len(requests))
    fleet = [make_decode(number, ledger) for number in range(decode)]
    for request in requests:
        request.check_fits(fleet[0].config)
    short = [replace(request, output_tokens=1) for request in requests]
    computed = serve(short, make_prefill, prefill, router, view=view, index_blocks=index_blocks)
    first = computed.first_token.tolist()
    handed = [request for request in requests if request.output_tokens > 1 and not isnan(first[request.number])]
    handed.sort(key=lambda request: (first[request.number], request.number))
    handover = _Handover(fleet, link, token_bytes, len(requests))
    for request in handed:
        handover.advance(first[request.number])
        handover.send(request, first[request.number])
    handover.advance(inf)
    finished = np.where([request.output_tokens > 1 for request in requests], ledger.finished, computed.finished)
    return SplitRun(
        replace(
            computed,
            finished=finished,
            output_tokens=np.array([request.output_tokens for request in requests], np.int64),
            preemptions=computed.preemptions + ledger.preemptions,
        ),
        np.array(handover.chosen, np.int64),
        np.array(handover.bytes, np.int64),
        np.array(handover.seconds, np.float64),
    )


class _Handover:
    """The transfer between pools: it assigns prompts and records their arrival."""

    def __init__(self, fleet: list[DecodeReplica], link: SharedLink, token_bytes: float, requests: int) -> None:
        self.chosen = [-1] * requests
        self.bytes = [0] * requests
        self.seconds = [nan] * requests
        self._fleet = fleet
        self._link = link
        self._token_bytes = token_bytes
        self._promised = [0] * len(fleet)
        """Blocks of prompts that are on their way."""
        self._sent: dict[int, tuple[FleetRequest, float]] = {}

    def advance(self, moment: float) -> None:
        """Let prompts come until then."""
        while len(self._link) and (event := self._link.next_event()) <= moment:
            for end, number in self._link.advance(event):
                request, begun = self._sent.pop(number)
                replica = self._fleet[self.chosen[number]]
                self._promised[replica.number] -= replica.prompt_blocks(request)
                self.seconds[number] = end - begun
                replica.advance(end)
                replica.receive(request, end)
        for replica in self._fleet:
            replica.advance(moment)

    def send(self, request: FleetRequest, now: float) -> None:
        def load(replica: DecodeReplica) -> int:
            return replica.used_blocks + replica.awaited_blocks + self._promised[replica.number]

        replica = min(self._fleet, key=load)
        number = request.number
        self.chosen[number] = replica.number
        self._promised[replica.number] += replica.prompt_blocks(request)
        self.bytes[number] = round((request.prompt_tokens - replica.held(request)) * self._token_bytes)
        self._sent[number] = (request, now)
        self._link.start(number, self.bytes[number], now)
