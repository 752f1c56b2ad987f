"""Edits that `kvtool optimize` proposes: each is run, and only one that wins stays."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from kvtool.profiler.optimize.optimizer import Optimizer
from tests.files import write
from tests.profiler.optimize.conftest import PROMPT, RULES, WORKLOAD, Optimize, contents, document


def test_moves_need_consent_and_are_told_with_what_they_win(optimize: Optimize, desk: str) -> None:
    before = contents()
    code, out, _ = optimize(desk, "--width", "200")
    assert code == 0
    assert "Needs consent: --allow P2" in out
    assert "P2 KV101 desk: prompts/desk.md:2:6: move this line to the end" in out
    assert "(verified)" in out
    assert "Nothing to change in the tiers P0, P1" in out
    assert f"kvtool optimize {desk} -t" in out
    assert out.rstrip().endswith("--allow P2")
    assert contents() == before


def test_each_step_is_run_on_the_edited_files(optimize: Optimize, desk: str) -> None:
    found = document(optimize, desk, "--allow", "P2")
    assert [(step["code"], step["line"], step["edited"]) for step in found["steps"]] == [
        ("KV101", 2, True),
        ("KV102", 7, True),
    ]
    first, second = (step["files_hit_rate"] for step in found["steps"])
    assert first["before"] == found["hit_rate"]["before"] < first["after"] == second["before"] < second["after"]
    assert second["after"] == found["hit_rate"]["after"]
    assert found["files"] == ["prompts/desk.md"]
    assert found["undo"] is None
    assert "{{" not in json.dumps(found)


@pytest.mark.parametrize("name", ["support-bot", "volatile-first", "few-shot"])
def test_the_examples_twice(optimize: Optimize, name: str) -> None:
    """The second run finds nothing more to do in the files that the first one wrote; each run says the same twice."""
    folder = Path(__file__).parents[3] / "workloads"
    shutil.copytree(folder, "workloads")
    path = f"workloads/{name}.yaml"
    arguments = (path, "--unsafe-fixes", "-n", "12")
    said = optimize(*arguments)
    assert optimize(*arguments) == said
    first = document(optimize, *arguments, "--write")
    assert bool(first["files"]) == (name != "few-shot")
    second = document(optimize, *arguments)
    assert second["files"] == []
    assert second["hit_rate"]["before"] == first["hit_rate"]["after"]


def test_two_variables_of_one_line_win_what_was_promised(optimize: Optimize, desk: str) -> None:
    write("prompts/desk.md", "Now: {{ now }}. Request: {{ rid }}.\n" + RULES * 4)
    code, out, _ = optimize(desk, "--allow", "P2", "--json")
    assert code == 0
    step = json.loads(out)["steps"][0]
    assert step["hit_rate"]["predicted"] == pytest.approx(step["files_hit_rate"]["after"], abs=0.05)


def test_content_is_not_changed_for_little(optimize: Optimize) -> None:
    """Once the clock stands at the end, the hour instead of the time would win two points more."""
    write("prompts/desk.md", "# Desk\nNow: {{ now }}\n" + RULES * 24)
    write("w.yaml", "".join(line for line in WORKLOAD.splitlines(keepends=True) if "{{ n }}" not in line))
    found = document(optimize, "w.yaml", "--unsafe-fixes", "--write")
    first, second = found["steps"]
    assert (first["tier"], first["edited"]) == ("P2", True)
    assert (second["tier"], second["reason"]) == ("P3", "the gain is too small for a change of content")
    assert found["files"] == ["prompts/desk.md"]
    assert document(optimize, "w.yaml", "--unsafe-fixes")["files"] == []


@pytest.mark.parametrize("edited", [True, False])
def test_a_prompt_that_two_groups_read(optimize: Optimize, edited: bool) -> None:
    """One file, two groups: it is edited where both win by that; what wins in one alone may not change the other's prompts."""
    write("prompts/desk.md", PROMPT)
    other = WORKLOAD[WORKLOAD.index("  - name: desk") :].replace("name: desk", "name: other").replace("Question", "Ask")
    write("w.yaml", WORKLOAD + other + ("" if edited else "    tenant: other\n    vars: {now: noon, rid: one}\n"))
    before = contents()
    found = document(optimize, "w.yaml", "--allow", "P2")
    assert {step["edited"] for step in found["steps"]} == {edited}
    assert all(edited or "reads the same text" in step["reason"] for step in found["steps"])
    for group in found["groups"]:
        assert (group["hit_rate"]["after"] > group["hit_rate"]["before"]) == edited
    assert contents() == before


