"""The same prompts give the same rates, findings and fixes, in whatever files they come."""

from __future__ import annotations

import io
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import some
from tests.files import write

Command = Callable[..., tuple[int, str, str]]
_WORDS = (
    "answer", "quote", "the", "handbook", "rule", "never", "promise", "cover", "write", "short", "plain", "line",
    "queue",
)  # fmt: skip
_VALUES: tuple[Callable[[random.Random], str], ...] = (
    lambda draw: f"Now: 2026-11-{draw.randint(10, 28)} 08:{draw.randint(10, 59)}:{draw.randint(10, 59)}",
    lambda draw: f"Request id: {draw.getrandbits(128):032x}",
    lambda draw: f"You help {draw.choice(('Mara', 'Joe', 'Lea', 'Ilse', 'Omar'))} {draw.randint(100, 999)} today.",
)


def made_prompts(draw: random.Random) -> list[str]:
    """2 to 6 prompts of shared lines with one or two lines that change, at random places."""
    lines = [
        " ".join(draw.choices(_WORDS, k=draw.randint(6, 14))).capitalize() + "." for _ in range(draw.randint(8, 24))
    ]
    changing = [(draw.randrange(len(lines)), draw.choice(_VALUES)) for _ in range(draw.randint(1, 2))]
    prompts = []
    for _ in range(draw.randint(2, 6)):
        mine = list(lines)
        for place, value in changing:
            mine.insert(place, value(draw))
        prompts.append("\n".join(mine) + "\n")
    return prompts


def profiled(command: Command, *inputs: str) -> tuple[object, ...]:
    """The rate, and of each finding what it is, what it costs, what to do and what that gives."""
    code, out, err = command("profile", "--json", "--dry-run", *inputs)
    assert code == 0, err
    report: dict[str, Any] = json.loads(out)
    report = report["reports"][0] if "reports" in report else report
    findings = [
        tuple(finding[name] for name in ("code", "severity", "tokens_lost", "fix", "tier", "rerun"))
        for finding in report["findings"]
    ]
    return report["totals"]["hit_rate"], report["totals"]["requests"], findings


@pytest.mark.parametrize("seed", some(range(3), 1))
def test_prompts_as_files_a_folder_and_a_log(seed: int, in_folder: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = made_prompts(random.Random(f"prompts {seed}"))
    bodies = [json.dumps({"messages": [{"role": "user", "content": text}]}) for text in prompts]
    texts = [write(f"texts/p{number}.txt", text) for number, text in enumerate(prompts)]
    chats = [write(f"chats/p{number}.json", text) for number, text in enumerate(bodies)]
    log = write("log.jsonl", "".join(json.dumps({"prompt": text}) + "\n" for text in prompts))
    chat_log = write("chat.jsonl", "\n".join(bodies))
    pattern = write("w.yaml", 'version: 1\ngroups: [{name: g, glob: "texts/*.txt", raw: true}]\n')
    expected, expected_of_chats = profiled(in_folder, log), profiled(in_folder, chat_log)
    assert profiled(in_folder, *texts) == expected
    assert profiled(in_folder, "texts") == expected
    assert profiled(in_folder, pattern)[:2] == expected[:2]
    assert [found[:3] for found in profiled(in_folder, pattern)[2]] == [found[:3] for found in expected[2]]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(log).read_bytes())))
    assert profiled(in_folder, "-") == expected
    assert profiled(in_folder, *chats) == expected_of_chats
    assert profiled(in_folder, "chats") == expected_of_chats
