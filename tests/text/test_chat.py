from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from kvtool.errors import KvtoolError
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.templates.served_messages import part_text
from kvtool.text.templates.template import compile_template
from kvtool.text.tokens.tokenizer import Tokenizer, load_tokenizer
from kvtool.text.traced import Origin, Traced
from kvtool.workload.render import Renderer
from kvtool.workload.turn import HashedPrompt, Turn

TAU = Path(__file__).resolve().parents[3] / "shared" / "data" / "tau_bench" / "gpt-4o-airline.json"
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}

LLAMA3 = """{{- bos_token }}
{%- if messages and messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- for tool_call in message.tool_calls %}
            {%- set call = tool_call.function %}
            {{- '{"name": "' + call.name + '", ' }}{{- '"parameters": ' }}{{- call.arguments | tojson }}{{- "}" }}
        {%- endfor %}
    {%- else %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

CHATML = """{% for message in messages %}
{{'<|im_start|>' + message['role'] + '\\n' + (message['content'] or '') + '<|im_end|>' + '\\n'}}
{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
"""

MISTRAL = """{%- macro joined(parts, sep=" ") -%}{{ parts | join(sep) }}{%- endmacro -%}
{%- set ns = namespace(index=0, last=-1) %}
{%- for message in messages if message.role == "user" %}{% set ns.last = loop.index0 %}{% endfor %}
{{- bos_token }}
{%- for message in messages %}
    {%- if message.role == "user" %}
        {%- if tools and ns.index == ns.last %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.function.items() if key != "return" %}
                    {%- if val is string %}{{- '"' + key + '": "' + val + '"' }}
                    {%- else %}{{- '"' + key + '": ' + val|tojson }}{% endif %}
                    {%- if not loop.last %}{{- ", " }}{% endif %}
                {%- endfor %}
                {{- "}}" }}{% if not loop.last %}, {% endif %}
            {%- endfor %}
            {{- "][/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
        {{- "[INST] " ~ joined([message.content]) ~ "[/INST]" }}
    {%- elif message.role == "assistant" %}
        {%- set text %}{{ (message.content or "").split("</think>")[-1].lstrip("\\n") }}{% endset %}
        {{- " " + text|replace("\\r\\n", "\\n") + eos_token }}
    {%- elif message.role == "system" %}
        {%- if not loop.first %}{{ raise_exception("only the first message may be a system message") }}{% endif %}
        {{- "<<SYS>>" }}{% filter trim %}{{ message.content }}{% endfilter %}
    {%- else %}
        {{- '[TOOL_RESULTS] {"content": ' ~ message.content|string|tojson ~ '}[/TOOL_RESULTS]' }}
    {%- endif %}
{%- endfor %}
"""

SHOW = "{% macro show(x, y=1) %}{% for c in x %}{% endfor %}{% endmacro %}"

PARTS = """{% for message in messages %}<{{ message.role }}>
{% if message.content is string %}{{ message.content }}{% else %}
{% for part in message.content %}{% if part.type == 'text' %}{{ part.text }};{% endif %}{% endfor %}{% endif %}

{% endfor %}"""

TOOLS = [
    {
        "type": "function",
        "function": {"name": "look", "description": "Look <up>", "parameters": {"type": "object", "properties": {}}},
    }
]


@pytest.fixture(scope="module")
def tekken() -> Tokenizer:
    return load_tokenizer(None)


def raise_exception(message: str) -> None:
    raise TemplateError(message)


def tojson(value: object, ensure_ascii: bool = False, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)


def by_jinja(source: str, messages: list[dict[str, Any]], tools: list[Any] | None) -> str:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    return environment.from_string(source).render(messages=messages, tools=tools, add_generation_prompt=True, **TOKENS)


contents = st.text(alphabet='ab <|>[]{}%#"\\\n\r\té🎉\0', max_size=15)
calls = st.fixed_dictionaries(
    {
        "id": st.just("c1"),
        "type": st.just("function"),
        "function": st.fixed_dictionaries(
            {
                "name": st.sampled_from(["look", "go"]),
                "arguments": st.dictionaries(contents, contents | st.integers(), max_size=2),
            }
        ),
    }
)
message = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant"]), "content": contents}),
    st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": st.none(), "tool_calls": st.lists(calls, min_size=1, max_size=2)}
    ),
    st.fixed_dictionaries({"role": st.just("tool"), "content": contents, "tool_call_id": st.just("c1")}),
)


def as_served(message: dict[str, Any], *, parts: bool) -> dict[str, Any]:
    """A message as vLLM gives it to a template: no content is an empty one, and a text is a part where it reads parts."""
    text = message["content"]
    if parts and message["role"] != "tool":
        return {**message, "content": [] if text is None else [{"type": "text", "text": text}]}
    return {**message, "content": text or ""}


def traced_messages(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with Traced text, and arguments as the JSON text that APIs send."""
    result = []
    for index, entry in enumerate(messages):
        entry = dict(entry)
        if isinstance(entry["content"], str):
            entry["content"] = Traced.of(entry["content"], Origin("log", part=str(index), text=entry["content"]))
        if "tool_calls" in entry:
            entry["tool_calls"] = [
                {**call, "function": {**call["function"], "arguments": json.dumps(call["function"]["arguments"])}}
                for call in entry["tool_calls"]
            ]
        result.append(entry)
    return result


OURS = {
    kind: (Path(__file__).resolve().parents[2] / "kvtool" / "text" / "templates" / f"{kind}.jinja").read_text(
        encoding="utf-8"
    )
    for kind in ("tekken", "chatml")
}
TEMPLATES = {
    "llama3": LLAMA3,
    "chatml": CHATML,
    "mistral": MISTRAL,
    "parts": PARTS,
    "our tekken": OURS["tekken"],
    "our chatml": OURS["chatml"],
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_rendering_is_that_of_jinja_itself(name: str) -> None:
    template = ChatTemplate(name, TEMPLATES[name], TOKENS)

    @given(st.lists(message, max_size=6), st.booleans())
    def check(messages: list[dict[str, Any]], with_tools: bool) -> None:
        tools = TOOLS if with_tools else None
        given_messages = traced_messages(messages)
        try:
            expected = by_jinja(TEMPLATES[name], [as_served(each, parts=name == "parts") for each in messages], tools)
        except (TemplateError, TypeError):
            with pytest.raises(KvtoolError):
                template.render(given_messages, tools)
            return
        text = template.render(given_messages, tools)
        assert text == expected
        assert sum(mark.length for mark in text.marks) == len(text)
        assert all(mark.origin is not None for mark in text.marks)

    check()


def test_all_text_of_a_message_leads_back_to_it() -> None:
    for name in ["llama3", "chatml", "mistral", "our tekken", "our chatml"]:
        template = ChatTemplate(name, TEMPLATES[name], TOKENS)
        words = ["Be brief.", "What is up?", "All is well.", 'a "quoted" result', "Thanks!"]
        roles = ["system", "user", "assistant", "tool", "user"]
        messages = traced_messages([{"role": role, "content": text} for role, text in zip(roles, words, strict=True)])
        text = template.render(messages, TOOLS)
        for index, word in enumerate(words):
            written = word if word in text else json.dumps(word)[1:-1]
            start = text.index(written)
            for at in range(start, start + len(written)):
                origin, _ = text.at(at)
                assert origin is not None
                assert (origin.path, origin.part) == ("log", str(index))
        first = text.at(text.index("Be"))
        assert first[1] == 0


def test_arguments_of_tool_calls_keep_their_origin() -> None:
    arguments = Traced.of('{"city": "Oslo"}', Origin("log", line=7, column=3, verbatim=False))
    call = {"type": "function", "function": {"name": "look", "arguments": arguments}}
    text = ChatTemplate("t", OURS["tekken"], TOKENS).render(
        [{"role": "assistant", "content": None, "tool_calls": [call]}]
    )
    origin, _ = text.at(text.index("Oslo"))
    assert origin is not None
    assert origin.position(0) == (7, 3)


def test_arguments_that_are_no_object_are_none_for_a_template() -> None:
    for arguments in ['{"cut', "", "[1]", None, 7]:
        call = {"type": "function", "function": {"name": "look", "arguments": arguments}}
        text = ChatTemplate("t", "{{ messages[0].tool_calls[0].function.arguments|tojson }}", {}).render(
            [{"role": "assistant", "tool_calls": [call]}]
        )
        assert text == "{}"


def test_an_image_stands_for_what_it_shows_and_not_for_how_it_is_sent() -> None:
    one, two = ({"type": "image_url", "image_url": {"url": f"https://files.example/{name}.png"}} for name in "ab")
    assert part_text(one) == part_text({**one, "cache_control": {"type": "ephemeral"}}) != part_text(two)
    origin = Origin("log.jsonl", 3, part="messages[0] (user)")
    (stands,) = Traced.of(part_text({**one, "type": Traced.of("image_url", origin)}), origin).marks
    assert stands.origin == origin


def test_content_parts() -> None:
    parts = [
        {"type": "text", "text": "one"},
        {"type": "image_url", "image_url": {"url": "x"}},
        {"type": "input_audio"},
        "two",
        5,
    ]
    messages = [{"role": "user", "content": parts}]
    image = part_text(parts[1])
    assert re.fullmatch("<image:[0-9a-f]{8}>", image)
    assert (
        ChatTemplate("t", CHATML, {})
        .render(messages)
        .startswith(f"<|im_start|>user\none\n{image}\n<audio>\ntwo\n<part><|im_end|>")
    )
    assert f"one;{image};<audio>;two;<part>;" in ChatTemplate("t", PARTS, {}).render(messages)
    seen = ChatTemplate("t", PARTS, {}).render(
        [{"role": "user", "content": "plain"}, {"role": "tool", "content": parts[:1]}]
    )
    assert "plain;" in seen  # vLLM gives such a template parts only,
    assert "<tool>\none\n" in seen  # but never what a tool says
    assert '{"a": 1}' in ChatTemplate("t", CHATML, {}).render([{"role": "tool", "content": {"a": 1}}])


def test_tekken_template_shares_the_tools(tekken: Tokenizer) -> None:
    template = ChatTemplate.load(None, tekken)
    assert template.name == "kvtool/templates/tekken.jinja"
    messages = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]
    tools = '[{"name": "f"}]'
    expected = f"<s>[SYSTEM_PROMPT]S[/SYSTEM_PROMPT][AVAILABLE_TOOLS]{tools}[/AVAILABLE_TOOLS][INST]U[/INST]"
    assert template.render(messages, [{"name": "f"}]) == expected
    later = [*messages, {"role": "assistant", "content": "A"}, {"role": "user", "content": "V"}]
    assert template.render(later, [{"name": "f"}]) == f"{expected}A</s>[INST]V[/INST]"
    calls = [{"id": "i", "function": {"name": "f", "arguments": {"x": 1}}}]
    work = [
        *messages,
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "i", "content": "R"},
    ]
    assert template.render(work).endswith(
        '[TOOL_CALLS][{"name": "f", "arguments": {"x": 1}, "id": "i"}]</s>[TOOL_RESULTS]i[TOOL_CONTENT]R[/TOOL_RESULTS]'
    )
    ids = Renderer(lambda: tekken, lambda _: template).prompt(Turn("g", messages=work)).ids
    assert {1, 2, 3, 4, 7, 8, 9, 17, 18, 19} <= set(ids.tolist())


def test_load_prefers_the_file_then_the_tokenizer(tekken: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "mine.jinja"
    path.write_text("{{ bos_token }}{{ messages|length }}")
    template = ChatTemplate.load(str(path), tekken)
    assert template.render([{"role": "user", "content": "x"}]) == "<s>1"
    assert (template.name, template.source) == (str(path), path.read_text())
    own: Any = SimpleNamespace(name="org/m", chat_template="own {{ x }}", special_tokens={}, is_token=lambda _: False)
    assert ChatTemplate.load(None, own).render([], extra={"x": 1}) == "own 1"
    own.chat_template = None
    assert ChatTemplate.load(None, own).name == "kvtool/templates/chatml.jinja"


def test_bad_template_files(tekken: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(KvtoolError, match="cannot read chat template"):
        ChatTemplate.load(str(tmp_path / "missing.jinja"), tekken)
    path = tmp_path / "bad.jinja"
    path.write_text("fine\n{% if %}")
    with pytest.raises(KvtoolError) as caught:
        ChatTemplate.load(str(path), tekken)
    assert str(caught.value.place) == f"{path}:2:1"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(KvtoolError, match="not UTF-8"):
        ChatTemplate.load(str(path), tekken)
    path.write_bytes(b"{# one #}\ncaf\xe9 {{ messages }}")
    with pytest.raises(KvtoolError, match="is not UTF-8: byte 0xe9") as caught:
        ChatTemplate.load(str(path), tekken)
    assert str(caught.value.place) == f"{path}:2:4"


def test_a_refused_message_is_named() -> None:
    template = ChatTemplate("mistral.jinja", MISTRAL, TOKENS)
    messages = traced_messages(
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "system", "content": "c"}]
    )
    messages[2]["content"] = Traced.of("c", Origin("log.jsonl", line=4, column=9))
    with pytest.raises(
        KvtoolError, match=r"refuses message 2 \(role 'system'\): only the first message may be"
    ) as caught:
        template.render(messages)
    assert str(caught.value.place) == "log.jsonl:4:9"


def test_unknown_role_is_refused(tekken: Tokenizer) -> None:
    for kind in OURS.values():
        with pytest.raises(KvtoolError, match=r"message 0 \(role 'critic'\)"):
            ChatTemplate("t", kind, TOKENS).render([{"role": "critic", "content": "x"}])


def test_a_message_that_is_no_object() -> None:
    wrong: Any = ["hello"]
    with pytest.raises(KvtoolError, match='not "hello"'):
        ChatTemplate("t", CHATML, TOKENS).render(wrong)


def test_date_of_a_template_is_the_same_every_day() -> None:
    template = ChatTemplate("t", "{{ strftime_now('%Y-%m-%d') }}", {})
    assert template.render([]) == "2025-01-01"


def test_renderer_takes_every_kind_of_turn(tekken: Tokenizer) -> None:
    renderer = Renderer(lambda: tekken, lambda tokenizer: ChatTemplate.load(None, tokenizer))
    ids = np.array([5, 6], np.int32)
    assert renderer.prompt(Turn("g", token_ids=ids)).ids.tolist() == [5, 6]
    text = renderer.prompt(Turn("g", text=Traced.of("hello", Origin("f", line=3))))
    assert text.ids[0] == 1
    assert text.char_range(1) == (0, 5)
    assert text.text is not None
    assert text.text.at(0)[0] == Origin("f", line=3)
    with pytest.raises(ValueError, match="block hashes"):
        renderer.prompt(Turn("g", hashed=HashedPrompt([1], 16, 16)))


def test_tau_bench_transcripts_render(tekken: Tokenizer) -> None:
    if not TAU.is_file():
        pytest.skip(f"{TAU} is not here")
    renderer = Renderer(lambda: tekken, lambda tokenizer: ChatTemplate.load(None, tokenizer))
    records = json.loads(TAU.read_bytes())[:25]
    for record in records:
        messages = traced_messages(
            [entry for entry in record["traj"] if "tool_calls" not in entry or not entry["tool_calls"]]
        )
        prompt = renderer.prompt(Turn("g", messages=messages))
        assert prompt.text is not None
        last = messages[-1]["content"]
        token = prompt.token_at(prompt.text.rindex(last) + len(last) - 1)
        found = prompt.char_range(token)
        assert found is not None
        origin, _ = prompt.text.at(found[0])
        assert origin is not None
        assert origin.part == str(len(messages) - 1)
        raw = renderer.prompt(Turn("g", messages=record["traj"]))
        assert tekken.decode(raw.ids) == raw.text


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("{% for m in messages %}{{ m.content }}{% endfor %}", False),
        ("{% for m in messages %}{% for c in m.content %}{{ c.text }}{% endfor %}{% endfor %}", True),
        ("{% for m in messages %}{% for c in m['content'] | list %}{{ c.text }}{% endfor %}{% endfor %}", True),
        ("{% set rest = messages[1:] %}{% for m in rest %}{% for c in m.content %}{% endfor %}{% endfor %}", True),
        ("{% set m = messages[0] %}{% for c in m.content %}{% endfor %}", False),  # an item is not followed
        ("{% for m in messages %}{% set content = m.content %}{% for c in content %}{% endfor %}{% endfor %}", True),
        ("{% for m in messages %}{% set text = m.content %}{% for c in text %}{% endfor %}{% endfor %}", False),
        (SHOW + "{% for m in messages %}{{ show(m.content) }}{% endfor %}", True),
        (SHOW + "{% for m in messages %}{{ show(x=m.content) }}{% endfor %}", True),
        (SHOW + "{% for m in messages %}{{ show(1, m.content) }}{% endfor %}", False),
        ("{% macro show(content) %}{% for c in content %}{% endfor %}{% endmacro %}{{ show(messages[0].content) }}", False),
        ("{% for a, b in messages %}{% endfor %}{% for c in content %}{% endfor %}", False),
        ("{% set a, b = messages %}{% for c in content %}{% endfor %}", False),
        ("{% set a = messages %}{% set messages = a %}{% for m in a %}{% for c in m.content %}{% endfor %}{% endfor %}", True),
        ("{% for m in messages %}{% for a, b in m.content %}{% endfor %}{% for c in m.content %}{% endfor %}{% endfor %}", False),
    ],
)  # fmt: skip
def test_which_templates_read_parts(source: str, parts: bool) -> None:
    assert compile_template(source, chat=True).reads_parts is parts


