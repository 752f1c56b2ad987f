"""What a placeholder holds: by its name, by its use, or in doubt."""

from __future__ import annotations

import pytest

from kvtool.config.asked_run import RunOptions
from kvtool.lint.evidence.placeholders import placeholder
from kvtool.lint.file_findings import Finder
from kvtool.lint.formats.mustache import mustache_nodes
from kvtool.lint.lint_inputs import TextInput
from kvtool.lint.skeleton import Choice, Hole, TemplatePlace
from kvtool.results.finding import Finding
from kvtool.text.tokens.tokenizer import Tokenizers
from kvtool.text.traced import Origin, Traced
from tests.lint.found import jinja_file, static_findings, text_template

RULES = "x" * 300
SPOT = TemplatePlace("p", 1, 1, 1)


def jinja(text: str) -> list[Finding]:
    return static_findings("a.j2", text, [jinja_file("a.j2", text)], len, block_size=16, least=16)


@pytest.mark.parametrize(
    ("line", "code"), [("Request {{ id }}", "KV102"), ("Trace id: {{ id }}", "KV102"), ("Product {{ id }}", "")]
)
def test_the_word_before_an_id_says_whose_it_is(line: str, code: str) -> None:
    """A run sees new values under that label; without one, the label says the same."""
    assert "".join(finding.code for finding in jinja(f"Be kind.\n{line}\n{RULES}")) == code


def test_a_name_says_how_sure_it_is() -> None:
    for names, code, doubt in [
        ("now current_date session_id user.email requestId", ("KV101", "KV104", "KV102"), ""),
        (
            "task question user_input query_str context history docs state.inputs.task userMessage text",
            ("KV201",),
            "use",
        ),
        (
            (
                "past_triples previous_code last_code_generated current_status text_input_for_titles"
                " text_to_process joined_abstracts paper_abstract section_description step_description user_docs candidates"
            ),
            ("KV201",),
            "use",
        ),
        (
            "company_name product audience agent_answer last_name current_agent product_for_questions",
            ("KV201",),
            "open",
        ),
    ]:
        for name in names.split():
            hole = placeholder(name, SPOT)
            assert hole is not None
            assert hole.kind.code in code
            assert (name, hole.doubt) == (name, doubt)


def test_what_a_program_or_a_deployment_is_made_of_does_not_vary() -> None:
    for name in [
        "format_instructions", "ctx.output_format", "bos_token", "language", "tools", "system_prompt",
        "instructions.message", "config.limit", "entity_types", "no_response", "error_message", "command_docs",
        "tool_documentation", "api_docs_text",
    ]:  # fmt: skip
        assert placeholder(name, SPOT) is None


@pytest.mark.parametrize(("path", "text"), [("a.j2", "{{ draft }} "), ("a.md", "{draft} ")])
def test_a_template_is_told_from_less_text_on_where_all_of_that_is_always_there(path: str, text: str) -> None:
    find = Finder(RunOptions(inputs=[path]), Tokenizers(offline=True))
    style = "jinja" if path == "a.j2" else "format"
    rule = "Say which of the boats of the harbour it is about. "  # 11 tokens

    def found(rules: int) -> list[Finding]:
        return find(TextInput(path, text + rule * rules, "template" if style == "jinja" else "text", style))

    assert [one.severity for one in found(7)] == ["info"]
    assert found(4) == []
    if style == "jinja":
        half = "{% if a %}" + rule * 2 + "{% endif %}"
        assert find(TextInput(path, text + rule * 4 + half, "template", style)) == []


def test_what_is_asked_is_a_warning_at_most_and_counted() -> None:
    (found,) = jinja(f"Please solve this issue: {{{{ task }}}}{RULES}")
    assert (found.code, found.severity, found.column, found.tokens_lost) == ("KV201", "warning", 26, 300)
    assert "by its use" in found.message
    assert jinja(f"{RULES}Please solve this issue: {{{{ task }}}}") == []


def test_what_nothing_tells_of_is_one_finding_of_a_file() -> None:
    text = "".join(f"{{{{ {name} }}}}\n" for name in ("company_name", "product", "audience", "weather", "brand"))
    (found,) = jinja(f"You work for these:\n{text}{RULES}")
    assert (found.code, found.severity, found.line, found.column) == ("KV201", "info", 2, 1)
    assert found.message.startswith(
        "`company_name`, `product`, `audience`, `weather` and 1 more may change per request; then up to 3"
    )
    assert jinja("{{ product }}" + "x" * 60) == []


