"""Logs whose prompts differ in what readers do not see, in roles, in old messages and in tools: named, shown, and won back."""

from __future__ import annotations

import json
import random
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvtool.results.finding import Finding
from kvtool.results.report import Report
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.workload.render import Renderer
from tests.profiler.test_real_cases import WITH_TOOLS, log, profile, prose

RULES = "You are Ada, the caf\u00e9 assistant.\nNever promise na\u00efve refunds.\n" + prose(1500, seed=5)
MARK = "\nPlease be kind, and above all be short."
FORMS: dict[str, tuple[Callable[[str, random.Random], str], str]] = {
    "line ends": (lambda text, chance: text.replace("\n", chance.choice(["\n", "\r\n"])), r"`\\(r\\)?n` / `\\(r\\)?n`"),
    "some line ends": (lambda text, chance: re.sub("\n", lambda _: chance.choice(["\n", "\r\n"]), text), r"`\\r\\n`"),
    "composed": (lambda text, chance: unicodedata.normalize(chance.choice(["NFC", "NFD"]), text), r"`U\+00E9`"),
    "Cyrillic": (
        lambda text, chance: text.replace("assistant", chance.choice(["assistant", "\u0430ssistant"])),
        r"`U\+0430`",
    ),
    "Greek": (lambda text, chance: text.replace("refunds", chance.choice(["refunds", "ref\u03c5nds"])), r"`U\+03C5`"),
    "wide": (lambda text, chance: text.replace("You", chance.choice(["You", "\uff39ou"])), r"`U\+FF39`"),
    "ligature": (
        lambda text, chance: text.replace("refunds", chance.choice(["\ufb01nal refunds", "final refunds"])),
        r"`U\+FB01`",
    ),
    "zero width": (
        lambda text, chance: text.replace("assistant", chance.choice(["assistant", "assis\u200btant"])),
        r"`U\+200B`",
    ),
    "mark": (lambda text, chance: chance.choice(["", "\ufeff"]) + text, r"`U\+FEFF`"),
    "hyphen": (lambda text, chance: text.replace("promise", chance.choice(["promise", "pro\u00admise"])), r"`U\+00AD`"),
    "space": (lambda text, chance: text.replace("the caf", chance.choice(["the caf", "the\u00a0caf"])), r"`U\+00A0`"),
    "quotes": (lambda text, chance: text.replace("Ada", chance.choice(["'Ada'", "\u2018Ada\u2019"])), r"`U\+2018`"),
    "in code": (
        lambda text, chance: f"{text}\n```\nx = 1\n```".replace("\n", chance.choice(["\n", "\r\n"])),
        r"`\\(r\\)?n` / `\\(r\\)?n`",
    ),
}


def chats(system: Callable[[int, random.Random], str], count: int = 12, *, seed: int = 3) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [
        {
            "messages": [
                {"role": "system", "content": system(number, chance)},
                {"role": "user", "content": prose(40, seed=number + 50)},
            ]
        }
        for number in range(count)
    ]


def of_code(report: Report, code: str) -> Finding:
    found = [finding for finding in report.findings if finding.code == code]
    assert len(found) == 1, [(finding.code, finding.message) for finding in report.findings]
    return found[0]


def constant(renderer: Renderer, tmp_path: Path, rows: list[dict[str, Any]]) -> float:
    """The hit rate of the same requests with one system prompt."""
    first = rows[0]["messages"][0]
    same = [{**row, "messages": [first, *row["messages"][1:]]} for row in rows]
    return profile(log(tmp_path, same), renderer).totals.hit_rate


@pytest.mark.parametrize("name", FORMS)
def test_what_nobody_sees_is_shown_and_normalized(name: str, tmp_path: Path, byte_renderer: Renderer) -> None:
    form, shown = FORMS[name]
    rows = chats(lambda _, chance: form(RULES, chance))
    most = constant(byte_renderer, tmp_path, rows)
    report = profile(log(tmp_path, rows), byte_renderer)
    assert len(report.groups) == 1
    finding = of_code(report, "KV121")
    assert re.search(shown, finding.message), finding.message
    assert finding.tier == "P1"
    assert finding.rerun is not None
    assert finding.rerun.group_after >= most - 0.02, "the whole loss"
    assert not any(each.code == "KV201" for each in report.findings)


@pytest.mark.parametrize("name", FORMS)
def test_beside_a_value_that_varies(name: str, tmp_path: Path, byte_renderer: Renderer) -> None:
    form, _ = FORMS[name]
    rows = chats(
        lambda number, chance: form(f"{RULES}\nNow: 2026-03-02 10:{number:02d}:00{MARK}\n{prose(900, seed=8)}", chance)
    )
    report = profile(log(tmp_path, rows), byte_renderer)
    codes = {finding.code for finding in report.findings if finding.rerun is not None}
    assert codes == {"KV101", "KV121"}
    best = max(finding.rerun.group_after for finding in report.findings if finding.rerun is not None)
    assert best >= constant(byte_renderer, tmp_path, rows) - 0.06


