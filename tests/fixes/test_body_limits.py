"""Bodies of requests against the published limits of their providers."""

from __future__ import annotations

import copy
from typing import Any

from kvtool.fixes.edits.body_limits import record_refusals, refusals

EXPLICIT = {"mode": "explicit"}
MARK, HOUR = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}


def text(said: str = "words", mark: dict[str, str] | None = None) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": said}
    return block if mark is None else {**block, "cache_control": mark}


def body(*blocks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "model": "claude-sonnet-4-6",
        "system": [text("rules")],
        "messages": [{"role": "user", "content": list(blocks) or "a question"}],
        **fields,
    }


THOUGHT = {"type": "thinking", "thinking": "so it is", "signature": "abc"}
ANSWERED = body(messages=[{"role": "user", "content": "q"}, {"role": "assistant", "content": [THOUGHT, text("a")]}])


def test_a_refusal_has_its_place() -> None:
    for sent, why in [
        (
            body(*[text(str(at), MARK) for at in range(4)], system=[text("r", MARK)]),
            "5 cache breakpoints (cache_control), 4 are allowed",
        ),
        (
            body(*[text(str(at), MARK) for at in range(4)], cache_control=MARK),
            "5 cache breakpoints (cache_control), 4 are allowed",
        ),
        (body(text(" \n", MARK)), "messages[0].content[0]: an empty block takes no cache breakpoint"),
        (
            body({**THOUGHT, "cache_control": MARK}),
            "messages[0].content[0]: a block with thinking takes no cache breakpoint",
        ),
        (
            body(text("q", HOUR), system=[text("r", MARK)]),
            "messages[0].content[0]: a cache breakpoint for 1h comes after one for 5m",
        ),
        (
            body(text("q", {"type": "ephemeral", "ttl": "2h"})),
            'messages[0].content[0]: the time to live is 5m or 1h, not "2h"',
        ),
        (
            body(messages=[{"role": "user", "content": "q", "cache_control": MARK}]),
            "messages[0]: a cache breakpoint belongs on a block of the content",
        ),
        (
            {
                "input": [
                    {"role": "assistant", "content": [{"type": "output_text", "prompt_cache_breakpoint": EXPLICIT}]}
                ]
            },
            "input[0]: an answer of the model takes no cache breakpoint",
        ),
        (
            {"model": "gpt-5.1", "messages": [], "prompt_cache_options": EXPLICIT},
            "gpt-5.1 takes no cache breakpoints: only GPT-5.6 and later do",
        ),
        (
            {
                "contents": [{"parts": [{"text": "q"}]}],
                "cachedContent": "cachedContents/a",
                "systemInstruction": {"parts": []},
            },
            "systemInstruction: a request with cached content has none beside it",
        ),
    ]:
        assert refusals(sent) == [why]


def test_what_the_apis_take() -> None:
    for sent in [
        body(),
        body(*[text(str(at), MARK) for at in range(3)], system=[text("r", HOUR)]),
        body({"type": "tool_result", "tool_use_id": "t", "content": [text("r")], "cache_control": MARK}),
        body(cache_control=MARK),
        ANSWERED,
        {"model": "gpt-5.6", "messages": [], "prompt_cache_options": EXPLICIT},
        {"contents": [{"parts": [{"text": "q"}]}], "cachedContent": "cachedContents/a"},
    ]:
        assert refusals(sent, copy.deepcopy(sent)) == []


def test_signed_blocks_neither_change_nor_move() -> None:
    moved, edited = copy.deepcopy(ANSWERED), copy.deepcopy(ANSWERED)
    moved["messages"][1]["content"].reverse()
    edited["messages"][1]["content"][0]["thinking"] = "otherwise"
    for after in (moved, edited):
        assert record_refusals({"request": ANSWERED}, {"request": after}) == [
            "blocks with thinking or a signature changed or moved"
        ]


def test_a_new_mark_is_not_inside_the_result_of_a_tool() -> None:
    def sent(mark: dict[str, str] | None) -> dict[str, Any]:
        return body({"type": "tool_result", "tool_use_id": "t", "content": [text("r", mark)]})

    assert refusals(sent(MARK), sent(MARK)) == []
    assert refusals(sent(MARK), sent(None)) == [
        "messages[0].content[0].content[0]: a cache breakpoint belongs on the result of a tool, not inside it"
    ]


def test_an_edit_leaves_no_empty_block() -> None:
    assert refusals(body(text(" ")), body(text("q"))) == ["messages[0].content[0]: an empty block"]


def test_the_name_of_an_explicit_cache_stays() -> None:
    sent = {"contents": [{"parts": [{"text": "q"}]}], "cachedContent": "cachedContents/a"}
    assert refusals({**sent, "cachedContent": "cachedContents/b"}, sent) == ["the name of the cached content changed"]
