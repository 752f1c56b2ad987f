"""Cases that people reported, rebuilt from their descriptions: the first finding names the cause, and its fix wins the hits back.

Each workload is small and synthetic; only the shape of the prompts is that of the report.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kvtool.accounting.plan import Plan
from kvtool.engine.config import EngineConfig
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.prediction.latency import LatencyModel, find_accelerator
from kvtool.profiler.profiler import Profiler, ReportOptions
from kvtool.results.finding import Finding
from kvtool.results.report import Report
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.terminal.progress import Progress
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.workload.logs.files.locations import locate
from kvtool.workload.logs.logs import LogOptions, LogSource
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Source
from kvtool.workload.yaml.yaml_source import load_yaml_workload

BLOCK = 16
START = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)

WORDS = re.findall(
    r"\w+",
    "agent answer article backup balance battery branch budget cable camera carrier change claim client clock code coupon credit "
    "customer delay delivery deposit device document driver engine error escalate factory filter finance folder garden guide "
    "handle holiday invoice journey kernel ladder letter limit manual market member memory mirror notice office option order "
    "packet parcel payment phone policy printer problem profile purchase quarter question receipt record refund region rental "
    "repair report return review router sample schedule screen season server service shelf signal storage summary supply switch "
    "system target ticket token train transfer travel update value vendor version voucher warranty window worker",
)


def prose(characters: int, seed: int = 1) -> str:
    """Lines of plain words, about as long as asked; the same for the same seed."""
    chance = random.Random(seed)
    lines: list[str] = []
    while sum(map(len, lines)) + len(lines) < characters:
        lines.append(" ".join(chance.choices(WORDS, k=chance.randint(7, 12))).capitalize() + ".")
    return "\n".join(lines)


def profile(
    source: Source, renderer: Renderer, *, path: str = "w", block_size: int = BLOCK, use_arrivals: bool = False
) -> Report:
    latency = LatencyModel(find_geometry("llama-3.1-8b"), find_accelerator("h100"))
    plan = Plan(EngineConfig(block_size=block_size), latency, use_arrivals=use_arrivals)
    return Profiler(source, renderer, plan, ReportOptions(), progress=Progress(None), locate=locate, path=path).run()


def first_finding(found: Report) -> Finding:
    assert found.findings, "nothing was found"
    return found.findings[0]


def log(tmp_path: Path, records: Sequence[dict[str, Any]]) -> LogSource:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return LogSource([str(path)], LogOptions())


def assert_won_back(finding: Finding, code: str, *, least: float) -> None:
    """The finding has this code, and running again with its fix gave at least this hit rate."""
    assert finding.code == code, finding
    rerun = finding.rerun or finding.tried
    assert rerun is not None, finding
    assert rerun.group_after >= least > rerun.group_before + 0.2, rerun


def messages(system: str, *rest: tuple[str, str]) -> list[dict[str, Any]]:
    return [
        {"role": "system", "content": system},
        *({"role": role, "content": content} for role, content in rest),
    ]


def stamp(number: int, **step: float) -> str:
    return (START + number * timedelta(**step)).isoformat(timespec="microseconds")


def test_research_prompt_with_the_date_first(tmp_path: Path, byte_renderer: Renderer) -> None:
    """A research agent's system prompt: the date stands 105 characters in, of 2,114 in all."""
    opening = "You are an expert researcher who plans searches, reads sources with care and writes reports. Today is "
    opening = opening.ljust(105, ".")[:105]
    assert len(opening) == 105
    template = opening + "{{ today }}.\n" + prose(2114 - 105 - 12)
    (tmp_path / "system.md").write_text(template, encoding="utf-8")
    (tmp_path / "w.yaml").write_text(
        "version: 1\nvars:\n  today: {datetime: 1d, format: '%B %d, %Y'}\ngroups:\n  - name: research\n    requests: 24\n"
        "    messages:\n      - {role: system, file: system.md}\n      - {role: user, text: 'Compare the two proposals.'}\n",
        encoding="utf-8",
    )
    found = profile(load_yaml_workload(str(tmp_path / "w.yaml")), byte_renderer)
    assert found.totals.hit_rate < 0.06
    finding = first_finding(found)
    assert_won_back(finding, "KV101", least=0.85)
    assert (finding.path, finding.line, finding.column) == (str(tmp_path / "system.md"), 1, 106)
    assert finding.tier == "P2"