def sessions(
    change: Callable[[int, list[dict[str, Any]]], None], turns: int = 6, count: int = 3
) -> list[dict[str, Any]]:
    rows = []
    for session in range(count):
        said: list[dict[str, Any]] = [{"role": "system", "content": RULES}]
        for number in range(turns):
            seed = 100 * session + number
            said.append({"role": "user", "content": prose(80, seed=seed)})
            messages = [dict(message) for message in said]
            change(number, messages)
            rows.append({"session_id": f"s{session}", "messages": messages})
            said.append({"role": "tool", "content": prose(500, seed=seed + 30)})
            said.append({"role": "assistant", "content": prose(120, seed=seed + 60)})
    return rows


@pytest.mark.parametrize("mark", ["[removed]", "(old output cleared to save room)", "", "\u2026"])
def test_old_outputs_cut_short(mark: str, tmp_path: Path, byte_renderer: Renderer) -> None:
    def cut(number: int, messages: list[dict[str, Any]]) -> None:
        outputs = [message for message in messages if message["role"] == "tool"]
        for output in outputs[:-2]:
            output["content"] = mark

    finding = of_code(profile(log(tmp_path, sessions(cut)), byte_renderer), "KV143")
    assert finding.severity == "error"
    assert "shortened old message" in finding.message
    assert "rarely, many at once" in finding.fix


@pytest.fixture
def three_roles(byte_tokenizer: Tokenizer) -> Renderer:
    """Of a template that tells developers from the system."""
    source = "{% for m in messages %}{{ {'developer': 'dev'}.get(m.role, m.role) }}:{{ m.content }}\n{% endfor %}"
    return Renderer(lambda: byte_tokenizer, lambda _: ChatTemplate("three roles", source, {}))


@pytest.mark.parametrize("roles", [("system", "user"), ("developer", "system"), ("user", "developer")])
def test_roles_alone(roles: tuple[str, str], tmp_path: Path, three_roles: Renderer) -> None:
    def turned(number: int, messages: list[dict[str, Any]]) -> None:
        messages[0]["role"] = roles[number % 2]

    report = profile(log(tmp_path, sessions(turned)), three_roles)
    finding = of_code(report, "KV116")
    assert all(f"`{role}`" in finding.message for role in roles)
    assert finding.rerun is not None
    assert finding.rerun.group_after > finding.rerun.group_before
    assert any("evaluate" in warning for warning in finding.warnings)


def test_a_developer_is_of_the_system_for_a_template_that_does_not_know_the_role(
    tmp_path: Path, byte_renderer: Renderer
) -> None:
    def turned(number: int, messages: list[dict[str, Any]]) -> None:
        messages[0]["role"] = ("developer", "system")[number % 2]

    report = profile(log(tmp_path, sessions(turned)), byte_renderer)
    assert report.totals == profile(log(tmp_path, sessions(lambda *_: None)), byte_renderer).totals
    assert not [finding for finding in report.findings if finding.code == "KV116"]


@pytest.fixture
def tools_renderer(byte_tokenizer: Tokenizer) -> Renderer:
    return Renderer(lambda: byte_tokenizer, lambda _: ChatTemplate("tools first", WITH_TOOLS, {}))


@pytest.mark.parametrize("style", ["openai", "anthropic"])
def test_tools_added_within_a_session(style: str, tmp_path: Path, tools_renderer: Renderer) -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    plain = [
        {"name": name, "description": prose(100, seed=at)} for at, name in enumerate(("find", "read", "write", "send"))
    ]
    tools = [
        {"type": "function", "function": {**tool, "parameters": schema}}
        if style == "openai"
        else {**tool, "input_schema": schema}
        for tool in plain
    ]
    rows = sessions(lambda *_: None)
    for at, row in enumerate(rows):
        row["tools"] = tools[: 2 + (at % 6) // 2]
    finding = of_code(profile(log(tmp_path, rows), tools_renderer), "KV115")
    assert finding.severity == "error"


def test_one_loss_of_shuffled_tools_is_one_finding(tmp_path: Path, byte_renderer: Renderer) -> None:
    """The line of tools is most of how prompts begin: that alone makes no groups of them."""
    names = ["search_orders", "fetch_page", "send_mail", "open_ticket", "refund"]
    rows = chats(lambda _, chance: f"Be kind.\nTools: {', '.join(chance.sample(names, 5))}\n{RULES}", 20)
    report = profile(log(tmp_path, rows), byte_renderer)
    assert len(report.groups) == 1
    finding = of_code(report, "KV111")
    assert (finding.severity, finding.tier) == ("error", "P2")
    assert finding.points > 0.7
    assert finding.rerun is not None
    assert finding.rerun.group_after > 0.8
    assert [each.code for each in report.findings if each.code < "KV2" or each.code == "KV201"] == ["KV111"]


def test_hostile_roles_are_escaped(tmp_path: Path, byte_renderer: Renderer) -> None:
    rows = [
        {"messages": [{"role": role, "content": RULES}, {"role": "user", "content": f"{number}?"}]}
        for number, role in enumerate(["sys\u001b[31mtem", "user"] * 4)
    ]
    report = profile(log(tmp_path, rows), byte_renderer)
    assert "\u001b" not in json.dumps([finding.message for finding in report.findings], ensure_ascii=False)
