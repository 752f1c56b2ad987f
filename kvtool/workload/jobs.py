"""Turns become requests: rendered, tokenized, with the tokens that will be their answer."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass

import numpy as np

from kvtool.engine.hashing import hash_ids
from kvtool.engine.request import Request
from kvtool.text.tokens.prompt import Prompt
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Ids, Output, Turn

_EMPTY: Ids = np.empty(0, dtype=np.int32)
_SYLLABLES = [first + second for first in "bdfgklmnprstv" for second in "aeio"]


@dataclass(slots=True)
class Job:
    """A turn on its way through the engine."""

    turn: Turn
    prompt: Prompt | None
    request: Request
    ids: Ids
    """The prompt's tokens or, for a trace of hashes, a number for each of its blocks."""
    unit: int
    """Tokens that one id stands for."""
    output_text: str

    def output(self) -> Output:
        """What the engine answered."""
        return Output(self.output_text)

    def computed_output(self) -> Ids:
        """The answer as far as its keys and values are computed: all but the last token. Unknown for a trace of hashes."""
        if self.request.output_ids is None or self.unit != 1:
            return _EMPTY
        return np.asarray(self.request.output_ids[:-1], dtype=np.int32)


def synthetic_text(seed: str, words: int) -> str:
    """Pronounceable nonsense, the same for the same seed: an answer where the workload only says how long it is."""
    rng = random.Random(seed)  # noqa: S311 - reproducible filler, not a secret
    return " ".join("".join(rng.choices(_SYLLABLES, k=rng.choice((1, 2, 2, 3)))) for _ in range(words))


class JobMaker:
    """Renders turns and gives their requests an answer to be forced: the recorded one, or filler of the recorded length."""

    def __init__(self, renderer: Renderer, *, seed: int) -> None:
        self.renderer = renderer
        self.seed = seed
        self.made = 0
        self._block_numbers: dict[int, int] = {}

    def make(self, turn: Turn) -> Job:
        """The job of a turn; its request is not submitted yet."""
        self.made += 1
        name = turn.id or f"r{self.made}"
        if turn.hashed is not None:
            hashed = turn.hashed
            request = Request(
                id=name,
                num_prompt_tokens=hashed.num_tokens,
                prompt_hashes=hash_ids(hashed.hash_ids, turn.salt),
                max_tokens=max(turn.output_tokens or 1, 1),
                cache_salt=turn.salt,
            )
            numbers = self._block_numbers
            ids = [numbers.setdefault(block, len(numbers)) for block in hashed.hash_ids]
            if len(ids) * hashed.block_size < hashed.num_tokens:
                ids.append(-self.made)  # a partial last block that the trace leaves out: nobody can ask for it again
            return Job(turn, None, request, np.asarray(ids, dtype=np.int32), hashed.block_size, "")
        prompt = self.renderer.prompt(turn)
        text, output = self._answer(turn)
        request = Request(
            id=name,
            num_prompt_tokens=len(prompt),
            prompt_ids=prompt.ids,
            output_ids=output,
            cache_salt=turn.salt,
        )
        return Job(turn, prompt, request, prompt.ids, 1, text)

    def _answer(self, turn: Turn) -> tuple[str, list[int]]:
        tokenizer = self.renderer.tokenizer
        if turn.output_ids is not None and len(turn.output_ids):
            return "", turn.output_ids.tolist()
        if turn.output_text:
            ids = tokenizer.encode_ids(turn.output_text).tolist()
            if turn.messages is not None and tokenizer.eos_id is not None:
                ids.append(tokenizer.eos_id)  # a chat answer ends when the model samples it
            return turn.output_text, ids
        count = max(turn.output_tokens or 1, 1)
        if turn.session is None:
            return "", [0] * count
        seed = hashlib.sha256(
            f"{self.seed}\0{turn.group}\0{turn.session}\0{turn.index}".encode(errors="replace")
        ).hexdigest()
        ids = tokenizer.encode_ids(synthetic_text(seed, count))[:count].tolist()
        return tokenizer.decode(ids), ids