def test_microsecond_clock_before_a_long_report(tmp_path: Path, byte_renderer: Renderer) -> None:
    """The clock stands in the middle of one chat message; a report that all requests share comes after it."""
    report = prose(6000, seed=3)
    rules = prose(400, seed=4)
    rows = [
        {
            "messages": messages(
                f"{rules}\nThe current time is {stamp(number, seconds=1.7)}.\n\nREPORT\n{report}",
                ("user", f"What does section {number % 5} say about the {WORDS[number]}?"),
            )
        }
        for number in range(20)
    ]
    found = profile(log(tmp_path, rows), byte_renderer)
    assert_won_back(first_finding(found), "KV101", least=0.85)


def test_platform_and_directory_before_examples_and_map(tmp_path: Path, byte_renderer: Renderer) -> None:
    """A coding assistant says where it runs before its examples and the map of the repository."""
    examples, repository = prose(2500, seed=5), prose(2500, seed=6)
    machines = ["Linux 6.8 x86_64", "Darwin 24.1 arm64", "Windows 11 AMD64"]
    rows = [
        {
            "messages": messages(
                f"You edit code.\nPlatform: {machines[number % 3]}\nWorking directory: /home/dev{number}/src/project-{number}\n"
                f"# Examples\n{examples}\n# Repository map\n{repository}",
                ("user", f"Rename the {WORDS[number]} module."),
            )
        }
        for number in range(20)
    ]
    found = profile(log(tmp_path, rows), byte_renderer)
    codes = [finding.code for finding in found.findings if finding.rerun is not None]
    assert "KV106" in codes
    assert_won_back(first_finding(found), codes[0], least=0.85)
    assert set(codes) <= {"KV106", "KV201"}


def tool(name: str, seed: int) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": prose(150, seed=seed),
            "parameters": {
                "type": "object",
                "properties": {"query": {"type": "string", "description": prose(60, seed)}},
            },
        },
    }


TOOLS = [
    tool(f"{verb}_{noun}", index) for index, (verb, noun) in enumerate(zip(WORDS[:24:2], WORDS[1:24:2], strict=True))
]
WITH_TOOLS = "{{ tools | tojson }}\n{% for message in messages %}{{ message.role }}:{{ message.content }}\n{% endfor %}"


@pytest.fixture
def tools_renderer(byte_tokenizer: Tokenizer) -> Renderer:
    return Renderer(lambda: byte_tokenizer, lambda _: ChatTemplate("tools first", WITH_TOOLS, {}))


def test_tools_of_an_unordered_map(tmp_path: Path, tools_renderer: Renderer) -> None:
    """A server lists its tools in the order of a hash map: hardly any request begins like another."""
    chance = random.Random(7)
    rows = [
        {
            "messages": messages("You help.\n" + prose(300), ("user", f"Look for the {WORDS[number]}.")),
            "tools": chance.sample(TOOLS, len(TOOLS)),
        }
        for number in range(16)
    ]
    found = profile(log(tmp_path, rows), tools_renderer)
    assert found.totals.hit_rate < 0.06
    finding = first_finding(found)
    assert_won_back(finding, "KV111", least=0.85)
    assert finding.tier == "P1"


def test_a_counter_at_the_start_of_the_history(tmp_path: Path, byte_renderer: Renderer) -> None:
    """Every turn writes its number in front of the conversation."""
    turns = [("user" if index % 2 == 0 else "assistant", prose(260, seed=index)) for index in range(31)]
    rows = [
        {
            "session_id": "s1",
            "messages": messages(f"Step {turn} of at most 50.\n{prose(500)}", *turns[: 2 * turn + 1]),
        }
        for turn in range(1, 15)
    ]
    found = profile(log(tmp_path, rows), byte_renderer)
    finding = first_finding(found)
    assert_won_back(finding, "KV105", least=0.6)


def test_a_sliding_window(tmp_path: Path, byte_renderer: Renderer) -> None:
    """The application keeps the last twelve messages: from then on each turn cuts the front of the history off."""
    turns = [("user" if index % 2 == 0 else "assistant", prose(300, seed=index)) for index in range(81)]
    rows = [
        {"session_id": "s1", "messages": messages(prose(200), *turns[max(0, 2 * turn + 1 - 12) : 2 * turn + 1])}
        for turn in range(40)
    ]
    found = profile(log(tmp_path, rows), byte_renderer)
    finding = first_finding(found)
    assert_won_back(finding, "KV141", least=0.5)
    assert finding.tier == "P3"


DATED = (
    "System. Today Date: {{ strftime_now('%d %b %Y') }}\n"
    "{% for message in messages %}{{ message.role }}:{{ message.content }}\n{% endfor %}"
)


