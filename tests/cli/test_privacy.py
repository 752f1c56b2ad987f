"""What a log says of people is in no output that nobody asked for: not in a file or a CI log, and not in a refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.listed import COMMANDS as COMMANDS_OF_KVTOOL
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
        f"It is 2026-01-0{number + 1} 10:00. You serve {WORD}, who lives at the mill. " + "Be short and be kind. " * 120
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


WORKLOAD = """\
version: 1
vars: {now: {datetime: 1m}, n: {counter: 1}}
groups:
  - name: g
    requests: 9
    messages: [{role: system, file: p.md}, {role: user, text: "Question {{ n }}"}]
"""
GOOD = "".join(json.dumps(record(number)) + "\n" for number in range(6))
BROKEN = {
    "keys.json": json.dumps({MAIL: {"n": 1}, f"{WORD} {WORD}": 2}),
    "keys.jsonl": json.dumps({MAIL: 1, "messages": 5}) + "\n",
    "cut.jsonl": json.dumps({MAIL: WORD, "messages": []})[:-9] + "\n",
    "nested.json": json.dumps({"users": [{MAIL: WORD}]}),
    "role.jsonl": json.dumps({WORD: 1, "messages": [{"role": 7, WORD: 5}]}) + "\n",
    "usage.jsonl": json.dumps({MAIL: 1, **record(0), "usage": {"prompt_tokens": WORD, WORD: 5}}) + "\n",
    "head.csv": f"{MAIL},{WORD}\na,b\n",
}
COMMANDS = (
    "logs l.jsonl", "logs l.jsonl --json", "logs l.jsonl --json --requests",
    "logs l.jsonl --json --requests --show-text snippet", "profile l.jsonl --dry-run",
    "profile l.jsonl --dry-run --json --per-request", "profile l.jsonl --dry-run --details --boundaries --plain",
    "profile l.jsonl --dry-run --by nowhere", "profile l.jsonl --dry-run --tenant nowhere", "lint l.jsonl",
    "lint l.jsonl --json", "check l.jsonl --min-hit-rate 99%", "compare-engines l.jsonl",
    "what-if l.jsonl --block-size 16", "optimize l.jsonl", "optimize l.jsonl --allow P2,P3",
    "optimize l.jsonl --allow P2,P3 --block-size 16", "optimize l.jsonl --allow P2,P3 --json",
    "optimize w.yaml --allow P2,P3", "optimize w.yaml --allow P2,P3 --write", "diff-prompts l.jsonl:1 l.jsonl:2",
    "diff-prompts l.jsonl:1 l.jsonl:2 --tokens", "diff-prompts l.jsonl:1 l.jsonl:2 --json",
    "diff-prompts l.jsonl:1 l.jsonl:2 l.jsonl:3 --tokens", "diff-prompts p.md q.md --plain",
    "profile w.yaml --dry-run", "lint w.yaml p.md", "check w.yaml --min-hit-rate 99%", "trace l.jsonl -o blocks",
)  # fmt: skip
WITHOUT_PROMPTS = {
    *("config", "schema", "explain", "doctor", "size", "prices", "bench", "watch"),  # they read no prompts
    *("compare", "report"),  # they read results, which contain no prompts unless these were asked for
    *("demo", "replay"),  # they are `profile` of an example, and of a server
    "why",  # it prints tokens by cause; test_why looks for prompts in its output
    "sessions",  # it lists names and figures of transcripts
    *("probe", "init"),  # they print what a command of the user makes, and names of variables
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_output_names_people(command: str, in_folder: Command, tmp_path: Path) -> None:
    (tmp_path / "l.jsonl").write_text(GOOD)
    for name, line in (("p.md", "You serve"), ("q.md", "We help")):
        (tmp_path / name).write_text(
            f"It is {{{{ now }}}}.\n{line} {WORD} of the mill.\n" + "Be short, be kind.\n" * 40
        )
    (tmp_path / "w.yaml").write_text(WORKLOAD)
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


def test_each_command_is_tried() -> None:
    names = {command.split()[0] for command in COMMANDS}
    assert {listed.name for listed in COMMANDS_OF_KVTOOL} == names | WITHOUT_PROMPTS
    assert not names & WITHOUT_PROMPTS


@pytest.mark.parametrize(
    "command",
    ["optimize l.jsonl --allow P2,P3 -b 16", "optimize w.yaml --allow P2,P3", "diff-prompts l.jsonl:1 l.jsonl:2"],
)
def test_texts_are_printed_for_people_or_where_they_are_asked_for(
    command: str, in_folder: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "l.jsonl").write_text(GOOD.replace("10:00.", f"10:00, {MAIL}."))
    (tmp_path / "p.md").write_text(f"For {MAIL} at {{{{ now }}}}.\n" + "Be short, be kind.\n" * 40)
    (tmp_path / "w.yaml").write_text(WORKLOAD)
    words = command.split()
    assert "hidden in pipes" in in_folder(*words)[1]
    assert "at {{ now }}" not in in_folder(*words)[1]
    assert MAIL in in_folder(*words, "--show-text", "full")[1]
    snippet = in_folder(*words, "--show-text", "snippet")[1]
    assert MAIL not in snippet
    assert "[redacted" in snippet
    monkeypatch.setattr(streams, "stdout_is_terminal", lambda: True)
    assert MAIL in in_folder(*words)[1]
    assert MAIL not in in_folder(*words, "--show-text", "none")[1]
