"""The command that a finding brings along shows the difference that the finding is about, in the order of whoever serves."""

from __future__ import annotations

import json
import random
import shlex
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run
from tests.conftest import Command, some
from tests.files import write

WORDS = [
    "amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath", "islet", "jetty", "knoll", "larch",
    "maple",
]  # fmt: skip
FLAGS = ((), ("--concurrency", "2"), ("--capacity", "200000"), ("--block-size", "32"), ("--provider", "anthropic"))


def prose(rng: random.Random, sentences: int) -> str:
    return " ".join(
        " ".join(rng.choice(WORDS) for _ in range(rng.randint(6, 12))).capitalize() + "." for _ in range(sentences)
    )


def bodies(rng: random.Random, model: str, *, changed: str) -> list[dict[str, Any]]:
    """Return requests of an agent in a random API; one place differs from request to request, in `tools` or in `system`."""
    described, rules, more = prose(rng, 40), prose(rng, 60), prose(rng, 40)
    found = []
    for _ in range(5):
        value = f"/home/{rng.choice(WORDS)}{rng.randint(1, 999)}/{rng.choice(WORDS)}"
        tool = f"{described} Files are in {value if changed == 'tools' else '/data'}. {more}"
        text = f"{rules} The folder is {value if changed == 'system' else '/data'}. {more}"
        name, schema = "read_file", {"type": "object", "properties": {"path": {"type": "string"}}}
        ask = f"Question {rng.randint(1, 10**6)}?"
        if model.startswith("claude"):
            blocks = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]
            tools: list[Any] = [{"name": name, "description": tool, "input_schema": schema}]
            found.append({"model": model, "max_tokens": 9, "system": blocks, "tools": tools})
            found[-1]["messages"] = [{"role": "user", "content": ask}]
        else:
            function = {"name": name, "description": tool, "parameters": schema}
            messages = [{"role": "system", "content": text}, {"role": "user", "content": ask}]
            found.append({"model": model, "messages": messages, "tools": [{"type": "function", "function": function}]})
    return found


@pytest.mark.parametrize("seed", some(range(6), 2))
def test_the_command_of_a_finding_shows_what_the_finding_names(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(seed)
    model = rng.choice(["claude-sonnet-4-6", "gpt-5.5", "llama-3.1-8b"])
    changed = rng.choice(["tools", "system"])
    log = write(
        tmp_path / "log.jsonl", "".join(json.dumps(body) + "\n" for body in bodies(rng, model, changed=changed))
    )
    given = rng.choice(FLAGS if model.startswith("claude") else FLAGS[:-1])
    out = tmp_path / "report.json"
    assert run(["profile", str(log), *given, "--dry-run", "-o", str(out)]) == 0
    report = json.loads(out.read_text())
    told = [each for each in report["findings"] if each["example"] is not None]
    assert told, "a place that changes is a finding"
    capsys.readouterr()
    for finding in told:
        words = shlex.split(finding["example"]["command"])
        assert run([*words[1:], "--json"]) == 0
        diff = json.loads(capsys.readouterr().out)
        named = {each["kind"]["code"] for each in diff["differences"]} | {diff["first_difference"]["kind"]["code"]}
        assert finding["code"] in named
        part = diff["first_difference"]["b"]["part"]
        assert ("tools" in part) == (changed == "tools"), part


def test_requests_to_anthropic_begin_with_their_tools(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(7)
    log = write(
        tmp_path / "log.jsonl",
        "".join(json.dumps(b) + "\n" for b in bodies(rng, "claude-sonnet-4-6", changed="system")),
    )
    command = ["diff-prompts", f"{log}:1", f"{log}:2", "--json"]
    common = []
    for given in ([], ["--block-size", "16"]):
        assert run([*command, *given]) == 0
        common.append(json.loads(capsys.readouterr().out)["common_tokens"])
    hosted, engine = common
    assert hosted > engine + 500, "an engine's own template has the system prompt first"


KINDS = ("time", "uuid", "user", "documents", "tools", "parts", "optional")


def made_log(kind: str, provider: str, seed: int) -> list[dict[str, Any]]:
    """Return requests of a chat API that differ in one thing."""
    rng = random.Random(seed)

    def words(count: int) -> str:
        return " ".join(rng.choice(WORDS) for _ in range(count))

    rules, documents = [words(14) for _ in range(36)], [words(50) for _ in range(5)]
    names = [(f"tool_{at}", words(12)) for at in range(4)]
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    records: list[dict[str, Any]] = []
    for n in range(9):
        lines, at = list(rules), rng.randint(1, 6)
        if kind == "time":
            lines.insert(3, f"Now: 2026-03-0{1 + n} 10:{n:02d}:07")
        elif kind == "uuid":
            lines.insert(5, f"Request {rng.getrandbits(128):032x} of the shop")
        elif kind == "user":
            lines.insert(1, f"You talk to {('Ada Byron', 'Grace Hopper', 'Linus Pauling')[n % 3]}.")
        elif kind == "documents":
            lines[4:4] = [f"<document>\n{text}\n</document>" for text in rng.sample(documents, 5)]
        elif kind == "optional" and n % 3 == 0:
            lines[6:6] = ["The customer is a VIP. Be extra kind to them.", "Offer a coupon."]
        text = "\n".join(lines)
        content: Any = text
        if kind == "parts":
            content = [
                {"type": "text", "text": rules[at]},
                {"type": "text", "text": f"Today is 2026-03-{n + 1:02d}.\n{text}"},
            ]
        asked = {"role": "user", "content": f"Question {n}: {words(8)}"}
        shown = rng.sample(names, 4) if kind == "tools" else []
        if provider == "anthropic":
            body: dict[str, Any] = {
                "model": "claude-sonnet-4-5",
                "max_tokens": 9,
                "system": content,
                "messages": [asked],
            }
            tools = [{"name": name, "description": told, "input_schema": schema} for name, told in shown]
        else:
            body = {"model": "own", "messages": [{"role": "system", "content": content}, asked]}
            tools = [
                {"type": "function", "function": {"name": name, "description": told, "parameters": schema}}
                for name, told in shown
            ]
        records.append(body | ({"tools": tools} if tools else {}))
    return records


@pytest.mark.parametrize("provider", ["anthropic", "own"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_command_shows_the_cause_at_the_place_that_the_profile_names(
    kind: str, provider: str, in_folder: Command
) -> None:
    """Two values alone may not tell what many values tell: then the comparison calls them text."""
    records = made_log(kind, provider, KINDS.index(kind))
    Path("log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    code, out, err = in_folder("profile", "log.jsonl", "--dry-run", "--json")
    assert code == 0, err
    findings = [each for each in json.loads(out)["findings"] if each["example"] is not None]
    assert findings or (kind, provider) == ("optional", "anthropic")
    for each in findings:
        tool, *words = shlex.split(each["example"]["command"])
        code, out, err = in_folder(*words, "--json")
        assert (tool, code) == ("kvtool", 0), err
        document = json.loads(out)
        logged = each["logged"]
        content = "" if logged["content"] is None else f", content[{logged['content']}]"
        place = f"{logged['part']}{content}" + (f", line {logged['line']}" if logged["line"] else "")
        shown = {(found["told"], found["kind"]["code"]) for found in document["differences"]}
        assert shown & {(place, each["code"]), (place, "KV201")}, (place, each["code"], shown)
        assert (document["block_size"] == 1) == (provider == "anthropic")
        _, screen, _ = in_folder(*words)
        assert place in screen
        assert ("no blocks" in screen) == (provider == "anthropic")
