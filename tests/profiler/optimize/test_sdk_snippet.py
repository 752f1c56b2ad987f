"""The code that sends an edited request: moved text is a variable of its own, and a text sent in the place of another is not."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.profiler.optimize.request_diff import RequestEdit
from kvtool.profiler.optimize.sdk_snippet import _blocks, named_cache_snippet, snippet
from kvtool.workload.call import CacheScope, Call, CallSettings
from kvtool.workload.turn import Turn

LINES = st.lists(
    st.text("abcdef ", min_size=4, max_size=30).filter(lambda text: len(text.split()) > 1),
    min_size=2,
    max_size=6,
    unique=True,
)


@given(LINES, st.data())
def test_a_line_that_moves_to_the_end_is_a_variable_of_its_own(lines: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(lines) - 2))
    moved = [*lines[:at], *lines[at + 1 :], f"{lines[at]} 7"]
    lines[at] += " 7"
    (block,) = _blocks(_system(lines), _system(moved), "instructions")
    assert block.names == ("instructions", "changing_text")


@given(LINES, LINES)
def test_other_instructions_in_the_same_place_contain_no_moved_text(lines: list[str], others: list[str]) -> None:
    """A fork with its parent's instructions, however long these are."""
    parent = [f"{line} parent" for line in others] * 3
    (block,) = _blocks(_system([*lines, "only the fork"]), _system(parent), "instructions")
    assert block.names == ("instructions",)


def _edit(*, responses: bool) -> RequestEdit:
    """A clock that moves after the question, and other settings."""
    before = Turn(id="0", group="g", call=Call(model="gpt-5.6", responses=responses, scope=CacheScope(key="mine")))
    before.messages = [{"role": "system", "content": "rules\nclock 1"}, {"role": "user", "content": "q"}]
    settings = CallSettings(retention="24h", cache_mode="explicit")
    after = replace(before, call=replace(before.call, scope=CacheScope(key="shared"), settings=settings))
    mark = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    parts = [{"type": "text", "text": "q", **mark}, {"type": "text", "text": "clock 1"}]
    after.messages = [{"role": "system", "content": "rules"}, {"role": "user", "content": parts}]
    after.tools = [{"name": "look"}]
    return RequestEdit("log.jsonl", 1, {}, {}, before, after)


def test_a_fork_sends_what_its_parent_sent_and_its_own_instructions_in_its_task() -> None:
    talk = [{"role": role, "content": f"{role} {at}"} for at in range(3) for role in ("user", "assistant")]
    own = {"role": "system", "content": "you review\nbe strict"}
    task, later = {"role": "user", "content": "review it"}, {"role": "user", "content": "and this"}
    before = Turn(id="0", group="g", messages=[own, *talk, task, {"role": "assistant", "content": "fine"}, later])
    given = {"role": "user", "content": f"review it\n\n{own['content']}"}
    after = before.with_messages([{"role": "system", "content": "you write"}, *talk, given, *before.messages[-2:]])
    said = snippet(RequestEdit("log.jsonl", 1, {}, {}, before, after), "OpenAI")
    parts = (
        '"content": parent_instructions}',
        "*parent_history,  # the parent's",
        "task",
        "fork_instructions}",
        "*history",
    )
    places = [said.index(part) for part in parts]
    assert places == sorted(places)
    assert "...parentHistory, // the parent's" in snippet(RequestEdit("log.jsonl", 1, {}, {}, before, after), "AI SDK")


def test_the_code_is_python_and_has_the_settings() -> None:
    for sdk, responses, parts in [
        ("OpenAI", False, ("chat.completions.create(", 'prompt_cache_key="shared"', '"type": "text"')),
        ("OpenAI", True, ("responses.create(", 'prompt_cache_options={"mode": "explicit"}', '"type": "input_text"')),
        ("LiteLLM", False, ("litellm.completion(", 'prompt_cache_retention="24h"')),
        ("LangChain", False, ("llm.invoke([", 'prompt_cache_key="shared"')),
        ("google-genai", False, ("models.generate_content(", "system_instruction=instructions")),
    ]:
        code = snippet(_edit(responses=responses), sdk)
        ast.parse(code)
        assert all(part in code for part in parts)


def test_a_result_of_a_tool_is_part_of_the_history() -> None:
    """It belongs to a call, whose id no snippet knows: an API refuses it without."""
    for sdk in ["OpenAI", "Anthropic", "LiteLLM", "LangChain", "google-genai", "AI SDK"]:
        for moves in [False, True]:
            edit = _edit(responses=False)
            call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
            result = {"role": "tool", "tool_call_id": "c1", "content": "found\nit"}
            head = [{"role": "system", "content": "rules"}, {"role": "user", "content": "q"}]
            edit.turn.messages = [*head, {"role": "assistant", "content": None, "tool_calls": [call]}, result]
            end = {**result, "content": "found\nit\nclock 1"} if moves else result
            edit.edited.messages = [*edit.turn.messages[:-1], end]
            code = snippet(edit, sdk)
            assert not [each for each in ('"tool"', "ToolMessage", "question") if each in code]
            assert code.count("history,") == 1
            assert ("the changing text at its end" in code) == moves
            if sdk != "AI SDK":
                ast.parse(code)


@pytest.mark.parametrize("end", ["tools", "system_instruction", "contents[3]"])
def test_the_code_of_a_named_cache_is_python(end: str) -> None:
    code = named_cache_snippet(end, 300)
    ast.parse(code)
    assert ("contents=contents[n:]" in code) == (end == "contents[3]")
    assert 'ttl="300s"' in code


def test_settings_are_options_of_the_ai_sdk() -> None:
    code = snippet(_edit(responses=False), "AI SDK")
    assert 'openai: { promptCacheKey: "shared", promptCacheRetention: "24h"' in code
    assert 'openai: { promptCacheBreakpoint: { mode: "explicit" } }' in code


def _system(lines: list[str]) -> dict[str, str]:
    return {"role": "system", "content": "\n".join(lines)}
