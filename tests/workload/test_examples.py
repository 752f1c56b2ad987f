"""The examples in workloads/ load, repeat themselves exactly, and have the shape that their lesson needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from kvtool.workload.turn import Output, Source, Turn
from kvtool.workload.yaml.yaml_source import load_yaml_workload

ROOT = Path(__file__).resolve().parents[2] / "workloads"
EXAMPLES = sorted(path.name for path in ROOT.glob("*.yaml"))
MOST_REQUESTS = 150
MOST_CHARACTERS = 1_400_000


def turns(source: Source) -> Iterator[Turn]:
    """Every turn of a pass, each answered with the same words."""
    answer = Output("An answer of a few words.")
    for conversation in source.conversations():
        turn = conversation.next_turn(None)
        while turn is not None:
            yield turn
            turn = conversation.next_turn(answer)


def text_of(turn: Turn) -> str:
    if turn.messages is None:
        assert turn.text is not None
        return "".join(turn.text)
    return "\n".join(f"{message['role']}: {message['content']}" for message in turn.messages)


def texts(name: str) -> list[str]:
    return [text_of(turn) for turn in turns(load_yaml_workload(str(ROOT / name)))]


def shared(found: list[str]) -> int:
    """How many characters all texts begin with."""
    first, last = min(found), max(found)
    return next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))


def test_begins_with_its_lesson() -> None:
    for name in EXAMPLES:
        first = (ROOT / name).read_text(encoding="utf-8").splitlines()[0]
        assert re.fullmatch(r"# [A-Z].+\.", first)


def test_every_group_renders() -> None:
    for name in EXAMPLES:
        document = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
        found = list(turns(load_yaml_workload(str(ROOT / name))))
        assert {turn.group for turn in found} == {group["name"] for group in document["groups"]}
        for turn in found:
            assert text_of(turn).strip()
            assert "{{" not in text_of(turn)
        expected = 0
        for group in document["groups"]:
            sessions = group.get("sessions")
            expected += sessions["count"] * sessions["turns"] if sessions else group["requests"]
        assert len(found) == expected


def test_two_passes_give_the_same_texts() -> None:
    for name in EXAMPLES:
        source = load_yaml_workload(str(ROOT / name))
        assert [text_of(turn) for turn in turns(source)] == [text_of(turn) for turn in turns(source)]


def test_stays_small_enough_to_run_in_seconds() -> None:
    for name in EXAMPLES:
        found = texts(name)
        assert len(found) <= MOST_REQUESTS
        assert sum(map(len, found)) <= MOST_CHARACTERS


def test_readme_lists_each_example_once() -> None:
    rows = re.findall(r"^\| `([a-z-]+\.yaml)` ", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(rows) == EXAMPLES


def test_no_file_is_left_unused() -> None:
    everything = "".join((ROOT / name).read_text(encoding="utf-8") for name in EXAMPLES)
    used = {path for pattern in re.findall(r"(?:file|glob): \"?([\w./*-]+)", everything) for path in ROOT.glob(pattern)}
    assert {path for folder in ("prompts", "data") for path in (ROOT / folder).rglob("*") if path.is_file()} == used


def test_the_support_prompts_differ_by_the_clock_alone() -> None:
    with_clock = (ROOT / "prompts/support.md").read_text(encoding="utf-8")
    assert with_clock.splitlines()[2] == "Current time: {{ now }}"
    fixed = (ROOT / "prompts/support-fixed.md").read_text(encoding="utf-8")
    assert with_clock.replace("Current time: {{ now }}\n\n", "") == fixed


def test_the_clock_ends_what_support_prompts_share_and_the_fix_moves_it_behind_them() -> None:
    prompt = len((ROOT / "prompts/support-fixed.md").read_text(encoding="utf-8").strip())
    before, after = texts("support-bot.yaml"), texts("support-bot-fixed.yaml")
    assert shared(before) < 100
    assert shared(after) >= prompt
    clock = re.compile(r"Current time: (\S.*)")
    assert [clock.findall(text) for text in before] == [clock.findall(text) for text in after]
    assert len({clock.findall(text)[0] for text in before}) == len(before)


def test_no_prompt_occurs_twice() -> None:
    for name in ["support-bot.yaml", "few-shot.yaml", "batch-over-document.yaml", "all-unique.yaml", "too-short.yaml"]:
        found = texts(name)
        assert len(set(found)) == len(found)


def test_a_request_id_parts_prompts_that_are_else_those_of_few_shot() -> None:
    plain, traced = texts("few-shot.yaml"), texts("volatile-first.yaml")
    assert shared(plain[:2]) > 3_000
    assert shared(traced) < 20
    assert [text.split("\n\n", 1)[1] for text in traced] == plain


@pytest.mark.parametrize("name", ["multi-turn-chat.yaml", "agent-loop.yaml"])
def test_each_turn_of_a_session_extends_the_turn_before(name: str) -> None:
    sessions: dict[str | None, list[str]] = {}
    for turn in turns(load_yaml_workload(str(ROOT / name))):
        sessions.setdefault(turn.session, []).append(text_of(turn))
    assert None not in sessions
    for history in sessions.values():
        assert len(history) > 1
        assert all(later.startswith(earlier + "\nassistant: An answer") for earlier, later in pairwise(history))


def test_agents_get_tools_and_a_new_result_in_each_turn() -> None:
    for turn in turns(load_yaml_workload(str(ROOT / "agent-loop.yaml"))):
        assert turn.tools
        assert turn.messages is not None
        results = [message["content"] for message in turn.messages if message["content"].startswith("Result of ")]
        assert len(results) == len(set(results)) == turn.index + 1


def test_several_questions_go_to_the_same_chapter() -> None:
    chapters = re.findall(r"^# Staff handbook .*$", "\n".join(texts("rag-shared-document.yaml")), re.MULTILINE)
    counts = sorted((chapters.count(chapter) for chapter in set(chapters)), reverse=True)
    assert len(counts) == 5
    assert counts[0] > 2 * counts[-1]


def test_unrelated_texts_share_no_more_than_a_few_words() -> None:
    found = sorted(texts("all-unique.yaml"))
    assert max(shared([a, b]) for a, b in pairwise(found)) < 20
