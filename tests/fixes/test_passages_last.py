# ruff: noqa: RUF001 - signs of other scripts are meant
"""Passages that were looked up for a request and stand before instructions are one loss, and move as one block."""

from __future__ import annotations

import json
import random
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

import pytest

from kvtool import profile
from kvtool.results.finding import Finding
from tests.conftest import some

RULES = "\n\n".join(
    f"How to do matter {n}\nTell the reader what to do about matter {n}, and whom to write to. Never more than {n + 2} lines."
    for n in range(14)
)


class Said(NamedTuple):
    persona: str
    introduction: str
    passage: str


PROVIDERS = ["gpt-4o", "claude-sonnet-5"]
SAID = {
    "German": Said(
        "Du gibst Auskunft für den Mieterverein.",
        "Fundstellen zu dieser Frage:",
        "- Absatz {}. Wer im Haus {} wohnt, meldet Schäden binnen {} Tagen bei der Verwaltung.",
    ),
    "Polish": Said(
        "Odpowiadasz w imieniu biblioteki.",
        "Fragmenty regulaminu:",
        "- Paragraf {}. Kto korzysta z sali {}, oddaje klucze w ciągu {} godzin w portierni.",
    ),
    "Japanese": Said(
        "あなたは図書館の案内係です。", "この質問に関する規則：", "- 第{}条。{}号室を使う人は{}時間以内に鍵を返します。"
    ),
    "Turkish": Said(
        "Kütüphane adına yanıt verirsin.",
        "## Bulunan bölümler",
        "Madde {}. {} numaralı salonu kullanan kişi anahtarı {} saat içinde geri verir.",
    ),
}


def _findings(folder: Path, texts: list[str]) -> list[Finding]:
    log = folder / "log.jsonl"
    records = [
        {
            "messages": [
                {"role": "system", "content": text},
                {"role": "user", "content": f"What now, {n * 7919 % 1000}?"},
            ]
        }
        for n, text in enumerate(texts)
    ]
    log.write_text("".join(json.dumps(record) + "\n" for record in records))
    return [each for each in profile(log).findings if each.code not in ("KV204", "KV202")]


def _passages(said: Said, seed: int) -> str:
    chosen = random.Random(seed).sample(range(1, 40), 3)
    return "\n".join(said.passage.format(n, n * 37 % 90 + 1, n * 13 % 20 + 2) for n in chosen)


@pytest.mark.parametrize("language", SAID)
def test_passages_move_behind_the_instructions_with_their_introduction(tmp_path: Path, language: str) -> None:
    said = SAID[language]
    end = f"## Rules\n{RULES}" if said.introduction.startswith("#") else RULES
    texts = [f"{said.persona}\n\n{said.introduction}\n{_passages(said, seed)}\n\n{end}" for seed in range(14)]
    told = _findings(tmp_path, texts)
    assert [(each.code, each.tier) for each in told] == [("KV201", "P2")]
    assert told[0].fix.startswith("move the passages and their introduction")
    rerun = told[0].rerun
    assert rerun is not None
    assert rerun.group_after > rerun.group_before + 0.5


def test_passages_behind_the_instructions_stay(tmp_path: Path) -> None:
    said = SAID["German"]
    texts = [f"{said.persona}\n\n{RULES}\n\n{said.introduction}\n{_passages(said, seed)}" for seed in range(14)]
    assert not [each for each in _findings(tmp_path, texts) if each.rerun is not None]


def test_the_same_passages_in_another_order_are_put_into_one(tmp_path: Path) -> None:
    said = SAID["German"]
    texts = []
    for seed in range(14):
        lines = _passages(said, 1).split("\n")
        random.Random(seed).shuffle(lines)
        texts.append(f"{said.persona}\n\n{said.introduction}\n" + "\n".join(lines) + f"\n\n{RULES}")
    told = _findings(tmp_path, texts)
    assert {each.code for each in told} == {"KV113"}
    assert not [each for each in told if "passages with their introduction" in each.fix]


@pytest.mark.parametrize(
    ("provider", "language"),
    some([*zip(cycle(PROVIDERS), SAID), *zip(cycle(PROVIDERS[::-1]), SAID)], 2),
)
def test_passages_in_a_question_go_before_what_is_asked(tmp_path: Path, language: str, provider: str) -> None:
    """The rules of a message are shared then, at a provider with marks too; in a conversation nothing that was said moves."""
    r = random.Random(language)
    said = SAID[language]
    mark = {"cache_control": {"type": "ephemeral"}} if provider.startswith("claude") else {}

    def text(number: int) -> str:
        found = "\n".join(said.passage.format(*(r.randint(100, 999) for _ in range(3))) for _ in range(r.randint(4, 7)))
        return f"{said.introduction}\n{found}\n\n{RULES}\n\nQ{number * 7919}: {r.getrandbits(90):x}?"

    def finding(turns: int) -> Finding | None:
        records = []
        for number in range(9):
            messages = [{"role": "user", "content": text(number * 10 + turn)} for turn in range(turns)]
            answers = [{"role": "assistant", "content": "Yes."} for _ in messages]
            talk = [each for pair in zip(messages, answers, strict=True) for each in pair][:-1]
            system = [{"type": "text", "text": f"{said.persona}\n" + RULES * 3, **mark}]
            records.append({"model": provider, "system": system, "messages": talk})
        log = tmp_path / "log.jsonl"
        log.write_text("".join(json.dumps(record) + "\n" for record in records))
        found = profile(log, advice=True).findings
        return next((each for each in found if each.fix is not None and "the passages and their" in each.fix), None)

    alone = finding(1)
    assert alone is not None
    assert (
        alone.fix
        == "move the passages and their introduction after the constant text of their message, before the question"
    )
    assert alone.tier == "P2"
    assert alone.warnings[0] == "it is in a user message: move only text that the application writes"
    assert finding(3) is None
