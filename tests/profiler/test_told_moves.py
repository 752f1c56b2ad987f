"""What is moved is called what it is, and a history that is cut each turn is cut on a stride, whether or not sessions are told."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.files import write

Command = Callable[..., tuple[int, str, str]]

RULES = "\n\n".join(
    f"Matter {n}: tell the reader what chapter {n} of the handbook says, in plain words and at most {n + 2} sentences."
    for n in range(14)
)
NAMES = ("Carmen", "Pilar", "Rosa", "Elena", "Lucia", "Marta", "Nuria", "Ana", "Sara", "Julia", "Clara", "Irene")


@pytest.fixture
def kvtool(in_folder: Command) -> Command:
    return in_folder


def findings(kvtool: Command, records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    write("log.jsonl", "".join(json.dumps(record) + "\n" for record in records))
    _, out, _ = kvtool("profile", "--dry-run", "--json", "--rules", "vllm", "log.jsonl")
    found: list[dict[str, Any]] = json.loads(out)["findings"]
    return [each for each in found if each["code"] != "KV204"]


@pytest.mark.parametrize(
    ("first", "noun"),
    [
        ("Eres Olmo, el asistente de la cooperativa de energía solar. Hablas con {}, con calma.", "sentence"),
        ("Eres Olmo, el asistente de la cooperativa de energía solar.\nHablas con {}, con calma.", "line"),
    ],
)
def test_a_part_of_a_line_is_called_a_sentence(kvtool: Command, first: str, noun: str) -> None:
    records = [
        {
            "messages": [
                {"role": "system", "content": f"{first.format(name)}\n\n{RULES}"},
                {"role": "user", "content": f"What about {n * 7919 % 1000}?"},
            ]
        }
        for n, name in enumerate(NAMES)
    ]
    told = next(each for each in findings(kvtool, records) if each["rerun"] is not None)
    assert told["fix"].startswith(f"move this {noun} to")


@pytest.mark.parametrize("language", ["en", "pt", "ko"])
@pytest.mark.parametrize("named", [True, False])
def test_a_sliding_window_is_cut_on_a_stride(kvtool: Command, language: str, named: bool) -> None:
    said = {
        "en": "I walked to hill {} and back.",
        "pt": "Caminhei até o morro {} e voltei.",
        "ko": "{}번 언덕까지 걸었어요.",
    }
    answered = {"en": "Well done! Hill {} next?", "pt": "Muito bem! E o morro {}?", "ko": "잘했어요! 다음은 {}번 언덕?"}
    history: list[dict[str, str]] = []
    records = []
    for n in range(18):
        history.append({"role": "user", "content": said[language].format(n * 37 % 100)})
        record: dict[str, Any] = {"messages": [{"role": "system", "content": RULES[:900]}, *history[-9:]]}
        records.append({**record, "session_id": "walk"} if named else record)
        history.append(
            {"role": "assistant", "content": answered[language].format(n * 53 % 100) + " Rest a little first."}
        )
    first = findings(kvtool, records)[0]
    assert first["code"] == "KV141"
    assert first["fix"].startswith("cut the history rarely")
    assert first["rerun"]["group_after"] > first["rerun"]["group_before"] + 0.05
