"""A fix of one cause, made with its key; advice that nobody can try."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.fixes.changed_turns import ChangedTurns
from kvtool.fixes.fix import Fix, Tier, Transform
from kvtool.fixes.moves.move_target import UnitMemo

_MADE_UP = "no run can verify it: the times are made up. Replace them in the workload"


def fix_cause(
    cause: SlotCause,
    name: str,
    tier: Tier,
    what: str,
    make: Callable[[], Transform],
    *warnings: str,
    shared: str | None = None,
    in_order: bool = False,
    memo: UnitMemo | None = None,
) -> Fix:
    """Return a fix of one cause; `shared` is for the slot in its key where several causes of a group have the same fix."""
    key = _key(cause, name, shared)
    changed = ChangedTurns()
    again = make if in_order else lambda: partial(changed.after, make())
    return Fix(key, cause.kind.code, tier, cause.group, what, cause, warnings, again, in_order=in_order, memo=memo)


def advise(cause: SlotCause, name: str, tier: Tier, what: str, *, code: str | None = None) -> Fix:
    return Fix(_key(cause, name, None), code or cause.kind.code, tier, cause.group, what, cause)


def untried(fix: Fix) -> Fix:
    """Return the fix as advice for people."""
    return replace(fix, make=None, what=f"{fix.what} ({_MADE_UP})", warnings=())


def _key(cause: SlotCause, name: str, shared: str | None) -> str:
    if shared is not None:
        return f"{name}:{cause.group}:{shared}"
    slot = cause.slot
    place = f"{slot.path}:{slot.line}:{slot.column}:{slot.part}:{slot.content_part}:{slot.line_in_text}:{slot.kind}"
    return f"{name}:{cause.group}:{place}:{slot.variable or ''}:{slot.words or ''}"
