"""A second run of optimize, on the files as the first one wrote them, finds nothing to do."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from tests.conftest import Command, some

WORDS = ["alpha", "bravo", "customer", "delivery", "order", "refund", "policy", "ticket", "product", "agent"]
CHANGING = (
    "The time is {{ now }}.",
    "User: {{ user }}",
    "{% if tier == 'gold' %}Gold customer.{% endif %}",
    "{{ form }}",
    "## Context\nNow: {{ now }}\nUser: {{ user }}\n",
    "Hello {{ user }}, it is {{ now }}. Delivery ticket bravo agent bravo agent policy.",
)


def write_workload(rng: random.Random, end: str) -> None:
    """Write a workload of segments, some in files of their own, with changing lines at random places."""

    def sentence(words: int) -> str:
        return " ".join(rng.choice(WORDS) for _ in range(words)).capitalize() + "."

    lines = [
        "version: 1",
        "vars:",
        "  now: {datetime: 1m}",
        "  user: {uuid: 4}",
        "  tier: {choice: [gold, silver]}",
        """  form: {choice: ['Data: {"order": 1, "agent": [2, 3]}', 'Data: {"order":1,  "agent":[2,  3]}']}""",
        f"  question: {{choice: [{sentence(3)!r}, {sentence(4)!r}, {sentence(5)!r}]}}",
        "groups:",
        "  - name: chat",
        "    requests: 20",
        f"    join: {json.dumps(rng.choice(['', chr(10), chr(10) * 2]))}",
        "    segments:",
    ]
    for number in range(rng.randint(2, 5)):
        body = [rng.choice(("", "- ")) + sentence(12) for _ in range(rng.randint(1, 8))]
        body += [rng.choice(CHANGING) for _ in range(rng.randint(0, 1))]
        rng.shuffle(body)
        text = "\n".join(body) + "\n"
        if rng.random() < 0.6:
            Path(f"s{number}.j2").write_bytes(text.replace("\n", end).encode())
            lines.append(f"      - {{id: s{number}, file: s{number}.j2}}")
        else:
            lines += [f"      - id: s{number}", "        text: |", *("          " + line for line in text.splitlines())]
    lines.append('      - {id: q, text: "Question: {{ question }}"}')
    Path("w.yaml").write_bytes((end.join(lines) + end).encode())


def files() -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in Path().iterdir() if path.suffix in (".yaml", ".j2")}


@pytest.mark.parametrize("seed", some([9, 0, 1, 2, 3, 4], 2))
def test_a_second_run_changes_no_file(in_folder: Command, seed: int) -> None:
    """What the first one promises of a step is what its files hit, and each step begins where the one before ended."""
    rng = random.Random(seed)
    end = rng.choice(("\n", "\r\n"))
    write_workload(rng, end)
    command = ("optimize", "w.yaml", "--unsafe-fixes", "--write")
    code, out, _ = in_folder(*command, "--json")
    assert code == 0
    made = json.loads(out)
    rate = made["hit_rate"]["before"]
    for step in made["steps"]:
        if step["edited"]:
            reached = step["files_hit_rate"]["after"]  # Jinja may write other line ends than a trial has
            assert step["hit_rate"]["after"] == pytest.approx(reached, abs=0.001 if end == "\n" else 0.005)
            assert step["files_hit_rate"]["before"] == pytest.approx(rate, abs=1e-9)
            rate = step["files_hit_rate"]["after"]
    assert rate == pytest.approx(made["hit_rate"]["after"], abs=1e-9)
    first = files()
    assert all(text.count(b"\n") == text.count(end.encode()) for text in first.values())
    assert in_folder(*command)[0] == 0
    assert files() == first


@pytest.mark.parametrize("seed", some([1, 2], 1))
def test_the_rate_beside_a_command_is_what_it_reaches(in_folder: Command, seed: int) -> None:
    """What a later step would win, such as a change of content, is not in the figure."""
    rng = random.Random(seed)

    def rules(count: int) -> str:
        return "\n".join(" ".join(rng.choices(WORDS, k=12)) + "." for _ in range(count))

    lines = "Request {{ user }}", rules(4), "Trace id: {{ user }}", rules(2), "Now: {{ now }}.", rules(2)
    Path("a.j2").write_text("\n".join((rules(2), *lines, "")))
    Path("b.j2").write_text(f"Today is {{{{ now }}}}, and you talk to {{{{ user }}}}.\n{rules(5)}\n")
    segments = "{id: a, file: a.j2}, {id: b, file: b.j2}, {id: q, text: 'Question?'}"
    groups = f"[{{name: g, requests: 8, segments: [{segments}]}}]"
    Path("w.yaml").write_text(f"version: 1\nvars: {{now: {{datetime: 1m}}, user: {{uuid: 4}}}}\ngroups: {groups}\n")
    profile = ("profile", "w.yaml", "--dry-run")
    before = in_folder(*profile)[1]
    rate = re.search(r"Hit rate +[\d.]+% now, ([\d.]+%) with ", before)
    assert rate is not None
    assert re.search(r"kvtool optimize w\.yaml [^\n]*(\\\n[^\n]*)*--allow P2\n", before)
    assert in_folder("optimize", "w.yaml", "--allow", "P2", "--write")[0] == 0
    assert f"Hit rate    {rate[1]}" in in_folder(*profile)[1]


REFUSED_AT_FIRST = {
    "w.yaml": """\
