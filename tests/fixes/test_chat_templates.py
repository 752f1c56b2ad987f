"""What chat templates do to prefixes: each fault shown by a template that has it, none by those that do not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvtool.accounting.plan import Plan
from kvtool.engine.config import EngineConfig
from kvtool.fixes.chat.chat_probe import Checked, sample_turns
from kvtool.fixes.chat.chat_templates import check_chat_template, common_text
from kvtool.profiler.run.purposes import explained_run
from kvtool.profiler.run.run_setup import RunSetup
from kvtool.text.message import Message
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.terminal.progress import Progress
from kvtool.text.tokens.tokenizer import Tokenizer, load_tokenizer
from kvtool.text.traced import Origin, Traced
from kvtool.workload.jobs import JobMaker
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Turn
from tests.accounting.rule_runs import LATENCY, Given

PLAIN = """\
{%- for message in messages %}
<{{ message.role }}>{{ message.content }}</{{ message.role }}>
{%- endfor %}
{%- if add_generation_prompt %}<assistant>{% endif %}
"""
DATED = (
    """\
{%- if not date_string is defined %}
    {%- set date_string = strftime_now("%d %b %Y") %}
{%- endif %}
Today: {{ date_string }}
"""
    + PLAIN
)
TIMED = DATED.replace("%d %b %Y", "%d %b %Y %H:%M")
TOOLS_LAST = """\
{%- for message in messages %}
{%- if tools and loop.last and message.role == "user" %}
[TOOLS]{{ tools | tojson }}[/TOOLS]
{%- endif %}
<{{ message.role }}>{{ message.content }}
{%- endfor %}
"""
TOOLS_FIRST = "{%- if tools %}[TOOLS]{{ tools | tojson }}[/TOOLS]{% endif %}" + PLAIN
THINKING = """\
{%- set last = namespace(user=0) %}
{%- for message in messages %}{% if message.role == "user" %}{% set last.user = loop.index0 %}{% endif %}{% endfor %}
{%- for message in messages %}
<{{ message.role }}>
{%- if message.reasoning_content and (loop.index0 > last.user or preserve_thinking) %}
<think>
{{ message.reasoning_content }}
</think>
{%- endif %}
{{ message.content }}
{%- endfor %}
{%- if add_generation_prompt %}
<assistant>
{% endif %}
"""
ALWAYS_STRIPPED = """\
{%- for message in messages %}
<{{ message.role }}>{{ (message.content or "").split("</think>")[-1] }}
{%- endfor %}
{%- if add_generation_prompt %}
<assistant><think>
{% endif %}
"""
TOOL = {"type": "function", "function": {"name": "lookup", "description": "Look it up.", "parameters": {}}}


def renderer_of(tokenizer: Tokenizer, source: str, name: str = "chat.jinja") -> Renderer:
    return Renderer(lambda: tokenizer, lambda own: ChatTemplate(name, source, own.special_tokens))


def chat(*messages: tuple[str, str], **options: Any) -> Turn:
    made: list[Message] = [{"role": role, "content": content} for role, content in messages]
    return Turn("g", messages=made, output_tokens=1, **options)


ASK = chat(("system", "You help."), ("user", "What is it?"))
TALK = chat(("system", "You help."), ("user", "What is it?"), ("assistant", "That."), ("user", "Why?"))


def checked(renderer: Renderer, *turns: Turn) -> dict[str, Checked]:
    found = check_chat_template(renderer, turns)
    assert len({check.finding.code for check in found}) == len(found)
    return {check.finding.code: check for check in found}


@pytest.fixture(scope="module")
def tekken() -> Tokenizer:
    return load_tokenizer(None)


@pytest.mark.parametrize("source", [PLAIN, TOOLS_FIRST])
def test_nothing_wrong(byte_tokenizer: Tokenizer, source: str) -> None:
    assert not checked(renderer_of(byte_tokenizer, source), ASK, TALK, replace(TALK, tools=[TOOL]))


def test_kvtools_own_templates_have_none_of_it(byte_tokenizer: Tokenizer, tekken: Tokenizer) -> None:
    turns = [ASK, TALK, replace(TALK, tools=[TOOL])]
    for tokenizer in (byte_tokenizer, tekken):
        renderer = Renderer(lambda tokenizer=tokenizer: tokenizer, ChatTemplate.own)  # type: ignore[misc]
        assert not checked(renderer, *turns)


def test_the_date(byte_tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "dated.jinja"
    path.write_text(DATED, encoding="utf-8")
    renderer = renderer_of(byte_tokenizer, DATED, str(path))
    (check,) = checked(renderer, ASK).values()
    finding = check.finding
    assert (finding.code, finding.path, finding.line, finding.column) == ("KV131", str(path), 4, 8)
    assert finding.in_source
    text = renderer.chat_template.render(ASK.messages or [])
    assert finding.tokens_lost == len(text) - len("Today: ")  # one token for each byte
    assert f"writes the date: each change makes {finding.tokens_lost} of the {len(text)} tokens" in finding.message
    assert check.fix is not None
    assert check.fix.tier == "P3"
    assert check.fix.renderer is not None
    pinned = check.fix.renderer(renderer)
    assert not checked(pinned, ASK)
    days = [pinned.prompt(replace(ASK, arrival=86_400.0 * day)).text for day in range(3)]
    assert len(set(days)) == 1


def test_the_time_of_day(byte_tokenizer: Tokenizer) -> None:
    (check,) = checked(renderer_of(byte_tokenizer, TIMED), ASK).values()
    assert "writes the time" in check.finding.message


def test_a_date_that_the_request_gives_is_its_own(byte_tokenizer: Tokenizer) -> None:
    assert not checked(renderer_of(byte_tokenizer, DATED), replace(ASK, extra={"date_string": "today"}))


def test_the_clock_follows_arrivals(byte_tokenizer: Tokenizer) -> None:
    """Nine requests over nine days: each day's date is computed anew, and the pinned template has one prefix."""
    renderer = renderer_of(byte_tokenizer, DATED)
    turns = [[replace(ASK, arrival=86_400.0 * day)] for day in range(9)]

    def hits(renderer: Renderer) -> int:
        plan = Plan(EngineConfig(block_size=4), LATENCY)
        accountant = explained_run(RunSetup(plan, JobMaker(renderer, seed=0), Progress(None)))
        return accountant.run(Given(*turns)).ledger.fates()["hit"]

    text = renderer.chat_template.render(ASK.messages or [])
    assert text.startswith("Today: 01 Jan 2025")
    assert renderer.chat_template.render(ASK.messages or [], seconds=86_400.0 * 40).startswith("Today: 10 Feb 2025")
    fix = checked(renderer, ASK)["KV131"].fix
    assert fix is not None
    assert fix.renderer is not None
    whole = (len(text) - 1) // 4 * 4
    assert hits(fix.renderer(renderer)) == 8 * whole
    assert hits(renderer) == 8 * (len("Today: 0") // 4 * 4)


def test_later_turns_of_a_session_keep_its_day(byte_tokenizer: Tokenizer) -> None:
    renderer = renderer_of(byte_tokenizer, DATED)
    first = renderer.prompt(replace(ASK, session="s", arrival=86_400.0 * 3))
    later = renderer.prompt(replace(TALK, session="s", index=1))
    assert str(first.text).startswith("Today: 04 Jan 2025")
    assert str(later.text).startswith("Today: 04 Jan 2025")
    assert str(renderer.prompt(replace(TALK, session="other", index=1)).text).startswith("Today: 01 Jan 2025")


def test_tools_that_move(byte_tokenizer: Tokenizer) -> None:
    renderer = renderer_of(byte_tokenizer, TOOLS_LAST)
    assert not checked(renderer, ASK, TALK)  # nobody has tools
    (check,) = checked(renderer, replace(ASK, tools=[TOOL])).values()
    finding = check.finding
    assert (finding.code, finding.line, finding.column) == ("KV133", 3, 8)
    template = renderer.chat_template
    opening: list[Message] = [*(ASK.messages or [])[:1], {"role": "user", "content": "First question, number 4711?"}]
    asked = template.render(opening, [TOOL], add_generation_prompt=False)
    kept = asked.index("[TOOLS]")
    assert 0 < finding.tokens_lost <= len(asked) - kept
    assert check.fix is not None
    assert check.fix.renderer is not None
    other = check.fix.renderer(renderer)
    assert other.chat_template.name == "kvtool/templates/chatml.jinja"
    assert not checked(other, replace(ASK, tools=[TOOL]))


REASONED: list[Message] = [
    {"role": "user", "content": "What is it?"},
    {"role": "assistant", "content": "That.", "reasoning_content": "Let me see. It is that."},
    {"role": "user", "content": "Why?"},
]


def test_reasoning_that_is_dropped(byte_tokenizer: Tokenizer) -> None:
    renderer = renderer_of(byte_tokenizer, THINKING)
    (check,) = checked(renderer, Turn("g", messages=REASONED, output_tokens=1)).values()
    finding = check.finding
    computed = renderer.chat_template.render(REASONED[:2], add_generation_prompt=False)
    assert finding.code == "KV132"
    assert finding.tokens_lost == len(computed) - computed.index("<think>")
    assert (finding.line, finding.column) == (5, 16)
    assert finding.fix.endswith("chat_template_kwargs preserve_thinking=True")
    assert check.fix is not None
    assert check.fix.renderer is not None
    kept = check.fix.renderer(renderer)
    assert not checked(kept, Turn("g", messages=REASONED, output_tokens=1))
    assert str(kept.chat_template.render(REASONED)).startswith(str(computed))


def test_reasoning_is_looked_for_where_a_conversation_goes_on(byte_tokenizer: Tokenizer) -> None:
    renderer = renderer_of(byte_tokenizer, THINKING)
    assert not checked(renderer, ASK)
    assert set(checked(renderer, TALK)) == {"KV132"}


def test_reasoning_that_is_never_shown_again(byte_tokenizer: Tokenizer) -> None:
    thought = "<think>\nLet me see. It is that.\n</think>\n\nThat."
    turn = chat(("user", "What is it?"), ("assistant", thought), ("user", "Why?"))
    (check,) = checked(renderer_of(byte_tokenizer, ALWAYS_STRIPPED), turn).values()
    assert check.finding.code == "KV132"
    assert check.fix is None
    generated = "Let me see. It is that.\n</think>\n\nThat."
    assert len("That.") < check.finding.tokens_lost
    assert check.finding.tokens_lost >= len(generated) - 2


def test_reasoning_that_is_kept(byte_tokenizer: Tokenizer) -> None:
    source = "{% for m in messages %}<{{ m.role }}>{{ m.reasoning_content or '' }}|{{ m.content }}{% endfor %}"
    assert not checked(renderer_of(byte_tokenizer, source), Turn("g", messages=REASONED, output_tokens=1), TALK)


def test_a_start_that_is_written_twice(tekken: Tokenizer) -> None:
    renderer = renderer_of(tekken, "{{ bos_token }}\n{{- bos_token }}" + PLAIN)
    check = checked(renderer, ASK, TALK)["KV123"]
    assert (check.finding.tokens_lost, check.finding.line, check.finding.column) == (2, 2, 1)
    assert "2 of 2 sampled requests" in check.finding.message
    once = checked(renderer_of(tekken, "{{ bos_token }}" + PLAIN), ASK)["KV123"].finding
    assert (once.severity, once.tokens_lost, once.line, once.column) == ("info", 0, 1, 1)  # others may add a second one
    assert "KV123" not in checked(renderer_of(tekken, PLAIN), ASK)


def test_a_text_that_begins_with_what_the_tokenizer_adds(tekken: Tokenizer) -> None:
    renderer = renderer_of(tekken, PLAIN)

    def text(written: str) -> Turn:
        return Turn("g", text=Traced.of(written, Origin("prompt.md", text=written)), output_tokens=1)

    finding = checked(renderer, text(f"{tekken.bos_token}Hello"), text("Hello"))["KV123"].finding
    assert (finding.path, finding.line, finding.tokens_lost) == ("prompt.md", 1, 1)
    assert not checked(renderer, text("Hello"))


def test_a_template_that_refuses_shows_nothing(byte_tokenizer: Tokenizer) -> None:
    source = "{{ raise_exception('no') }}{{ strftime_now('%Y') }}reasoning_content"
    assert not checked(renderer_of(byte_tokenizer, source), TALK, replace(TALK, tools=[TOOL]))


def test_samples_are_the_first_turns_of_the_first_conversations() -> None:
    turns = [[replace(ASK, id=f"{c}.{t}", index=t) for t in range(6)] for c in range(12)]
    names = [turn.id for turn in sample_turns(Given(*turns))]
    assert names == [f"{c}.{t}" for c in range(8) for t in range(4)]


def test_common_text() -> None:
    assert common_text("abcd", "abxd") == 2
    assert common_text("", "x") == 0
    assert common_text("same", "same") == 4
