"""Requests on their way to a server: a turn, rendered and tokenized."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kvtool.engine.blocks.block_keys import BlockHash
from kvtool.engine.blocks.chain_numbers import Chain, TraceNumbers
from kvtool.engine.blocks.hashing import hash_ids
from kvtool.engine.request import Request
from kvtool.errors import MessageRefusedError
from kvtool.text.tokens.prompt import Prompt
from kvtool.workload.call import CUT_OFF
from kvtool.workload.counted_twice import CountedTwice
from kvtool.workload.render import Renderer
from kvtool.workload.request_fields import priority, reads_cache
from kvtool.workload.turn import HashedPrompt, Ids, Output, Turn

_EMPTY: Ids = np.empty(0, dtype=np.int32)
_UNKNOWN = 0
"""For a sampled token of which only is known that there was one."""
_MOST_OUTPUT = 1 << 20
"""Tokens of an answer; no model writes more, though a damaged log may say so."""
_SYLLABLES = [first + second for first in "bdfgklmnprstv" for second in "aeio"]


@dataclass(slots=True)
class Prepared:
    """A turn after rendering and tokenizing: its prompt, and its answer as text and as token ids."""

    prompt: Prompt
    answer: str
    output: list[int]


@dataclass(slots=True)
class PreparedTurn(Turn):
    """A turn that comes with what was made of it, or why nothing could be."""

    prepared: Prepared | MessageRefusedError | None = None
    found: object = None
    """What else was found out of it."""

    def take(self) -> Prepared | None:
        """Return the prepared turn, once; later None. Raise MessageRefusedError where the chat template refuses the turn."""
        prepared, self.prepared = self.prepared, None
        if isinstance(prepared, MessageRefusedError):
            raise prepared
        return prepared


@dataclass(slots=True)
class TokensTurn(PreparedTurn):
    """A changed turn of which another process told the tokens alone: its texts are those from before the change."""

    again: Callable[[], Turn] | None = None

    def whole(self) -> Turn:
        """Return the turn with all that was changed."""
        assert self.again is not None
        return self.again()


@dataclass(slots=True)
class Job:
    """A turn on its way through the engine."""

    turn: Turn
    prompt: Prompt | None
    request: Request
    ids: Ids
    """The prompt's tokens or, for a trace of hashes, a number for each block that it names: a partial last one may be missing."""
    unit: int
    """Tokens that one id stands for."""
    output_text: str
    chain: Chain | None = None
    """The blocks of a trace by number, where they have any."""
    answer_names: Sequence[int] = ()
    """What the blocks after those of `block_names` are called, as far as a trace knows them."""

    @property
    def is_trace(self) -> bool:
        """Return whether only ids of its blocks are known; a block can be a single token."""
        return self.turn.hashed is not None

    def block_names(self) -> Sequence[BlockHash] | Sequence[int]:
        """Return the names of a trace's blocks, the last one included: numbers or hashes, salts apart."""
        return self.request.prompt_hashes or [] if self.chain is None else self.chain.numbers

    def block_hashes(self) -> list[BlockHash]:
        """Return the hashes of the blocks of a trace, the last one included."""
        hashed = self.turn.hashed
        return self.request.prompt_hashes or ([] if hashed is None else hash_ids(hashed.hash_ids, self.turn.salt))

    def output(self) -> Output:
        """Return the engine's answer."""
        return Output(self.output_text)

    @property
    def logged_output(self) -> int:
        """Tokens of the answer that the log records; 0 where it records none."""
        turn = self.turn
        known = turn.output_text is not None or turn.output_ids is not None or turn.output_tokens is not None
        return len(self.request.output_ids or ()) if known else 0

    def computed_output(self) -> Ids:
        """Return the answer as far as its keys and values are computed: all but the last token. Unknown for a trace of hashes."""
        if self.request.output_ids is None or self.is_trace:
            return _EMPTY
        return np.asarray(self.request.output_ids[:-1], dtype=np.int32)


def synthetic_text(seed: str, words: int) -> str:
    """Return pronounceable nonsense, the same for the same seed: an answer where the workload only says how long it is."""
    rng = random.Random(seed)  # noqa: S311 - reproducible filler, not a secret
    return " ".join("".join(rng.choices(_SYLLABLES, k=rng.choice((1, 2, 2, 3)))) for _ in range(words))


def _of_length(ids: list[int], count: int) -> list[int]:
    """Return an answer of as many tokens as its server counted. A model need not sample the tokens in which a tokenizer writes its
    text: where it took more, nobody knows which, and they are at the end."""
    return [*ids[:count], *[_UNKNOWN] * (count - len(ids))] or [_UNKNOWN]