def test_steps_of_several_groups_run_together(optimize: Optimize, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four prompts that include one file: each line moves within its own prompt, and one run proves all four edits."""
    states: list[Mapping[str, str]] = []
    state_of = Optimizer._state

    def counted(self: Optimizer, overlay: Mapping[str, str]) -> object:
        states.append(overlay)
        return state_of(self, overlay)

    monkeypatch.setattr(Optimizer, "_state", counted)
    names = ("desk", "field", "lab", "shop")
    write("prompts/rules.md", RULES * 6)
    for name in names:
        write(f"prompts/{name}.md", f"# {name}\nNow: {{{{ now }}}}\n{{% include 'rules.md' %}}\nBe {name}.\n")
    group = WORKLOAD[WORKLOAD.index("  - name: desk") :]
    groups = "".join(group.replace("name: desk", f"name: {name}").replace("/desk", f"/{name}") for name in names)
    write("w.yaml", WORKLOAD.replace(group, groups))
    found = document(optimize, "w.yaml", "--allow", "P2")
    first = [step for step in found["steps"] if step["edited"]][: len(names)]
    assert [(step["group"], step["path"]) for step in first] == [(name, f"prompts/{name}.md") for name in names]
    assert "prompts/rules.md" not in found["files"]
    assert all(group["hit_rate"]["after"] > 0.5 > group["hit_rate"]["before"] for group in found["groups"])
    assert {f"prompts/{name}.md" for name in names} <= {os.path.relpath(path) for path in states[0]}


@pytest.mark.parametrize("flow", [True, False])
def test_what_leaves_a_marked_message_is_promised_as_it_is_made(in_folder: Optimize, flow: bool) -> None:
    """The end of the message is before its mark: the line gets a block after that. profile and optimize say the same."""
    write("prompts/desk.md", "Now: {{ now }}\n" + RULES * 60 + "{% for each in examples %}\n{{ each }}\n{% endfor %}\n")
    marked = WORKLOAD.replace("desk.md}", "desk.md, cache_control: 5m}").replace(
        "vars:", "engine: {provider: anthropic}\nvars:"
    )
    marked = (
        marked.replace("requests: 10", "requests: 4")
        .replace("datetime: 1m", "uuid: hex")
        .replace("  rid: {uuid: 4}", "  examples: {list: {text: Sorry.}, count: 2}")
    )
    if flow:
        marked = re.sub(r"messages:\n((?: +- .*\n)+)", lambda found: f"messages: [{_flow(found[1])}]\n", marked)
    write("w.yaml", marked)
    _, out, err = in_folder("profile", "w.yaml", "--dry-run", "--json")
    assert out, err
    profiled = json.loads(out)
    rerun = next(each["rerun"] for each in profiled["findings"] if each["rerun"])
    made = document(partial(in_folder, "optimize"), "w.yaml", "--allow", "P2", "--write")
    assert profiled["editable"]
    assert rerun["total_after"] == made["hit_rate"]["after"] > 0.7
    assert made["files"] == ["prompts/desk.md", "w.yaml"]
    assert [step["warnings"] for step in made["steps"]] == [[]], "no text changes its role"
    written = Path("w.yaml").read_text(encoding="utf-8")
    places = [written.index(text) for text in ("5m}", '{role: system, text: "Now: {{ now }}"}', "role: user")]
    assert places == sorted(places)
    assert document(partial(in_folder, "optimize"), "w.yaml", "--allow", "P2")["files"] == []


def _flow(items: str) -> str:
    return ", ".join(line.strip(" -") for line in items.splitlines())


def test_a_mark_is_tried_at_the_end_of_the_shared_text(in_folder: Optimize) -> None:
    """Where no block ends there, a trial makes one; once the user has that mark, nothing is left to fix."""
    write("prompts/desk.md", RULES * 60 + "Now: {{ now }}\n")
    hosted = WORKLOAD.replace("vars:", "engine: {provider: anthropic}\nvars:").replace("requests: 10", "requests: 4")
    hosted = hosted.replace("datetime: 1m", "uuid: hex").replace("  rid: {uuid: 4}\n", "")
    write("w.yaml", hosted)
    by_code = {
        each["code"]: each for each in json.loads(in_folder("profile", "w.yaml", "--dry-run", "--json")[1])["findings"]
    }
    assert "(before prompts/desk.md:61), and put cache_control on it" in by_code["KV203"]["fix"]
    assert by_code["KV203"]["rerun"]["total_after"] > 0.7
    write("a.md", RULES * 60)
    two = '{role: system, file: a.md, cache_control: 5m}\n      - {role: system, text: "Now: {{ now }}"}'
    write("w.yaml", hosted.replace("{role: system, file: prompts/desk.md}", two))
    split = json.loads(in_folder("profile", "w.yaml", "--dry-run", "--json")[1])
    assert all(each["severity"] == "info" for each in split["findings"])


@pytest.mark.parametrize(
    ("block", "head"), [(False, ""), (True, ""), (True, "Now: {{ now }}\n"), (False, "{{ now }}.\n")]
)
def test_a_missing_mark_is_set_in_the_workload(in_folder: Optimize, block: bool, head: str) -> None:
    """profile promises what optimize reaches, a second run finds nothing, and check says that the code sends no mark."""
    rules = "".join(f"{at}. Answer questions about tariff {at} from page {at} of the handbook.\n" for at in range(75))
    system = json.dumps(head + rules).replace("{{ ", "{").replace(" }}", "}")
    code = f"import anthropic\n\n\ndef ask(now, question):\n    system = f{system}"
    code += "\n    messages = [{'role': 'user', 'content': question}]\n    client = anthropic.Anthropic()\n"
    call = "    return client.messages.create(model='claude-sonnet-4-5', max_tokens=9, system=%s, messages=messages)\n"
    write("app.py", code + call % "system")
    comment = "# Copied from app.py:5. Copy it again after a change there."
    message = f"{{role: system, text: {json.dumps(head + rules)}}}"
    if block:
        message = f"role: system  # rules\n      text: {json.dumps(head + rules)}"
    workload = (
        "version: 1\nengine: {provider: anthropic}\nvars: {now: {uuid: hex}, question: {counter: 1}}\ngroups:\n"
        f"- name: ask\n  requests: 6\n  cache_control: none\n  messages:\n    {comment}\n    - {message}\n"
        '    - {role: user, text: "{{ question }}"}\n'
    )
    write("w.yaml", workload)
    _, out, err = in_folder("profile", "w.yaml", "--dry-run", "--json")
    assert out, err
    profiled = json.loads(out)
    promised = next(each["rerun"]["total_after"] for each in profiled["findings"] if each["rerun"])
    assert profiled["editable"]
    made = document(partial(in_folder, "optimize"), "w.yaml", "--allow", "P2", "--write")
    assert promised == made["hit_rate"]["after"] > 0.7 > made["hit_rate"]["before"] == 0
    assert (made["steps"][0]["code"], made["steps"][0]["tier"]) == ("KV203", "P0")
    written = Path("w.yaml").read_text(encoding="utf-8")
    mark = "role: system  # rules\n      cache_control: 5m\n" if block else "{role: system, cache_control: 5m, text"
    assert mark in written
    assert document(partial(in_folder, "optimize"), "w.yaml", "--allow", "P2")["files"] == []
    said = " ".join(in_folder("check", "w.yaml", "--min-hit-rate", "0")[1].split())
    if head:
        assert "is a copy of app.py:5 that differs" in said
        return
    assert "has a cache breakpoint (cache_control) that app.py:5 does not send" in said
    assert said.count("does not send") == 1
    write("app.py", code + call % "[{'type': 'text', 'text': system, 'cache_control': {'type': 'ephemeral'}}]")
    said = " ".join(in_folder("check", "w.yaml", "--min-hit-rate", "0")[1].split())
    assert "PASS" in said
    assert "cache breakpoint" not in said


def test_a_mark_and_a_move_are_tried_together_where_other_requests_hit(in_folder: Optimize) -> None:
    """One group hits by its mark; the other one has neither a mark nor a place for one before its clock."""
    rules = [f"{at}. Answer questions about tariff {at} from page {at} of the handbook.\n" for at in range(60)]
    text = json.dumps("Now: {{ now }}\n" + "".join(rules[30:]))
    user = '    - {role: user, text: "{{ question }}"}\n'
    write(
        "w.yaml",
        "version: 1\nengine: {provider: anthropic}\nvars: {now: {uuid: hex}, question: {counter: 1}}\ngroups:\n"
        f"- name: marked\n  requests: 6\n  messages:\n"
        f"    - {{role: system, cache_control: 5m, text: {json.dumps(''.join(rules[:30]))}}}\n{user}"
        f"- name: bare\n  requests: 6\n  cache_control: none\n  messages:\n    - {{role: system, text: {text}}}\n{user}",
    )
    profiled = json.loads(in_folder("profile", "w.yaml", "--dry-run", "--json")[1])
    made = document(partial(in_folder, "optimize"), "w.yaml", "--allow", "P2", "--write")
    before, after = ([group["hit_rate"][when] for group in made["groups"]] for when in ("before", "after"))
    assert before[1] == 0
    assert before[0] == after[0]
    assert after[1] > 0.7
    assert {each["rerun"]["total_after"] for each in profiled["findings"] if each["rerun"]} == {
        made["hit_rate"]["after"]
    }
    assert document(partial(in_folder, "optimize"), "w.yaml", "--allow", "P2")["files"] == []


@pytest.mark.parametrize("constant", [True, False])
def test_a_sentence_moves_past_inserted_text_that_is_the_same_in_all_requests(
    in_folder: Optimize, constant: bool
) -> None:
    """Text of users and documents stays after the instructions; a list that no request changes is the author's."""
    loop = "Tariffs:\n{% for each in tariffs %}\n- Tariff: {{ each }}\n{% endfor %}\n"
    write("prompts/desk.md", RULES * 2 + "Be brief. Today is {{ now }}.\n\n" + loop + "\nMail:\n{{ mail }}\n")
    texts = [
        f"{name} costs {at} euros within two days and needs no signature at the door"
        for at, name in enumerate("ABCDEF")
    ]
    write(
        "w.yaml",
        json.dumps(
            {
                "version": 1,
                "vars": {
                    "now": {"datetime": "1m"},
                    "mail": {
                        "choice": [f"My parcel {number} did not arrive, and nobody answers me." for number in range(9)]
                    },
                    "tariffs": {
                        "items": [
                            {"choice": texts[at:] + texts[:at] if not constant else [text]}
                            for at, text in enumerate(texts)
                        ]
                    },
                },
                "groups": [{"name": "desk", "requests": 9, "file": "prompts/desk.md"}],
            }
        ),
    )
    made = document(partial(in_folder, "optimize"), "w.yaml", "--allow", "P2", "--write")
    text = Path("prompts/desk.md").read_text(encoding="utf-8")
    assert text.index("Today is") < text.index("Mail:")
    assert not constant or "Be brief.\n" in text
    assert (text.index("{% endfor %}") < text.index("Today is")) == constant
    looks = [warning for step in made["steps"] for warning in step["warnings"]]
    assert any("moves past inserted text" in look for look in looks) == constant
    assert not constant or made["hit_rate"]["after"] > made["hit_rate"]["before"] + 0.3


def test_a_step_names_the_place_that_its_line_has_after_all_steps(optimize: Optimize) -> None:
    """Alone, the line would go to the end; with the inserts moved there too, it stays before them, as the file shows."""
    inserts = "Question: {{ question }}\nAnswer: {{ answer }}\n"
    write("judge.md", RULES * 2 + f"\n{inserts}\nJudged at {{{{ now }}}}.\n" + RULES * 3)
    texts = {
        name: {"choice": [f"{name} {at} about a parcel of mine" for at in range(count)]}
        for name, count in (("question", 3), ("answer", 4))
    }
    group = {"name": "judge", "requests": 24, "file": "judge.md"}
    write("w.yaml", json.dumps({"version": 1, "vars": {"now": {"datetime": "1m"}, **texts}, "groups": [group]}))
    made = document(optimize, "w.yaml", "--allow", "P2", "--write")
    said = {step["fix"] for step in made["steps"] if step["edited"]}
    assert said == {
        "move this line to the end of its instructions",
        "move this paragraph (2 lines) to the end of the prompt",
    }
    assert Path("judge.md").read_text(encoding="utf-8").endswith(f"Judged at {{{{ now }}}}.\n\n{inserts}")
