"""Steps that `kvtool bench` times: enough to see what a machine does, and to fit the latency model's constants to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from kvtool.measure.bench.calibration import Work

Kind = Literal["prefill", "extend", "cold", "chunk", "decode", "mixed", "sharing"]
Mode = Literal["flat", "prefix-aware"]

_QUESTION = 30  # tokens of a request beyond a shared prefix: a short question


@dataclass(frozen=True, slots=True)
class StepCase:
    """One step. The first `shared` tokens of all of its requests are the same, in the same blocks.

    `extend` is a question after a cached document, and `cold` both of them with nothing cached. `sharing` is decode, for what
    prefix-aware attention wins.
    """

    kind: Kind
    work: Work
    shared: int = 0
    mode: Mode = "flat"
    held_out: bool = False

    @property
    def fits_the_model(self) -> bool:
        """Return whether the latency model, which knows no sharing, is about such a step."""
        return not self.shared and self.kind != "sharing"

    @property
    def new_tokens(self) -> int:
        return sum(new for _, new in self.work)

    @property
    def context(self) -> int:
        """Return tokens of the first request when the step is done."""
        before, new = self.work[0]
        return before + new

    def blocks(self, block_size: int) -> int:
        """Return the number of different blocks of the step's requests."""
        own = sum(-(-(before + new) // block_size) for before, new in self.work)
        return own - (len(self.work) - 1) * (self.shared // block_size)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the steps are. Of each pair, the first ones are fitted to and the second ones held out."""

    prefill: tuple[tuple[int, ...], tuple[int, ...]]
    chunks: tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]
    documents: tuple[int, int]
    batches: tuple[int, int, int]
    contexts: tuple[int, ...]
    sharing: tuple[tuple[int, ...], int] = ((), 0)
    """Batches and their context, of which parts are shared."""


CPU = Sizes(
    prefill=((16, 64, 256, 1024, 4096), (128, 512, 2048)),
    chunks=(((1024, 256), (4096, 64), (2048, 1024)), ((512, 64), (4096, 512))),
    documents=(1024, 6000),
    batches=(1, 4, 16),
    contexts=(256, 2048),
    sharing=((8, 32, 64), 1024),
)
GPU = Sizes(
    prefill=((16, 128, 512, 2048, 8192), (256, 1024, 4096)),
    chunks=(((2048, 512), (14_336, 2048), (4096, 64)), ((1024, 1024), (32_256, 512))),
    documents=(1024, 6000),
    batches=(1, 16, 64),
    contexts=(1024, 4096, 16_384),
)
_SHARES = (0.5, 0.95)  # of the context that is in the cache, at a prefill
_SHARING_SHARES = (0.0, 0.5, 0.75, 0.95)  # of the context that requests of a decode share


def step_cases(sizes: Sizes, block_size: int, *, prefix_aware: bool = False) -> list[StepCase]:
    """Return all steps; where `prefix_aware` decode is to be had, those of requests that share a prefix with and without it."""
    found = [
        StepCase("prefill", ((0, new),), held_out=bool(held_out))
        for held_out, lengths in enumerate(sizes.prefill)
        for new in lengths
    ]
    found += [
        StepCase("chunk", (chunk,), held_out=bool(held_out))
        for held_out, chunks in enumerate(sizes.chunks)
        for chunk in chunks
    ]
    for held_out, document in enumerate(sizes.documents):
        cached = document // block_size * block_size
        found.append(StepCase("extend", ((cached, _QUESTION),), held_out=bool(held_out)))
        found.append(StepCase("cold", ((0, cached + _QUESTION),), held_out=bool(held_out)))
    found += _decode_cases(sizes, block_size, prefix_aware)
    if prefix_aware:
        found += _sharing_cases(sizes, block_size)
    middle, context = sizes.batches[1], sizes.contexts[0]
    decodes = ((context - 1, 1),) * middle
    found.append(StepCase("mixed", ((0, 256), *decodes)))
    found.append(StepCase("mixed", ((512, 64),) * middle, held_out=True))
    return found


def _decode_cases(sizes: Sizes, block_size: int, prefix_aware: bool) -> Iterator[StepCase]:
    """Yield every batch size at every context, the middle ones held out; sharing where most requests are."""
    for context in sizes.contexts:
        for batch in sizes.batches:
            work = ((context - 1, 1),) * batch
            yield StepCase("decode", work, held_out=batch == sizes.batches[1])
        for share in _SHARES:
            shared = int(share * context) // block_size * block_size
            yield StepCase("decode", work, shared)
            if prefix_aware:
                yield StepCase("decode", work, shared, "prefix-aware")


def _sharing_cases(sizes: Sizes, block_size: int) -> Iterator[StepCase]:
    """Yield each batch with each part of its context shared, both ways."""
    batches, context = sizes.sharing
    for batch in batches:
        for share in _SHARING_SHARES:
            shared = int(share * context) // block_size * block_size
            for mode in get_args(Mode):
                yield StepCase("sharing", ((context - 1, 1),) * batch, shared, mode)


def shallow_cases(sizes: Sizes) -> list[StepCase]:
    """Return cheap steps for a model of fewer layers, which tell what a layer takes from what a step takes."""
    context = sizes.contexts[0]
    return [
        StepCase("prefill", ((0, sizes.prefill[0][0]),)),
        StepCase("decode", ((context - 1, 1),)),
        StepCase("decode", ((context - 1, 1),) * sizes.batches[1]),
    ]