def test_a_chat_template_that_writes_the_date(tmp_path: Path, byte_tokenizer: Tokenizer) -> None:
    """Nobody put a date into the prompt; the template did, and every day begins cold."""
    (tmp_path / "w.yaml").write_text(
        "version: 1\nvars:\n  n: {counter: 1}\ngroups:\n  - name: bot\n    requests: 24\n"
        "    arrival: {process: uniform, rate: 0.0416666/h}\n"
        f"    messages:\n      - {{role: system, text: '{prose(1500).replace(chr(10), ' ')}'}}\n"
        "      - {role: user, text: 'Question {{ n }}?'}\n",
        encoding="utf-8",
    )

    def load(tokenizer: Tokenizer, clock: Callable[[], datetime] | None = None) -> ChatTemplate:
        return ChatTemplate("dated", DATED, tokenizer.special_tokens, clock=clock)

    renderer = Renderer(lambda: byte_tokenizer, load)
    found = profile(load_yaml_workload(str(tmp_path / "w.yaml")), renderer, use_arrivals=True)
    assert found.totals.hit_rate < 0.1
    assert_won_back(first_finding(found), "KV131", least=0.85)


MOVING = (
    "{% set last = messages | length - 1 %}{% for message in messages %}"
    "{% if loop.index0 == last %}[TOOLS]{{ tools | tojson }}[/TOOLS]\n{% endif %}"
    "{{ message.role }}:{{ message.content }}\n{% endfor %}"
)


def test_a_template_that_moves_the_tools_to_the_last_user_turn(tmp_path: Path, byte_tokenizer: Tokenizer) -> None:
    """Each turn takes the tools out of the place where the last one had them."""
    turns = [("user" if index % 2 == 0 else "assistant", prose(200, seed=index)) for index in range(21)]
    rows = [
        {
            "session_id": f"s{session}",
            "tools": TOOLS,
            "messages": messages(prose(100), ("user", prose(80, 90 + session)), ("assistant", "Yes."), *turns[: 2 * turn + 1]),
        }
        for session in range(2)
        for turn in range(10)
    ]  # fmt: skip
    renderer = Renderer(lambda: byte_tokenizer, lambda _: ChatTemplate("moving", MOVING, {}))
    found = profile(log(tmp_path, rows), renderer)
    finding = first_finding(found)
    assert finding.code == "KV133", finding
    assert finding.tried is not None
    assert finding.tried.group_after > finding.tried.group_before + 0.2


def shuffled(lines: Sequence[str], chance: random.Random) -> str:
    return "\n".join(chance.sample(lines, len(lines)))


def test_memories_in_another_order_each_turn(tmp_path: Path, byte_renderer: Renderer) -> None:
    """A memory store returns the same entries ranked anew for each question."""
    entries = [
        f"- {prose(170, seed=index).splitlines()[0]} {prose(90, seed=90 + index)}".replace("\n", " ")
        for index in range(14)
    ]
    chance = random.Random(9)
    rows = [
        {
            "messages": messages(
                f"{prose(200)}\n\n# Memory\n{shuffled(entries, chance)}\n\n# Rules\n{prose(800, seed=11)}",
                ("user", f"And the {WORDS[number]}?"),
            )
        }
        for number in range(18)
    ]  # fmt: skip
    found = profile(log(tmp_path, rows), byte_renderer)
    finding = first_finding(found)
    assert_won_back(finding, "KV113", least=0.8)


def test_a_hundred_tokens_in_front_shift_every_block(tmp_path: Path, byte_renderer: Renderer) -> None:
    """The same document of 52 blocks: 52 of 64 blocks hit where it comes first, none where 100 other tokens do."""
    document = prose(52 * BLOCK + 40, seed=12)[: 52 * BLOCK]
    heads = [f"Prepared for {prose(200, seed=200 + number)}".replace("\n", " ")[:99] + "\n" for number in range(12)]
    tails = [prose(200, seed=300 + number)[: 12 * BLOCK - 100] for number in range(12)]
    rows = [{"prompt": head + document + "\n" + tail} for head, tail in zip(heads, tails, strict=True)]
    found = profile(log(tmp_path, rows), byte_renderer)
    assert found.totals.hit_tokens <= 12 * BLOCK
    finding = first_finding(found)
    assert finding.code in ("KV201", "KV202"), finding
    assert finding.rerun is not None
    # Eleven of twelve requests find the document: 52 of their 64 blocks.
    assert finding.rerun.group_after == pytest.approx(11 / 12 * 52 / 64, abs=0.03)
