"""A log that another process reads: the same turns and prompts as without it, and the same errors; nothing stays behind."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from kvtool.errors import KvtoolError, MessageRefusedError
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.text.traced import Traced
from kvtool.workload.ahead import ahead as module
from kvtool.workload.ahead import child as child_module
from kvtool.workload.ahead.ahead import read_ahead
from kvtool.workload.ahead.child import Child, can_fork
from kvtool.workload.jobs import Job, JobMaker
from kvtool.workload.logs.logs import LogOptions, LogSource
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Conversation, Output, Turn

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have one process only")

TEMPLATE = """\
{%- for message in messages %}{{ message.role }} at {{ strftime_now('%H:%M') }}: {{ message.content }}
{% for call in message.tool_calls or [] %}{{ call.function | tojson }}{% endfor %}
{%- if message.content == 'refuse me' %}{{ raise_exception('no') }}{% endif %}{% endfor %}"""
CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"city": "Bonn", "n": [1, "two"]}'}}
RECORDS: list[Any] = [
    {
        "messages": [
            {"role": "system", "content": "Be kind.\nAnd short."},
            {"role": "user", "content": "Grüße 😀 \\ \ud800"},
        ]
    },
    {
        "id": "own",
        "messages": [{"role": "user", "content": "x"}],
        "response": {"choices": [{"message": {"content": "yes"}}]},
    },
    {"body": {"messages": [{"role": "user", "content": [{"type": "text", "text": "part"}, {"type": "image_url"}]}]}},
    {
        "session_id": "s1",
        "timestamp": 1_780_000_000,
        "cache_salt": "tenant",
        "tools": [{"name": "find", "description": "finds", "input_schema": {"type": "object"}}],
        "system": "From Anthropic.",
        "messages": [
            {"role": "user", "content": "Where?"},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": "here"},
            {"role": "assistant", "content": "Here."},
            {"role": "user", "content": "Thanks"},
            {"role": "assistant", "content": "Bye."},
        ],
    },
    {"messages": [{"role": "user", "content": "refuse me"}]},
    {
        "session_id": "s1",
        "created": 1_780_000_099,
        "messages": [{"role": "user", "content": "again"}],
        "output_tokens": 7,
    },
    {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "ho"}]},
    {"history": [{"role": "user", "content": "do it"}, {"role": "assistant", "content": "done"}]},
    {"instructions": "be good", "input": [{"role": "user", "content": "well"}]},
    {"question": [[{"role": "user", "content": "one"}], [{"role": "user", "content": "refuse me"}]], "function": []},
    {"turns": ["first", {"text": "second", "output_length": 3}, "third"]},
    {"prompt": "a plain text\nof two lines"},
    {"prompt": ["several", "of them", ""]},
    {"prompt": [1, 2, 3, 200], "output_tokens": 4},
    {"token_ids": [5, 6, 7], "output_token_ids": [8, 9]},
    {"hash_ids": [1, 2, 3], "input_length": 1_500, "output_length": 3},
    [{"role": "user", "content": "bare"}, {"role": "assistant", "content": "list"}],
]


@pytest.fixture
def forking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork whatever other tests have imported: what is forked here uses none of it."""
    monkeypatch.setattr(child_module, "can_fork", lambda: True)


@pytest.fixture
def maker(byte_tokenizer: Tokenizer) -> JobMaker:
    """Renders with a template that asks the time and refuses some messages."""
    renderer = Renderer(lambda: byte_tokenizer, lambda loaded: ChatTemplate("t", TEMPLATE, loaded.special_tokens))
    return JobMaker(renderer, seed=3)


def log(folder: Path, lines: Iterable[object], name: str = "log.jsonl") -> str:
    path = folder / name
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return str(path)


