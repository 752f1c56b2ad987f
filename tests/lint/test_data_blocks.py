"""What stands where data stands in a prompt is another in each request: behind a label, in a block below a heading or in tags."""

from __future__ import annotations

from kvtool.lint.evidence.prompt_evidence import reads_as
from kvtool.lint.evidence.surrounding_text import label_before, with_data
from kvtool.results.finding import Finding
from tests.lint.found import made_findings, static_findings, text_template

RULES = "Use the words as they are written there, keep their order, and say nothing that is not among them. " * 3


def found(text: str) -> list[Finding]:
    nodes = with_data(text_template("a.md", text + RULES, "format"))
    return static_findings("a.md", text + RULES, [nodes], len, block_size=16, least=16)


def test_a_block_of_data_is_another_in_each_request() -> None:
    for text in [
        "Below are the markers of each cluster:\n\n{actual_markers_all}\n\n",
        "## Human comments\n\n{human_block}\n",
        "**Company**\n{company}\n",
        "<markers>\n{markers_all}\n</markers>\n",
        "Company: {company}\n",
        "## Plot description\n{description}\n",
        "Plot description: {description}\n",
        "- **My information:** {personal_information}\n",
        "\u4ee5\u4e0b\u662f\u5019\u9009\u4eba\uff1a\n{profile}\n",
        "Markers:\n```\n{markers_all}\n```\n",
        "Evaluate the quality of the following review criteria.\n\n## Criteria\n{criteria_json}\n",
    ]:
        (one,) = found(text)
        assert (one.code, one.severity) == ("KV201", "warning")
        assert "by its use" in one.message


def test_what_a_program_is_set_up_with_and_what_stands_in_a_sentence_is_not() -> None:
    for text in [
        "You work for {company} and are kind.\n",
        "Write as {company} would:\n",
        "Available tools:\n{listed}\n",
        "## Description\n{description}\n",
        "Agent description: {description}\n",
        "Evaluation Steps:\n{evaluation_steps}\n",
        "Follow these rules:\n{given_rules}\n",
        "Answer in this format:\n{layout}\n",
        "Below are the tools:\n{tool_list}\n",
        "Company: {company} is the one that you work for.\n",
        "{brand}\n",
        "Evaluate whether this article meets the inclusion criteria.\n\n## Criteria\n{criteria_lines}\n",
        "Evaluate the following answer.\n\n## Criteria\n{criteria_json}\n",
        "Evaluate the following criteria of {criteria_owner} with care.\n",
    ]:
        assert all("by its use" not in one.message for one in found(text))


def test_python_too() -> None:
    code = (
        "def annotation_prompt(markers_all, tone):\n"
        '    return f"""You annotate cells, and write in a {tone} way.\n\nBelow are the markers:\n\n{markers_all}\n\n'
        f'{RULES}"""\n'
    )
    (one,) = made_findings(code)
    assert (one.code, one.line) == ("KV201", 6)


def test_a_place_that_is_filled_by_position_has_the_name_of_its_label() -> None:
    text = f"PROJECT: {{1}}\n\nSOURCE CODE: {{0}}\n\n{RULES}"
    assert label_before(text, text.index("{0}")) == "SOURCE_CODE"
    (one,) = found(text)
    assert one.message.startswith("`PROJECT`")
    assert found(f"Say {{0}} {RULES}") == []  # which nothing tells of
    assert found(f"Match: \\d{{0}}\nCode: x_{{1}}\n{RULES}") == []


def test_an_object_that_a_prompt_takes_apart_is_one_thing_of_many() -> None:
    text = "Document the model {model.label}. It is {model.layer} and of {model.owner}. "
    (one,) = found(text)
    assert one.message.startswith("`model.label` (new text per request")
    for other in ("{model.label} and {model.layer}. ", "{self.a} {self.b} {self.c}. ", "{tool.a} {tool.b} {tool.c}. "):
        assert all("by its use" not in one.message for one in found(f"Document it for {other}"))


def test_a_list_of_unknown_texts_that_is_joined_has_its_name() -> None:
    code = (
        "def split(client, pages):\n"
        "    all_texts = []\n"
        "    for page in pages:\n"
        "        all_texts.append(page.read())\n"
        f"    messages = [{{'role': 'user', 'content': '\\n'.join(all_texts) + '\\n\\n' + {RULES!r}}}]\n"
        "    return client.chat.completions.create(messages=messages)\n"
    )
    (one,) = made_findings(code)
    assert (one.code, one.line) == ("KV201", 5)
    assert made_findings(code.replace("all_texts", "all_tools")) == []


def test_code_that_a_prompt_shows_in_fences_is_no_code() -> None:
    shown = "\n".join(f"<p class='{number}'>" for number in range(20))
    text = (
        f"Act as an expert. Your task is to list what is there. You should say it at once. {RULES}\n```\n{shown}\n```\n"
    )
    assert reads_as(text) > 0
    assert reads_as(shown) < 0


def told_in(code: str) -> list[str]:
    return [f"{one.severity} {one.message.partition(' ')[0]}" for one in made_findings(code)]


def test_a_code_is_a_short_name_or_a_program_and_examples_are_shown() -> None:
    for name, expected in [
        ("language_code", []),
        ("error_code", []),
        ("source_code", ["warning `source_code`"]),
        ("example_queries", []),
        ("user_queries", ["warning `user_queries`"]),
    ]:
        assert told_in(f"PROMPT = {(f'You read of {{{name}}} what it does. ' + RULES * 4)!r}\n") == expected