def test_what_a_program_is_described_by_is_not_told() -> None:
    for name in ["description", "name", "catalog_id", "agent_name", "classification.name", "action_space"]:
        assert jinja(f"Look at {{{{ {name} }}}}.{RULES}") == []
        assert len(jinja(f"Look at {{{{ collection_description }}}} and {{{{ {name} }}}}.{RULES}")) == 1


def test_what_names_say_to_be_of_one_kind_is_one_loss() -> None:
    (found,) = jinja(f"It is {{{{ start_date }}}} to {{{{ end_date }}}}. {RULES}{{{{ current_date }}}} {RULES}")
    assert (found.code, found.column) == ("KV101", 7)
    both = jinja(f"It is {{{{ current_date }}}} for {{{{ session_id }}}}. {RULES}")
    assert [one.code for one in both] == ["KV101", "KV104"]


def test_sections_and_loops_before_constant_text() -> None:
    one, other = (
        jinja(f"{{% if experiment %}}Use them.{{% endif %}} {{% if a %}}b{{% elif c %}}d{{% endif %}}{RULES}"),
        jinja(f"x {{%- for doc in docs -%}}{{{{ doc }}}}{{% endfor %}}{RULES}"),
    )
    assert [(found.code, found.severity, found.column) for found in one] == [("KV107", "warning", 1)]
    assert [(found.code, found.severity, found.column) for found in other] == [("KV201", "warning", 3)]
    assert jinja(f"{RULES}{{% if tools %}}{RULES}{{% endif %}}") == []


def test_parameters_of_a_macro_are_what_it_is_called_with() -> None:
    text = "{% macro item(x) %}- {{ x }}{% endmacro %}{{ item(question) }}" + RULES
    assert [(found.code, found.column) for found in jinja(text)] == [("KV201", text.index("{{ item") + 1)]


def test_a_chat_template_is_asked_for_all_it_shows() -> None:
    text = "{{ bos_token }}{% if tools %}Tools{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}" + RULES
    assert jinja(text) == []


def test_texts_with_names_in_braces() -> None:
    text = f"Q: {{question}}\n{RULES}"
    (found,) = static_findings("a.txt", text, [text_template("a.txt", text, "format")], len, block_size=16, least=16)
    assert (found.code, found.line, found.column, found.width) == ("KV201", 1, 4, 10)


def test_mustache() -> None:
    text = "{{! c }}A {{#if kind}}b {{x}}{{/if}} {{{y}}} {{$input}} {{.Name}} {{> part}} {{else}} e"
    nodes = mustache_nodes(Traced.of(text, Origin("p", text=text)))
    names = [node.what for node in nodes if isinstance(node, Hole)]
    assert names == ["`y`", "`input`", "`Name`"]
    assert [len(node.branches) for node in nodes if isinstance(node, Choice)] == [2]


def test_what_a_program_is_set_up_with_is_no_value_of_a_request() -> None:
    for name in ["max_retries", "step_budget", "version_string", "versionString", "api_version"]:
        assert placeholder(name, SPOT) is None


def test_a_counter_by_its_name_alone_is_no_error() -> None:
    rules = "Be short, be kind, be right, and be quick. " * 40
    (counter,) = jinja("Attempt {{ iteration }}. " + rules)
    (clock,) = jinja("It is {{ now }}. " + rules)
    assert (counter.code, counter.severity) == ("KV105", "warning")
    assert (clock.code, clock.severity) == ("KV101", "error")


def test_a_part_of_the_settings_is_no_user_and_no_folder() -> None:
    for name in ("config.tenant_label", "self.settings.user_name", "cfg.work_dir"):
        assert placeholder(name, SPOT) is None
    told = placeholder("config.current_date", SPOT)
    assert told is not None  # a clock is one wherever it is kept
    assert told.kind.code == "KV101"
    told = placeholder("session.user_name", SPOT)
    assert told is not None
    assert told.kind.code == "KV104"


def test_whatever_is_taken_of_a_clock_changes_with_it() -> None:
    """No list of methods says so: only what a clock says of its zone stays the same."""
    for value, changes in [
        ("now.isocalendar().week", True),
        ("now.timetuple().tm_yday", True),
        ("now.anything().of_it", True),
        ("(now - start).days", True),
        ("now.timetuple().tm_zone", False),
        ("labels().first", False),
    ]:
        codes = [finding.code for finding in jinja(f"Be kind.\nIt is {{{{ {value} }}}}.\n{RULES}")]
        assert codes == ["KV101"] * changes
