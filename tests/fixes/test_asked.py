"""What a prompt asks never goes behind the words that say how to answer it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from kvtool import profile
from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.slots import Slot
from kvtool.fixes.moves.move_target import MoveTarget
from kvtool.fixes.moves.question_text import cue_begin, is_question
from kvtool.results.report import Report
from kvtool.text.traced import Origin, Traced, concat
from kvtool.workload.turn import Turn

_WORDS = (
    "river", "stone", "paper", "lamp", "window", "garden", "kettle", "branch", "ticket", "invoice", "harbour",
    "glass", "wheel",
)  # fmt: skip


def _text(seed: int, words: int) -> str:
    chance = random.Random(seed)
    return " ".join(chance.choice(_WORDS) for _ in range(words)).capitalize()


RULES = "\n".join(f"- {_text(number, 12)}." for number in range(40))
FORM = "Answer with one word of these and nothing else: billing, shipping, returns, account, spam, praise, complaint, other."


def _clock(number: int) -> str:
    return f"2026-03-{number + 1:02d} 09:{number + 10}"


def _raw(number: int) -> dict[str, object]:
    asked = f"Message: {_text(500 + number, 30)}?\nReceived: {_clock(number)}"
    return {"prompt": f"You label messages.\n\n{RULES}\n\n{asked}\n{FORM}\n{FORM}\nLabel:"}


def _chat(number: int) -> dict[str, object]:
    asked = f"## Question\n{_text(500 + number, 30)}?\n\n## Asked at\n{_clock(number)}\n\n## Form\n{FORM} {FORM}"
    return {"messages": [{"role": "system", "content": RULES}, {"role": "user", "content": asked}]}


def _raw_blocks(number: int) -> dict[str, object]:
    return {"prompt": f"{RULES}\n\nMessage: {_text(500 + number, 30)}?\n\n{FORM} {FORM}\n\nLabel:"}


def _report(folder: Path, rows: list[dict[str, object]]) -> Report:
    log = folder / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return profile(log)


@pytest.mark.parametrize("shape", [_raw, _chat, _raw_blocks])
def test_a_question_is_not_moved_behind_its_tail(tmp_path: Path, shape: object) -> None:
    assert callable(shape)
    report = _report(tmp_path, [shape(number) for number in range(20)])
    told = [finding for finding in report.findings if finding.code in ("KV201", "KV101")]
    assert all(finding.rerun is None and finding.severity == "info" for finding in told)
    assert any("before the question" in each.fix or "shared text before it" in each.fix for each in told)


def test_a_question_moves_behind_rules_that_are_most_of_the_prompt(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"prompt": f"Note of {_text(500 + number, 20)}.\n\n{RULES}"} for number in range(20)
    ]
    report = _report(tmp_path, rows)
    assert any(finding.rerun is not None for finding in report.findings)


def test_where_a_text_ends() -> None:
    for text, body in [
        ("Say it.\nLabel:", "Say it."),
        ("Say it.\r\n\r\nLabel:\r\n", "Say it."),
        ("Say it.\n\n", "Say it."),
        ("Label:", "Label:"),
        ("Say it.\n</doc>", "Say it.\n</doc>"),
        ("", ""),
    ]:
        assert text[: cue_begin(text)] == body


def test_what_leads_over_to_the_answer_stays_last() -> None:
    for cue in ["### Reply", "## Your answer", "<answer>", "<|assistant|>", "[/INST]", "Label:"]:
        text = f"### Task\nSort the mail.\n\n### Mail\nThe lift is stuck.\n\n{cue}\n"
        assert text[cue_begin(text) :].strip() == cue


@pytest.mark.parametrize("end", ["It is #3 in the list", "See <mail>here</mail>", "## Heading\nA rule stands below it"])
def test_other_lines_lead_over_to_nothing(end: str) -> None:
    assert cue_begin(f"Sort the mail.\n{end}") == len(f"Sort the mail.\n{end}")


_SLOT = Slot("p.yaml", 3, 7, variable="subject", part="user")
_NAME = DifferenceKind("name", "name", "KV105")


def _asked(number: int, behind: str) -> Turn:
    """A value, and `behind` it what may have words of its own."""
    subject = Origin("p.yaml", 3, 7, verbatim=False, variable="subject", part="user", text=str(number))
    pieces = "Tell me of ", Traced.of(f"matter {number}", subject), behind.format(own=_text(number, 90))
    around = Origin("p.yaml", 2, part="user", text="")
    text = concat([piece if isinstance(piece, Traced) else Traced.of(piece, around) for piece in pieces])
    return Turn("g", messages=[{"role": "user", "content": text}])


def test_what_is_asked_has_few_words_of_all_requests_behind_it() -> None:
    for kind, behind, asked in [
        (OTHER, ", who says: {own}", True),
        (_NAME, ", who says: {own}", True),
        (OTHER, ".\n{own}", True),
        (_NAME, ".\n{own}", False),
        (OTHER, ".\nAnswer with one word of these: billing, shipping, other.", True),
        (OTHER, f", please. {RULES}", False),
        (OTHER, f".\n{RULES}", False),
        (OTHER, f".\n{RULES}\n{{own}}", False),
    ]:
        cause = SlotCause("g", _SLOT, kind, None, 0, "", 0, 0, 0)
        assert is_question(cause, MoveTarget(_SLOT), [_asked(number, behind) for number in range(6)]) is asked
