"""Which text is to blame for tokens lost: its variable or line, and the place in the file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvtool.diagnose.causes.slot_cause import SlotCause
from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.findings import CLAIM, described, is_candidate, is_declared_stable
from kvtool.diagnose.slots import Slot
from kvtool.text.traced import Origin
from kvtool.workload.logs.files.locations import locate
from kvtool.workload.logs.logs import LogOptions, LogSource
from kvtool.workload.render import Renderer
from kvtool.workload.yaml.yaml_source import load_yaml_workload
from tests.diagnose.made_causes import RULES, account, causes_of, findings, log_of, stamp, workload


def test_a_variable_in_a_message(tmp_path: Path, byte_renderer: Renderer) -> None:
    result = account(workload(tmp_path, "You help.\nIt is {{ now }}.\n" + RULES), byte_renderer)
    (cause,) = result.causes
    assert cause.slot.variable == "now"
    assert (cause.slot.path, cause.slot.line, cause.slot.column) == (str(tmp_path / "w.yaml"), 11, 17)
    assert cause.kind.code == "KV101"
    assert cause.requests == 3  # the first one had nothing to differ from
    assert cause.distinct == 4
    assert cause.excerpt[cause.value_start : cause.value_stop].startswith("20")
    assert cause.excerpt.startswith("It is 20")
    assert cause.blocked == result.ledger.fates()["blocked"]
    # All that follows the differing minute is the same: at least the rules and the question, a token for each byte.
    assert cause.blocked >= 3 * len(f".\n{RULES}\nuser:What is new?\n")
    assert cause.first_token >= len("system:You help.\nIt is ")


def test_its_finding_names_the_place_and_says_what_moving_gives(tmp_path: Path, byte_renderer: Renderer) -> None:
    (finding,) = findings(workload(tmp_path, "You help.\nIt is {{ now }}.\n" + RULES, requests=12), byte_renderer)
    assert (finding.code, finding.severity, finding.group) == ("KV101", "error", "bot")
    assert (finding.path, finding.line, finding.column) == (str(tmp_path / "w.yaml"), 11, 17)
    assert finding.in_source
    assert finding.width == len("{{ now }}")
    assert "`now`" in finding.message
    assert finding.rerun is not None
    assert finding.rerun.group_after > finding.rerun.group_before
    assert RULES not in finding.message + finding.fix


def test_its_sentence_is_right_for_one_and_for_many(tmp_path: Path, byte_renderer: Renderer) -> None:
    """Subject, verb, figures; blocks of one token have no number of their own."""
    for requests, figures in ((2, "2 values and blocks 1 request"), (4, "4 values and blocks 3 requests")):
        source = workload(tmp_path, "It is {{ now }}.\n" + RULES, requests=requests)
        (cause,) = causes_of(source, byte_renderer)
        for size, block in ((1, ""), (4, f", block {cause.first_token // 4}")):
            message = described(cause, CLAIM, place=("w.yaml", 1, 1), block_size=size).message
            head = "variable `now` (timestamp, ISO 8601) stops reuse of the text after it"
            assert message == f"{head}. It has {figures}, first at token {cause.first_token}{block}"


def test_each_of_two_variables_is_blamed_for_its_own_place(tmp_path: Path, byte_renderer: Renderer) -> None:
    """The request number stands first; the topic, further down, is behind it in every prompt and blocks nothing itself."""
    variables = "  number: {counter: 100}\n  topic: {choice: [alpha, beta, gamma]}"
    source = workload(tmp_path, "No. {{ number }}\n" + RULES + "\nOn {{ topic }}.\n" + RULES, variables=variables)
    causes = causes_of(source, byte_renderer)
    assert [(cause.slot.variable, cause.blocked > 0, cause.share > 0) for cause in causes] == [
        ("number", True, True),
        ("topic", False, True),
    ]
    assert causes[0].slot.line == 11
    source = workload(tmp_path, RULES + "\nOn {{ topic }}.\n" + RULES, variables=variables, requests=9)
    (cause,) = causes_of(source, byte_renderer)
    assert (cause.slot.variable, cause.slot.line, cause.slot.column) == ("topic", 12, 14)


def test_two_volatile_lines_are_moved_together(tmp_path: Path, byte_renderer: Renderer) -> None:
    """One behind the other: to move the first one alone gives nothing."""
    variables = "  now: {datetime: 1m}\n  trace: {uuid: 4}"
    rules = "\n".join([RULES] * 4)
    source = workload(tmp_path, "{{ now }}\n{{ trace }}\n" + rules, variables=variables, requests=12)
    first, second = findings(source, byte_renderer)
    assert {(found.code, found.line) for found in (first, second)} == {("KV101", 11), ("KV102", 12)}
    by_code = {found.code: found for found in (first, second)}
    assert by_code["KV101"].tokens_lost > 11 * len(rules), "the first difference is to blame"
    assert by_code["KV102"].tokens_lost == 0, "and each token counts once"
    assert re.search(r"\. After the other fix, it costs up to 2,\d{3} tokens more$", by_code["KV102"].message)
    assert first.severity == second.severity == "error"
    for found in (first, second):
        assert found.rerun is not None
        assert found.rerun.group_after > 0.7 > 0.1 > found.rerun.group_before


def test_two_volatile_lines_of_a_log(tmp_path: Path, byte_renderer: Renderer) -> None:
    rules = "\n".join([RULES] * 4)
    ids = [f"7a1d2f3e-5b6c-4d7e-8f90-{number * 7919:012x}" for number in range(8)]
    contents: list[object] = [f"Now: {stamp(number)}\nId: {ids[number]}\n{rules}" for number in range(8)]
    found = findings(log_of(tmp_path, contents), byte_renderer)
    assert [each.code for each in found] == ["KV101", "KV102"]
    assert found[0].rerun is not None
    assert found[0].rerun.group_after > 0.7


def test_what_a_user_asked_is_not_moved_into_another_message(tmp_path: Path, byte_renderer: Renderer) -> None:
    """The question of each conversation has a number in it, and the answers to it are the same."""
    path = tmp_path / "log.jsonl"
    rows = [
        {
            "messages": [
                {"role": "system", "content": RULES},
                {"role": "user", "content": f"Is order {number} on its way to the right address?"},
                {"role": "assistant", "content": "Let me see. " * 9},
                {"role": "tool", "content": "It is. " * 9},
                {"role": "assistant", "content": "Yes."},
            ]
        }
        for number in range(1000, 1012)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = LogSource([str(path)], LogOptions())
    assert account(source, byte_renderer).ledger.fates()["blocked"] > 0
    (told,) = findings(source, byte_renderer)
    assert (told.code, told.rerun, told.fix_key) == ("KV201", None, "")
    assert "a user message, which an application must not rewrite" in told.fix


def test_an_image_that_is_all_of_a_message_is_not_called_text(tmp_path: Path, byte_renderer: Renderer) -> None:
    path = tmp_path / "log.jsonl"
    rows = [
        {
            "messages": [
                {"role": "system", "content": RULES},
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": f"https://example.com/{number}.png"}}],
                },
                {"role": "assistant", "content": "Let me see. " * 9},
                {"role": "tool", "content": "It is. " * 9},
                {"role": "assistant", "content": "Yes."},
            ]
        }
        for number in range(12)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (told,) = findings(LogSource([str(path)], LogOptions()), byte_renderer)
    assert told.fix.startswith("put shared text before it: it is an image or a file in a user message"), told.fix


def test_identical_prompts_have_no_cause(tmp_path: Path, byte_renderer: Renderer) -> None:
    result = account(workload(tmp_path, "You help on 2025-03-01.\n" + RULES), byte_renderer)
    assert list(result.causes) == []
    assert "blocked" not in result.ledger.fates()


def test_what_looks_volatile_but_does_not_vary_is_never_a_cause(tmp_path: Path, byte_renderer: Renderer) -> None:
    constant = "Policy of 2024-01-01, id 123e4567-e89b-42d3-a456-426614174000, v1.2.3."
    source = workload(tmp_path, f"{constant}\nIt is {{{{ now }}}}.\n{constant}\n{RULES}")
    (cause,) = causes_of(source, byte_renderer)
    assert (cause.slot.variable, cause.slot.line) == ("now", 11)


def test_what_varies_at_the_end_blocks_nothing(tmp_path: Path, byte_renderer: Renderer) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(
        "version: 1\nvars:\n  now: {datetime: 1m}\ngroups:\n  - name: bot\n    requests: 4\n    segments:\n"
        f"      - text: '{RULES}'\n      - text: 'It is {{{{ now }}}}'\n"
    )
    assert causes_of(load_yaml_workload(str(path)), byte_renderer) == []


@pytest.mark.parametrize("logged", [False, True])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(*[st.sampled_from(["amber", "birch", "cedar", "dune"])] * 2), min_size=2, max_size=9))
def test_values_are_counted_as_the_prompts_have_them(
    tmp_path: Path, byte_renderer: Renderer, logged: bool, rows: list[tuple[str, str]]
) -> None:
    """Also those of a first prompt, which differs from no earlier one, and those that only a prompt compared with has."""
    if logged:
        source = log_of(tmp_path, [f"Team {team}.\n{RULES}\nFor {town}.\n{RULES}" for team, town in rows])
        group = "log"
    else:
        # Both groups read one file: values of one are none of the other.
        (tmp_path / "p.j2").write_text(f"Team {{{{ team }}}}.\n{RULES}\nFor {{{{ town }}}}.\n{RULES}\n")
        drawn = "\n".join(
            f"  - name: {name}\n    requests: {count}\n    vars:\n      team: {{choice: {teams}, pick: cycle}}\n"
            f"      town: {{choice: {towns}, pick: cycle}}\n"
            "    messages:\n      - {role: system, file: p.j2}\n      - {role: user, text: 'What is new?'}"
            for name, count, teams, towns in (
                ("other", 2, ["elder", "fir"], ["glade", "heath"]),
                ("bot", len(rows), [row[0] for row in rows], [row[1] for row in rows]),
            )
        )
        (tmp_path / "w.yaml").write_text(f"version: 1\ngroups:\n{drawn}\n")
        source, group = load_yaml_workload(str(tmp_path / "w.yaml")), "bot"
    counts = {
        cause.slot.variable or cause.slot.line_in_text: cause.distinct
        for cause in causes_of(source, byte_renderer, group=group)
    }
    for number, place in enumerate([0, 2] if logged else ["team", "town"]):
        values = {row[number] for row in rows}
        if len(values) > 1:
            assert counts[place] == len(values)


@pytest.mark.parametrize("parts", [False, True])
def test_a_logged_timestamp(tmp_path: Path, byte_renderer: Renderer, parts: bool) -> None:
    texts = [f"You help.\nToday is {stamp(number)}.\n{RULES}" for number in range(10, 18)]
    contents: list[object] = [[{"type": "text", "text": text}] if parts else text for text in texts]
    source = log_of(tmp_path, contents)
    (cause,) = account(source, byte_renderer).causes
    assert cause.slot.logged
    assert cause.slot.part == "messages[0] (system)"
    assert cause.slot.line_in_text == 1
    assert cause.slot.content_part == (0 if parts else None)
    assert cause.kind.key == "timestamp_iso"
    assert (cause.requests, cause.distinct) == (7, 8)
    assert cause.origin is not None
    # The first prompt that differed is the log's second line; the column is that of the value in the JSON text.
    row = (tmp_path / "log.jsonl").read_text().splitlines()[1]
    assert locate(cause.origin, cause.offset) == (2, row.index(stamp(11)) + 1)
    (finding,) = findings(source, byte_renderer)
    assert (finding.line, finding.column) == (2, row.index(stamp(11)) + 1)
    assert not finding.in_source
    assert finding.rerun is not None
    assert finding.rerun.group_after > finding.rerun.group_before + 0.3


def test_values_of_two_kinds_in_one_frame_are_one_slot(tmp_path: Path, byte_renderer: Renderer) -> None:
    """What stands beside them tells that they are: a fix reaches each, whatever it looks like."""
    ids = ["0f8b8cb4-1d5a-4c9e-9f0a-5c1f6a7b8c9d", "7a1d2f3e-5b6c-4d7e-8f90-a1b2c3d4e5f6"]
    contents: list[object] = [f"Ref {value}\n{RULES}" for value in [stamp(1), ids[0], stamp(2), ids[1], stamp(3)]]
    source = log_of(tmp_path, contents)
    (cause,) = causes_of(source, byte_renderer, group="log")
    assert (cause.slot.line_in_text, cause.slot.mixed, cause.requests, cause.distinct) == (0, True, 4, 5)
    assert {kind.key for kind in cause.values.kinds} == {"timestamp_iso", "uuid"}
    (finding,) = findings(source, byte_renderer)
    assert finding.rerun is not None
    assert finding.rerun.group_after > finding.rerun.group_before + 0.3


def test_random_delimiters_are_one_slot_and_one_fix(tmp_path: Path, byte_renderer: Renderer) -> None:
    """Digits alone, letters alone, a date by chance: the slot is told by all of its values."""
    nonces = [
        "3f9a2b1c", "48213377", "deadbeef", "20261103", "c0ffee77", "1e500000", "9b8c7d6e", "abcdefab", "0a1b2c3d",
    ]  # fmt: skip
    contents: list[object] = [f"Data stands in:\n<data-{nonce}>\n{RULES}" for nonce in nonces]
    source = log_of(tmp_path, contents)
    (cause,) = causes_of(source, byte_renderer, group="log")
    assert cause.kind.code == "KV102"
    assert cause.requests == len(nonces) - 1
    (finding,) = findings(source, byte_renderer)
    assert finding.rerun is not None
    assert finding.rerun.group_after > 0.7


def test_the_first_token_is_where_the_earliest_difference_was(tmp_path: Path, byte_renderer: Renderer) -> None:
    """The minutes 11, 12, 21, 13: the digit that differs is the second one, then the first one."""
    contents: list[object] = [f"It is {stamp(number)}\n{RULES}" for number in (11, 12, 21, 13)]
    (cause,) = account(log_of(tmp_path, contents), byte_renderer).causes
    assert cause.first_token == len("system:It is 2025-01-02T10:")
    assert (cause.requests, cause.distinct) == (3, 4)


def test_a_cause_is_a_candidate_only_where_it_costs(tmp_path: Path, byte_renderer: Renderer) -> None:
    result = account(log_of(tmp_path, [f"{stamp(number)}\n{RULES}" for number in (1, 2, 3)]), byte_renderer)
    (group,) = result.ledger.totals()
    (cause,) = result.causes
    assert is_candidate(cause, group, group.prompt_tokens)
    cause.blocked = group.prompt_tokens // 75
    assert is_candidate(cause, group, group.prompt_tokens)
    cause.blocked = group.prompt_tokens // 200
    assert not is_candidate(cause, group, group.prompt_tokens)


def test_what_is_declared_stable_is_so_by_its_origin() -> None:
    for origin in [Origin("t.md", stable=True), Origin("t.md", stable=False), Origin("t.md", stable=None), None]:
        cause = SlotCause("g", Slot("t.md", 1, 1), OTHER, origin, 0, "", 0, 0, 0)
        assert is_declared_stable(cause) is (origin is not None and origin.stable is True)


heads = st.lists(st.sampled_from(["Be kind.", "On 2024-01-01.", "v1.2.3", "id 42"]), max_size=3)


@given(heads, st.sampled_from(["{{ now }}", "Time: {{ now }}!", "x{{ now }}y"]), st.integers(3, 6))
def test_the_variable_is_found_wherever_it_stands(
    tmp_path_factory: pytest.TempPathFactory, byte_renderer: Renderer, head: list[str], line: str, requests: int
) -> None:
    source = workload(tmp_path_factory.mktemp("w"), "\n".join([*head, line, RULES]), requests=requests)
    (cause,) = causes_of(source, byte_renderer)
    assert cause.slot.variable == "now"
    assert cause.slot.line == 10 + len(head)
    assert cause.slot.column == 11 + line.index("{{")
    assert cause.requests == requests - 1
