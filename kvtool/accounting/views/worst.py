"""The requests that lost most tokens, each with the fate of every token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kvtool.accounting.ledger.sums import Booked
from kvtool.accounting.views.written_places import WrittenPlaces
from kvtool.results.views import Run, WorstPrompt
from kvtool.text.tokens.prompt import Prompt

MOST_PROMPTS = 12
"""Requests that a report shows token by token."""
MOST_OF_GROUP = 4
"""Shown requests of one group, so that others are shown, too."""


@dataclass(slots=True)
class _WorstRequest:
    order: int
    id: str
    group: str
    turn: int
    prompt: Prompt | None
    num_tokens: int
    hit: int
    booked: list[Booked]

    @property
    def rank(self) -> tuple[int, int]:
        """The worst first; of equals the earlier one."""
        return self.hit - self.num_tokens, self.order


class WorstBook:
    """Keeps, of the requests seen so far, those that may be among the worst: some of each group, and of all together."""

    def __init__(self) -> None:
        self._settled = 0
        self._by_group: list[_WorstRequest] = []
        """The worst of which no more than `MOST_OF_GROUP` are of one group, in order."""
        self._all: list[_WorstRequest] = []
        """The worst of all groups, in order."""
        self._by_owner: dict[int, _WorstRequest] = {}

    def add(
        self,
        owner: int,
        id_: str,
        group: str,
        turn: int,
        prompt: Prompt | None,
        num_tokens: int,
        hit: int,
        booked: Sequence[Booked],
    ) -> None:
        """Add a settled request; `booked` are its tokens with a fate so far."""
        self._settled += 1
        rank = (hit - num_tokens, self._settled)
        of_group = [kept for kept in self._by_group if kept.group == group]
        rival = of_group[-1] if len(of_group) == MOST_OF_GROUP else None
        if rival is None and len(self._by_group) == MOST_PROMPTS:
            rival = self._by_group[-1]
        spreads = rival is None or rank < rival.rank
        fits = len(self._all) < MOST_PROMPTS or rank < self._all[-1].rank
        if hit == num_tokens or not (spreads or fits):
            return
        kept = _WorstRequest(self._settled, id_, group, turn, prompt, num_tokens, hit, list(booked))
        if spreads:
            if rival is not None:
                self._by_group.remove(rival)
            self._by_group = sorted([*self._by_group, kept], key=_rank)
        if fits:
            self._all = sorted([*self._all, kept], key=_rank)[:MOST_PROMPTS]
        self._by_owner[owner] = kept
        if len(self._by_owner) > 4 * MOST_PROMPTS:
            used = {id(one) for one in (*self._by_group, *self._all)}
            self._by_owner = {number: one for number, one in self._by_owner.items() if id(one) in used}

    def close(self, owner: int, booked: Booked) -> None:
        """Set the fate of tokens that had none when their request was settled."""
        kept = self._by_owner.get(owner)
        if kept is not None:
            kept.booked.append(booked)

    def prompts(self) -> Iterator[Prompt]:
        """Return the prompts of the worst requests."""
        return (kept.prompt for kept in self._chosen() if kept.prompt is not None)

    def worst(self) -> list[WorstPrompt]:
        """Return the worst prompts, the worst first; complete after the ledger's `close`."""
        return [
            WorstPrompt(
                id=kept.id,
                group=kept.group,
                turn=kept.turn + 1,
                prompt_tokens=kept.num_tokens,
                hit_tokens=kept.hit,
                runs=list(_runs(kept)),
            )
            for kept in self._chosen()
        ]

    def _chosen(self) -> list[_WorstRequest]:
        """Select at most so many of a group first; then, if there is room, the next ones."""
        more = [kept for kept in self._all if all(kept is not other for other in self._by_group)]
        return sorted([*self._by_group, *more[: MOST_PROMPTS - len(self._by_group)]], key=_rank)


def _rank(kept: _WorstRequest) -> tuple[int, int]:
    return kept.rank


def _runs(kept: _WorstRequest) -> Iterator[Run]:
    """Join neighbours with one fate."""
    places = WrittenPlaces(kept.prompt)
    joined: list[Booked] = []
    for each in sorted(kept.booked):
        assert each.start == (joined[-1].stop if joined else 0), "a token without a fate, or with two"
        if joined and joined[-1].fate == each.fate:
            joined[-1] = Booked(joined[-1].start, each.stop, each.fate)
        else:
            joined.append(each)
    assert joined[-1].stop == kept.num_tokens, "a token without a fate"
    for start, stop, fate in joined:
        path, line, _ = places.first(start, stop)
        yield Run(start=start, stop=stop, fate=fate, path=path, line=line)
