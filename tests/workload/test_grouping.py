"""Requests of logs in groups: by fields, by how their prompts begin, by file; what is asked for and what is found out."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kvtool.errors import KvtoolError
from kvtool.workload.inputs import open_inputs
from kvtool.workload.logs.groups import grouping as grouping_module
from kvtool.workload.logs.groups.detected_grouping import SAMPLE
from kvtool.workload.logs.groups.field_paths import FieldPath, fields_of, parse_fields
from kvtool.workload.logs.groups.grouping import MOST_GROUPS, OTHER, ByFields, name_of_value
from kvtool.workload.logs.logs import LogOptions, LogSource
from kvtool.workload.logs.records.prompt_forms import WHOLE, PromptForms
from kvtool.workload.turn import Turn

SERVICES = {
    "billing": "You explain invoices, refunds and payment plans, and never promise a refund before the ledger was checked.",
    "search": "Turn what a shopper asks for into filters: brand, size, colour, price, stock. Answer with JSON only, please.",
    "triage": "Put the ticket into one of four queues, hardware, software, shipping or other, and say how sure you are of it.",
    "writer": "Describe the product in sixty words without superlatives: the three strongest facts first, care instructions last.",
}

WORDS = [
    "amber",
    "birch",
    "canal",
    "delta",
    "ember",
    "flint",
    "grove",
    "haven",
    "inlet",
    "joker",
    "knoll",
    "ledge",
    "maple",
    "nylon",
    "otter",
    "pearl",
    "quilt",
    "raven",
]


def chat(system: str, question: str = "hello", **fields: Any) -> dict[str, Any]:
    return {**fields, "messages": [{"role": "system", "content": system}, {"role": "user", "content": question}]}


def write(path: Path, records: Sequence[dict[str, Any]]) -> str:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return str(path)


def opened(paths: Sequence[str], group_by: str | None = None, **options: Any) -> LogSource:
    source = open_inputs(paths, LogOptions(**options), seed=None, group_by=group_by)
    assert isinstance(source, LogSource)
    return source


def turns_of(source: LogSource) -> list[Turn]:
    found: list[Turn] = []
    for conversation in source.conversations():
        while (turn := conversation.next_turn(None)) is not None:
            found.append(turn)
    return found


def groups(source: LogSource) -> dict[str, int]:
    return dict(Counter(turn.group for turn in turns_of(source)))


# Paths


def test_paths() -> None:
    for text, steps in [
        ("service", ("service",)),
        ("$.service", ("service",)),
        ("metadata.service", ("metadata", "service")),
        ('$.metadata["service"]', ("metadata", "service")),
        ("$['a.b'][0].c", ("a.b", 0, "c")),
        ('["it\\"s, here"]', ('it"s, here',)),
        ("größe.x-y_z", ("größe", "x-y_z")),
        ("$.file", ("file",)),
    ]:
        assert [path.steps for path in parse_fields(text, "--group-by")] == [steps]


def test_several_paths_stand_between_commas() -> None:
    assert [path.text for path in parse_fields("service, $.metadata.route,['a,b']", "f")] == [
        "service",
        "metadata.route",
        "['a,b']",
    ]


def test_what_is_no_path() -> None:
    for text in [
        "",
        "$",
        ".",
        "a..b",
        "a.",
        "a[",
        "a[x]",
        "a]b",
        "a,",
        ",a",
        "a[-1]",
        '["a',
        "a b",
        "x" * 501,
        ".".join("a" * 17),
    ]:
        with pytest.raises(KvtoolError, match="--group-by"):
            parse_fields(text, "--group-by")


def test_a_field_whose_name_has_dots_is_found_by_it() -> None:
    (path,) = parse_fields("service.name", "f")
    assert path.value({"service.name": "a", "service": {"name": "b"}}) == "a"
    assert path.value({"service": {"name": "b"}}) == "b"
    assert path.value({"service": ["name"]}) is None
    assert path.value(["name"]) is None


def test_fields_of_a_record() -> None:
    record = {
        "service": "a",
        "metadata": {"x y": 1, "deep": {"er": True}},
        "messages": [{"role": "user"}],
        "none": None,
    }
    assert list(fields_of(record)) == ["service", 'metadata["x y"]', "metadata.deep.er"]
    assert [path.value(record) for each in fields_of(record) for path in parse_fields(each, "f")] == ["a", 1, True]


# Names


def test_a_value_as_a_name() -> None:
    for text, name in [
        ("billing", "billing"),
        ("  two words ", "two words"),
        ("", "(empty)"),
        (" \n ", "(empty)"),
        ("a\nb\x1b[31m", "a\\nb\\x1b[31m"),
        ("\u202eevil", "\\u202eevil"),
        ("größe", "größe"),
    ]:
        assert name_of_value(text) == name


def test_a_long_value_is_shortened_and_stays_apart_from_others() -> None:
    a, b = name_of_value("x" * 10_000_000 + "a"), name_of_value("x" * 10_000_000 + "b")
    assert len(a) == len(b) == 57
    assert a != b
    assert a.startswith("x" * 48 + "…")
    assert len(name_of_value("\x1b" * 64)) == 57


def test_values_that_are_no_text(tmp_path: Path) -> None:
    values: list[Any] = ["a", 7, 1.5, True, None, ["x", 1], {"k": "v"}, "", "y" * 100]
    records = [chat("s", service=value) for value in values] + [chat("s")]
    source = opened([write(tmp_path / "log.jsonl", records)], "service")
    found = groups(source)
    assert list(found)[:8] == ["a", "7", "1.5", "true", "(no service)", '["x",1]', '{"k":"v"}', "(empty)"]
    assert found["(no service)"] == 2
    assert sum(found.values()) == len(records)
    assert source.outcome.notes == [
        "groups by `service`: 9",
        "2 requests without `service`: group `(no service)`",
        "`service` is a list or an object in 2 requests: its JSON is the name",
        "names of more than 64 characters are shortened (1 request)",
    ]


def test_several_fields_together(tmp_path: Path) -> None:
    records = [chat("s", service=a, metadata={"route": b}) for a, b in ("ax", "ay", "bx", "ax")] + [
        chat("s", service="a")
    ]
    source = opened([write(tmp_path / "log.jsonl", records)], "service,metadata.route")
    assert groups(source) == {"a / x": 2, "a / y": 1, "b / x": 1, "a / (no metadata.route)": 1}


def test_values_beyond_the_most_are_one_group(tmp_path: Path) -> None:
    count = MOST_GROUPS + 30
    records = [chat("s", user=f"u{number % count}") for number in range(2 * count)]
    source = opened([write(tmp_path / "log.jsonl", records)], "user")
    found = groups(source)
    assert len(found) == MOST_GROUPS + 1
    assert found[OTHER] == 60
    assert sum(found.values()) == len(records)
    assert "the first 200 values are groups; 30 others form the group `(other)` (60 requests)" in source.outcome.notes


def test_what_is_counted_of_the_others_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping_module, "_MOST_COUNTED", 10)
    records = [chat("s", user=f"u{number}") for number in range(MOST_GROUPS + 30)]
    source = opened([write(tmp_path / "log.jsonl", records)], "user")
    assert groups(source)[OTHER] == 30
    assert any("10 or more others" in note for note in source.outcome.notes)


def test_text_of_prompts_is_no_name(tmp_path: Path) -> None:
    """Names of groups stand in every output, and no output but the terminal quotes prompts unasked."""
    records = [chat(SERVICES[name], question=f"q{at}") for at, name in enumerate(["billing", "search", "billing"])]
    source = opened([write(tmp_path / "log.jsonl", records)], "messages[0].content")
    assert groups(source) == {"messages[0].content-1": 2, "messages[0].content-2": 1}


# What is not there


def test_a_field_that_no_record_has(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", [chat("s", service="a", metadata={"tenant": "t"})] * 3)
    with pytest.raises(KvtoolError) as caught:
        opened([path], "servce")
    assert caught.value.message == "--group-by: none of the first 3 records has a field `servce`"
    assert caught.value.hint == "did you mean `service`? its fields are `service`, `metadata.tenant`"


def test_a_name_without_a_dot_finds_the_field_of_that_name(tmp_path: Path) -> None:
    for record, path in [
        ({"request": {"model": "m"}, "response": {"model": "m-1"}}, "request.model"),
        ({"response": {"model": "m-1"}}, "response.model"),
        ({"a b": {"model": "m"}}, '["a b"].model'),
    ]:
        log = write(tmp_path / "log.jsonl", [chat("s", **record)] * 3)
        assert groups(opened([log], "model")) == groups(opened([log], path))


def test_a_name_of_several_fields_names_them(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", [chat("s", session={"kind": "a"}, user={"kind": "b"}, c="d")] * 3)
    with pytest.raises(KvtoolError) as caught:
        opened([log], "kind")
    assert caught.value.hint is not None
    assert caught.value.hint.endswith("its fields are `session.kind`, `user.kind`")


def test_a_field_that_the_only_record_has_not(tmp_path: Path) -> None:
    with pytest.raises(KvtoolError, match="the record has no field `x`") as caught:
        opened([write(tmp_path / "log.jsonl", [chat("s")])], "x")
    assert caught.value.hint == "the records have no fields beside their prompts"


def test_what_is_wrong_with_a_log_is_told_first(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("{\n", encoding="utf-8")
    with pytest.raises(KvtoolError, match="not JSON"):
        turns_of(opened([str(path)], "x"))


# What is found out


def mixed(count: int, **fields: str) -> list[dict[str, Any]]:
    names = list(SERVICES)
    return [
        chat(SERVICES[names[at % 4]], question=f"question {at}", **dict.fromkeys(fields, names[at % 4]))
        for at in range(count)
    ]


def test_a_field_that_names_services(tmp_path: Path) -> None:
    for field in ["service", "app", "route", "template_name"]:
        source = opened([write(tmp_path / "log.jsonl", mixed(12, **{field: ""}))])
        assert groups(source) == dict.fromkeys(SERVICES, 3)
        assert source.outcome.notes == [f"groups by `{field}`: 4; change with --group-by FIELD"]


@pytest.mark.parametrize("around", [("metadata",), ("body", "metadata")])
def test_a_field_in_an_object_around(around: tuple[str, ...], tmp_path: Path) -> None:
    records = []
    for record in mixed(12, service=""):
        service = {"service": record.pop("service")}
        records.append(
            {**record, "metadata": service} if len(around) == 1 else {"body": {**record, "metadata": service}}
        )
    assert groups(opened([write(tmp_path / "log.jsonl", records)])) == dict.fromkeys(SERVICES, 3)


def test_four_system_prompts_are_four_groups(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", mixed(12))
    source = opened([path])
    assert groups(source) == {f"system-{number}": 3 for number in range(1, 5)}
    places = ", ".join(f"system-{number} {path}:{number}" for number in range(1, 5))
    assert source.outcome.notes == [f"groups by system prompt: 4 (first: {places}); change with --group-by FIELD"]
    assert not any(word in "".join(source.outcome.notes) for word in ("invoices", "shopper"))


def test_what_changes_with_every_request_leaves_a_prompt_in_its_group(tmp_path: Path) -> None:
    for volatile in [
        "Now: 2026-01-{n:02d}T10:{n:02d}:07Z. {text}",
        "Request 3f2a{n:08x}-11ab for user {n}@example.com\n{text}",
        "{text} The customer is named {name}.",
    ]:
        names = list(SERVICES)
        records = [
            chat(
                volatile.format(
                    n=at, text=SERVICES[names[at % 2]], name=["Ann", "Bea", "Cid", "Dee", "Eve", "Fay"][at % 6]
                )
            )
            for at in range(20)
        ]
        assert groups(opened([write(tmp_path / "log.jsonl", records)])) == {"system-1": 10, "system-2": 10}


def test_documents_behind_the_instructions_leave_a_prompt_in_its_group(tmp_path: Path) -> None:
    for times in [1, 4, 12]:
        names = list(SERVICES)
        words = [f"{a}{b}{c}" for a in "bdfgkl" for b in "aeiou" for c in "mnrst"]
        documents = [
            " ".join(words[(at * 7 + each * (at + 3)) % len(words)] for each in range(600)) for at in range(20)
        ]
        records = [chat(f"{SERVICES[names[at % 2]] * times}\n\n{documents[at]}") for at in range(20)]
        assert groups(opened([write(tmp_path / "log.jsonl", records)])) == {"system-1": 10, "system-2": 10}


def test_prompts_that_never_come_again_are_no_groups(tmp_path: Path) -> None:
    words = [f"{a}{b}{c}{d}" for a in "bdfg" for b in "aeio" for c in "klmn" for d in "aeio"]
    records = [
        chat(" ".join(words[(at * 31 + each * (2 * at + 1)) % len(words)] for each in range(40))) for at in range(20)
    ]
    source = opened([write(tmp_path / "log.jsonl", records)])
    assert groups(source) == {"log": 20}
    assert source.outcome.notes == []


@pytest.mark.parametrize("named", [True, False])
def test_turns_that_repeat_their_own_beginning_are_no_groups(*, named: bool, tmp_path: Path) -> None:
    rng = random.Random(3)
    records = []
    for session in range(8):
        said = ""
        for _ in range(6):
            said += " ".join(rng.choices(WORDS, k=40)) + "\n\n"
            records.append({"prompt": said} | ({"session_id": f"s{session}"} if named else {}))
    log = write(tmp_path / "talks.jsonl", records)
    assert len(groups(opened([log]))) == 1


def test_a_system_prompt_for_each_session_makes_no_groups(tmp_path: Path) -> None:
    rng = random.Random(4)
    own = {f"s{at}": " ".join(rng.choices(WORDS, k=60)) for at in range(9)}
    alone = [chat(text, f"turn {turn}", session_id=name) for name, text in own.items() for turn in range(5)]
    assert len(groups(opened([write(tmp_path / "own.jsonl", alone)]))) == 1
    shared = list(own.values())[:3]
    common = [chat(shared[at % 3], f"turn {turn}", session_id=f"t{at}") for at in range(9) for turn in range(5)]
    assert groups(opened([write(tmp_path / "shared.jsonl", common)])) == {f"system-{at}": 15 for at in (1, 2, 3)}


def test_ids_of_users_are_no_groups(tmp_path: Path) -> None:
    records = [chat(SERVICES["billing"], app=f"user-{number}") for number in range(40)]
    assert groups(opened([write(tmp_path / "log.jsonl", records)])) == {"log": 40}


def test_models_divide_what_nothing_else_does(tmp_path: Path) -> None:
    records = [chat(SERVICES["billing"], model=f"m{number % 2}") for number in range(8)]
    assert groups(opened([write(tmp_path / "log.jsonl", records)])) == {"m0": 4, "m1": 4}
    records = [{**record, "model": f"m{number % 2}"} for number, record in enumerate(mixed(16))]
    assert set(groups(opened([write(tmp_path / "log.jsonl", records)]))) == {
        f"system-{number}" for number in range(1, 5)
    }


def test_templates_of_plain_prompts(tmp_path: Path) -> None:
    names = list(SERVICES)
    records = [{"prompt": f"{SERVICES[names[at % 2]]} Ticket {at}"} for at in range(16)]
    assert groups(opened([write(tmp_path / "log.jsonl", records)])) == {"prompt-1": 8, "prompt-2": 8}


def test_requests_without_a_system_prompt_are_a_group_among_those_with_one(tmp_path: Path) -> None:
    records = mixed(16)
    for number in (3, 9):
        del records[number]["messages"][0]
    source = opened([write(tmp_path / "log.jsonl", records)])
    assert groups(source)["(no system prompt)"] == 2
    assert "2 requests without a system prompt: group `(no system prompt)`" in source.outcome.notes


def test_one_service_stays_one_group_with_the_name_of_its_log(tmp_path: Path) -> None:
    records = [chat(SERVICES["billing"], question=f"q{at}", service="billing", model="m") for at in range(20)]
    source = opened([write(tmp_path / "prod.jsonl", records)])
    assert groups(source) == {"prod": 20}
    assert source.outcome.notes == []


def test_a_file_for_each_prompt_is_a_group_for_each_file(tmp_path: Path) -> None:
    """Names of files say more than numbers of prompts."""
    paths = [
        write(tmp_path / f"{name}.jsonl", [chat(text, question=f"q{at}") for at in range(6)])
        for name, text in SERVICES.items()
    ]
    source = opened(paths)
    assert groups(source) == dict.fromkeys(SERVICES, 6)
    assert source.outcome.notes[1:] == ["groups by file; change with --group-by FIELD"]
    assert groups(opened(paths, "system")) == {f"system-{number}": 6 for number in range(1, 5)}


def test_files_where_they_are_asked_for(tmp_path: Path) -> None:
    paths = [write(tmp_path / name, mixed(12, service="")) for name in ("a.jsonl", "b.jsonl")]
    assert groups(opened(paths)) == dict.fromkeys(SERVICES, 6)
    assert groups(opened(paths, "file")) == {"a": 12, "b": 12}


def test_the_division_is_the_same_in_each_pass(tmp_path: Path) -> None:
    source = opened([write(tmp_path / "log.jsonl", mixed(40))])
    assert [turn.group for turn in turns_of(source)] == [turn.group for turn in turns_of(source)]


def test_what_comes_after_the_sample_is_grouped_too(tmp_path: Path) -> None:
    late = [chat("Translate every sentence into Portuguese and keep names of products as they are, in quotes.")] * 3
    source = opened([write(tmp_path / "log.jsonl", [*mixed(SAMPLE), *late])])
    assert groups(source)["system-5"] == 3


def test_a_field_of_a_trace(tmp_path: Path) -> None:
    """Lines of traces are read in a short way, which looks at no other fields."""
    trace = {"hash_ids": [1, 2], "input_length": 1000, "output_length": 5}
    records = [{**trace, "timestamp": at, "tenant": f"t{at % 2}"} for at in range(6)]
    assert groups(opened([write(tmp_path / "t.jsonl", records)], "tenant")) == {"t0": 3, "t1": 3}


def test_conversations_stay_whole(tmp_path: Path) -> None:
    turns = [{"role": "user" if at % 2 == 0 else "assistant", "content": f"m{at}"} for at in range(6)]
    records = [{"messages": turns, "service": name} for name in ("a", "b", "a", "b")]
    assert groups(opened([write(tmp_path / "log.jsonl", records)])) == {"a": 6, "b": 6}


# Forms


def test_forms_have_numbers_in_the_order_in_which_they_come() -> None:
    forms = PromptForms(WHOLE, 2)
    texts = [SERVICES[name] for name in ("search", "billing", "search", "writer", "billing")]
    assert [forms.form_of(text) for text in texts] == [0, 1, 0, None, 1]
    assert len(forms) == 2


def test_short_texts_have_forms_too() -> None:
    for text in ["", "1234 5678", "one", "one two"]:
        forms = PromptForms(WHOLE, 9)
        assert [forms.form_of(text), forms.form_of(SERVICES["billing"]), forms.form_of(text + " 99")] == [0, 1, 0]


def test_a_short_prompt_is_not_the_long_one_that_begins_with_it() -> None:
    forms = PromptForms(WHOLE, 9)
    short = "You are a helpful assistant."
    assert forms.form_of(short) != forms.form_of(f"{short} {SERVICES['billing']} {SERVICES['search']}")


def test_scripts_without_spaces() -> None:
    forms = PromptForms(WHOLE, 9)
    a, b = "你是一个客服助手。请用一句话回答。", "把下面的文章翻译成法语,保留专有名词。"
    assert [forms.form_of(f"2026年1月{day}日 {text}") for day in (3, 14) for text in (a, b)] == [0, 1, 0, 1]


def test_what_is_remembered_of_beginnings_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvtool.workload.logs.records.prompt_forms._MOST_KEPT", 4)
    forms = PromptForms(WHOLE, 9)
    assert {forms.form_of(f"{SERVICES['billing']} {number}") for number in range(50)} == {0}
    assert len(forms._known) <= 4


def test_an_empty_grouping_asks_for_nothing() -> None:
    assert ByFields((FieldPath("a", ("a",)),)).values
