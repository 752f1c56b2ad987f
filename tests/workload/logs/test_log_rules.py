"""What holds for logs of every format: their order, what counts once, what is left out, what their servers reported."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from kvtool.errors import KvtoolError
from kvtool.workload.logs.logs import LogOptions, LogSource
from tests.conftest import some
from tests.workload.logs.log_lines import START, SYSTEM, chat, document, read, write


def questions(rows: list[dict[str, Any]]) -> list[str]:
    return [row["messages"][-1][1] for row in rows]


def test_lines_in_any_order_are_read_as_in_that_of_time(tmp_path: Path) -> None:
    records = [chat(number, session=f"loan-{number % 3}") for number in range(20)]
    wanted, _ = read(write(tmp_path / "log.jsonl", records))
    assert [row["turn"] for row in wanted[:6]] == [0, 0, 0, 1, 1, 1]
    for seed in range(3):
        random.Random(seed).shuffle(records)
        assert read(write(tmp_path / "log.jsonl", records))[0] == wanted
        packed = tmp_path / "log.jsonl.gz"
        packed.write_bytes(gzip.compress((tmp_path / "log.jsonl").read_bytes()))
        assert read(str(packed))[0] == wanted
        assert read(document(tmp_path / "log.json", {"object": "list", "data": records, "more": False}))[0] == wanted


def test_the_newest_first_turns_around_what_came_at_one_time(tmp_path: Path) -> None:
    records = [{**chat(number), "timestamp": START + number // 2} for number in range(6)]
    rows, _ = read(write(tmp_path / "log.jsonl", records[::-1]))
    assert questions(rows) == [f"Is book {number} on loan?" for number in range(6)]


def test_a_copy_may_have_its_text_as_a_part(tmp_path: Path) -> None:
    records = [chat(number) for number in range(3)]
    copies = json.loads(json.dumps(records))
    for message in (message for copy in copies for message in copy["request"]["messages"]):
        message["content"] = [{"type": "text", "text": message["content"]}]
    marked = json.loads(json.dumps(copies))
    for copy in marked:
        copy["request"]["messages"][0]["content"][0]["cache_control"] = {"type": "ephemeral"}
    own, as_parts = write(tmp_path / "a.jsonl", records), write(tmp_path / "b.jsonl", copies)
    assert [len(read(own, other)[0]) for other in (as_parts, write(tmp_path / "c.jsonl", marked))] == [3, 6]


def test_an_order_is_that_of_the_file_where_a_time_is_missing(tmp_path: Path) -> None:
    records = [chat(2), chat(0), chat(1)]
    del records[1]["timestamp"]
    rows, _ = read(write(tmp_path / "log.jsonl", records))
    assert [row["messages"][-1][1][8] for row in rows] == ["2", "0", "1"]


def test_a_log_given_twice_counts_once(tmp_path: Path) -> None:
    records = [chat(number) for number in range(5)]
    a, b = write(tmp_path / "a.jsonl", records), write(tmp_path / "b.jsonl", [*records, chat(9)])
    rows, source = read(a, b)
    assert len(rows) == 6
    assert source.repeated == 5
    assert "5 calls logged more than once, counted once" in source.outcome.notes


def test_one_id_with_other_prompts_is_no_repetition(tmp_path: Path) -> None:
    records = [chat(number) for number in range(4)]
    for record in records:
        record["response"]["id"] = "chatcmpl-mock"
    rows, source = read(write(tmp_path / "log.jsonl", records))
    assert (len(rows), source.repeated) == (4, 0)


def test_rows_with_numbers_for_ids_are_no_repetition_within_their_file(tmp_path: Path) -> None:
    rows, source = read(write(tmp_path / "log.jsonl", [{"id": 1, "prompt": "Again"}] * 3))
    assert (len(rows), source.repeated) == (3, 0)


def test_a_call_that_failed_is_left_out_and_told(tmp_path: Path) -> None:
    for change in [
        {"response": {"error": {"message": "overloaded", "type": "overloaded_error"}}},
        {"response": None, "status_code": 429},
        {"response": None, "status": "failure"},
        {"response": None, "error": "timeout"},
        {"response": {"status_code": 500, "body": {}}},
    ]:
        rows, source = read(write(tmp_path / "log.jsonl", [chat(0), {**chat(1), **change}, chat(2)]))
        assert len(rows) == 2
        assert source.left_out.counts == {"failed": 1}
        assert "left out: 1 failed" in source.outcome.notes


def test_embeddings_are_no_requests(tmp_path: Path) -> None:
    other = {"url": "/v1/embeddings", "body": {"model": "text-embedding-3-small", "input": ["one", "two"]}}
    rows, source = read(write(tmp_path / "log.jsonl", [chat(0), other]))
    assert (len(rows), source.left_out.counts) == (1, {"embedding": 1})
    with pytest.raises(KvtoolError, match="it contains no model request; left out: 2 embeddings"):
        read(write(tmp_path / "log.jsonl", [other, other]))


def test_left_out_counts_are_the_same_in_every_order(tmp_path: Path) -> None:
    records = [
        chat(0),
        {**chat(1), "response": {"error": "no"}},
        chat(2),
        {"url": "/v1/embeddings", "body": {"input": "x"}},
    ]
    path = write(tmp_path / "log.jsonl", records[::-1])
    rows, source = read(path)
    assert questions(rows) == ["Is book 0 on loan?", "Is book 2 on loan?"]
    assert source.left_out.counts == {"failed": 1, "embedding": 1}


USAGES = [
    (
        {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 64}},
        (100, 64, None, 7),
    ),
    ({"input_tokens": 100, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 64}}, (100, 64, None, 7)),
    (
        {"input_tokens": 20, "output_tokens": 7, "cache_read_input_tokens": 64, "cache_creation_input_tokens": 16},
        (100, 64, 16, 7),
    ),
    (
        {
            "input_tokens": 20,
            "output_tokens": 7,
            "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": 80,
            "cache_creation": {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 50},
        },
        (100, 0, 80, 7),
    ),
    ({"inputTokens": 20, "outputTokens": 7, "cacheReadInputTokens": 64, "cacheWriteInputTokens": 16}, (100, 64, 16, 7)),
    ({"promptTokenCount": 100, "candidatesTokenCount": 7, "cachedContentTokenCount": 64}, (100, 64, None, 7)),
    ({"prompt_tokens": 100, "prompt_cache_hit_tokens": 64, "completion_tokens": 7}, (100, 64, None, 7)),
    ({"prompt_tokens": 100, "completion_tokens": 7.0}, (100, None, None, 7)),
]


def test_usage_counts_all_that_was_sent(tmp_path: Path) -> None:
    for usage, wanted in USAGES:
        record = chat(0)
        record["response"]["usage"] = usage
        rows, _ = read(write(tmp_path / "log.jsonl", [record]))
        names = ("prompt_tokens", "cached_tokens", "cache_write_tokens", "output_tokens")
        assert tuple(rows[0].get(name) for name in names) == wanted


@pytest.mark.parametrize(
    ("usage", "says"),
    [
        ({"prompt_tokens": 1.5}, "must be a whole number of tokens, not the number 1.5"),
        ({"prompt_tokens": "many"}, "must be a whole number of tokens, not text"),
    ],
)
def test_usage_that_cannot_be_is_an_error_with_its_place(tmp_path: Path, usage: dict[str, Any], says: str) -> None:
    record = chat(1)
    record["response"]["usage"] = usage
    path = write(tmp_path / "log.jsonl", [chat(0), record])
    with pytest.raises(KvtoolError, match=says) as raised:
        read(path)
    place = raised.value.place
    assert place is not None
    assert place.line == 2
    assert place.column is not None
    assert place.column > json.dumps(record).index('"usage"')
    assert "loan" not in str(place.excerpt).replace("loan-", "")
    rows, source = read(path, on_bad_line="skip")
    assert (len(rows), source.skipped) == (1, 1)


@pytest.mark.parametrize("seed", some(range(40), 4))
def test_usage_that_contradicts_itself_is_unknown_and_its_request_stays(tmp_path: Path, seed: int) -> None:
    """Whatever is wrong with one of three: no count of it is kept, and one sentence says how many, where the first is, and why."""
    rng = random.Random(seed)
    prompt, output = rng.randint(10, 4_000), rng.randint(1, 900)
    usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": output, "cached_tokens": prompt // 2}
    wrongs: list[tuple[dict[str, Any], str]] = [
        ({"cached_tokens": prompt + 1 + rng.randint(0, 99)}, "tokens read and written of a prompt of"),
        ({"cache_creation_input_tokens": prompt}, "tokens read and written of a prompt of"),
        ({"total_tokens": prompt + output - 1}, f"a total of {prompt + output - 1:,} for parts of {prompt + output:,}"),
        ({rng.choice(["prompt_tokens", "completion_tokens", "cached_tokens"]): -rng.randint(1, 9)}, "a count of -"),
        (
            {"cache_creation_input_tokens": 0, "cache_creation": {"ephemeral_5m_input_tokens": 2}},
            "a total of 0 for parts of 2",
        ),
    ]
    wrong, says = rng.choice(wrongs)
    records = [chat(number) for number in range(3)]
    records[0]["response"]["usage"] = usage | {"cached_tokens": None, "total_tokens": rng.choice([0, prompt + output])}
    records[1]["response"]["usage"] = usage | wrong
    records[2]["response"]["usage"] = usage
    path = write(tmp_path / "log.jsonl", records)
    rows, source = read(path)
    assert [row.get("prompt_tokens") for row in rows] == [prompt, None, prompt]
    assert [row.get("cached_tokens") for row in rows] == [None, None, prompt // 2]
    assert all(row["messages"] for row in rows)
    [note] = source.outcome.wrong_usage
    assert note.startswith(f"usage of 1 request contradicts itself and counts as unknown; the first at {path}:2:1: ")
    assert says in note
    assert note in source.outcome.notes


def test_for_whom_a_call_was_made(tmp_path: Path) -> None:
    plain = {"prompt": "Is it open?"}
    told = [
        {"user": "fenwick"},
        {"user_id": "fenwick"},
        {"metadata": {"user_id": "fenwick"}},
        {"end_user": "fenwick"},
        {"safety_identifier": "fenwick"},
        {"user": {"name": "no name"}, "metadata": {"tenant": "fenwick"}},
    ]
    rows, _ = read(write(tmp_path / "log.jsonl", [{**plain, **each} for each in told]))
    assert [row.get("tenant") for row in rows] == ["fenwick"] * len(told)


def test_a_prompt_that_was_cut_is_told(tmp_path: Path) -> None:
    for end in ["...(truncated)", "... [truncated]", "[TRUNCATED]", "… truncated", "[truncated 512 characters]", "…"]:
        record = chat(0)
        record["request"]["messages"][0]["content"] = SYSTEM[:60].rstrip(" .") + end
        rows, source = read(write(tmp_path / "log.jsonl", [record, chat(1)]))
        assert rows[0]["incomplete"] == "its text is cut"
        assert "incomplete" not in rows[1]
        assert "1 of 2 prompts are incomplete in the log (its text is cut)" in source.outcome.notes


def test_what_a_user_ends_in_an_ellipsis_is_whole(tmp_path: Path) -> None:
    for said in [
        "“Gel!” dedi, sonra sustu…",
        "J'attends depuis lundi, et toujours rien…",
        "Ich weiß es auch nicht mehr so genau, es war im Frühling oder im Sommer…",
    ]:
        record = chat(0)
        record["request"]["messages"][0]["content"] = SYSTEM * 2
        record["request"]["messages"][1]["content"] = said
        rows, _ = read(write(tmp_path / "log.jsonl", [record, chat(1)]))
        assert "incomplete" not in rows[0]


def test_far_more_tokens_than_text_are_told(tmp_path: Path) -> None:
    rows, _ = read(write(tmp_path / "log.jsonl", [chat(0, sent=4_000), chat(1, sent=110)]))
    assert rows[0]["incomplete"] == "less text than the reported tokens need"
    assert "incomplete" not in rows[1]


def test_parts_that_are_no_text_are_counted(tmp_path: Path) -> None:
    record = chat(0)
    record["request"]["messages"][1]["content"] = [
        {"type": "text", "text": "What is on this page?"},
        {"type": "image_url", "image_url": {"url": "data:"}},
        {"type": "image_url", "image_url": {"url": "data:"}},
        {"type": "input_file", "file_id": "f"},
    ]
    _, source = read(write(tmp_path / "log.jsonl", [record, chat(1)]))
    assert "1 of 2 prompts have parts that are not counted: file 1, image 2" in source.outcome.notes


def responses(number: int, text: Any, previous: str | None = None) -> dict[str, Any]:
    request = {"model": "gpt-5.5", "instructions": SYSTEM, "input": text}
    answer = {
        "id": f"resp_{number}",
        "created_at": START + number,
        "output": [
            {"type": "reasoning", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"Answer {number}."}]},
        ],
    }
    return {"request": {**request, **({"previous_response_id": previous} if previous else {})}, "response": answer}


def test_a_chain_of_responses_is_one_session_with_all_that_was_said(tmp_path: Path) -> None:
    records = [responses(0, "First?"), responses(1, "Second?", "resp_0"), responses(2, "Third?", "resp_1")]
    for order in (records, records[::-1]):
        rows, source = read(write(tmp_path / "log.jsonl", order))
        said = [text for _, text in rows[2]["messages"]]
        assert said == [SYSTEM, "First?", "Answer 0.", "Second?", "Answer 1.", "Third?"]
        assert [(row["session"], row["turn"]) for row in rows] == [("resp_0", 0), ("resp_0", 1), ("resp_0", 2)]
        assert "2 of 3 prompts have parts that are not counted: reasoning 3" in source.outcome.notes


def test_a_chain_that_began_before_the_log_is_told(tmp_path: Path) -> None:
    rows, _ = read(write(tmp_path / "log.jsonl", [responses(4, "And now?", "resp_3")]))
    assert rows[0]["incomplete"] == "an earlier answer in its chain is not in the log"


def test_items_of_tools_are_messages(tmp_path: Path) -> None:
    items = [
        {"role": "user", "content": "Look for it."},
        {"type": "custom_tool_call", "call_id": "a", "name": "search", "input": "bread"},
        {"type": "custom_tool_call_output", "call_id": "a", "output": "Two books."},
        {"type": "local_shell_call", "call_id": "b", "action": {"command": ["ls"]}},
        {"type": "local_shell_call_output", "call_id": "b", "output": "shelf"},
        {"type": "item_reference", "id": "c"},
    ]
    rows, source = read(write(tmp_path / "log.jsonl", [{"model": "gpt-5.5", "input": items}]))
    assert [role for role, _ in rows[0]["messages"]] == ["user", "assistant", "tool", "assistant", "tool"]
    assert rows[0]["messages"][2][1] == "Two books."
    assert "1 of 1 prompt have parts that are not counted: item_reference 1" in source.outcome.notes


def test_a_call_follows_an_answer_that_says_it_made_none(tmp_path: Path) -> None:
    for none in [None, {}, [], ""]:
        items = [
            {"role": "user", "content": "Look for it."},
            {"role": "assistant", "content": "I look.", "tool_calls": none},
            {"type": "function_call", "call_id": "a", "name": "search", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "a", "output": "Two books."},
        ]
        rows, _ = read(write(tmp_path / "log.jsonl", [{"model": "gpt-5.5", "input": items}]))
        assert [role for role, _ in rows[0]["messages"]] == ["user", "assistant", "tool"]


def test_a_conversation_named_by_a_text_is_no_dialogue(tmp_path: Path) -> None:
    record = {"conversation": "c-7", "request": {"model": "gpt-5.5", "instructions": SYSTEM, "input": "Is it open?"}}
    rows, source = read(write(tmp_path / "log.jsonl", [record]))
    assert list(source.formats.values()) == ["responses"]
    assert rows[0]["session"] == "c-7"
    assert [role for role, _ in rows[0]["messages"]] == ["system", "user"]


def test_no_text_of_a_prompt_stands_in_a_refusal(tmp_path: Path) -> None:
    for record in ({"mesages": [{"content": "SECRET-7"}]}, {"messages": [{"content": "SECRET-7"}]}, {"x": "SECRET-7"}):
        with pytest.raises(KvtoolError) as raised:
            read(write(tmp_path / "log.jsonl", [record]))
        place = raised.value.place
        assert place is not None
        assert "SECRET" not in f"{raised.value.message} {raised.value.hint} {place.excerpt}"


@pytest.mark.parametrize("copies_first", [False, True])
def test_the_first_call_after_copies_of_another_session_is_that_of_a_resume(
    tmp_path: Path, *, copies_first: bool
) -> None:
    """A resumed session begins with copies of the calls of the one before; which of the files is read first says nothing."""
    own = write(tmp_path / ("b.jsonl" if copies_first else "a.jsonl"), [chat(number) for number in range(4)])
    copies = [chat(number, session="loan-2") for number in range(4)]
    resumed = write(
        tmp_path / ("a.jsonl" if copies_first else "b.jsonl"), [*copies, *(chat(n, session="loan-2") for n in (6, 7))]
    )
    source = LogSource(sorted([own, resumed]), LogOptions())
    turns = []
    for conversation in source.conversations():
        while (turn := conversation.next_turn(None)) is not None:
            turns.append(turn)
    assert [turn.call.began for turn in sorted(turns, key=lambda turn: turn.arrival or 0.0)] == [None] * 4 + [
        "resumed",
        None,
    ]
    same, _ = read(own, write(tmp_path / "c.jsonl", [*(chat(number) for number in range(4)), chat(9)]))
    assert len(same) == 5
