"""What a log says of people is in no output that nobody asked for: not in a file or a CI log, and not in a refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvtool.text.terminal import streams
from tests.conftest import Command

WORD = "Quillfeather"
"""In all that is private."""
MAIL = f"{WORD}@example.org"


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "stdout_is_terminal", lambda: False)


def record(number: int) -> dict[str, Any]:
    system = (
        f"It is 2026-01-0{number + 1} 10:00. You serve {WORD}, who lives at the mill. " + "Be short and be kind. " * 20
    )
    return {
        "id": f"request-{number}",
        "timestamp": 1_770_000_000 + number,
        "session_id": f"{WORD}-{number % 2}",
        "user": MAIL,
        "prompt_cache_key": MAIL,
        "model": "gpt-5.5",
        "messages": [
            {"role": "system", "content": system},
            {"role": "user", "content": f"I am {WORD}, number {number}"},
        ],
        MAIL: {WORD: number},
        "response": {"choices": [{"message": {"role": "assistant", "content": f"Yes, {WORD}."}}]},
    }


GOOD = "".join(json.dumps(record(number)) + "\n" for number in range(6))
BROKEN = {
    "keys.json": json.dumps({MAIL: {"n": 1}, f"{WORD} {WORD}": 2}),
    "keys.jsonl": json.dumps({MAIL: 1, "messages": 5}) + "\n",
    "cut.jsonl": json.dumps({MAIL: WORD, "messages": []})[:-9] + "\n",
    "nested.json": json.dumps({"users": [{MAIL: WORD}]}),
    "role.jsonl": json.dumps({WORD: 1, "messages": [{"role": 7, WORD: 5}]}) + "\n",
    "usage.jsonl": json.dumps({MAIL: 1, **record(0), "usage": {"prompt_tokens": -1, WORD: 5}}) + "\n",
    "head.csv": f"{MAIL},{WORD}\na,b\n",
}
COMMANDS = (
    "logs l.jsonl",
    "logs l.jsonl --json",
    "logs l.jsonl --json --requests",
    "logs l.jsonl --json --requests --show-text snippet",
    "profile l.jsonl --dry-run",
    "profile l.jsonl --dry-run --json --per-request",
    "profile l.jsonl --dry-run --details --boundaries --plain",
    "profile l.jsonl --dry-run --by nowhere",
    "profile l.jsonl --dry-run --tenant nowhere",
    "lint l.jsonl",
    "lint l.jsonl --json",
    "check l.jsonl --min-hit-rate 99%",
    "compare-engines l.jsonl",
    "what-if l.jsonl --block-size 16",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_output_names_people(command: str, in_folder: Command, tmp_path: Path) -> None:
    (tmp_path / "l.jsonl").write_text(GOOD)
    arguments = command.split()
    code, out, err = in_folder(*arguments) if arguments[0] != "logs" else logs(*arguments)
    assert code in (0, 1) or "nowhere" in command, err
    assert out or err
    assert WORD not in out + err
    assert "mill" not in out + err


def logs(*arguments: str) -> tuple[int, str, str]:
    """`kvtool logs`, which has no tokenizer."""
    import io
    from contextlib import redirect_stderr, redirect_stdout

    from kvtool.cli.app import run

    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(arguments)
    return code, out.getvalue(), err.getvalue()


@pytest.mark.parametrize("name", BROKEN)
def test_no_refusal_names_people(name: str, in_folder: Command, tmp_path: Path) -> None:
    (tmp_path / name).write_text(BROKEN[name])
    for code, out, err in (in_folder("profile", name, "--dry-run"), in_folder("lint", name), logs("logs", name)):
        assert code in (0, 1, 2)
        assert WORD not in out + err
    assert logs("logs", name)[0] == 2


def test_pseudonyms_tell_people_apart(in_folder: Command, tmp_path: Path) -> None:
    del in_folder
    (tmp_path / "l.jsonl").write_text(GOOD)
    rows = json.loads(logs("logs", "l.jsonl", "--json", "--requests")[1])["rows"]
    assert [(row["session"], row["tenant"]) for row in rows] == [
        (f"session-{at % 2 + 1}", "tenant-1") for at in range(6)
    ]
    full = json.loads(logs("logs", "l.jsonl", "--json", "--requests", "--show-text", "full")[1])["rows"]
    assert {row["tenant"] for row in full} == {MAIL}
    assert {row["session"] for row in full} == {f"{WORD}-0", f"{WORD}-1"}


def test_a_terminal_quotes_and_a_file_does_where_it_is_asked(
    in_folder: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "l.jsonl").write_text(GOOD)
    assert WORD in in_folder("lint", "l.jsonl", "--show-text", "snippet")[1]
    monkeypatch.setattr(streams, "stdout_is_terminal", lambda: True)
    assert WORD in in_folder("lint", "l.jsonl")[1]
    assert WORD not in in_folder("lint", "l.jsonl", "--show-text", "none")[1]
