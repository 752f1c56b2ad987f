"""What nothing is known of is told where a prompt is written around it, not where it is a setting in a line of the rules."""

from __future__ import annotations

from kvtool.results.finding import Finding
from tests.lint.found import jinja_file, static_findings, text_template

RULES = "Keep to the tide table. " * 30
ABOVE = "Rules of the harbour\n\nThe harbour is small.\n"


def found(text: str) -> list[Finding]:
    return static_findings("a.txt", text, [text_template("a.txt", text, "format")], len, block_size=16, least=16)


AROUND = {
    "a line of its own": f"{ABOVE}- **My ship:**\n  {{ship}}\n\n{RULES}",
    "between quotes": f'{ABOVE}"""{{ship}}"""\n{RULES}',
    "in a tag": f"{ABOVE}The ship: <ship>{{ship}}</ship>\n{RULES}",
    "in the first sentence": f"Find a berth for `{{ship}}`.\n\n{RULES}",
    "at the beginning": f"{{ship}}: {RULES}",
}
SET_UP = {
    "in a line of rules": f"{ABOVE}Berth up to {{ship}} at a time.\n{RULES}",
    "in a list of rules": f"{ABOVE}2. The closing mark: {{ship}}\n{RULES}",
    "as one of several": f"{ABOVE}**Kind:** <one of: {{ship}}>\n{RULES}",
    "who the model is": f"You are the pilot of {{ship}}.\n\n{RULES}",
}


def test_what_a_prompt_is_written_around_is_told_if_it_may_differ() -> None:
    for text in AROUND.values():
        (told,) = found(text)
        assert (told.severity, told.code) == ("info", "KV201")
        assert told.message.startswith("`ship` may change per request")


def test_a_value_in_a_line_of_the_rules_is_told_only_if_its_use_says_that_it_varies() -> None:
    for text in SET_UP.values():
        assert not found(text)
        (told,) = found(text.replace("ship", "question"))
        assert told.message.startswith("`question` (new text per request, by its use)")


def test_the_rows_of_a_list_are_told() -> None:
    rows = f"{ABOVE}{{% for ship in ships %}}- {{{{ ships }}}}\n{{% endfor %}}\n{RULES}"
    told = static_findings("a.j2", rows, [jinja_file("a.j2", rows)], len, block_size=16, least=16)
    assert [one.message.partition(" ")[0] for one in told] == ["`ships`"]


def test_each_branch_is_read_by_itself() -> None:
    one = (
        f"{ABOVE}{{% if a %}}Berth up to {{{{ ship }}}} at a time.{{% else %}}\n{{{{ boat }}}}\n{{% endif %}}\n{RULES}"
    )
    told = static_findings("a.j2", one, [jinja_file("a.j2", one)], len, block_size=16, least=16)
    assert [found.message.partition(" ")[0] for found in told] == ["`boat`"]


def test_what_is_judged_was_asked_with_what_is_answered() -> None:
    between = "Here is what the first of the two of them says:"
    judged = f"You compare answers.\n\n[Question]\n{{instruction}}\n\n{between}\n{{output_1}}\n\n{RULES}"
    (told,) = found(judged)
    assert told.message.startswith("`instruction` (new text per request, by its use)")
    (told,) = found(judged.replace("{instruction}", "{instructions}"))
    assert told.message.startswith("`output_1`")
    assert not found(judged.replace("{output_1}", "it"))
