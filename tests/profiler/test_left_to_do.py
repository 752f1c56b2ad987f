"""What is advised about a value that no fix won back is true for where the value is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from kvtool.accounting.caches.providers import PROVIDERS
from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.accounting.plan import Plan
from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.diagnose.codes.layout.kv201 import KV201, OTHER
from kvtool.diagnose.slots import Slot
from kvtool.fixes.fix import Fix
from kvtool.profiler.advice.kept_fixes import StuckCause
from kvtool.profiler.advice.left_to_do import left_to_do, minimum_above
from kvtool.text.traced import Origin


def test_requests_below_the_known_minimum_need_no_fix() -> None:
    """A provider's minimum decides by its own number, not by what others usually have; a group with hits is above it."""
    provider = next(each for each in PROVIDERS if each.name == "openai")
    plan = cast("Plan", SimpleNamespace(hosted=True, cache=SimpleNamespace(provider=provider)))
    least = provider.minimum
    for tokens, hits, short in ((least - 1, 0, True), (least, 0, False), (least - 1, 1, False)):
        group = GroupTotals(name="g", requests=3, prompt_tokens=3 * tokens, hit_tokens=hits)
        assert (minimum_above(group, plan) is not None) == short


RULE = "Answer in a kind and short way."


def advised(lines: list[str], value: str, *, moved: bool, part: str) -> str:
    """Return the advice about a value of a log in a text of these lines."""
    text = "\n".join(lines)
    at, line = text.index(value), next(line for line in lines if value in line)
    origin = Origin("log.jsonl", pointer=("messages", 0, "content"), part=part, text=text)
    slot = Slot("log.jsonl", 1, 1, part=part, logged=True)
    start = line.index(value)
    cause = SlotCause("g", slot, OTHER, origin, at, line, start, start + len(value), 1)
    cause.within_group = 1
    tried = Fix("move:g", KV201.code, "P2", "g", "move this line", cause) if moved else None
    return left_to_do(
        StuckCause(cause, tried),
        GroupTotals(name="g"),
        cast("Plan", SimpleNamespace(hosted=False, cache=None)),
        marked=False,
    )


def test_the_advice_is_true_for_the_place() -> None:
    for part in ["messages[0] (system)", "prompt"]:
        for moved in [True, False]:
            for lines, never in [
                ([RULE, "Zoe", RULE], ("split the line", "already at the end")),
                ([RULE, "* Zoe.", RULE], ("split the line", "already at the end")),
                ([RULE, "You talk to Zoe today.", RULE], ("already at the end", "send the same")),
                ([RULE, "You talk to Zoe today."], ("split the line", "send the same")),
                ([RULE, "Zoe", ""], ("split the line", "send the same")),
            ]:
                advice = advised(lines, "Zoe", moved=moved, part=part)
                assert not any(words in advice for words in never), advice
                assert ("tested" in advice) == moved
                if "already at the end" in advice:
                    assert advice.startswith(
                        f"no fix needed: it is already at the end of its {'message' if '(' in part else 'prompt'}"
                    )
