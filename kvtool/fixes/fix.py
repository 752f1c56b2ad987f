"""A change that may win hits: what it does, how it is proven, and what it makes of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from xxhash import xxh64_hexdigest

from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.workload.turn import Source, Turn

if TYPE_CHECKING:
    from kvtool.accounting.plan import Plan
    from kvtool.fixes.moves.move_target import UnitMemo
    from kvtool.workload.render import Renderer

Tier = Literal["P0", "P1", "P2", "P3"]
"""P0: token ids unchanged. P1: equal after a declared canonicalizer. P2: the same segments, moved. P3: content changed."""
ALL_TIERS: frozenset[Tier] = frozenset(("P0", "P1", "P2", "P3"))
SAFE_TIERS: tuple[Tier, ...] = ("P0", "P1")
"""Neither moves nor changes what a prompt says."""

Transform = Callable[[Turn], Turn]


@dataclass(frozen=True, slots=True)
class Fix:
    """One change, of the turns of a group or of how the workload is run.

    `key` is stable and unique among the fixes of a run, `what` an imperative sentence without prompt text ("move its line after
    the shared text, to the end of the last message"). `group` None is the whole workload. One of the last four fields says what
    changes: `make` gives a fresh transformation of turns for each pass (it may remember earlier turns of the pass; it returns the
    very turn where nothing is to be done, and is deterministic and idempotent), the others change the source's order, the chat
    template or the plan. None of them: the advice is for people only and cannot be tried. `warnings` name what a person has to
    look at, such as text that refers to what was moved. `in_order`: what is done to a turn hangs on those before it in the pass.
    `memo` is what `make` remembers of texts from one pass to the next. `at_end` are moves to the very end of the message under the
    same key: one edit of a file makes one of them in all prompts that read the file. `words` gives what
    a move does to turns that other fixes have changed before; `what` says it of the turns as they are.
    """

    key: str
    code: str
    tier: Tier
    group: str | None
    what: str
    cause: SlotCause | None = None
    warnings: tuple[str, ...] = ()
    make: Callable[[], Transform] | None = None
    source: Callable[[Source], Source] | None = None
    renderer: Callable[[Renderer], Renderer] | None = None
    plan: Callable[[Plan], Plan] | None = None
    in_order: bool = False
    memo: UnitMemo | None = None
    at_end: tuple[Fix, ...] = ()
    lines: int = 1
    """Lines of a prompt that it moves together: 1 where it moves one, where requests differ in it, and where it moves none."""
    words: Callable[[Iterable[Turn]], str] | None = None

    @property
    def kind(self) -> str:
        """Return how its key begins: what is done, such as `move`."""
        return self.key.partition(":")[0]

    @property
    def name(self) -> str:
        """Return what findings call it."""
        return fix_name(self.key)

    @property
    def flags(self) -> tuple[str, ...]:
        """Return the flags of the setting that it changes: what it does ends in them ("use smaller blocks: --block-size 16")."""
        _, colon, words = self.what.rpartition(": --")
        return tuple(f"--{words}".split()) if colon else ()

    @property
    def can_be_tried(self) -> bool:
        return any((self.make, self.source, self.renderer, self.plan))


def no_gain(tested: str) -> str:
    """Say that what was tested wins nothing: it is no advice."""
    return f"no fix found ({tested}: tested, no gain)"


def fix_name(key: str) -> str:
    """Return the same for all findings that one fix mends, without what its key may quote."""
    return xxh64_hexdigest(key.encode(errors="surrogatepass"))


class CombinedFixes:
    """A fresh transformation of turns that does what all of some fixes do to turns, in order, each in its group."""

    __slots__ = ("_steps", "in_order", "memos")

    def __init__(self, fixes: Iterable[Fix]) -> None:
        of_turns = [(fix, fix.make) for fix in fixes if fix.make is not None]
        self._steps = [(fix.group, make()) for fix, make in of_turns]
        self.in_order = any(fix.in_order for fix, _ in of_turns)
        self.memos = list({id(fix.memo): fix.memo for fix, _ in of_turns if fix.memo is not None}.values())

    def __call__(self, turn: Turn) -> Turn:
        for group, step in self._steps:
            if group is None or turn.group == group:
                turn = step(turn)
        return turn


def combined(fixes: Iterable[Fix]) -> CombinedFixes:
    """Return one transformation of these fixes for a pass."""
    return CombinedFixes(fixes)
