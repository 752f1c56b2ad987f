"""The command `kvtool lint`: exit codes, forms of output, inputs of every kind, and what it does with bad ones."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kvtool.text.terminal.console import cell_width
from tests.files import write

LONG = "Answer only from the handbook, quote the line that you took it from, and be kind. " * 20
WORKLOAD = """\
version: 1
vars:
  now: {datetime: 1m}
  n: {counter: 1}
groups:
  - name: desk
    requests: 12
    messages:
      - {role: system, file: prompts/desk.md}
      - {role: user, text: "Question {{ n }}?"}
"""
Lint = Callable[..., tuple[int, str, str]]


@pytest.fixture
def lint(in_folder: Lint) -> Lint:
    """Runs `kvtool lint`."""
    return partial(in_folder, "lint")


def document(lint: Lint, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lint(*arguments, "--json")[1])
    return found


def codes(found: dict[str, Any]) -> list[tuple[str, str, int]]:
    return [(one["code"], one["path"], one["line"]) for one in found["findings"]]


# Exit codes and forms


def test_an_error_is_exit_code_1_and_a_warning_is_not(lint: Lint) -> None:
    write("error.j2", "Now: {{ now() }}\n" + LONG)
    write("warning.j2", LONG * 20 + "Now: {{ now }}\n" + LONG)
    code, out, err = lint("error.j2")
    assert (code, err) == (1, "")
    assert out.startswith("error.j2:1:6: KV101 error [*] call `now()`")
    assert "   1 | Now: {{ now() }}\n     |      ^^^^^^^^^^^\n" in out
    assert "  help: move the clock to the end of the prompt" in out
    assert (
        "1 error in 1 input; 1 marked [*] can be fixed with --fix --unsafe-fixes\nDetails: kvtool explain KV101"
        in out.replace("\n    ", " ")
    )
    code, out, _ = lint("warning.j2")
    assert code == 0
    assert "KV101 warning" in out
    assert lint("warning.j2", "--error-on", "warning")[0] == 1
    assert lint("warning.j2", "--error-on", "info", "--ignore", "KV101")[0] == 0


def test_nothing_to_find(lint: Lint) -> None:
    write("a.j2", LONG + "{{ now }}")
    assert lint("a.j2") == (0, "no findings in 1 input\n", "")
    assert lint("a.j2", "-q") == (0, "", "")


def test_cached_tokens_that_a_log_reports_as_not_read_are_told(lint: Lint) -> None:
    prompt = [{"role": "system", "content": LONG}]
    turns = [[*prompt, {"role": "user", "content": f"{LONG} {number}"}] for number in range(3)]
    usage = {"prompt_tokens": 900, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}}
    records = [
        {"request": {"model": "deepseek-chat", "messages": messages}, "response": {"usage": usage}}
        for messages in turns
    ]
    write("a.jsonl", "".join(json.dumps(each) + "\n" for each in records))
    out = " ".join(lint("a.jsonl")[1].split())
    assert "1,792 tokens repeat an earlier prompt but were not read, mostly: cause unknown" in out
    assert "Next: see where reuse is lost: kvtool profile a.jsonl" in out


def test_a_single_prompt_without_placeholders(lint: Lint) -> None:
    write("a.md", LONG)
    code, out, _ = lint("a.md", "--width", "200")
    assert code == 0
    assert out == ("a.md: nothing to report: it is one prompt without placeholders\nno findings in 1 input\n")


def test_the_json(lint: Lint) -> None:
    write("a.j2", "Xyzzy {{ now }}" + LONG)
    first, second = lint("a.j2", "--json")[1], lint("a.j2", "--json")[1]
    assert first == second
    found = json.loads(first)
    assert found["schema"] == "kvtool.lint/1"
    assert found["inputs"] == [{"path": "a.j2", "kind": "template", "note": None}]
    assert found["counts"] == {"error": 1, "warning": 0, "info": 0}
    assert found["ignored"] == 0
    (one,) = found["findings"]
    assert (one["code"], one["severity"], one["line"], one["column"], one["width"]) == ("KV101", "error", 1, 7, 9)
    assert (one["evidence"], one["fixable"], one["tier"], one["group"]) == ("static", False, "P2", None)
    assert one["tokens_lost"] == len(LONG)
    assert "Xyzzy" not in first
    assert "handbook" not in first


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_width(lint: Lint, width: int) -> None:
    write("a.j2", "é" * 300 + "{{ now }}" + LONG + "\n{{ uuid4() }}" + "ü" * 3000)
    out = lint("a.j2", "--width", str(width))[1]
    assert max(map(cell_width, out.splitlines())) <= width
    assert "a.j2:1:301: KV101" in out.replace("\n    ", " ")


def test_show_text_none_quotes_nothing(lint: Lint) -> None:
    write("a.j2", "Xyzzy {{ now }}" + LONG)
    assert "Xyzzy" in lint("a.j2")[1]
    assert "Xyzzy" not in lint("a.j2", "--show-text", "none")[1]


def test_hostile_text_does_not_reach_the_terminal(lint: Lint) -> None:
    write("a.j2", "\x1b[31m[/INST] {{ now }}" + LONG)
    out = lint("a.j2", "--color", "never")[1]
    assert "\x1b" not in out
    assert r"\x1b[31m[/INST] {{ now }}" in out
    assert "\x1b[" in lint("a.j2", "--color", "always")[1]


def test_a_long_line_is_shown_around_the_place(lint: Lint) -> None:
    write("a.j2", "a" * 50_000 + " here {{ now }} " + LONG)
    out = lint("a.j2")[1]
    assert "here {{ now }} Answer" in out
    assert "^^^^^^^^^" in out


# Selecting


def test_select_and_ignore(lint: Lint) -> None:
    write("a.j2", "{{ now }} {{ user }} {{ cwd }}" + LONG)

    def chosen(*arguments: str) -> list[str]:
        return [code for code, _, _ in codes(document(lint, "a.j2", *arguments))]

    assert chosen() == ["KV101", "KV104", "KV106"]
    assert chosen("--select", "kv101,106") == ["KV101", "KV106"]
    assert chosen("--select", "KV10") == ["KV101", "KV104", "KV106"]
    assert chosen("--select", "KV2") == []
    assert chosen("--ignore", "KV101", "--ignore", "KV104") == ["KV106"]
    assert chosen("--select", "KV1", "--ignore", "KV106") == ["KV101", "KV104"]


@pytest.mark.parametrize("flag", ["--select", "--ignore"])
def test_an_unknown_code_is_a_usage_error(lint: Lint, flag: str) -> None:
    write("a.j2", "x")
    code, out, err = lint("a.j2", flag, "KV101,KV1O4")
    assert (code, out) == (2, "")
    assert f"{flag}: unknown code `KV1O4`" in err
    assert "did you mean KV104?" in err


# Ignores


def test_comments_in_templates_ignore_and_unused_ones_are_told(lint: Lint) -> None:
    write(
        "a.j2", "{# kvtool: ignore[KV101] coarse #}\n{{ now }}\n{{ user }} {# kvtool: ignore[KV105, KV301] #}\n" + LONG
    )
    found = document(lint, "a.j2")
    assert codes(found) == [("KV104", "a.j2", 3), ("KV001", "a.j2", 3)]
    assert found["ignored"] == 1
    assert "KV105" in found["findings"][1]["message"]
    assert "KV301" not in found["findings"][1]["message"]  # no template can show an eviction
    assert codes(document(lint, "a.j2", "--select", "KV101")) == []
    assert codes(document(lint, "a.j2", "--select", "KV105,KV001")) == [("KV001", "a.j2", 3)]


def test_an_ignore_without_codes_is_an_error(lint: Lint) -> None:
    write("a.py", "x = 1  # kvtool: ignore\n")
    code, out, _ = lint("a.py")
    assert code == 1
    assert out.startswith("a.py:1:10: KV002 error this ignore comment names no codes\n")
    assert "write `kvtool: ignore[KV101] reason`" in out


# Traffic


def test_a_workload_is_run(lint: Lint) -> None:
    write("w.yaml", WORKLOAD)
    write("prompts/desk.md", "Be kind.\nNow: {{ now }}\n" + LONG)
    code, out, _ = lint("w.yaml", "--width", "300")
    assert code == 1
    assert out.startswith("prompts/desk.md:2:6: KV101 error [*] desk: variable `now`")
    assert "2.4% -> 88.0% (verified)" in out
    (first, *_) = document(lint, "w.yaml")["findings"]
    assert first["evidence"] == "measured"
    assert first["group"] == "desk"
    assert first["rerun"]["group_after"] > first["rerun"]["group_before"]


@pytest.mark.parametrize("where", ["prompt", "line", "above"])
def test_a_finding_in_a_prompt_file_is_ignored_there_or_where_the_file_is_named(lint: Lint, where: str) -> None:
    comment = "kvtool: ignore[KV101] the clock is coarse"
    named = "      - {role: system, file: prompts/desk.md}"
    changed = {"line": f"{named}  # {comment}", "above": f"      # {comment}\n{named}"}.get(where, named)
    write("w.yaml", WORKLOAD.replace(named, changed))
    above = f"{{# {comment} #}}\n" if where == "prompt" else ""
    write("prompts/desk.md", f"Be kind.\n{above}Now: {{{{ now }}}}\n" + LONG)
    found = document(lint, "w.yaml")
    assert "KV101" not in [code for code, _, _ in codes(found)]
    assert "KV001" not in [code for code, _, _ in codes(found)]
    assert found["ignored"] == 1


def test_a_comment_in_a_prompt_file_that_nothing_needs(lint: Lint) -> None:
    write("w.yaml", WORKLOAD)
    write("prompts/desk.md", "{# kvtool: ignore[KV101] #}\nBe kind.\n" + LONG)
    assert ("KV001", "prompts/desk.md", 1) in codes(document(lint, "w.yaml"))


def test_several_prompts_are_traffic_and_go_with_logs(lint: Lint) -> None:
    for number in range(4):
        write(f"{number}.txt", f"Now: 2026-11-20T10:15:{number}1Z. {LONG}")
    write("log.jsonl", json.dumps({"prompt": "Hello"}) + "\n")
    write("t.j2", "{{ user }}" + LONG)
    found = document(lint, "0.txt", "1.txt", "2.txt", "3.txt", "log.jsonl", "t.j2")
    assert [one["kind"] for one in found["inputs"]] == ["template", *["prompts"] * 4, "logs"]
    assert {"KV101", "KV104"} <= {code for code, _, _ in codes(found)}
    assert {one["evidence"] for one in found["findings"]} == {"measured", "static"}


def test_standard_input_is_a_log(lint: Lint, monkeypatch: pytest.MonkeyPatch, bytes_json: str, tmp_path: Path) -> None:
    records = "".join(json.dumps({"prompt": f"{number} {LONG}"}) + "\n" for number in range(4))
    done = subprocess.run(
        [sys.executable, "-m", "kvtool", "lint", "-", "--json", "-t", bytes_json],
        input=records,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )
    assert done.stderr == ""
    assert json.loads(done.stdout)["inputs"] == [{"path": "-", "kind": "logs", "note": None}]


# Bad input


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.j2", b"ok\n{{ now }", "a.j2:2:1: template:"),
        ("a.py", b"x = f'{a'", "a.py:1:"),
        ("a.txt", b"\0\1\2", "is a binary file"),
        ("a.md", "text".encode("utf-16"), "is UTF-16, not UTF-8"),
        ("a.md", "text".encode("utf-32"), "is UTF-32, not UTF-8"),
        ("a.j2", b"\xff\xfe\xfd", "UTF-16"),
        ("a.py", b"x = '\xff'", "is not UTF-8"),
        ("a.j2", b"", "is empty"),
        ("w.yaml", b"a: [", "w.yaml:1"),
        ("log.jsonl", b"{", "log.jsonl:1"),
    ],
)
def test_bad_input_is_exit_code_2_with_a_place(lint: Lint, name: str, content: bytes, said: str) -> None:
    write(name, content)
    code, out, err = lint(name)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_a_broken_template_hides_no_other_template_of_its_workload(lint: Lint) -> None:
    """The workload cannot be run, so its other templates are read; each broken line is told once."""
    write("broken.j2", "Now: {{ now }\n")
    write("clock.j2", "Now: {{ current_time }}\n" + LONG)
    groups = "".join(f"  - {{name: {name}, file: {name}.j2, requests: 2}}\n" for name in ("broken", "clock"))
    write("w.yaml", f"version: 1\nvars: {{current_time: {{datetime: 1m}}, now: {{datetime: 1m}}}}\ngroups:\n{groups}")
    for arguments in (["w.yaml"], ["."]):
        code, out, err = lint(*arguments, "--json")
        assert code == 2
        assert codes(json.loads(out)) == [("KV101", "clock.j2", 1)]
        assert err.count("broken.j2:1:") == err.count("error: ") == 1


def test_files_that_cannot_be_read_leave_the_others(lint: Lint) -> None:
    write("a.py", b"# gr\xfc\xdfe\n")
    write("b.py", "lazy import json\n")  # syntax that this Python does not have
    write("c.py", "\n\n")
    write("d.py", f"from datetime import datetime\ndef prompt():\n    return f'{{datetime.now()}} {LONG}'\n")
    code, out, err = lint(".")
    assert (code, err.count("error:")) == (2, 2)
    assert "a.py" in err
    assert "b.py:1" in err
    assert "d.py:3" in out


def test_an_empty_module_is_no_mistake(lint: Lint) -> None:
    write("__init__.py", "")
    code, out, err = lint("__init__.py")
    assert (code, err) == (0, "")
    assert "no findings in 1 input" in out


def test_all_bad_files_are_told_at_once(lint: Lint) -> None:
    write("a.j2", "{{ now }")
    write("b.py", "(")
    code, out, err = lint("a.j2", "b.py")
    assert (code, out) == (2, "")
    assert err.count("error: ") == 2
    code, _, err = lint("missing.j2", "gone.py")
    assert code == 2
    assert err.count("no such file") == 2


def test_wrong_flags(lint: Lint) -> None:
    write("a.j2", "x")
    assert lint("a.j2", "--block-size", "0")[0] == 2
    write("l.jsonl", json.dumps({"prompt": "x"}))
    code, _, err = lint("l.jsonl", "--group", "a")
    assert code == 2
    assert "no request of group a" in err


def test_lint_help_imports_nothing_heavy() -> None:
    heavy = ["torch", "transformers", "tokenizers", "numpy", "orjson", "jinja2", "yaml"]
    program = "import sys\nfrom kvtool.cli.app import run\nrun(['lint', '--help'])\n"
    program += f"print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"


def test_templates_of_prompts_too_short_for_the_cache_are_read(lint: Lint) -> None:
    """What changes in them is information: values that are longer make it a loss."""
    write("prompts/desk.md", f"It is {{{{ now }}}}.\n{LONG[:600]}")
    write("w.yaml", WORKLOAD.replace("groups:", "engine: {provider: openai}\ngroups:"))
    (found,) = document(lint, "w.yaml")["findings"]
    assert (found["code"], found["path"], found["line"], found["severity"]) == ("KV101", "prompts/desk.md", 1, "info")
