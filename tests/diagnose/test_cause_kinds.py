"""Kinds of causes: seams of tokens, orders of tools, windows, histories, counters, labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from tokenizers import pre_tokenizers

from kvtool.accounting.ledger.alignment import DonorAlignment, EarlierPrompt, Gap
from kvtool.diagnose.causes.cause_book import CauseBook
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Turn
from tests.diagnose.made_causes import RULES, account, causes_of, log_of, prompt_of, rows_to, workload

SYLLABLES = {300: "ab", 301: "c"}


def decoded(ids: npt.NDArray[np.int32]) -> str:
    """The bytes' letters by their ids in the vocabulary of `byte_tokenizer`, and two tokens more."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return "".join(SYLLABLES.get(int(token)) or alphabet[int(token)] for token in ids)


@pytest.mark.parametrize(("generated", "code"), [(False, "KV122"), (True, "KV124")])
def test_a_seam_is_the_same_text_in_other_tokens(byte_tokenizer: Tokenizer, generated: bool, code: str) -> None:
    """The donor has `ab` as one token, in its prompt's or its answer's ids; only decoding shows that it is the same text."""
    text = "Hello,abxxxxxxxxxxxx"
    prompt = prompt_of(text, byte_tokenizer)
    ids = np.concatenate([prompt.ids[:6], [300], prompt.ids[8:]]).astype(np.int32)
    donor_prompt = prompt_of(text[:6], byte_tokenizer)
    donor = EarlierPrompt(Turn("g", text=donor_prompt.text), donor_prompt, ids) if generated else None
    alignment = DonorAlignment(6, (Gap(6, 8, 6, 7, 12),), ids, donor)
    book = CauseBook(decoded)
    assert book.add(Turn("g", text=prompt.text), prompt, alignment) == ("seam",)
    (cause,) = book
    assert cause.kind.code == code
    assert cause.blocked == 2 + 12  # what stands in a seam is the same text
    other = DonorAlignment(6, (Gap(6, 8, 6, 7, 12),), np.where(ids == 300, 301, ids).astype(np.int32), donor)
    assert CauseBook(decoded).add(Turn("g", text=prompt.text), prompt, other) == ("blocked",)


def test_a_shuffled_list_of_tools_is_one_cosmetic_cause(tmp_path: Path, byte_tokenizer: Tokenizer) -> None:
    tools = [{"type": "function", "function": {"name": f"tool_{name}", "description": RULES}} for name in "abcdef"]
    rows: list[dict[str, object]] = [
        {
            "tools": [*tools[number:], *tools[:number]],
            "messages": [{"role": "system", "content": RULES}, {"role": "user", "content": f"Question {number}"}],
        }
        for number in range(5)
    ]
    source = "{{ tools | tojson }}\n{% for message in messages %}{{ message.role }}:{{ message.content }}\n{% endfor %}"
    renderer = Renderer(lambda: byte_tokenizer, lambda _: ChatTemplate("tools", source, {}))
    result = account(rows_to(tmp_path, rows), renderer)
    named = [cause for cause in result.causes if cause.slot.part == "tools"]
    assert [(cause.kind.key, cause.slot.kind, cause.seen) for cause in named] == [("tools_reordered",) * 2 + (4,)]
    assert result.ledger.fates()["cosmetic"] == named[0].blocked
    assert named[0].confidence == pytest.approx(0.95)


def test_a_window_is_one_cause_over_the_session(tmp_path: Path, byte_renderer: Renderer) -> None:
    turns = [{"role": ("user", "assistant")[i % 2], "content": f"Turn {i}: {RULES[i:]}"} for i in range(20)]
    rows: list[dict[str, object]] = [
        {"session_id": "s", "messages": [{"role": "system", "content": RULES}, *turns[2 * n : 2 * n + 5]]}
        for n in range(7)
    ]
    result = account(rows_to(tmp_path, rows), byte_renderer)
    worst = max(result.causes, key=lambda cause: cause.blocked)
    assert (worst.kind.code, worst.slot.part) == ("KV141", "history")
    assert worst.requests == 6
    assert worst.volatility_within > 0.5
    rows = [{**row, "session_id": f"s{number}"} for number, row in enumerate(rows)]
    others = account(rows_to(tmp_path, rows), byte_renderer)
    assert "KV141" not in {cause.kind.code for cause in others.causes}  # another session's history is another one


def test_a_value_in_a_growing_history_is_one_cause(tmp_path: Path, byte_renderer: Renderer) -> None:
    """The tool's answer says how long it took, rendered anew each turn: on another line, in a message that moves."""
    rows: list[dict[str, object]] = []
    for number in range(1, 9):
        notes = [{"role": "assistant", "content": f"note {index}"} for index in range(number)]
        status = "line\n" * number + f"Finished at 10:{number + 10}:00\n" + RULES * 3
        rows.append({
            "session_id": "s",
            "messages": [{"role": "user", "content": "Go"}, *notes, {"role": "tool", "content": status}],
        })  # fmt: skip
    result = account(rows_to(tmp_path, rows), byte_renderer)
    clocks = [cause for cause in result.causes if cause.kind.key == "clock"]
    assert [(cause.slot.part, cause.slot.words) for cause in clocks] == [("messages (tool)", "Finished at")]
    assert clocks[0].seen == 7


def test_an_optional_variable(tmp_path: Path, byte_renderer: Renderer) -> None:
    variables = "  now: {datetime: 1m}\n  beta: {choice: ['', 'Be bold. ']}"
    source = workload(tmp_path, "{{ now }}\n" + RULES + "\n{{ beta }}" + RULES, variables=variables, requests=12)
    (cause,) = [cause for cause in causes_of(source, byte_renderer) if cause.slot.variable == "beta"]
    assert cause.kind.code == "KV107"
    assert cause.values.absent == cause.seen > 0
    assert set(cause.values.examples) == {"", "Be bold. "}


def test_a_number_is_a_counter_only_in_a_series(tmp_path: Path, byte_renderer: Renderer) -> None:
    for numbers, code in ((range(100, 112), "KV105"), ([17, 4, 92, 55, 8, 31], "KV201")):
        source = log_of(tmp_path, [f"Now handling {number}.\n{RULES}" for number in numbers])
        (cause,) = account(source, byte_renderer).causes
        assert cause.kind.code == code


def test_what_stands_behind_a_label_is_named_by_it(tmp_path: Path, byte_renderer: Renderer) -> None:
    names = ["Ada", "Bob", "Cleo", "Dan"]
    (cause,) = account(log_of(tmp_path, [f"Customer: {name}\n{RULES}" for name in names]), byte_renderer).causes
    assert (cause.kind.code, cause.distinct) == ("KV104", 4)
