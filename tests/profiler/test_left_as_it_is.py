# ruff: noqa: RUF001 - signs of other scripts are meant
"""What is told and left as it is: a version that came once, what a user asks, a value that already ends its message."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.files import write

Command = Callable[..., tuple[int, str, str]]

RULES = "\n".join(
    f"- Matter {n}: tell the reader what chapter {n} of the handbook says, in plain words." for n in range(24)
)


@pytest.fixture
def kvtool(in_folder: Command) -> Command:
    return in_folder


def asked(system: str, said: str) -> dict[str, Any]:
    return {"messages": [{"role": "system", "content": system}, {"role": "user", "content": said}]}


def findings(kvtool: Command, records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    write("log.jsonl", "".join(json.dumps(record) + "\n" for record in records))
    _, out, _ = kvtool("profile", "--dry-run", "--json", "--rules", "vllm", "log.jsonl")
    found: list[dict[str, Any]] = json.loads(out)["findings"]
    return [each for each in found if each["code"] != "KV204"]


VERSIONS = {
    "Danish": (
        "Du svarer for biblioteket, udgave 7.\n\nBøger lånes ud i fire uger og kan fornys to gange af den som låner.",
        "Du svarer for biblioteket, udgave 8.\n\nBøger lånes ud i fire uger og kan fornys tre gange af den som låner.",
    ),
    "Czech": (
        "Jsi rádce lázní. Verze 21.\n\nVstup platí dvě hodiny a prodlužuje se u pokladny za padesát korun.",
        "Jsi rádce lázní. Verze 22.\n\nVstup platí tři hodiny a prodlužuje se u pokladny za padesát korun.",
    ),
    "Spanish": (
        "Ayudas a los vecinos. Revisión 3.\n\nLa piscina abre de junio a septiembre y cierra los martes por la mañana.",
        "Ayudas a los vecinos. Revisión 4.\n\nLa piscina abre de mayo a septiembre y cierra los martes por la mañana.",
    ),
}


@pytest.mark.parametrize("language", VERSIONS)
def test_a_version_that_changed_a_number_and_words_once_is_left_alone(kvtool: Command, language: str) -> None:
    old, new = VERSIONS[language]
    records = [asked(f"{old if n < 9 else new}\n\n{RULES}", f"Number {n * 7919 % 1000}?") for n in range(18)]
    found = findings(kvtool, records)
    assert found
    assert [each["rerun"] for each in found] == [None] * len(found)


@pytest.mark.parametrize(("first", "second"), [("Call 14", "Call 15"), ("Table 3 of 9", "Table 4 of 9")])
def test_a_number_that_changed_once_alone_is_no_version(kvtool: Command, first: str, second: str) -> None:
    system = "You answer for the library.\n{}\n\nBooks are lent for four weeks by whoever asks for them.\n\n" + RULES
    records = [
        asked(system.format(f"{first if n < 9 else second}: {n:03d}"), f"Number {n * 7919 % 1000}?") for n in range(18)
    ]
    assert any(each["rerun"] is not None for each in findings(kvtool, records))


QUESTIONS = {
    "English": ("Question: {}", ["Does the roof leak when it rains", "Who keeps the spare key of the shed"]),
    "German": ("Frage: {}", ["Wann wird der Keller gelüftet", "Wer hat den Schlüssel vom Schuppen"]),
    "Japanese": ("質問：{}", ["屋根はいつ直しますか", "物置の鍵は誰が持っていますか"]),
    "Polish": ("{}?", ["Kiedy wietrzy się piwnicę", "Kto ma klucz do szopy"]),
}


@pytest.mark.parametrize("language", QUESTIONS)
def test_what_a_user_asks_is_not_moved_behind_what_was_found(kvtool: Command, language: str) -> None:
    form, questions = QUESTIONS[language]
    notes = "\n".join(
        f"[{n}] Note {n} of the caretaker: what is to be done about matter {n} before winter." for n in range(9)
    )
    records = [
        asked(f"You answer for a caretaker.\n{RULES}", f"{form.format(f'{questions[n % 2]} {n}')}\n\nFound:\n{notes}")
        for n in range(14)
    ]
    found = findings(kvtool, records)
    assert [each["rerun"] for each in found] == [None] * len(found)
    assert {each["severity"] for each in found} <= {"info"}


@pytest.mark.parametrize("line", ["Pupil: {}", "Élève : {}", "学生：{}"])
def test_a_value_at_the_end_of_its_message_is_left_alone(kvtool: Command, line: str) -> None:
    said = [f"Tell me what chapter {n} says about levers and pulleys, please, in a few words." for n in range(6)]
    records = []
    for name in ("Zoe", "Anton", "Mia", "Paul", "Ines"):
        system = f"You help with physics.\n{RULES}\n{line.format(name)}"
        for turns in range(1, 7):
            messages = asked(system, said[0])["messages"]
            for question in said[1:turns]:
                mine = f"{question} I am in class {name}."
                messages += [{"role": "assistant", "content": "A short answer."}, {"role": "user", "content": mine}]
            records.append({"messages": messages})
    found = findings(kvtool, records)
    assert [each["rerun"] for each in found] == [None] * len(found)
    assert {each["severity"] for each in found} <= {"info"}
    assert not [each for each in found if "split the line" in each["fix"]]