class JobMaker:
    """Renders turns and gives their requests an answer to be forced: the recorded one, or filler of the recorded length."""

    def __init__(
        self, renderer: Renderer, *, seed: int, numbers: TraceNumbers | None = None, answers: bool = True
    ) -> None:
        """`numbers` are for the blocks of traces; without them these have hashes. `answers`: those that a trace knows are kept."""
        self.renderer = renderer
        self.seed = seed
        self.made = 0
        self.numbers = numbers
        self._answers = answers
        self._counted = CountedTwice()
        self._apart = TraceNumbers()
        """For blocks of traces whose answers are known, where they have hashes."""
        self._block_numbers: dict[int, int] = {}
        self._latest: Chain | None = None
        """The blocks that were numbered for the job that was made last, those of its answer with them."""

    def make(self, turn: Turn) -> Job:
        """Return the job of a turn; its request is not submitted yet."""
        self.made += 1
        self._latest = None
        name = turn.id or f"r{self.made}"
        if turn.hashed is not None:
            return self._traced(turn, turn.hashed, name)
        made = turn.take() if isinstance(turn, PreparedTurn) else None
        if made is None:
            made = self.prepare(turn)
        prompt = made.prompt
        if turn.call.usage is not None:
            turn.call = self._counted.mended(turn.call, len(prompt))
        request = Request(
            id=name,
            num_prompt_tokens=len(prompt),
            prompt_ids=prompt.ids,
            output_ids=made.output,
            cache_salt=turn.salt,
            skip_reading_cache=not reads_cache(turn.fields, chat=turn.messages is not None),
            priority=priority(turn.fields),
        )
        return Job(turn, prompt, request, prompt.ids, 1, made.answer)

    def take_back(self) -> None:
        """Take back the job that was made last: its blocks are not known to those that come later."""
        if self._latest is not None:
            (self.numbers or self._apart).take_back(self._latest)
            self._latest = None

    def prepare(self, turn: Turn) -> Prepared:
        """Return prompt and answer of a turn that is no trace's. Raises MessageRefusedError."""
        prompt = self.renderer.prompt(turn)
        return Prepared(prompt, *self._answer(turn, prompt))

    def _traced(self, turn: Turn, hashed: HashedPrompt, name: str) -> Job:
        """Return the job of a prompt of which only ids of blocks are known."""
        answer = hashed.answer if self._answers else None
        if answer:
            return self._with_answer(turn, hashed, answer, name)
        chain = hashed.chain
        if chain is None and self.numbers is not None:
            chain = self._latest = self.numbers.number(hashed.hash_ids, turn.salt)
        request = Request(
            id=name,
            num_prompt_tokens=hashed.num_tokens,
            prompt_hashes=hash_ids(hashed.hash_ids, turn.salt) if chain is None else None,
            prompt_numbers=None if chain is None else chain.numbers,
            max_tokens=max(turn.output_tokens or 1, 1),
            cache_salt=turn.salt,
        )
        if chain is not None:
            return Job(turn, None, request, np.frombuffer(chain.content, dtype=np.intc), hashed.block_size, "", chain)
        known = self._block_numbers
        ids = np.asarray([known.setdefault(block, len(known)) for block in hashed.hash_ids], dtype=np.int32)
        return Job(turn, None, request, ids, hashed.block_size, "")

    def _with_answer(self, turn: Turn, hashed: HashedPrompt, answer: list[int], name: str) -> Job:
        """Return the same where the blocks of the answer are known, too: those that come later may ask for them."""
        ids, named = [*hashed.hash_ids, *answer], len(hashed.hash_ids)
        whole = self._latest = (self.numbers or self._apart).number(ids, turn.salt)
        chain = Chain(whole.numbers[:named], min(whole.own, named), whole.content[:named], min(whole.known, named))
        hashes = hash_ids(ids, turn.salt) if self.numbers is None else None
        request = Request(
            id=name,
            num_prompt_tokens=hashed.num_tokens,
            prompt_hashes=None if hashes is None else hashes[:named],
            prompt_numbers=chain.numbers if hashes is None else None,
            answer_hashes=None if hashes is None else hashes[named:],
            answer_numbers=whole.numbers[named:] if hashes is None else None,
            max_tokens=max(turn.output_tokens or 1, 1),
            cache_salt=turn.salt,
        )
        content = np.frombuffer(chain.content, dtype=np.intc)
        return Job(turn, None, request, content, hashed.block_size, "", chain, whole.numbers[named:])

    def _answer(self, turn: Turn, prompt: Prompt) -> tuple[str, list[int]]:
        tokenizer = self.renderer.tokenizer
        length = None if turn.output_tokens is None else min(turn.output_tokens, _MOST_OUTPUT)
        if turn.output_ids is not None and len(turn.output_ids):
            return "", turn.output_ids.tolist()
        if turn.output_text:
            ids = tokenizer.encode_ids(self.renderer.answer_text(turn, prompt) or turn.output_text).tolist()
            if turn.messages is not None and tokenizer.eos_id is not None and turn.call.finish not in CUT_OFF:
                ids.append(tokenizer.eos_id)  # a chat answer ends when the model samples it
            return turn.output_text, ids if length is None else _of_length(ids, length)
        count = max(length or 1, 1)
        if turn.session is None:
            return "", [0] * count
        seed = hashlib.sha256(
            f"{self.seed}\0{turn.group}\0{turn.session}\0{turn.index}".encode(errors="replace")
        ).hexdigest()
        ids = tokenizer.encode_ids(synthetic_text(seed, count))[:count].tolist()
        return tokenizer.decode(ids), ids
