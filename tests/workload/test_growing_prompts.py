"""Prompts of conversations that go on are the same, to each token, place and block, as prompts that are made as a whole."""

from __future__ import annotations

import json
import random
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.accounting.caches.breakpoints import find_blocks
from kvtool.accounting.caches.dated_rules import find_rule
from kvtool.accounting.misses.prompt_states import chunk_names, message_forms
from kvtool.accounting.misses.reported_request import ReportedRequest, request_forms
from kvtool.text.message import Message
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.tokens.tokenizer import Tokenizer, load_tokenizer
from kvtool.text.traced import Origin, Traced
from kvtool.workload.call import Call, Usage
from kvtool.workload.growing_prompts import _MOST_KEPT, GrowingPrompts
from kvtool.workload.jobs import Job, JobMaker
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Turn

_WORDS = (
    "the",
    "cache",
    "\n",
    "\n\n",
    " ",
    "7",
    "42x",
    "[INST]",
    "[INS",
    "T]",
    "</s>",
    "é",
    "日本",
    "\r\n",
    "/",
    ":",
    ".",
    "user:",
)


@pytest.fixture(scope="module")
def built_in() -> Tokenizer:
    return load_tokenizer(None)


def made_text(source: random.Random) -> Traced:
    if source.random() < 0.03:
        text = source.choice(("ab ", "x", "12 ", " y z")) * source.randrange(
            4_000, 9_000
        )  # longer than what is cut by lines
    else:
        text = "".join(source.choice(_WORDS) for _ in range(source.randrange(30)))
    return Traced.of(text, Origin("log.jsonl", line=source.randrange(1, 99), verbatim=False, text=text))


def made_message(source: random.Random) -> Message:
    role = source.choice(("system", "user", "assistant", "assistant", "tool", "developer", "é", "", " x"))
    message: Message = {"role": role, "content": made_text(source)}
    if source.random() < 0.3:
        mark = {"cache_control": {"type": "ephemeral"}} if source.random() < 0.3 else {}
        message["content"] = [{"type": "text", "text": made_text(source), **mark} for _ in range(source.randrange(3))]
    if role == "assistant" and source.random() < 0.5:
        arguments = json.dumps({"q": "x" * source.randrange(9), "n": source.randrange(99)})
        message["tool_calls"] = [{"id": "c", "type": "function", "function": {"name": "get", "arguments": arguments}}]
        message["content"] = source.choice((None, message["content"]))
    return message


def made_requests(source: random.Random, count: int) -> list[tuple[list[Message], list[Any] | None]]:
    """Return requests of conversations that grow, are edited, compacted, forked and interleaved."""
    threads: list[list[Message]] = [[made_message(source)]]
    tools: list[Any] | None = None
    requests = []
    for _ in range(count):
        messages = threads[source.randrange(len(threads))]
        match source.randrange(12):
            case 0 if len(messages) > 1:  # an edit in the middle
                messages[source.randrange(1, len(messages))] = made_message(source)
            case 1:  # compaction
                messages[:] = [made_message(source), *messages[-source.randrange(1, 3) :]]
            case 2:  # a fork, of which some share the first message only
                threads.append(messages[: source.randrange(1, len(messages) + 1)])
            case 3:  # a subagent
                threads.append([made_message(source)])
            case 4 if len(messages) > 2:
                del messages[source.randrange(1, len(messages)) :]
            case 5:
                tools = source.choice(
                    (None, tools, [{"type": "function", "function": {"name": "get", "x": source.random()}}])
                )
        messages += [made_message(source) for _ in range(source.randrange(3))]
        requests.append((list(messages), tools))
    return requests


def job_of(maker: JobMaker, messages: list[Message], tools: list[Any] | None) -> Job:
    usage = Usage(prompt=1000, cached=0, output=1)
    turn = Turn("g", messages=messages, tools=tools, session="s", call=Call(model="claude-sonnet-4-5", usage=usage))
    return maker.make(turn)


