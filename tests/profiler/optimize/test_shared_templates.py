"""One edit of a template that several prompts are built on, where each of them wants it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kvtool.profiler.optimize.other_prompts import other_prompts
from tests.conftest import Command, some
from tests.files import write
from tests.profiler.optimize.conftest import Optimize, document

WORDS = [
    "open", "claim", "water", "fire", "theft", "hail", "paragraph", "letter", "garage", "tariff", "amount", "date",
    "branch", "review",
]  # fmt: skip


def rules(chance: random.Random, count: int) -> str:
    return "".join(f"{number}. {' '.join(chance.choices(WORDS, k=9))}.\n" for number in range(1, count))


def child(chance: random.Random, number: int, kind: str) -> str:
    """A prompt on `base.j2`: with what a user wrote at its end, with constant text alone, or with no text of its own."""
    body = {
        "asked": f"# Part {number}\n{rules(chance, 9)}Claim text:\n{{{{ claim }}}}\n",
        "constant": f"{rules(chance, 12)}",
        "empty": "",
    }[kind]
    block = f"{{% block body %}}\n{body}{{% endblock %}}\n" if body else ""
    return (
        f'{{% extends "base.j2" %}}\n{{% block role %}}Role {number}: {chance.choice(WORDS)}.{{% endblock %}}\n{block}'
    )


def workload(kinds: list[str]) -> str:
    head = "version: 1\nvars:\n  now: {datetime: 1m}\n  n: {counter: 1}\n  claim: {choice: [a b c d, e f g h, i j k l, m n o p]}\n"
    groups = "".join(
        f"  - name: g{number}\n    requests: 12\n    messages:\n"
        f'      - {{role: system, file: c{number}.j2}}\n      - {{role: user, text: "Go on, {{{{ n }}}}."}}\n'
        for number in range(len(kinds))
    )
    return f"{head}groups:\n{groups}"


@pytest.mark.parametrize("seed", some([1, 0, 2], 1))
def test_a_line_of_a_base_template_moves_once_for_all_prompts(optimize: Optimize, seed: int) -> None:
    chance = random.Random(seed)
    kinds = ["asked", *chance.choices(["asked", "constant", "empty"], k=chance.randint(1, 3))]
    clock = chance.choice(["Server time: {{ now }}\n", "Now is {{ now }}.\n", "- Clock: {{ now }}\n"])
    end = chance.choice(["\n", ""])
    lead = "You are the assistant of the desk.\n" * chance.randint(0, 2)
    rest = f"{{% block role %}}{{% endblock %}}\n\n{rules(chance, 14)}\n{{% block body %}}{{% endblock %}}"
    write("base.j2", f"{lead}{clock}{rest}{end}")
    for number, kind in enumerate(kinds):
        write(f"c{number}.j2", child(chance, number, kind))
    path = write("w.yaml", workload(kinds))
    found = document(optimize, path, "--allow", "P2", "--write")
    assert found["files"] == ["base.j2"], found["steps"]
    assert Path("base.j2").read_text().strip("\n") == f"{lead}{rest}\n{clock}".strip("\n")
    made = [step for step in found["steps"] if step["edited"]]
    assert sorted(step["group"] for step in made) == [f"g{number}" for number in range(len(kinds))]
    assert all(step["files_hit_rate"]["after"] > 0.5 > step["files_hit_rate"]["before"] for step in made)
    assert document(optimize, path, "--allow", "P2")["files"] == []


def test_a_prompt_that_does_not_win_by_it_is_named(optimize: Optimize) -> None:
    """One request reads the template, too: kvtool does not change its prompt unasked, and says so."""
    chance = random.Random(1)
    write("base.j2", f"Time: {{{{ now }}}}\n{rules(chance, 14)}{{% block body %}}{{% endblock %}}\n")
    for number in range(2):
        write(f"c{number}.j2", child(chance, number, "asked"))
    text = workload(["asked", "asked"]).replace("requests: 12", "requests: 1", 1)
    found = document(optimize, write("w.yaml", text), "--allow", "P2")
    assert found["files"] == []
    assert any("`g0` reads the same text" in step["reason"] for step in found["steps"])


def test_a_line_moves_between_files_that_a_message_joins(optimize: Optimize) -> None:
    chance = random.Random(2)
    write("head.j2", f"Now: {{{{ now }}}}\n{rules(chance, 9)}\n")
    write("tail.j2", f"{rules(chance, 5)}\n")
    joined = '"{% include \\"head.j2\\" %}\\n{% include \\"tail.j2\\" %}"'
    group = f"- {{name: g, requests: 4, messages: [{{role: user, text: {joined}}}]}}\n"
    path = write("w.yaml", f"version: 1\nvars: {{now: {{datetime: 1m}}}}\ngroups:\n{group}")
    assert document(optimize, path, "--allow", "P2", "--write")["files"] == ["head.j2", "tail.j2"]
    assert Path("tail.j2").read_text().strip().endswith("\nNow: {{ now }}")


def test_prompts_that_the_workload_does_not_run_are_named(in_folder: Command) -> None:
    """They include an edited file, here through another one; a template that only looks alike does not."""
    write("prompts/parts/head.j2", "Now: {{ now }}\n")
    write("prompts/parts/lead.j2", "{% include 'parts/head.j2' %}\n")
    write("prompts/run.j2", "{% include 'parts/head.j2' %}\nBe kind.\n")
    write("prompts/other.j2", '{%- extends "parts/lead.j2" %}\n')
    write("prompts/far.j2", "{% include 'head.j2' %}\n")
    write("w.yaml", "groups: [{name: g, file: prompts/run.j2}]\n")
    assert other_prompts("w.yaml", ["prompts/parts/head.j2", "w.yaml"]) == ["prompts/other.j2"]
    assert other_prompts("w.yaml", ["prompts/run.j2", "w.yaml"]) == []
