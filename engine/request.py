"""A request: its tokens, its computed part, and its blocks."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import numpy.typing as npt

from kvtool.engine.blocks.block_keys import BlockHash, Image, Lora
from kvtool.engine.groups.group_table import GroupTable

Ids = npt.NDArray[np.int32]


class Status(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    PREEMPTED = "preempted"
    FINISHED = "finished"


@dataclass(slots=True, eq=False)
class Request:
    """One prompt on its way through the engine.

    `prompt_ids` may be None for a trace that gives block hashes only; then `prompt_hashes` has the hash of each full block, or
    `prompt_numbers` its number, with that of the last block where it is not full. If the trace names the blocks of the answer,
    too, `answer_hashes` or `answer_numbers` has those after the prompt's full blocks. Outputs are forced (`output_ids`: the tokens
    that the model "samples", as in a recorded log) or free (`max_tokens` tokens from the runner). `arrival` is in seconds of the
    engine's clock.
    """

    id: str
    num_prompt_tokens: int
    prompt_ids: Ids | None = None
    prompt_hashes: list[BlockHash] | None = None
    prompt_numbers: array[int] | None = None
    answer_hashes: list[BlockHash] | None = None
    answer_numbers: array[int] | None = None
    output_ids: list[int] | None = None
    max_tokens: int = 1
    cache_salt: str | None = None
    lora: Lora | None = None
    images: tuple[Image, ...] = ()
    """Ordered by position."""
    prompt_embeds: npt.NDArray[np.generic] | None = None
    """A row for each token of the prompt, where it comes as embeddings; its `prompt_ids` are zeros then."""
    accepted_drafts: tuple[int, ...] = (0,)
    """Number of drafts that each verification accepts, in a cycle; the first begins at `num_verified`."""
    num_verified: int = 0
    skip_reading_cache: bool = False
    priority: int = 0
    arrival: float = 0.0

    status: Status = field(default=Status.WAITING, init=False)
    num_tokens: int = field(init=False)
    num_computed_tokens: int = field(default=0, init=False)
    num_awaited_outputs: int = field(default=0, init=False)
    """Output tokens that steps in flight will sample; 0 in synchronous scheduling."""
    outputs_from_step: int = field(default=0, init=False)
    """Outputs of earlier steps are dropped: a reset has put the request back while they were in flight."""
    outputs: list[int] = field(default_factory=list, init=False)
    block_ids: list[int] = field(default_factory=list, init=False)
    block_hashes: list[BlockHash] = field(default_factory=list, init=False)
    block_numbers: array[int] | None = field(default=None, init=False)
    """Like `block_hashes`, where the cache goes by numbers."""
    num_registered_blocks: int = field(default=0, init=False)
    tables: list[GroupTable] = field(default_factory=list, init=False)
    """Like `block_ids`, of each of several groups of layers."""
    shared_prefix_boundary: int = field(default=0, init=False)
    """End of the longest prefix that any group has cached, if it is after the end of the common hit: a state is worth keeping
    there."""
    quiet_until: int = field(default=0, init=False)
    """Up to so many tokens, no table changes and nothing is registered."""
    num_drafts: int = field(default=0, init=False)
    """Tokens that were drafted for the next step."""
    num_in_flight_tokens: int = field(default=0, init=False)
    """Tokens of steps with unknown outputs, in asynchronous scheduling."""
    in_prefill: bool = field(default=False, init=False)
    """True if the last step that computed some of it left known tokens over. Maintained if a scheduler needs it."""
    num_cached_tokens: int = field(default=-1, init=False)
    admissions: list[tuple[int, ...]] = field(default_factory=list, init=False)
    """(step, hit tokens) of each time the request began to run, and the `shared_prefix_boundary` where there is one."""
    num_preemptions: int = field(default=0, init=False)
    first_token_at: float | None = field(default=None, init=False)
    order: int = field(default=-1, init=False)
    """Submission number; set by the scheduler."""

    def __post_init__(self) -> None:
        self.num_tokens = self.num_prompt_tokens
        if self.output_ids is not None:
            self.max_tokens = len(self.output_ids)

    def token_ids(self, start: int, stop: int) -> Ids:
        """Return tokens [start, stop) of prompt and output together, int32[stop - start]."""
        if self.prompt_ids is None:
            raise ValueError(f"request {self.id} has no token ids")
        prompt = self.prompt_ids[start : min(stop, self.num_prompt_tokens)]
        if stop <= self.num_prompt_tokens:
            return prompt
        first = max(start - self.num_prompt_tokens, 0)
        generated = np.asarray(self.outputs[first : stop - self.num_prompt_tokens], dtype=np.int32)
        return np.concatenate([prompt, generated]) if len(prompt) else generated

    def append_output(self, token: int) -> None:
        self.outputs.append(token)
        self.num_tokens += 1

    def skip_ahead(self) -> None:
        """Append all forced outputs but the last, so that one step computes all single decode steps.

        Keys, values and blocks come out the same; only the times between tokens do not.
        """
        if self.output_ids is not None and len(self.output_ids) - 1 > len(self.outputs):
            rest = self.output_ids[len(self.outputs) : -1]
            self.outputs += rest
            self.num_tokens += len(rest)

    @property
    def finished_generating(self) -> bool:
        return len(self.outputs) >= self.max_tokens

    def next_forced(self) -> int | None:
        """Return the token that is forced next; None where the runner is free to choose."""
        return None if self.output_ids is None else self.output_ids[len(self.outputs)]
