"""`kvtool check`: which workloads and groups it reads, and mistakes in them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kvtool.errors import KvtoolError, Place
from kvtool.gate.copied_prompts import differing_copies
from kvtool.gate.opened import Problems, in_order
from kvtool.lint.prompt_copies import copy_prompts
from kvtool.text.tokens import tokenizer
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.workload.yaml.made_up_values import copied_comment, sent_comment
from kvtool.workload.yaml.yaml_source import load_yaml_workload
from tests.conftest import Command
from tests.files import write
from tests.gate.conftest import CALM, CONFIG, RULES, SUPPORT, last_line, result_of


def test_workloads_of_the_configuration(check: Command) -> None:
    write("kvtool.toml", CONFIG)
    write("a.yaml", CALM)
    write("b.yaml", SUPPORT)
    result = result_of(check, "--no-advice")
    assert [report.workload for report in result.reports] == ["a.yaml", "b.yaml"]
    assert result.verdict.outcome == "fail"
    assert {check.id: check.status for check in result.verdict.checks} == {
        "a.yaml/hit_rate": "pass",
        "b.yaml/hit_rate": "fail",
        "b.yaml/support/hit_rate": "fail",
        "b.yaml/rag/hit_rate": "pass",
        "b.yaml/rag/reachable_gap": "pass",
        "b.yaml/rag/ttft_p90": "pass",
    }
    places = {check.id: f"{check.path}:{check.line}" for check in result.verdict.checks}
    assert places["b.yaml/hit_rate"] == "kvtool.toml:4"
    assert places["b.yaml/support/hit_rate"] == "b.yaml:12"
    assert places["b.yaml/rag/ttft_p90"] == "kvtool.toml:9"
    for report in result.reports:
        assert report.gates == [check for check in result.verdict.checks if check.workload == report.workload]
        assert report.verdict == ("pass" if report.workload == "a.yaml" else "fail")


def test_a_part_of_the_workloads(check: Command) -> None:
    write("kvtool.toml", CONFIG)
    write("a.yaml", CALM)
    write("b.yaml", SUPPORT)
    code, out, _ = check("a.yaml", "--no-advice")
    assert (code, last_line(out)) == (0, "PASS 1 gate")  # that `rag` is in the other one is no mistake
    code, out, _ = check("-g", "rag", "--no-advice")
    assert (code, last_line(out)) == (0, "PASS 4 gates (1 of all requests, 3 of groups)")
    write("bad.yaml", "version: 2")
    assert "no workload has" not in check("a.yaml", "bad.yaml", "-g", "rag")[2]  # perhaps the other one has
    Path("bad.yaml").unlink()
    code, out, _ = check("-g", "support", "--no-advice")
    assert (code, "no workload has a group" in out) == (1, False)  # that `rag` is left out is none either
    check("--no-advice", "--update-baseline")
    assert "a.yaml: taken out" not in check("-g", "rag", "--no-advice", "--update-baseline")[1]
    assert "no longer checked" not in check("-g", "rag", "--no-advice")[1]
    assert check("-g", "ragg")[0::2] == (
        2,
        "error: --group: no workload has a group `ragg`\n  help: did you mean `rag`?\n",
    )


def test_nothing_to_check(check: Command) -> None:
    code, out, err = check()
    assert (code, out) == (2, "")
    assert "there is no INPUT, and no configuration file with `workloads`" in err
    assert "kvtool init" in err
    write("kvtool.toml", "[gate]\nhit_rate = 0.5\n")
    assert "there is no INPUT, and kvtool.toml has no `workloads`" in check()[2]
    write("kvtool.toml", 'workloads = ["none/*.yaml"]\n')
    code, _, err = check()
    assert code == 2
    assert "kvtool.toml:1:14: no file matches `none/*.yaml`" in err


def test_a_group_that_no_workload_has(check: Command) -> None:
    write("kvtool.toml", CONFIG.replace("groups.rag", "groups.ragg"))
    write("b.yaml", SUPPORT)
    code, out, err = check("--no-advice")
    assert (code, out) == (2, "")
    assert "kvtool.toml:6:14: no workload has a group `ragg`" in err
    assert "did you mean `rag`?" in err


def test_groups_of_logs_are_known_when_they_were_read(check: Command) -> None:
    write("a.txt", RULES + "one")
    write("b.txt", RULES + "two")
    write(
        "kvtool.toml",
        'workloads = ["*.txt"]\n[gate.groups.prompts]\nhit_rate = 0.4\n',
    )
    code, out, _ = check("--no-advice")
    assert (code, last_line(out)) == (0, "PASS 1 gate")
    write("kvtool.toml", 'workloads = ["*.txt"]\n[gate.groups.c]\nhit_rate = 0.5\n')
    code, out, err = check("--no-advice")
    assert (code, out) == (2, "")
    assert "no workload has a group `c`" in err


def test_a_group_of_a_log_is_judged_alone(check: Command) -> None:
    write("a.txt", RULES + "one")
    write("b.txt", RULES + "two")
    write("c.yaml", SUPPORT)
    code, out, _ = check("a.txt", "b.txt", "c.yaml", "-g", "prompts", "--min-hit-rate", "10%", "--no-advice")
    assert (code, last_line(out), "c.yaml" in out) == (0, "PASS 1 gate", False)
    code, _, err = check("a.txt", "b.txt", "-g", "prompt", "--no-advice")
    assert (code, "its groups are prompts" in err) == (2, True)


def test_all_mistakes_at_once_and_nothing_half_judged(check: Command) -> None:
    write("good.yaml", SUPPORT)
    write("bad.yaml", SUPPORT.replace("requests", "reqests"))
    write("log.jsonl", '{"messages": [{"role": "user", "content": "a"}]}\nnot json\n')
    write("base.json", "{")
    code, out, err = check(
        *("good.yaml", "bad.yaml", "none.yaml", "none.md", "log.jsonl", "--baseline", "base.json", "--error-on", "KV9"),
        "--no-advice",
    )
    assert (code, out) == (2, "")
    for told in ("unknown key `reqests`", "`none.yaml`", "`none.md`", "base.json", "--error-on: `KV9`"):
        assert told in err
    code, out, err = check("good.yaml", "log.jsonl", "--no-advice")  # this one shows only when it is read
    assert code == 2
    assert "KV204" in out, "what is found in the others is not hidden"
    assert not {"PASS", "FAIL", "NO GATE"} & set(out.split()), "and nothing is judged"
    assert "log.jsonl:2" in err


def test_one_bad_input_hides_no_finding_of_the_others(check: Command) -> None:
    chats = [
        {
            "messages": [
                {"role": "system", "content": f"Now: 10:{number:02d}\n{RULES}"},
                {"role": "user", "content": "Hi"},
            ]
        }
        for number in range(6)
    ]
    write("good.jsonl", "".join(json.dumps({"id": "same", **one}) + "\n" for one in chats))
    write("again.jsonl", "".join(json.dumps({"id": "same", **one}) + "\n" for one in chats))
    write("bad.jsonl", json.dumps(chats[0]) + "\n{nonsense\n")
    write("p.j2", "Now: {{ now() }}\n" + RULES)
    write("broken.j2", "{% if %}")
    write("broken.py", "def (\n")
    code, out, err = check(
        *("bad.jsonl", "good.jsonl", "again.jsonl", "missing.jsonl", "p.j2", "broken.j2", "broken.py", "missing.md")
    )
    assert code == 2
    assert "again.jsonl:2 · messages[0] (system), line 1: KV101 error" in out
    assert "p.j2:1:6: KV101" in out
    assert "PASS" not in out
    assert "NO GATE" not in out
    for told in ("bad.jsonl:2:2", "missing.jsonl", "broken.j2:1:1", "broken.py:1:5", "missing.md"):
        assert err.count(told) >= 1, told
    code, out, err = check("p.j2", "broken.py", "--json")
    assert (code, out) == (2, ""), "a document without a verdict is none"
    code, out, _ = check("good.jsonl", "again.jsonl", "p.j2")
    assert (code, "NO GATE: no limit is set, 2 errors allowed: KV101 at again.jsonl:2" in out) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--max-drop", "-1"], "--max-drop"),
        (["--min-hit-rate", "80"], "--min-hit-rate"),
        (["--requests", "0"], "--requests"),
        (["-o", "x.bogus"], "--output x.bogus"),
        (["-o", "w.yaml"], "w.yaml"),
        (["--baseline", "b.json", "-o", "b.json"], "is the baseline, too"),
    ],
)
def test_usage_errors(arguments: list[str], told: str, check: Command) -> None:
    write("w.yaml", SUPPORT)
    code, out, err = check("w.yaml", *arguments)
    assert (code, out) == (2, "")
    assert told in err


def test_the_order_of_inputs_and_how_they_are_written_do_not_matter(check: Command, tmp_path: Path) -> None:
    write("a.yaml", CALM)
    write("b.yaml", SUPPORT)
    write("x.txt", RULES + "one")
    write("y.txt", RULES + "two")
    paths = ["a.yaml", "b.yaml", "x.txt", "y.txt"]
    first = check("--json", "--no-advice", *paths)
    assert first == check("--json", "--no-advice", *reversed(paths), "./a.yaml", str(tmp_path / "b.yaml"))
    assert in_order(["./b", str(tmp_path / "a"), "b", "c/../b"]) == ["a", "b"]


def test_the_same_from_any_folder_and_however_the_configuration_is_named(
    check: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(".git/HEAD", "")
    write("kvtool.toml", CONFIG)
    write("a.yaml", CALM)
    write("in/b.yaml", SUPPORT)
    write("kvtool.toml", CONFIG.replace("*.yaml", "**/*.yaml"))
    here = str(tmp_path)
    first = check("--json", "--no-advice")
    for name in ("kvtool.toml", "./kvtool.toml", "in/../kvtool.toml", f"{here}/kvtool.toml"):
        assert check("--json", "--no-advice", "-c", name) == first
    outputs = {name: check("-o", name, "--no-advice")[1] for name in ("sarif", "gitlab")}
    monkeypatch.chdir("in")
    tokenizer = ("-t", "../tokenizer.json")
    code, out, _ = check(*tokenizer, "--json", "--no-advice")
    assert (code, here in out) == (1, False)
    for arguments in (("-c", "../kvtool.toml"), ("-c", f"{here}/kvtool.toml"), (f"{here}/a.yaml", "b.yaml")):
        assert check(*tokenizer, "--json", "--no-advice", *arguments)[:2] == (code, out)
    for name, text in outputs.items():  # what platforms know results by
        again = check(*tokenizer, "-o", name, "--no-advice")[1]
        prints = [re.findall(r'"(?:fingerprint|kvtool/v1|uri|path)": "(.*)"', each) for each in (text, again)]
        assert prints[0] == prints[1] != []


def test_a_tokenizer_is_loaded_once(check: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []
    real = tokenizer.load_tokenizer

    def load(name: str | None, *, offline: bool) -> Tokenizer:
        loaded.append(name)
        return real(name, offline=offline)

    monkeypatch.setattr(tokenizer, "load_tokenizer", load)
    for number in range(3):
        write(f"{number}.yaml", CALM)
    assert check("0.yaml", "1.yaml", "2.yaml", "--no-advice")[0] == 0
    assert loaded == ["tokenizer.json"]


def test_a_mistake_is_told_once_and_at_each_place() -> None:
    made = [KvtoolError("unknown key", place=place) for place in (Place("w.yaml", 1), Place("w.yaml", 2), None)]
    problems = Problems([*made, KvtoolError("unknown key", place=Place("w.yaml", 1)), KvtoolError("unknown key")])
    assert problems.told == made


def test_a_group_differs_from_what_code_sends_around_its_templates(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    for name in ("rules", "facts"):
        (tmp_path / f"prompts/{name}.j2").write_text(f"{name}: {RULES} {{{{ {name} }}}}")
    rules, facts = (f"render('{name}.j2', {name}={name})" for name in ("rules", "facts"))
    clock = "f'It is {datetime.now()}.\\n'"
    system = "      - {role: system, file: prompts/%s.j2}\n"
    sent = f"      {sent_comment('app.py:7')}\n"
    workload = "version: 1\nvars: {rules: {text: a}, facts: {text: b}}\ngroups:\n  - name: ask\n    messages:\n"
    one, two = (workload + "".join(sent + system % name for name in names) for names in (["rules"], ["rules", "facts"]))
    question = "      - {role: user, text: Hi}\n"
    cases = [
        (one, [rules], False),
        (two, [rules, facts], False),
        (one, [rules, facts], True),
        (two, [rules], True),
        (one, [f"{clock} + {rules}"], True),
        (one, [f"{rules} + {clock}"], True),
        (one, [facts], True),
        (one.replace(sent, ""), [facts], False),  # nothing says that this code sends it
    ]
    for text, systems, differs in cases:
        said = "".join(f"{{'role': 'system', 'content': {each}}}, " for each in systems)
        (tmp_path / "app.py").write_text(
            "import jinja2\nfrom datetime import datetime\nfrom openai import OpenAI\n"
            "env = jinja2.Environment(loader=jinja2.FileSystemLoader('prompts'))\n\n"
            "def render(name, **values):\n    return env.get_template(name).render(**values)\n\n"
            "def ask(rules, facts, question):\n    return OpenAI().chat.completions.create(\n"
            f"        model='m', messages=[{said}{{'role': 'user', 'content': question}}])\n"
        )
        (tmp_path / "w.yaml").write_text(text + question)
        found = differing_copies(load_yaml_workload(str(tmp_path / "w.yaml")))
        assert [one.groups for one in found] == ([["ask"] * len(found[0].groups)] if differs else []), (text, systems)


def test_a_copy_that_was_edited_is_named_in_the_verdict(check: Command) -> None:
    system = f"Now: {{now}}. {RULES}"
    code = f'from openai import OpenAI\n\n\ndef ask(now: str, question: str) -> object:\n    text = f"{system}"\n'
    code += '    messages = [{"role": "system", "content": text}, {"role": "user", "content": question}]\n'
    write("agent.py", f'{code}    return OpenAI().chat.completions.create(model="gpt-4o", messages=messages)\n')
    (copy,) = copy_prompts(Path(), ["agent.py"], [])
    comment = f"      {copied_comment('agent.py:5')}\n"
    message = f"      - {{role: system, text: {json.dumps(copy.messages[0][1])}}}\n"
    head = "version: 1\nvars:\n  now: {datetime: 1m}\ngroups:\n  - name: agent\n    requests: 4\n    messages:\n"
    write("w.yaml", head + comment + message)
    assert "differs" not in last_line(check("w.yaml", "--min-hit-rate", "0")[1])
    write("w.yaml", head + comment + message.replace("be short", "be long"))
    code, out, _ = check("w.yaml", "--min-hit-rate", "0")
    said = " ".join(out.split())
    assert code == 1, "the rate is of a prompt that nobody sends"
    assert "FAIL 1 gate (all requests cannot be checked), a copied prompt differs from agent.py Next:" in said
    assert "w.yaml:9 is a copy of agent.py:5 that differs. Your service sends what agent.py contains" in said
    assert "Next: edit agent.py:5 as w.yaml:9 has it, or copy all prompts again: kvtool init --force" in said
    calm = "  - {name: calm, requests: 4, messages: [{role: user, text: Hi}], gate: {hit_rate: '>=0%'}}\n"
    write("both.yaml", head + comment + message.replace("be short", "be long") + calm)
    assert last_line(check("both.yaml")[1]).startswith(
        "PASS, 1 gate cannot fail (limit 0%), "
    )  # of a group that is no copy
    gate = "workloads = ['w.yaml']\n[gate]\nhit_rate = '>=0%'\n"
    write("kvtool.toml", gate)
    assert "tighten" not in check()[1]
    code, _, err = check("--tighten")
    assert code == 2
    assert "no gate was raised: w.yaml:9 is a copy of agent.py:5 that differs" in " ".join(err.split())
    assert Path("kvtool.toml").read_text() == gate
    write("w.yaml", head + comment + message)
    assert check("--tighten")[0] == 0
    assert Path("kvtool.toml").read_text() != gate
    Path("kvtool.toml").unlink()
    write("w.yaml", head + message.replace("be short", "be long"))  # no copy of anything
    assert "differs" not in check("w.yaml", "--min-hit-rate", "0")[1]


SENDS = """from openai import OpenAI
import jinja2
env = jinja2.Environment(loader=jinja2.FileSystemLoader("."))

def ask(question):
    system = {}
    return OpenAI().chat.completions.create(
        model="m", messages=[{{"role": "system", "content": system}}, {{"role": "user", "content": question}}])
"""
FILE = """version: 1
groups:
  - {name: g, requests: 4, messages: [{role: system, file: a.j2}, {role: user, text: Hi}]}
"""


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (SENDS.format('env.get_template("a.j2").render()'), False),
        (SENDS.format('"Before. " + env.get_template("a.j2").render()'), True),
        (SENDS.format("question"), True),
        ("print('a.j2')", False),  # no code that asks a model
        (None, False),
    ],
)
def test_prompt_files_that_no_code_is_seen_to_send_are_named_in_one_line(
    code: str | None, said: bool, check: Command
) -> None:
    """A workload of a person says of no message which code sends it: the code of the repository is read for that."""
    write(".git/HEAD", "ref: refs/heads/main\n")
    write("a.j2", RULES)
    write("w.yaml", FILE)
    if code is not None:
        write("app.py", code)
    out = " ".join(check("w.yaml", "--no-advice", "--min-hit-rate", "0")[1].split())
    assert ("notice: w.yaml: kvtool finds no code that sends the prompt file a.j2." in out) == said
