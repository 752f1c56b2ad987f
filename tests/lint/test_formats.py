"""Prompts in the files of frameworks: each format is known by what is in it, and places are those of the file as it is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kvtool.errors import KvtoolError
from kvtool.lint.formats.prompt_formats import FORMATS, ReadPrompts, may_hold_prompts, prompt_nodes, read_prompts
from kvtool.text.files.json_nodes import parse_json_nodes
from kvtool.text.files.yaml_characters import WrittenCharacters
from kvtool.text.files.yaml_document import parse_yaml_data
from kvtool.text.files.yaml_nodes import Mapping, Scalar
from tests.files import write
from tests.lint.found import static_findings

RULES = "Answer from the handbook only, say which page it was, be kind, and tell what happens next. " * 6
Lint = Callable[..., tuple[int, str, str]]
DUMPED = (
    '{"lc": 1, "kwargs": {"messages": [{"lc": 1, "kwargs": {"prompt": {"kwargs": {"template_format": "jinja2",'
    f' "template": "At\\n\\u00e9 [[{{{{ now }}}}]] {RULES}"}}}}}}}}]}}}}'
)
LOOK = (
    'function Look(text: string) -> string {\n  prompt #"\n    {{ _.role("system") }}\n    See [[{{ text }}]]\n'
    f'    {RULES}\n    {{{{ ctx.output_format }}}}\n  "#\n}}\n'
)
SAMPLES: dict[str, tuple[str, str, str]] = {
    # name of the file: its format, its text, where `[[…]]` marks what is found, and by which code
    "review.toml": (
        "TOML",
        f'[review]\nlevel = 3\nuser = """\nReview this: [[{{{{ diff }}}}]]\n{RULES}"""\nsystem = """You review code."""\n',
        "KV201",
    ),
    "prompts.toml": (
        "TOML",
        f'[prompts]\nname = "a"\nsummary = """\nSOURCE CODE: [[{{0}}]]\n{RULES}"""\n',
        "KV201",
    ),
    "saved.yaml": (
        "LangChain",
        f"_type: prompt\ninput_variables: [question]\ntemplate: 'Say it: [[{{question}}]] {RULES}'\n",
        "KV201",
    ),
    "few.json": (
        "LangChain",
        json.dumps(
            {"_type": "few_shot", "prefix": "Ünder {now}", "suffix": f"\n{RULES}", "input_variables": ["now"]},
            ensure_ascii=False,
        ).replace("{now}", "[[{now}]]"),
        "KV101",
    ),
    "dumped.json": ("LangChain", DUMPED, "KV101"),
    "index.json": (
        "LlamaIndex",
        f'{{"template_vars": ["query_str"],\n "template": "Q: [[{{query_str}}]]\\n{RULES}"}}',
        "KV201",
    ),
    "story.yaml": (
        "Semantic Kernel",
        f"name: story\ntemplate: |\n  Tell of [[{{{{topic}}}}]].\n  {RULES}\ntemplate_format: handlebars\n",
        "KV201",
    ),
    "promptfooconfig.yaml": (
        "promptfoo",
        f"providers: [echo]\nprompts:\n  - >-\n    Translate\n    [[{{{{ text }}}}]]\n    {RULES}\n",
        "KV201",
    ),
    "help.prompty": (
        "Prompty",
        f"---\nname: help\n---\nsystem:\nIt is [[{{{{ now }}}}]]. {RULES}\nuser:\n{{{{ question }}}}\n",
        "KV101",
    ),
    "look.baml": ("BAML", LOOK, "KV201"),
    "mini.yaml": (
        "agent templates",
        f"agent:\n  system_template: You code.\n  instance_template: |\n    Please solve [[{{{{task}}}}]]\n\n    {RULES}\n",
        "KV201",
    ),
    "smol.yml": (
        "agent templates",
        f"system_prompt: |-\n  You work for [[{{{{ session_id }}}}]].\n  {RULES}\nplanning:\n  initial_plan: Plan.\n",
        "KV104",
    ),
    "agents.yaml": (
        "CrewAI",
        f"writer:\n  goal: Write.\n  role: >\n    Writer on\n    [[{{topic}}]]\n  backstory: {RULES}\n",
        "KV201",
    ),
    "chat.yaml": (
        "messages",
        f"- role: system\n  content: \"It's [[{{{{ now }}}}]] \\\n    o'clock. {RULES}\"\n- role: user\n  content: '{{{{ q }}}}'\n",
        "KV101",
    ),
    "decide_agent.yaml": (
        "texts with placeholders",
        f"prompts:\n  user:\n    rules: '{RULES}'\n  system:\n    memory: |\n      It was so:\n      [[{{_memory.read}}]]\n",
        "KV201",
    ),
    "own.yaml": (
        "texts with placeholders",
        f"texts:\n  summary_prompt: 'Don''t tell [[{{user_id}}]] of\n    it. {RULES}'\n",
        "KV104",
    ),
}


def unmarked(text: str) -> tuple[str, int, int, int]:
    """The text of a sample, and line, column and width of what is marked in it."""
    before, _, rest = text.partition("[[")
    inside, _, after = rest.partition("]]")
    return before + inside + after, before.count("\n") + 1, len(before) - before.rfind("\n"), len(inside)


@pytest.fixture
def lint(in_folder: Lint) -> Lint:
    """Runs `kvtool lint`."""
    return partial(in_folder, "lint")


def document(lint: Lint, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lint(*arguments, "--json", "--no-cache")[1])
    return found


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_is_read_as_what_it_is(lint: Lint, name: str) -> None:
    form, marked, code = SAMPLES[name]
    text, line, column, width = unmarked(marked)
    read = read_prompts(name, text)
    assert read is not None
    assert read.format == form
    write(name, text)
    for arguments in ((name,), (".",)):
        found = document(lint, *arguments)
        assert [one["path"] for one in found["inputs"]] == [name]
        first = found["findings"][0]
        assert (first["code"], first["line"], first["column"], first["width"]) == (code, line, column, width)
        assert found["problems"] == []


def test_every_format_has_a_sample_and_an_example_that_it_reads() -> None:
    missing = {each.name for each in FORMATS} - {form for form, _, _ in SAMPLES.values()}
    assert missing == {"DSPy"}  # where nothing varies
    for each in FORMATS:
        read = read_prompts(f"a{each.suffixes[0]}", each.example)
        if each.name != "texts with placeholders":  # which are long
            assert read is not None
            assert read.format == each.name


def test_of_a_saved_program_all_stands_before_the_inputs(lint: Lint) -> None:
    program = {"predict": {"signature": {"instructions": f"Say {{this}}. {RULES}"}, "demos": [{"q": "a", "a": "b"}]}}
    write("program.json", json.dumps(program))
    found = document(lint, "program.json")
    assert found["findings"] == []
    assert "DSPy: nothing to report" in found["inputs"][0]["note"]


def test_files_that_a_configuration_names_are_read_once(lint: Lint) -> None:
    write("c/promptfooconfig.yaml", "prompts: [file://p/answer.txt, file://../out.txt, 'p/gone.txt']\ntests: []\n")
    write("c/p/answer.txt", f"Q: {{{{ question }}}}\n{RULES}")
    write("out.txt", f"{{{{ now }}}} {RULES}")
    for arguments in (("c",), ("c/promptfooconfig.yaml",), ("c/promptfooconfig.yaml", "c/p/answer.txt")):
        found = document(lint, *arguments)
        assert [(one["path"], one["code"]) for one in found["findings"]] == [("c/p/answer.txt", "KV201")]


def test_what_is_nothing_of_it_is_told_where_it_was_named_and_else_passed_over(lint: Lint) -> None:
    write("values.yaml", "image: {tag: '{{ x }}'}\ntemplate: name\n")
    code, out, err = lint("values.yaml")
    assert (code, err) == (0, "")
    assert "no workload (no `groups:`)" in out
    write("a.j2", "Hello.")
    assert lint(".", "--no-cache")[1] == "no findings in 1 input; 1 file without prompts skipped\n"


def test_a_workload_a_log_and_a_half_workload_stay_what_they_are(lint: Lint) -> None:
    write("w.yaml", "version: 1\nprompt: x\n")
    assert lint("w.yaml")[0] == 2
    write("log.json", json.dumps([{"messages": [{"role": "user", "content": "What is {x}?"}]}] * 3))
    assert document(lint, "log.json")["inputs"][0]["kind"] == "logs"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("broken.yaml", 'prompt: "a {x}\n'),
        ("broken.prompty", "---\n---\n{{ a b }} {{ }"),
        ("tag.yaml", "system_prompt: {{ now }} x\nplanning: {}\n"),
        ("deep.json", '{"prompts": ' + "[" * 3000 + ' "{{x}}" '),
    ],
)
def test_one_bad_file_is_told_and_the_others_are_judged(lint: Lint, name: str, text: str) -> None:
    write(name, text)
    write("good.j2", f"{{{{ now }}}} {RULES}")
    write("later.py", "match x:\n  case 1 if: pass\n")
    write("blank.py", "\n\n")
    code, out, err = lint(".", "--no-cache")
    assert code == 2
    assert "good.j2:1:1: KV101" in out
    assert f"{name}:" in err
    assert "later.py:2" in err
    assert "blank.py" not in err
    assert "Traceback" not in err


def test_comments_ignore_in_every_format_that_has_some(lint: Lint) -> None:
    clock, asked = ("kvtool: ignore[KV101] by design", "kvtool: ignore[KV201] by design")
    write("a.yaml", f"# {clock}\nsummary_prompt: 'It is {{now}}. {RULES}'\n")
    write("b.prompty", f"---\nname: b\n---\n{{{{ now }}}} {{# {clock} #}} {RULES}")
    write(
        "c.baml",
        f'prompt #"\n  {{# {clock} #}}\n  {{{{ now }}}} {RULES}\n"#\n// {asked}\nprompt #"{{{{ text }}}} {RULES}"#\n',
    )
    write("d.yaml", f"system_template: |\n  {{{{ now }}}} {{# {clock} #}}\n  {RULES}\n")
    write("e.yaml", f"- {{role: system, content: '{{{{ now }}}} {RULES}'}}  # {clock}\n")
    write("skprompt.txt", f"{{{{! {asked} }}}}\n{{{{$input}}}}\n{RULES}")
    found = document(lint, ".")
    assert (found["findings"], found["ignored"]) == ([], 7)


def test_sarif_has_the_region_of_text_of_several_bytes(lint: Lint) -> None:
    write("ü.yaml", f'summary_prompt: "日本 😀 {{session_id}} \\u00e9 {RULES}"\n')
    lint(".", "-o", "out.sarif", "--no-cache")
    (result,) = json.loads(Path("out.sarif").read_text(encoding="utf-8"))["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["region"] == {"startLine": 1, "startColumn": 23, "endColumn": 35}


# Evidence, without which a file is not parsed


def test_a_file_without_evidence_is_not_parsed() -> None:
    for suffix, text, held in [
        (".yaml", "a: 1\n", False),
        (".yaml", "steps:\n  - run: make\n", False),
        (".json", '{"name": "x", "scripts": {}}', False),
        (".yaml", "my_prompt: 'Tell {name} of it'", True),
        (".json", '{"prompts": ["{{x}}"]}', True),
        (".baml", "class A {}", False),
    ]:
        assert may_hold_prompts(suffix, text) is held


def test_other_yaml_holds_no_prompts() -> None:
    for text in [
        "openapi: 3.0.0\npaths:\n  /users/{id}:\n    get: {summary: 'Reads a user by {id}.'}\n",
        "on: push\njobs:\n  a:\n    steps:\n      - run: echo ${{ github.sha }} and then go on with all the rest\n",
        "- name: copy\n  template: {src: a.j2, dest: '/etc/{{ name }}'}\n",
        "query: |\n  SELECT * FROM t WHERE x = '{now}' and a and b and c and d and e and f and g and h and i\n",
    ]:
        assert read_prompts("some.yaml", text) is None


def test_instructions_may_show_code_that_other_texts_are_made_of() -> None:
    code = "def age(params):\n    return params\n\nexport AGE=1\n"
    told = f"It is about {{main_task}}. {RULES}\n"

    def read(key: str, text: str) -> ReadPrompts | None:
        return read_prompts("agent.yaml", yaml.safe_dump({key: text}))

    assert read("instructions", told + code) is not None
    assert read("content", told + code) is None
    assert read("instructions", code + told) is None


def test_texts_with_placeholders_in_json(lint: Lint) -> None:
    held = {
        "names": ["a {b} c"],
        "summary_prompt": f"It is {{now}} at the quay. {RULES}",
        "note": f"No {{now}}. {RULES}",
    }
    write("texts.json", json.dumps(held, indent=1))
    findings = document(lint, "texts.json")["findings"]
    assert [(one["code"], one["line"]) for one in findings] == [("KV101", 5)]
    assert read_prompts("locale.json", json.dumps({"hello": {"text": "Hello {name}, you have {n} messages."}})) is None


def test_a_request_in_sections_is_one_prompt() -> None:
    texts = {"user": {"what": "Question:\n{question}\n", "how": RULES}, "system": {"who": "You decide."}}
    read = read_prompts("some.yaml", yaml.safe_dump(texts))
    assert read is not None
    (prompt,) = read.prompts
    assert [str.__str__(part.text) for part in prompt] == ["You decide.", RULES, "Question:\n{question}\n"]  # as dumped
    assert read_prompts("some.yaml", yaml.safe_dump({"system": {"os": "{name}"}, "user": "me"})) is None
    assert read_prompts("some.yaml", yaml.safe_dump({"user": texts["user"]})) is None


def test_parts_of_a_request_are_one_prompt_in_their_order() -> None:
    parts = {
        "system": "You keep the ledger.",
        "introduction": "Judge the questions on {{topic}}.",
        "principles": RULES,
        "examples": "Question: What is high?",
        "start_tags": ["[Start]"],
        "generation": "{{question}}",
    }
    read = read_prompts("some.yaml", yaml.safe_dump(parts, sort_keys=False))
    assert read is not None
    (prompt,) = read.prompts
    assert [str.__str__(part.text) for part in prompt] == [text for text in parts.values() if isinstance(text, str)]
    read = read_prompts(
        "prompts.yaml", yaml.safe_dump({"examples": f"{{{{topic}}}} {RULES}", "task": f"{{{{x}}}} {RULES}"})
    )
    assert read is not None
    assert len(read.prompts) == 2, "two whole prompts, not one"


def test_a_text_beside_its_variables_is_a_prompt() -> None:
    for declared, found in [
        ({"parameters": ["wharf", "question"]}, True),
        ({"variables": {"question": "text"}}, True),
        ({"inputs": [{"name": "question", "type": "string"}]}, True),
        ({"parameters": ["wharf"]}, False),
        ({}, False),
    ]:
        held = {
            **declared,
            "description": f"Asks {{question}}. {RULES}",
            "value": f"Asked is {{{{ question }}}}. {RULES}",
            "kind": "template",
        }
        read = read_prompts("some.yaml", yaml.safe_dump(held))
        texts = [str.__str__(part.text)[:8] for prompt in (read.prompts if read else ()) for part in prompt]
        assert texts == (["Asked is"] if found else [])


def test_lists_of_messages_below_a_key_are_one_prompt_each() -> None:
    for held in ["content", "template", "text"]:
        for name in ["judge", "en"]:
            messages = [
                {"role": "system", held: f"Asked is {{question}}. {RULES}"},
                {"role": "user", held: "Now answer."},
            ]
            read = read_prompts(
                "some.yaml", yaml.safe_dump({"prompts": {name: messages, "other": [*map(dict, messages)]}})
            )
            assert read is not None
            assert [len(prompt) for prompt in read.prompts] == [2, 2]
            assert read_prompts("some.yaml", yaml.safe_dump({"log": [{"role": "user", held: "{a} and more"}]})) is None


# Places


ALPHABET = st.sampled_from([*"abc {}:#'\"\\-\n\t ", "é", "日", "😀", "{x}", "\n\n", "  "])


def check_places(source: str, value: str, found: Scalar) -> None:
    """Each character stands where it says, but for what is written as an escape or is made of a fold."""
    assert found.value == value
    traced = WrittenCharacters("f", source).traced(found)
    assert str.__str__(traced) == value
    lines = source.split("\n")
    for index, character in enumerate(value):
        origin, offset = traced.at(index)
        assert origin is not None
        line, column = origin.position(offset)
        written = lines[line - 1][column - 1 : column]
        assert written in (character, "\\", "'") or character in " \n" or not origin.verbatim
        if character not in " \n\t'\"\\" and character.isascii():
            assert written == character


@given(
    value=st.lists(ALPHABET, min_size=1, max_size=40).map("".join), style=st.sampled_from(["|", ">", "'", '"', None])
)
def test_every_character_of_a_yaml_value_has_its_place(value: str, style: str) -> None:
    source = yaml.dump({"a": [{"key": value}]}, default_style=style, allow_unicode=True, width=20)
    root = parse_yaml_data(source, "f")
    assert isinstance(root, Mapping)
    scalars: list[Scalar] = [node for node in _scalars(root) if node.value == value]
    check_places(source, value, scalars[-1])


@given(value=st.lists(ALPHABET, min_size=1, max_size=40).map("".join), ascii_only=st.booleans())
def test_every_character_of_a_json_value_has_its_place(value: str, ascii_only: bool) -> None:
    source = json.dumps({"a": [1, {"key": value}]}, ensure_ascii=ascii_only, indent=1)
    check_places(source, value, _scalars(parse_json_nodes(source, "f"))[-1])


def _scalars(node: object) -> list[Scalar]:
    if isinstance(node, Scalar):
        return [node]
    inner = getattr(node, "items", None)
    values = inner if isinstance(inner, list) else list(getattr(node, "values", {}).values())
    return [scalar for value in values for scalar in _scalars(value)]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_json_is_read_as_it_is(value: object) -> None:
    def plain(node: object) -> object:
        if isinstance(node, Mapping):
            return {key: plain(inner) for key, inner in node.values.items()}
        if isinstance(node, Scalar):
            return node.value if node.style else json.loads(node.value)
        return [plain(inner) for inner in getattr(node, "items", [])]

    assert plain(parse_json_nodes(json.dumps(value), "f")) == value


def test_what_is_no_json_has_a_place() -> None:
    for text in ["", "{", "[1,]", '{"a" 1}', '{"a": }', '"\\x"', "[1] 2", "{'a': 1}", '["a\n']:
        with pytest.raises(KvtoolError) as error:
            parse_json_nodes(text, "f.json")
        assert error.value.place is not None
        assert error.value.place.line


@given(
    st.text(alphabet="{}$%#/ax \n'\"|:>-", max_size=60),
    st.sampled_from(sorted({s for f in FORMATS for s in f.suffixes})),
)
def test_hostile_files_are_read_or_refused(text: str, suffix: str) -> None:
    start = {".json": '{"prompts": ["{{x}}"], "tests": "', ".baml": 'prompt #"'}.get(suffix, "system_prompt: |\n  {x} ")
    try:
        read = read_prompts(f"p{suffix}", start + text)
        for prompt in read.prompts if read is not None else ():
            static_findings("p", text, [prompt_nodes(prompt)], len, block_size=16, least=1)
    except KvtoolError as error:
        assert error.place is not None  # noqa: PT017 - most texts raise nothing


def test_a_number_of_thousands_of_digits_is_no_prompt() -> None:
    text = f'level = {"9" * 5_000}\nuser = """\nReview this: {{{{ diff }}}}\n{RULES}"""\n'
    assert read_prompts("review.toml", text) is None
