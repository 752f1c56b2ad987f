"""No loss behind differences that is above 5 % of a group's tokens goes without a finding, whatever the log."""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.diagnose.causes.cause_book import CauseBook
from kvtool.profiler import finding_counts
from kvtool.profiler import unexplained_losses as nothing_hidden
from kvtool.profiler.advice.left_to_do import SEND_THE_SAME
from kvtool.profiler.unexplained_losses import (
    PAID_ONCE,
    add_rest_findings,
    check_losses_explained,
    tokens_after_differences,
)
from kvtool.results.finding import Finding
from kvtool.results.report import lost_tokens
from kvtool.workload.render import Renderer
from tests.profiler.test_finding_counts import profiled

WORDS = ["order", "refund", "ticket", "parcel", "policy", "agent", "window", "letter", "branch", "engine"]
EDITS = ("number", "word", "drop", "case", "crlf", "role", "swap", "cut", "insert", "tools", "part", "accent")


def prose(chance: random.Random, lines: int) -> str:
    return "\n".join(" ".join(chance.choices(WORDS, k=8)) + "." for _ in range(lines))


def edited(messages: list[dict[str, Any]], edit: str, chance: random.Random) -> None:
    """One change of some kind, somewhere."""
    message = chance.choice(messages)
    text = message["content"]
    if not isinstance(text, str):
        return
    lines = text.split("\n")
    at = chance.randrange(len(lines))
    match edit:
        case "number":
            lines[at] += f" {chance.randrange(10_000)}"
        case "word":
            lines[at] = f"{chance.choice(WORDS)} {lines[at]}"
        case "drop":
            del lines[at]
        case "case":
            lines[at] = lines[at].upper()
        case "crlf":
            lines[at] += "\r"
        case "role":
            message["role"] = chance.choice(["system", "user", "assistant", "tool", "developer"])
        case "swap":
            chance.shuffle(lines)
        case "cut":
            lines = lines[: at // 3]
        case "insert":
            messages.insert(chance.randrange(len(messages) + 1), {"role": "user", "content": prose(chance, 1)})
        case "tools":
            lines.insert(at, "Tools: " + ", ".join(chance.sample(WORDS, 4)))
        case "part":
            message["content"] = [{"type": "text", "text": line} for line in lines]
            return
        case _:
            lines[at] += chance.choice([" caf\u00e9", " cafe\u0301", " c\u0430fe"])
    message["content"] = "\n".join(lines)


def log_of(seed: int, requests: int, edits: list[str], form: str) -> str:
    chance = random.Random(seed)
    base = [
        {"role": "system", "content": prose(chance, 14)},
        *({"role": role, "content": prose(chance, 5)} for role in ("user", "assistant", "tool", "user")),
    ]
    rows = []
    for number in range(requests):
        messages = json.loads(json.dumps(base[: chance.choice([2, 4, 5])]))
        for edit in edits:
            if chance.random() < 0.7:
                edited(messages, edit, chance)
        row: dict[str, Any] = {"messages": messages}
        if form == "prompt":
            row = {"prompt": "\n\n".join(f"{one['role']}: {one['content']}" for one in messages)}
        elif form == "ids":
            row = {"prompt_token_ids": list(json.dumps(messages).encode())}
        elif form == "sessions":
            row["session_id"] = f"s{number % 3}"
        rows.append(json.dumps(row))
    return "\n".join(rows) + "\n"


@given(
    seed=st.integers(0, 10_000),
    requests=st.integers(2, 10),
    edits=st.lists(st.sampled_from(EDITS), min_size=1, max_size=4),
    form=st.sampled_from(["chat", "prompt", "ids", "sessions"]),
)
def test_every_large_loss_has_a_finding(
    seed: int,
    requests: int,
    edits: list[str],
    form: str,
    byte_renderer: Renderer,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("log") / "w.jsonl"
    path.write_text(log_of(seed, requests, edits, form), encoding="utf-8")
    report, _ = profiled(str(path), byte_renderer, None)
    for group in report.groups:
        findings = [finding for finding in report.findings if finding.group == group.name]
        behind = sum(group.fates.get(fate, 0) for fate in ("blocked", "cosmetic", "seam"))
        told = sum(finding.tokens_lost for finding in findings if finding.code < "KV202")
        assert behind - told <= 0.05 * group.prompt_tokens
        assert sum(finding.tokens_lost for finding in findings) <= lost_tokens(group)
        for finding in findings:
            assert finding.fix
            if finding.code == "KV201" and form != "ids" and finding.tokens_lost > 0.05 * group.prompt_tokens:
                assert finding.example is not None, "the two requests that differ"


def group_of(blocked: int) -> GroupTotals:
    group = GroupTotals(name="g", requests=2, prompt_tokens=100, hit_tokens=10)
    group.fates["blocked"] = blocked
    return group


def test_the_check_raises_where_much_is_hidden() -> None:
    told = Finding.of("KV101", "error", "g", "p", 1, 1, "m", 30, "")
    other = Finding.of("KV204", "info", "g", "p", 1, 1, "m", 9, "")  # of tokens that stand behind no difference
    check_losses_explained([told], [group_of(35)])
    with pytest.raises(AssertionError, match="g: 36 tokens are lost after differences without a finding"):
        check_losses_explained([told, other], [group_of(66)])
    (rest,) = add_rest_findings([], [group_of(66)], CauseBook(), lambda *_: told, path="log.jsonl")
    assert (rest.code, rest.tokens_lost, rest.path) == ("KV201", 66, "log.jsonl")
    assert tokens_after_differences(group_of(66), [rest]) == 0


@pytest.mark.parametrize(
    ("module", "check"), [(nothing_hidden, "check_losses_explained"), (finding_counts, "check_counted_once")]
)
def test_no_flag_of_python_takes_the_check_away(module: ModuleType, check: str) -> None:
    source = Path(module.__file__ or "").read_text(encoding="utf-8")
    built: dict[str, Any] = {"__name__": module.__name__}
    exec(compile(source, module.__name__, "exec", optimize=2), built)
    findings = [Finding.of("KV201", "info", "g", "p", 1, 1, "m", 91, "")] if module is finding_counts else []
    with pytest.raises(AssertionError):
        built[check](findings, [group_of(66)])


def test_many_small_differences_are_one_finding(tmp_path: Path, byte_renderer: Renderer) -> None:
    """Each place differs in a few requests only: none is worth a finding of its own, together they are."""
    chance = random.Random(4)
    lines = prose(chance, 60).split("\n")
    rows = []
    for number in range(24):
        text = list(lines)
        text[2 * number] = f"{chance.choice(WORDS)} {number} is another one here."
        rows.append(
            {"messages": [{"role": "user", "content": "\n".join(text)}, {"role": "user", "content": f"{number}?"}]}
        )
    path = tmp_path / "w.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    report, _ = profiled(str(path), byte_renderer, None)
    told = sum(finding.tokens_lost for finding in report.findings)
    (group,) = report.groups
    assert group.fates["blocked"] > 0.2 * group.prompt_tokens
    assert told >= group.fates["blocked"] - 0.05 * group.prompt_tokens


def test_what_only_the_first_request_of_a_group_pays_needs_no_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are different prompts: their first difference is no advice, unless the rest of the loss is large without it."""
    costs = [SimpleNamespace(blocked=blocked, once=once) for blocked, once in ((60, True), (3, False))]
    causes = cast("CauseBook", SimpleNamespace(of_group=lambda _: costs))
    monkeypatch.setattr(nothing_hidden, "is_paid_once", lambda cause: cause.once)

    def describe(cause: Any, _: GroupTotals) -> Finding:
        return Finding.of("KV201", "info", "g", "p", cause.blocked, 1, "m", cause.blocked, "")

    (rest,) = add_rest_findings([], [group_of(63)], causes, describe, path="log.jsonl")
    assert (rest.severity, rest.line, rest.tokens_lost, rest.fix) == ("info", 60, 63, PAID_ONCE)
    (rest,) = add_rest_findings([], [group_of(66)], causes, describe, path="log.jsonl")
    assert (rest.severity, rest.line, rest.tokens_lost, rest.fix) == ("error", 3, 66, SEND_THE_SAME)