def job_maker(tokenizer: Tokenizer) -> JobMaker:
    return JobMaker(Renderer(lambda: tokenizer, ChatTemplate.hosted), seed=0)


def assert_same(job: Job, whole: Job, source: random.Random) -> None:
    """Compare a job of a prompt that grew with one of a prompt that was made at once."""
    prompt, other = job.prompt, whole.prompt
    assert prompt is not None
    assert other is not None
    assert prompt.text is not None
    assert other.text is not None
    assert str.__eq__(prompt.text, other.text)
    assert prompt.text.marks == other.text.marks
    assert prompt.ids.tolist() == other.ids.tolist()
    for token in source.sample(range(len(prompt)), min(len(prompt), 20)):
        assert prompt.char_range(token) == other.char_range(token)
    for char in source.sample(range(len(prompt.text)), min(len(prompt.text), 20)):
        assert prompt.token_at(char) == other.token_at(char)
    rule = find_rule("claude-sonnet-4-5", None, date(2026, 11, 1))
    assert rule is not None
    assert find_blocks(job, rule.rules) == find_blocks(whole, rule.rules)
    reported = ReportedRequest.of(job, None, None)
    assert reported is not None
    assert reported.names == chunk_names(other.ids)
    assert request_forms(job, ()) == message_forms(whole.turn.messages)


@given(seed=st.integers(0, 1 << 30), byte_level=st.booleans())
def test_a_prompt_that_grows_is_the_same_as_the_whole(
    seed: int, byte_level: bool, byte_tokenizer: Tokenizer, built_in: Tokenizer
) -> None:
    source = random.Random(seed)
    tokenizer = byte_tokenizer if byte_level else built_in
    maker, whole, continued = job_maker(tokenizer), job_maker(tokenizer), 0
    vars(whole.renderer)["_growing"] = None
    for messages, tools in made_requests(source, 14):
        job = job_of(maker, messages, tools)
        assert job.prompt is not None
        continued += job.prompt.continued is not None
        if source.random() < 0.8:  # some requests are asked nothing
            assert_same(job, job_of(whole, messages, tools), source)
    assert continued


def test_only_what_is_new_is_rendered(monkeypatch: pytest.MonkeyPatch, built_in: Tokenizer) -> None:
    """A conversation of many turns costs its messages, not its prompts; and no more than the latest two prompts are kept."""
    source = random.Random(1)
    messages = [made_message(source)]
    maker, rendered = job_maker(built_in), 0
    render = ChatTemplate.render

    def counted(self: ChatTemplate, given: Any, *arguments: Any, **named: Any) -> Traced:
        nonlocal rendered
        rendered += len(given)
        return render(self, given, *arguments, **named)

    monkeypatch.setattr(ChatTemplate, "render", counted)
    before = None
    for _ in range(40):
        prompt = job_of(maker, list(messages), None).prompt
        assert prompt is not None
        if prompt.continued is not None:
            assert prompt.continued.before is before
            assert before.continued is None or before.continued.before.continued is None
        before = prompt
        messages += [made_message(source), made_message(source)]
    assert rendered < 3 * len(messages)
    growing = maker.renderer._growing
    assert isinstance(growing, GrowingPrompts)
    for _ in range(100):
        job_of(maker, [made_message(source)], None)
    assert len(growing._latest) <= 16


def test_a_conversation_that_is_forgotten_leaves_its_last_prompt_alone(built_in: Tokenizer) -> None:
    growing = GrowingPrompts(ChatTemplate.hosted(built_in), built_in)
    talks = [[{"role": "user", "content": Traced(f"{number}")}] for number in range(_MOST_KEPT + 1)]
    last = None
    for _ in range(3):
        for message in ({"role": "assistant", "content": Traced("yes")}, {"role": "user", "content": Traced("and?")}):
            talks[0].append(message)
        last = growing.prompt(list(talks[0]), None, answers=True)
    assert last is not None
    assert last.continued is not None
    last.notes[str] = "what the next prompt needs"
    for talk in talks[1:]:
        growing.prompt(talk, None, answers=True)
    assert last.continued is None
    assert not last.notes
