"""What a command prints with `--json` is what the model of its document dumps, to the byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from kvtool.cli.app import run
from kvtool.cli.root import app
from kvtool.workload.logs.formats.known_formats import format_named
from tests.files import write
from tests.results.documents import redumped

WORKLOAD = """\
version: 1
vars: {now: {datetime: 1m}, n: {counter: 1}}
groups:
  - name: support
    requests: 8
    messages:
      - {role: system, text: "Now: {{ now }}. You are the agent of a shop; be short, be kind, be right, and be quick."}
      - {role: user, text: "Question {{ n }} about the shop?"}
"""
COMMANDS = {
    "demo": ["--dry-run"],
    "profile": ["w.yaml", "--dry-run"],
    "logs": ["l.jsonl", "--requests", "--show-text", "full"],
    "check": ["w.yaml", "--min-hit-rate", "0.9"],
    "lint": ["w.yaml", "t.j2"],
    "optimize": ["w.yaml", "--allow", "P2", "--breakpoints", "2"],
    "diff-prompts": ["a.txt", "b.txt", "--tokens"],
    "compare": ["a.json", "b.json"],
    "compare-engines": ["w.yaml"],
    "explain": ["KV101"],
    "size": ["llama-3.1-8b"],
    "what-if": ["w.yaml"],
    "trace": ["l.jsonl", "-o", "blocks"],
    "prices": ["gpt-4o"],
    "config": ["--block-size", "8"],
    "schema": [],
    "report": ["a.json"],
    "sessions": ["sessions"],
}
"""Of each command that prints JSON, one way to call it."""
ELSEWHERE = {"bench", "doctor", "probe", "replay", "watch", "why"}
"""Commands that take long, need a server, or print one line for each look; their own tests look at their JSON in the same way."""
TOKENIZED = ("profile", "what-if", "trace", "compare-engines", "check", "lint", "optimize", "diff-prompts")


def test_every_command_that_prints_json_is_tried() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert {name for name, each in commands.items() if any("--json" in one.opts for one in each.params)} == {
        *COMMANDS,
        *ELSEWHERE,
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_prints_what_its_document_dumps(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bytes_json: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write("w.yaml", WORKLOAD)
    write("l.jsonl", '{"model": "m", "messages": [{"role": "user", "content": "hi"}], "usage": {"prompt_tokens": 3}}')
    Path("sessions").mkdir()
    write("sessions/s.jsonl", format_named("claude-code").example.replace("\n ", " ").strip() + "\n")
    write("t.j2", "Now: {{ now }}. " + "Be short, be kind and be right. " * 20)
    for name, clock in (("a", 5), ("b", 6)):
        write(f"{name}.txt", f"It is 10:1{clock}. " + "You are the agent of a shop. " * 4)
        if command in ("compare", "report"):
            run(["profile", "w.yaml", "--dry-run", "-q", "-b", str(clock), "-t", bytes_json, "-o", f"{name}.json"])
    capsys.readouterr()
    run([command, *COMMANDS[command], "--json", *(["-t", bytes_json] if command in TOKENIZED else [])])
    said = capsys.readouterr()
    assert said.out, said.err
    assert redumped(said.out) == said.out


def test_what_the_document_does_not_dump_is_seen() -> None:
    for text in [
        '{\n  "config": null,\n  "schema": "kvtool.settings/1",\n  "settings": [],\n  "unknown": 1\n}\n',
        '{\n  "schema": "kvtool.settings/1",\n  "config": null,\n  "settings": []\n}\n',
        '{"config": null, "schema": "kvtool.settings/1", "settings": []}\n',
    ]:
        assert redumped(text) != text
        assert (
            redumped(text)
            == json.dumps({"config": None, "schema": "kvtool.settings/1", "settings": []}, indent=2) + "\n"
        )
