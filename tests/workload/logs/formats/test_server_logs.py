"""Logs of vLLM and SGLang: both ways to write each, levels without prompts, what is cut, hostile prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.workload.logs.formats.servers.python_reprs import items_at, string_of
from kvtool.workload.logs.formats.servers.server_lines import LogClock
from tests.workload.logs.reading_made import Read, lines, refusal

NASTY = "it's \"q\" \\ \n Received request x: prompt: 'no', params: {, ' é \x1b[31m"


def text(path: Path, *rows: str) -> Path:
    path.write_text("".join(f"{row}\n" for row in rows))
    return path


def old(own: str, prompt: str, day: str = "10-27") -> str:
    front = f"INFO {day} 09:00:00 [logger.py:43] Received request {own}"
    return f"{front}: prompt: {prompt!r}, params: SamplingParams(n=1), prompt_token_ids: None, lora_request: None."


def new(own: str, prompt: str | None, ids: str = "None") -> str:
    front = f"(APIServer pid=1) DEBUG 10-27 09:00:00 [entrypoints/logger.py:40] Request {own}"
    return f"{front} details: prompt: {prompt!r}, prompt_token_ids: {ids}, prompt_embeds shape: None."


def came(own: str) -> str:
    front = f"(APIServer pid=1) INFO 10-27 09:00:00 [entrypoints/logger.py:50] Received request {own}"
    return f"{front}: params: SamplingParams(n=1), lora_request: None."


def finish(own: str, prompt: str, **meta: Any) -> str:
    asked = f"GenerateReqInput(rid={own!r}, text={prompt!r}, input_ids=None, sampling_params={{'stop': ['a, b)']}})"
    return f"[2025-10-27 09:00:02] Finish: obj={asked}, out={{'text': {prompt!r}, 'meta_info': {meta!r}}}"


@pytest.mark.parametrize("line", [old, new])
def test_prompts_of_vllm_to_the_character(tmp_path: Path, line: Any) -> None:
    rows = [
        line("a", NASTY),
        "INFO 10-27 09:00:00 [x.py:1] said 'Received request z: prompt: 1'",
        came("a") if line is new else "",
    ]
    read = Read(text(tmp_path / "a.log", *rows, line("b", 'say "x"')))
    assert read.of("text") == [NASTY, 'say "x"']
    assert read.left_out == {}


def test_token_ids_where_vllm_writes_no_text_and_requests_without_either(tmp_path: Path) -> None:
    read = Read(text(tmp_path / "a.log", new("a", None, "[5, 6, 7]"), new("b", None), came("b"), came("c")))
    assert len(read.rows) == 1
    assert read.left_out == {"request without its prompt": 2}


def test_a_log_behind_another_front_and_in_colours(tmp_path: Path) -> None:
    colour = "\x1b[32mINFO\x1b[0m 10-27 09:00:00 [l.py:1] Received request r: prompt: 'p', params: X."
    rows = [f"2025-10-27T09:00:0{number}.5Z stdout F {colour}" for number in range(2)]
    assert Read(text(tmp_path / "a.log", *rows)).of("time") == [1761555600.5, 1761555601.5]


def test_times_without_a_year_go_on_over_new_year(tmp_path: Path) -> None:
    read = Read(text(tmp_path / "a.log", old("a", "x", "12-31"), old("b", "y", "01-01")))
    first, second = read.of("time")
    assert second - first == 86_400
    assert LogClock().read("at 13-45 09:00:00") is None


def test_a_log_of_vllm_without_prompts_says_what_to_do(tmp_path: Path) -> None:
    error = refusal(text(tmp_path / "a.log", came("a"), came("b")))
    assert error.message.startswith("this vLLM log has no prompts")
    assert error.hint == "run vLLM with VLLM_LOGGING_LEVEL=DEBUG and --enable-log-requests"


def test_a_line_of_vllm_that_is_cut_off(tmp_path: Path) -> None:
    error = refusal(text(tmp_path / "a.log", new("a", "fine"), new("b", "secret things").partition("things")[0]))
    assert error.message.startswith("the prompt of this request is cut off")
    assert "secret" not in f"{error.message}{error.place}"
    assert error.place is not None
    assert error.place.line == 2


def test_text_of_sglang_to_the_character(tmp_path: Path) -> None:
    rows = [
        "[2025-10-27 08:00:00] server_args=ServerArgs(model_path='m')",
        "[2025-10-27 09:00:01] Receive: obj=GenerateReqInput(rid='a', text=None, input_ids=[1, 2], stream=True)",
        finish("a", NASTY, id="a", prompt_tokens=20, completion_tokens=3, cached_tokens=16, e2e_latency=1.0),
        'INFO:     127.0.0.1:1 - "POST /generate HTTP/1.1" 200 OK',
        "[2025-10-27 09:00:03 TP0] Receive: obj=GenerateReqInput(rid='b', text='never ended')",
        "[2025-10-27 09:00:04] Finish: obj=EmbeddingReqInput(rid='c', text='e'), out={'embedding': [1]}",
    ]
    read = Read(text(tmp_path / "a.log", *rows))
    assert read.of("text") == [NASTY, "never ended"]
    assert read.of("time") == [1761555601, 1761555603]
    assert (read.rows[0]["prompt_tokens"], read.rows[0]["cached_tokens"], read.rows[0]["output_tokens"]) == (20, 16, 3)
    assert read.rows[0]["said"] == NASTY
    assert read.left_out == {"embedding": 1}


def test_events_of_sglang(tmp_path: Path) -> None:
    def event(kind: str, own: str, out: Any = None, **asked: Any) -> dict[str, Any]:
        more = {} if out is None else {"out": out}
        return {
            "timestamp": "2025-10-27T09:00:00",
            "event": f"request.{kind}",
            "rid": own,
            "obj": {"rid": own, **asked},
            **more,
        }

    done = {"text": "b", "meta_info": {"prompt_tokens": 9, "completion_tokens": 1, "cached_tokens": 8}}
    events = [
        event("finished", "a", done, text="a"),
        event("received", "a", text="a"),
        event("received", "b", text=None, input_ids=[1, 2, 3]),
        event("finished", "c", {"meta_info": {"finish_reason": {"type": "abort"}}}, text="x"),
        event("finished", "d", done, text="x" * 1024 + "..." + "y" * 1024),
    ]
    read = Read(lines(tmp_path / "a.jsonl", *events))
    assert [row.get("text", "ids")[:3] for row in read.rows] == ["a", "ids", "xxx"]
    assert read.of("cached_tokens") == [8, None, 8]
    assert read.of("incomplete") == [None, None, "its text is cut"]
    assert read.left_out == {"failed": 1}
    bare = refusal(lines(tmp_path / "b.jsonl", event("finished", "a", done, sampling_params={})))
    assert bare.hint == "run SGLang with --log-requests-level 3"


def test_a_line_of_sglang_that_is_cut_off(tmp_path: Path) -> None:
    error = refusal(text(tmp_path / "a.log", finish("a", "fine"), finish("b", "secret things").partition("things")[0]))
    assert error.message.startswith("the line of this request is cut off")
    assert "secret" not in f"{error.message}{error.place}"


def test_the_middle_that_level_2_cuts_out_of_a_text(tmp_path: Path) -> None:
    line = "[2025-10-27 09:00:00] Finish: obj=GenerateReqInput(rid='a', text='begin' ... 'end', input_ids=[1] ... [9]), out={}"
    [row] = Read(text(tmp_path / "a.log", line)).rows
    assert (row["text"], row["incomplete"]) == ("begin...end", "its text is cut")


@pytest.mark.parametrize("meta", [{"prompt_tokens": 1.5}, {"cached_tokens": 1.5}])
def test_counts_that_cannot_be(tmp_path: Path, meta: Any) -> None:
    error = refusal(text(tmp_path / "a.log", finish("a", "fine"), finish("b", "secret", **meta)))
    assert "secret" not in error.message
    assert error.place is not None
    assert error.place.line == 2


_values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 99) | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3) | st.tuples(inner)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.from_regex("[a-z]{1,5}", fullmatch=True), _values, max_size=4), st.text(max_size=9))
def test_arguments_come_back_as_they_were_written(values: dict[str, Any], behind: str) -> None:
    written = ", ".join(f"{name}={value!r}" for name, value in values.items())
    items, end = items_at(f"{written}){behind}", 0)
    assert items == {name: repr(value) for name, value in values.items()}
    assert end == len(written) + 1
    as_dict, _ = items_at(f"{values!r}{behind}", 1)
    assert as_dict == {name: repr(value) for name, value in values.items()}
    for value in values.values():
        if isinstance(value, str):
            assert string_of(repr(value)) == value


@given(st.text(max_size=40))
def test_any_line_behind_a_request(tail: str) -> None:
    items_at(tail, 0)
    string_of(tail)


def test_texts_that_no_repr_writes() -> None:
    assert string_of("'\\d'") == "\\d"
    assert string_of("'a\nb'") is None
    assert items_at("a=1, b='" + "\\'" * 200_000, 0)[0] == {"a": "1"}  # in time that grows with its length


@given(
    calls=st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(1, 999)), min_size=1, max_size=6)
)
def test_llama_server_and_ollama_say_what_was_reused(calls: list[tuple[int, int, int]], tmp_path_factory: Any) -> None:
    """Of llama-server the computed tokens of each prompt are written, of Ollama the reused ones; calls of two slots interleave."""
    folder = tmp_path_factory.mktemp("logs")
    rows, ollama, expected = ["srv  params_from_: Chat format: x"], [], []
    for number, (new, reused, answer) in enumerate(calls):
        prompt, slot = new + reused, f"id {number % 2:2} | task {number} |"
        begun = f"slot update_slots: {slot} new prompt, n_ctx_slot = 1, n_keep = 0, task.n_tokens = {prompt}"
        rows += [begun, f"slot update_slots: {slot} n_past = {reused}, pos_min = 1", f"slot print_timing: {slot}"]
        rows += [f"prompt eval time =   {new}.0 ms / {new:5} tokens ( 1.0 ms per token, 9.0 tokens per second)"]
        rows += [f"       eval time =   {new}.0 ms / {answer:5} tokens ( 1.0 ms per token, 9.0 tokens per second)"]
        front = f"time=2026-02-02T09:00:{number:02}.240Z level=DEBUG source=cache.go:142"
        ollama += [f'{front} msg="loading cache slot" id=0 cache=9 prompt={prompt} used={reused} remaining={new}']
        expected.append((prompt, reused))
    read = Read(text(folder / "llama.log", *rows))
    assert [(usage.prompt, usage.cached) for call in read.of("call") if (usage := call.usage)] == expected
    assert [call.usage.output for call in read.of("call")] == [answer for *_, answer in calls]
    read = Read(text(folder / "ollama.log", *ollama, 'time=x level=INFO msg="loading cache slot"'))
    assert [(usage.prompt, usage.cached) for call in read.of("call") if (usage := call.usage)] == expected


def test_a_prompt_in_an_unknown_place_is_still_asked_for(tmp_path: Path) -> None:
    """Only a record with fewer characters than its prompt has tokens lacks the prompt."""
    usage = {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 64}}
    assert Read(lines(tmp_path / "a.jsonl", {"usage": usage, "note": "x" * 80})).of("call")[0].usage.cached == 64
    row = {"usage": usage, "what_was_asked": "x" * 120}
    assert refusal(lines(tmp_path / "b.jsonl", row)).message.startswith("no prompt found")


_KOBOLD_SPEED = "Init:0.00s, Process:0.7s (1000.0T/s), Generate:1s (40T/s), Total:2s"


def test_koboldcpp_says_what_it_computed_of_each_prompt(tmp_path: Path) -> None:
    path = text(
        tmp_path / "k.log",
        "Welcome to KoboldCpp - Version 1.99",
        "Processing Prompt (512 / 700 tokens)\rProcessing Prompt (700 / 700 tokens)\rGenerating (40 / 99 tokens)",
        f"[10:00:00] CtxLimit:1740/4096, Amt:40/99, {_KOBOLD_SPEED}",
        "Processing Prompt [BLAS] (30 / 30 tokens)\rGenerating (20 / 99 tokens)",
        "CtxLimit: 1750/4096, Process:0.81s (10.6ms/T = 94.41T/s), Generate:9.38s (82.3ms/T = 12.15T/s), Total:10.19s",
        f"CtxLimit: 9/4096, Amt:9/9, {_KOBOLD_SPEED}",  # a prompt that nobody counted
    )
    usages = [call.usage for call in Read(path).of("call")]
    assert [(each.prompt, each.cached, each.output) for each in usages] == [(1700, 1000, 40), (1730, 1700, 20)]


def test_llama_server_that_prints_timings_after_the_end_says_first_what_it_keeps(tmp_path: Path) -> None:
    path = text(
        tmp_path / "l.log",
        "slot update_slots: id  0 | task 0 | new prompt, n_ctx_slot = 4096, n_keep = 0, n_prompt_tokens = 1320",
        "slot update_slots: id  0 | task 0 | kv cache rm [1024, end)",
        "slot update_slots: id  0 | task 0 | kv cache rm [1300, end)",
        "slot      release: id  0 | task 0 | stop processing: n_past = 1340, truncated = 0",
        "prompt eval time =     120.00 ms /   296 tokens (    0.41 ms per token,  2466.67 tokens per second)",
    )
    assert [(each.usage.prompt, each.usage.cached) for each in Read(path).of("call")] == [(1320, 1024)]
    begun = text(tmp_path / "b.log", "slot update_slots: id  0 | task 0 | new prompt, n_prompt_tokens = 1320")
    assert refusal(begun).message == "it contains no model request"