def marked(value: object) -> object:
    """A value of a turn, with where each of its texts was written."""
    if isinstance(value, Traced):
        marks = [(mark.length, mark.offset, mark.origin, mark.origin and mark.origin.text) for mark in value.marks]
        return str.__str__(value), marks
    if isinstance(value, dict):
        return {key: marked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [marked(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def told(job: Job) -> list[object]:
    """All of a job that anything may ask for."""
    prompt, request = job.prompt, job.request
    turn = [marked(getattr(job.turn, field.name)) for field in fields(Turn)]
    made = [
        job.ids.tolist(),
        job.unit,
        job.output_text,
        request.id,
        request.output_ids,
        request.max_tokens,
        request.cache_salt,
    ]
    if prompt is None:
        return [turn, made, request.prompt_hashes]
    ranges = [prompt.char_range(token) for token in range(len(prompt))]
    return [turn, made, marked(prompt.text), prompt.char_starts, prompt.token_starts, ranges]


def finished(conversation: Conversation, maker: JobMaker) -> Iterable[object]:
    previous = None
    while (turn := conversation.next_turn(previous)) is not None:
        previous = Output("")
        try:
            job = maker.make(turn)
        except MessageRefusedError as error:
            yield turn.id, error.message, error.hint, error.place
            continue
        previous = job.output()
        yield told(job)


def taken(source: LogSource, maker: JobMaker, jobs: int) -> list[object]:
    """Whatever comes of a log, its error included, and what the source says of it then."""
    found: list[object] = []
    try:
        with read_ahead(source, maker, jobs=jobs) as conversations:
            for conversation in conversations:
                found += finished(conversation, maker)
                found.append((source.skipped, dict(source.formats)))
    except KvtoolError as error:
        found += [error.message, error.hint, error.place, error.exit_code]
    return [
        *found,
        source.skipped,
        source.formats,
        maker.renderer.loaded("chat_template"),
        maker.renderer.loaded("tokenizer"),
    ]


def same(paths: list[str], byte_tokenizer: Tokenizer, **options: Any) -> list[object]:
    """What comes of logs, by one process as by two."""
    results = []
    for jobs in (1, 2):
        renderer = Renderer(lambda: byte_tokenizer, lambda loaded: ChatTemplate("t", TEMPLATE, loaded.special_tokens))
        results.append(taken(LogSource(paths, LogOptions(**options)), JobMaker(renderer, seed=3), jobs))
    assert results[0] == results[1]
    return results[0]


@pytest.mark.parametrize("seed", range(3))
def test_every_format_gives_the_same_turns(seed: int, tmp_path: Path, byte_tokenizer: Tokenizer, forking: None) -> None:
    records = random.Random(seed).sample(RECORDS, len(RECORDS))
    first = next(record for record in records if not isinstance(record, dict) or "hash_ids" not in record)
    records.insert(0, first)
    found = same([log(tmp_path, records)], byte_tokenizer)
    assert len(found) > 2 * len(RECORDS)
    same([log(tmp_path, records[:5]), log(tmp_path, records[5:], "other.jsonl")], byte_tokenizer)
    same([log(tmp_path, [json.dumps(records, indent=1)], "array.json")], byte_tokenizer)
    same([log(tmp_path, records)], byte_tokenizer, limit=4)


@pytest.mark.parametrize("on_bad_line", ["error", "skip"])
@pytest.mark.parametrize("bad", ['{"messages": [', '{"messages": 3}', '{"mesages": []}', "\x00\x01", '{"turns": []}'])
@pytest.mark.parametrize("at", [0, 1, 9])
def test_a_bad_record_is_told_alike(
    on_bad_line: str, bad: str, at: int, tmp_path: Path, byte_tokenizer: Tokenizer, forking: None
) -> None:
    lines: list[object] = [RECORDS[0]] * 9
    lines.insert(at, bad)
    same([log(tmp_path, lines)], byte_tokenizer, on_bad_line=on_bad_line)


def test_logs_that_do_not_begin_with_a_prompt_are_read_here(
    tmp_path: Path, byte_tokenizer: Tokenizer, forking: None
) -> None:
    same([log(tmp_path, [])], byte_tokenizer)
    same([str(tmp_path / "absent.jsonl")], byte_tokenizer)
    same([log(tmp_path, [{"hash_ids": [1], "input_length": 9}] * 3)], byte_tokenizer)


def test_a_conversation_that_is_given_up_is_passed_over(tmp_path: Path, maker: JobMaker, forking: None) -> None:
    source = LogSource([log(tmp_path, [RECORDS[3], RECORDS[3], RECORDS[0]])], LogOptions())
    with read_ahead(source, maker, jobs=2) as conversations:
        ids = [turn.id for each in conversations if (turn := each.next_turn(None)) is not None]
    assert ids == ["1:0", "2:0", "3:0"]


def test_how_much_is_read_grows(tmp_path: Path, maker: JobMaker, forking: None) -> None:
    source = LogSource([log(tmp_path, [{"prompt": "a" * 10_000}] * 300)], LogOptions())
    with read_ahead(source, maker, jobs=2) as conversations:
        shares = [source.share_read() for _ in conversations]
    assert all(share is not None and 0 < share <= 1 for share in shares)
    assert shares == sorted(shares, key=float)
    assert shares[0] != shares[-1] == 1


def test_no_second_process_where_it_would_not_pay(
    tmp_path: Path, maker: JobMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("forked")

    monkeypatch.setattr(module, "Child", refuse)
    source = LogSource([log(tmp_path, RECORDS[:1])], LogOptions())
    monkeypatch.setattr(child_module, "can_fork", lambda: True)
    assert len(taken(source, maker, 1)) > 5
    with read_ahead(source, maker, jobs=None) as conversations:  # a small log
        assert len(list(conversations)) == 1
    monkeypatch.setattr(module, "WORTH_IT", 0)
    monkeypatch.setattr(child_module, "cores", lambda: 1)
    with read_ahead(source, maker, jobs=None) as conversations:
        assert len(list(conversations)) == 1
    monkeypatch.setattr(child_module, "cores", lambda: 2)
    with pytest.raises(AssertionError, match="forked"), read_ahead(source, maker, jobs=None):
        pass


def test_where_no_process_can_be_had_there_is_one(
    tmp_path: Path, byte_tokenizer: Tokenizer, forking: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(os, "fork", refuse)
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    assert len(same([log(tmp_path, RECORDS[:3])], byte_tokenizer)) > 5
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors


def test_no_copy_of_a_process_with_threads() -> None:
    go_on = threading.Event()
    thread = threading.Thread(target=go_on.wait)
    thread.start()
    try:
        assert not can_fork()
    finally:
        go_on.set()
        thread.join()


def test_what_is_piped_in_is_read_by_its_owner(tmp_path: Path, maker: JobMaker, forking: None) -> None:
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    writer = threading.Thread(target=Path(pipe).write_text, args=(json.dumps(RECORDS[0]),))
    writer.start()
    source = LogSource([pipe], LogOptions())
    with read_ahead(source, maker, jobs=2) as conversations:
        assert len(list(conversations)) == 1
    writer.join()
    with read_ahead(source, maker, jobs=2) as conversations:  # it is a file now
        assert len(list(conversations)) == 1


def test_a_process_that_is_killed_is_told_of(tmp_path: Path, maker: JobMaker, forking: None) -> None:
    source = LogSource([log(tmp_path, [{"prompt": "a" * 100_000}] * 100)], LogOptions())
    before = children()
    with read_ahead(source, maker, jobs=2) as conversations:
        next(conversations).next_turn(None)
        (child,) = children() - before
        os.kill(child, signal.SIGKILL)
        with pytest.raises(KvtoolError, match=r"ended by signal 9") as raised:
            deque(conversations)
    assert raised.value.hint is not None
    assert "--jobs 1" in raised.value.hint
    assert raised.value.exit_code == 2
    assert children() == before


def test_a_bug_in_the_other_process_is_raised_with_its_place(
    tmp_path: Path, maker: JobMaker, forking: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OddError(Exception):
        """One that does not travel."""

    def fail(*_: object) -> None:
        raise OddError("inside")

    monkeypatch.setattr(JobMaker, "prepare", fail)
    source = LogSource([log(tmp_path, RECORDS[:1])], LogOptions())
    with (
        pytest.raises(RuntimeError, match="OddError: inside"),
        read_ahead(source, maker, jobs=2) as conversations,
    ):
        next(conversations).next_turn(None)
    monkeypatch.setattr(JobMaker, "prepare", lambda *_: 1 // 0)
    with (
        pytest.raises(ZeroDivisionError) as raised,
        read_ahead(source, maker, jobs=2) as conversations,
    ):
        next(conversations).next_turn(None)
    assert "_write_turns" in "".join(raised.value.__notes__)


def test_a_child_that_nobody_reads_is_ended() -> None:
    before = children()

    def write_for_ever(stream: Any) -> None:
        while True:
            stream.write(b"more")

    child = Child(write_for_ever)
    assert child.stream.read(8) == b"moremore"
    assert len(children() - before) == 1
    child.close()
    child.close()
    assert children() == before


def children() -> set[int]:
    """Processes that this one has started and not waited for."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            found |= {int(each) for each in (task / "children").read_text().split()}
    return found