version: 1
vars:
  now: {datetime: 1m}
  user: {uuid: 4}
  tier: {choice: [gold, silver]}
  question: {choice: ["Ticket order.", "Delivery bravo bravo.", "Order product refund order."]}
groups:
  - name: chat
    requests: 30
    join: "\\n"
    segments:
      - {id: s0, file: s0.j2}
      - id: s1
        text: |
          ## Context
          Now: {{ now }}
          User: {{ user }}
          \n          - Alpha customer bravo policy bravo refund delivery customer product alpha customer ticket.
          - Agent alpha delivery bravo ticket agent agent agent bravo delivery policy refund.
          Agent agent product ticket agent alpha delivery order product delivery bravo product.
      - id: s2
        text: |
          - Bravo order order customer policy ticket order policy order alpha customer bravo.
          - Refund ticket order ticket delivery agent delivery product agent product delivery delivery.
          - Agent order order product alpha customer alpha ticket bravo bravo delivery product.
          {% if tier == 'gold' %}Gold customer.{% endif %}
          Delivery agent bravo agent alpha customer alpha agent ticket product bravo ticket.
          - Product alpha alpha ticket delivery order bravo bravo customer delivery order product.
          Customer order agent ticket refund product product policy refund agent bravo ticket.
      - {id: q, text: "Question: {{ question }}"}
""",
    "s0.j2": """\
Hello {{ user }}, it is {{ now }}. Delivery ticket bravo agent bravo agent policy policy alpha.
- Customer ticket refund product alpha product delivery customer delivery ticket product bravo.
- Product bravo agent alpha order delivery ticket product product bravo alpha agent.
Refund agent agent policy bravo order ticket ticket refund alpha refund customer.
- Refund alpha policy refund bravo order order product bravo order ticket ticket.
Refund delivery order agent bravo alpha product policy policy ticket alpha customer.
- Alpha product bravo customer ticket customer order product alpha customer alpha ticket.
- Alpha agent delivery delivery policy delivery refund policy bravo refund alpha customer.
- Alpha ticket order customer agent refund agent delivery product customer bravo policy.
""",
}
"""The first round orders blocks, and no edit makes the move of a line then; once the blocks are in order, one does."""


def test_what_was_impossible_is_tried_again_in_edited_files(in_folder: Command) -> None:
    for name, text in REFUSED_AT_FIRST.items():
        Path(name).write_text(text)
    command = ("optimize", "w.yaml", "--unsafe-fixes", "--json")
    _, out, _ = in_folder(*command, "--write")
    first = json.loads(out)["hit_rate"]
    _, out, _ = in_folder(*command)
    second = json.loads(out)
    assert first["after"] > first["before"]
    assert second["hit_rate"]["before"] == second["hit_rate"]["after"] == first["after"]
    assert not any(step["edited"] for step in second["steps"])


@pytest.mark.parametrize("seed", some(range(4), 2))
def test_fewer_tiers_reach_what_is_in_them(in_folder: Command, seed: int) -> None:
    write_workload(random.Random(seed), "\n")
    found = {}
    for flag in ("--allow=P2", "--unsafe-fixes"):
        _, out, _ = in_folder("optimize", "w.yaml", "--json", flag)
        found[flag] = json.loads(out)
    made = {step["tier"] for step in found["--unsafe-fixes"]["steps"] if step["edited"]}
    if "P3" not in made:
        rates = [each["hit_rate"]["after"] for each in found.values()]
        assert rates[0] >= rates[1] - 0.005
