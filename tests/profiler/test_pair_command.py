"""The command that a finding brings along shows the difference that the finding is about, in the order of whoever serves."""

from __future__ import annotations

import json
import random
import shlex
from pathlib import Path
from typing import Any

import pytest

from kvtool.cli.app import run
from tests.files import write

WORDS = [
    "amber",
    "birch",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "heath",
    "islet",
    "jetty",
    "knoll",
    "larch",
    "maple",
]
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


@pytest.mark.parametrize("seed", range(12))
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
    assert run(["profile", str(log), *given, "-o", str(out)]) == 0
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
