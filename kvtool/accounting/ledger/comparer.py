"""Compare each prompt with earlier ones: the most similar one, the differences, and repeated lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kvtool.accounting.ledger.alignment import MIN_RUN, DonorAlignment, EarlierPrompt
from kvtool.accounting.ledger.donors import DonorContent, Donors, KeptFor
from kvtool.accounting.ledger.form_gaps import with_form_gaps
from kvtool.accounting.ledger.gaps import find_gaps
from kvtool.accounting.ledger.line_set import LineSet
from kvtool.accounting.ledger.lines import Lines, split_lines
from kvtool.accounting.prefix_tree import Ids, Match, RadixTree
from kvtool.text.align import LineEnds
from kvtool.text.tokens.prompt import Prompt
from kvtool.workload.turn import Turn

Newline = Callable[[], npt.NDArray[np.bool_]]


class Compared(NamedTuple):
    """A prompt's alignment, and the ranges of its lines after the known part that appeared anywhere before."""

    alignment: DonorAlignment | None
    repeated: list[tuple[int, int]]


class Compares(Protocol):
    """Compare prompts, each with those before it."""

    def compare(self, tree: RadixTree, match: Match, turn: Turn, prompt: Prompt, sequence: Ids) -> Compared:
        """Compare a prompt and its answer (`sequence`), whose beginning matched in the tree so far; then keep it for later ones."""
        ...

    def examples(self) -> Iterator[Prompt]:
        """Return the kept prompts, the least recently used first."""
        ...


class Comparer:
    """Keep some earlier requests, and the names of all lines; bounded in tokens but for these."""

    def __init__(self, newline: Newline | None, *, kept_for: KeptFor | None = None, lines: bool = True) -> None:
        """Create the comparer. `newline` returns the mask of token ids that end a line; without `lines` repeated lines are not
        needed."""
        self._newline = newline
        self._with_lines = lines
        self._count = 0
        self.donors = Donors(kept_for)
        self.lines = LineSet()
        """Every line of `MIN_RUN` tokens or more, of prompts and answers."""

    def compare(self, tree: RadixTree, match: Match, turn: Turn, prompt: Prompt, sequence: Ids) -> Compared:
        """See `Compares`."""
        newline = self._newline() if prompt.text is not None and self._newline is not None else None
        output, content = sequence[len(prompt) :], DonorContent.of_prompt(prompt)
        alignment = None
        if len(prompt) - match.length >= MIN_RUN:
            donor = self.donors.find(turn, content)
            alignment = self._align(tree, match, prompt, donor, newline)
        repeated = self._repeated(prompt.ids, match.length, output, newline) if self._with_lines else []
        self._count += 1
        prompt.ids = sequence[: len(prompt)]  # both are kept: the tokens once
        self.donors.add(EarlierPrompt(turn, prompt, sequence, self._count), content, DonorContent.of(output))
        return Compared(alignment, repeated)

    def examples(self) -> Iterator[Prompt]:
        """See `Compares`."""
        return self.donors.prompts()

    def _repeated(self, ids: Ids, known: int, output: Ids, newline: LineEnds | None) -> list[tuple[int, int]]:
        """Return the repeated parts of a prompt's lines after its known tokens; then enter all its lines, and the answer's."""
        lines = split_lines(ids, newline, known)
        new, seen = self._enter_lines(lines, known)
        repeated = list[tuple[int, int]]()
        if len(ids) - known >= MIN_RUN and seen.any():
            starts, stops = np.maximum(lines.starts[new][seen], known), lines.stops[new][seen]
            repeated = list(zip(starts.tolist(), stops.tolist(), strict=True))
        if len(output):
            self._enter_lines(split_lines(output, newline), 0)
        return repeated

    @staticmethod
    def _align(
        tree: RadixTree, match: Match, prompt: Prompt, donor: EarlierPrompt | None, newline: LineEnds | None
    ) -> DonorAlignment | None:
        """Return a prompt against its donor or, where that has no text of its rest, against the latest content of the tree."""
        ids, known = prompt.ids, match.length
        if donor is not None:
            gaps = find_gaps(ids, known, donor.ids, newline=newline)
            if newline is not None:
                gaps = with_form_gaps(gaps, prompt, known, donor)
            if gaps:
                return DonorAlignment(known, gaps, donor.ids, donor)
        before = np.concatenate([ids[:known], tree.continuation(match, 2 * (len(ids) - known) + 4096)])
        gaps = find_gaps(ids, known, before, newline=newline)
        return DonorAlignment(known, gaps, before) if gaps else None

    def _enter_lines(self, lines: Lines, known: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return the long enough lines outside of known tokens, and which of them are repeated; then enter them."""
        new = (lines.stops > known) & (lines.stops - lines.starts >= MIN_RUN)
        names = lines.names[new]
        seen = self.lines.has(names)
        self.lines.add(names[~seen])
        return new, seen