def test_a_template_that_knows_no_developer_gets_one_system_message() -> None:
    said = [
        {"role": "developer", "content": "one"},
        {"role": "user", "content": "hi"},
        {"role": "system", "content": ["two"]},
    ]
    source = "{% for m in messages %}{{ m.role }}={{ m.content }};{% endfor %}"
    assert ChatTemplate("t", source, {}).render(said) == "system=one\n\ntwo;user=hi;"
    assert ChatTemplate("t", source + "{# 'developer' #}", {}).render(said).startswith("developer=one;user=hi;")
    assert ChatTemplate("t", source, {}).render(said[:2]) == "system=one;user=hi;"
    parted = "{% for m in messages %}{{ m.role }}={% for c in m.content %}{{ c.text or c }}{% endfor %};{% endfor %}"
    assert ChatTemplate("t", parted, {}).render(said) == "system=one\n\ntwo;user=hi;"


@pytest.fixture(scope="module")
def hosted() -> tuple[Tokenizer, ChatTemplate]:
    tokenizer = load_tokenizer(None)
    return tokenizer, ChatTemplate.hosted(tokenizer)


@given(answer=st.from_regex(r"[ab7!](?:[ab. \n/é7!]{0,9}[aé7])?", fullmatch=True))
def test_an_answer_has_the_same_tokens_in_the_next_prompt_of_a_hosted_model(
    answer: str, hosted: tuple[Tokenizer, ChatTemplate]
) -> None:
    """Else each answer would be a difference that nobody made. (A last sign may be one token with the line break after it.)"""
    tokenizer, template = hosted
    ask = {"role": "user", "content": "Is it open?"}
    before = tokenizer.encode(template.render([ask]), add_special_tokens=False).ids.tolist()
    given = tokenizer.encode_ids(answer.rstrip("!")).tolist()
    replies = [{"role": "assistant", "content": answer}, ask]
    after = tokenizer.encode(template.render([ask, *replies]), add_special_tokens=False).ids.tolist()
    sent = [*before, *given]
    assert after[: len(sent)] == sent
