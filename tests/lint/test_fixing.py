"""`kvtool lint --fix`, `--diff`, `--unsafe-fixes` and `--probe`: what is edited, what is left, and when anything is executed."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Template

from kvtool.lint.findings.line_moves import movable, moved
from kvtool.results.finding import Finding
from tests.conftest import some
from tests.files import write

RULES = "Answer only from the handbook, quote the line that you took it from, and be kind.\n"
WORKLOAD = """\
version: 1   # a comment
vars:
  now: {datetime: 1m}
groups:
  - name: desk     # one message
    requests: 10
    messages:
      - {role: system, file: prompts/desk.md}
"""
PROMPT = "# Desk\nNow: {{ now }}\n" + RULES * 64
TEMPLATE = "# Desk\nNow: {{ now }}\n" + RULES * 8
MOVED = "  prompts/desk.md:2:6: move this line to the end of the message\n"
UNDO = "Undo with:\n  patch -p1 < .kvtool/w.yaml.undo.patch\n"
Lint = Callable[..., tuple[int, str, str]]


@pytest.fixture
def lint(in_folder: Lint) -> Lint:
    """Runs `kvtool lint`."""
    return partial(in_folder, "lint")


def contents() -> dict[str, bytes]:
    """Return the files but for undo patches."""
    files = (path for path in sorted(Path().rglob("*")) if path.is_file() and ".kvtool" not in path.parts)
    return {str(path): path.read_bytes() for path in files}


def document(lint: Lint, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lint(*arguments, "--json")[1])
    return found


@pytest.fixture
def desk(lint: Lint) -> str:
    write("prompts/desk.md", PROMPT)
    return write("w.yaml", WORKLOAD)


def test_findings_that_an_edit_mends_are_marked(lint: Lint, desk: str) -> None:
    code, out, _ = lint(desk, "--width", "200")
    assert code == 1
    assert out.startswith("prompts/desk.md:2:6: KV101 error [*] desk: ")
    assert "1 error in 1 input; 1 marked [*] can be fixed with --fix --unsafe-fixes\n" in out
    assert [finding["fixable"] for finding in document(lint, desk)["findings"]] == [True]


def test_safe_fixes_move_nothing(lint: Lint, desk: str) -> None:
    before = contents()
    code, out, _ = lint(desk, "--fix")
    assert code == 1
    assert "0 fixed, 1 remaining\n" in out
    assert lint(desk, "--diff") == (0, "", "nothing would be changed\n")
    assert contents() == before


def test_the_diff_is_a_patch_and_changes_nothing(lint: Lint, desk: str) -> None:
    before = contents()
    code, patch, err = lint(desk, "--diff", "--unsafe-fixes")
    assert (code, err) == (1, f"{MOVED}1 finding would be fixed\n")
    assert patch.startswith("--- prompts/desk.md\n+++ prompts/desk.md\n@@ ")
    assert contents() == before
    if shutil.which("patch") is None:
        pytest.skip("there is no `patch` here")
    subprocess.run(["patch", "-p0"], input=patch.encode(), check=True, capture_output=True)
    by_patch = contents()
    write("prompts/desk.md", before["prompts/desk.md"])
    lint(desk, "--fix", "--unsafe-fixes")
    assert contents() == by_patch


def test_a_second_run_changes_nothing(lint: Lint, desk: str) -> None:
    code, out, _ = lint(desk, "--fix", "--unsafe-fixes")
    assert code == 0
    assert out == f"Edited prompts/desk.md\n{MOVED}{UNDO}1 fixed, 0 remaining\nno findings in 1 input\n"
    after = contents()
    assert list(after) == ["prompts/desk.md", "w.yaml"]
    assert after["w.yaml"].decode() == WORKLOAD
    code, out, _ = lint(desk, "--fix", "--unsafe-fixes")
    assert (code, out) == (0, "0 fixed, 0 remaining\nno findings in 1 input\n")
    assert lint(desk, "--diff", "--unsafe-fixes")[0] == 0
    assert contents() == after


def test_undo(lint: Lint, desk: str) -> None:
    before = contents()
    found = document(lint, desk, "--fix", "--unsafe-fixes", "--undo", "u.patch")
    (edit,) = found["fixed"].pop("edits")
    assert (edit["path"], edit["line"], edit["tier"], edit["warnings"]) == ("prompts/desk.md", 2, "P2", [])
    assert found["fixed"] == {
        "findings": 1,
        "paths": ["prompts/desk.md"],
        "undo": "u.patch",
        "undo_with": "patch -p1 < u.patch",
        "notes": [],
    }
    assert found["findings"] == []
    if shutil.which("patch") is None:
        pytest.skip("there is no `patch` here")
    subprocess.run(found["fixed"]["undo_with"], shell=True, check=True, capture_output=True)
    after = contents()
    del after["u.patch"]
    assert after == before


TASKS = f"""\
version: 1
vars:
  task: {{counter: 1, format: "Restart service number {{}}, then write what you saw."}}
groups:
  - name: agent
    requests: 10
    messages:
      - {{role: system, file: prompts/agent.j2}}
      - {{role: user, text: "{RULES.strip() * 4}"}}
"""
WORDS = """\
  prompts/agent.j2:5:7: move this line to the end of the last message
    look: text changes its role: from system to user message
Lines move from prompts/agent.j2 into tasks.yaml. Send them from your code where
tasks.yaml has them, or your prompts lose them.
"""


@pytest.mark.parametrize("flag", ["--fix", "--diff"])
def test_an_edit_says_what_to_look_at_and_what_code_must_do(lint: Lint, flag: str) -> None:
    """A value that leaves its template is in the requests of no application before its code is changed."""
    write("prompts/agent.j2", RULES * 4 + "Task: {{ task }}\n")
    write("tasks.yaml", TASKS)
    before = contents()
    _, out, err = lint("tasks.yaml", flag, "--unsafe-fixes")
    assert WORDS in (out if flag == "--fix" else err)
    if flag == "--fix":
        assert contents() != before
        assert f"{WORDS}Undo with:\n  patch -p1 < .kvtool/tasks.yaml.undo.patch\n" in out
    if flag == "--fix" and shutil.which("patch") is not None:
        subprocess.run(["patch", "-p1", "-i", ".kvtool/tasks.yaml.undo.patch"], check=True, capture_output=True)
        assert contents() == before


def test_what_is_ignored_is_not_fixed(lint: Lint, desk: str) -> None:
    ignored = PROMPT.replace("Now:", "{# kvtool: ignore[KV101] it is meant #}Now:")
    write("prompts/desk.md", ignored)
    before = contents()
    code, out, _ = lint(desk, "--fix", "--unsafe-fixes")
    assert code == 0
    assert "0 fixed, 0 remaining\nno findings in 1 input; 1 ignored\n" in out
    assert lint(desk, "--diff", "--unsafe-fixes")[0] == 0
    assert contents() == before


def test_what_is_not_selected_is_not_fixed(lint: Lint, desk: str) -> None:
    before = contents()
    assert lint(desk, "--diff", "--unsafe-fixes", "--ignore", "KV101")[:2] == (0, "")
    assert lint(desk, "--diff", "--unsafe-fixes", "--select", "KV2")[:2] == (0, "")
    assert lint(desk, "--diff", "--unsafe-fixes", "--select", "KV1")[0] == 1
    assert contents() == before


def test_two_workloads_that_read_one_file(lint: Lint, desk: str) -> None:
    write("other.yaml", WORKLOAD.replace("name: desk", "name: other"))
    code, out, _ = lint(desk, "other.yaml", "--fix", "--unsafe-fixes")
    assert code == 0
    assert f"Edited prompts/desk.md\n{MOVED}{UNDO}1 fixed, 0 remaining\n" in out
    assert lint(desk, "other.yaml", "--diff", "--unsafe-fixes")[0] == 0


def test_a_template_that_a_workload_reads_is_left_to_its_run(lint: Lint, desk: str) -> None:
    code, out, _ = lint(desk, "prompts/desk.md", "--fix", "--unsafe-fixes")
    assert code == 0
    assert f"Edited prompts/desk.md\n{MOVED}{UNDO}1 fixed, 0 remaining\n" in out


def test_a_safe_fix_is_made_without_more_flags(lint: Lint, desk: str) -> None:
    """One line in two ways, in two files that are drawn: the space at its end goes."""
    write("parts/a.md", "Say when you do not know. \n" + RULES * 20)
    write("parts/b.md", "Say when you do not know.\n" + RULES * 20)
    write(desk, WORKLOAD.replace("file: prompts/desk.md", "glob: parts/*.md"))
    found = document(lint, desk)
    assert [(one["code"], one["tier"], one["fixable"]) for one in found["findings"]] == [("KV121", "P1", True)]
    assert "1 marked [*] can be fixed with --fix\n" in lint(desk)[1]
    changed = document(lint, desk, "--fix")
    assert changed["fixed"]["paths"] == ["parts/a.md"]
    assert (changed["fixed"]["findings"], changed["findings"]) == (1, [])
    assert Path("parts/a.md").read_text() == Path("parts/b.md").read_text()


def test_lines_of_a_template_are_moved(lint: Lint) -> None:
    write("t.j2", "# Desk\r\nNow: {{ now }}\r\n" + RULES * 8 + "Done")
    code, out, _ = lint("t.j2", "--fix")
    assert (code, "0 fixed, 1 remaining" in out) == (1, True)
    code, out, _ = lint("t.j2", "--fix", "--unsafe-fixes")
    assert code == 0
    assert (
        "Edited t.j2\n  t.j2:2:6: move the clock to the end of the prompt, best into the latest turn\nUndo with:\n"
        in out
    )
    assert "1 fixed, 0 remaining\n" in out
    assert Path("t.j2").read_bytes() == ("# Desk\r\n" + RULES * 8 + "Done\r\nNow: {{ now }}").encode()
    assert "0 fixed, 0 remaining\n" in lint("t.j2", "--fix", "--unsafe-fixes")[1]


def test_a_byte_order_mark_stays(lint: Lint) -> None:
    write("t.j2", b"\xef\xbb\xbf" + ("Now: {{ now }}\n" + RULES * 8).encode())
    lint("t.j2", "--fix", "--unsafe-fixes")
    assert Path("t.j2").read_bytes() == b"\xef\xbb\xbf" + (RULES * 8 + "Now: {{ now }}\n").encode()


def test_an_ignored_line_of_a_template_stays(lint: Lint) -> None:
    text = "Now: {{ now }} {# kvtool: ignore[KV101] as it is #}\n" + RULES * 8
    write("t.j2", text)
    lint("t.j2", "--fix", "--unsafe-fixes")
    assert Path("t.j2").read_text() == text


def finding(line: int, code: str = "KV101") -> Finding:
    return Finding.of(code, "warning", "", "t.j2", line, 1, "", 1, "")


def test_which_lines_can_be_moved() -> None:
    for text, line, can in [
        ("Now: {{ now }}\n" + RULES, 1, True),
        ("{% if x %}\nNow: {{ now }}\n{% endif %}\n" + RULES, 2, False),
        ("{% if x %}Now: {{ now }}\n{% endif %}\n" + RULES, 1, False),
        ("Now: {{ now\n}}\n" + RULES, 1, True),
        ("Now: {{ now -}}\n" + RULES, 1, False),
        ("Now: {{ now }}\n{{- x }}\n" + RULES, 1, False),
        ("{% set x = now %}Now: {{ x }}\n" + RULES, 1, False),
        ("Now: {{ x }}\n{% set x = 1 %}\n" + RULES, 1, False),
        ("Now: {{ now }}\n" + RULES + "Answer:\n", 1, False),
        ("Now: {{ now }}\n" + RULES + "{% for m in messages %}{{ m }}{% endfor %}\n", 1, False),
        (RULES + "Now: {{ now }}\n\n", 2, False),
        ("Now: {{ now }}\r" + RULES, 1, False),
        ("{# Now #}Now: {{ now }}\n" + RULES, 1, False),
    ]:
        (found,) = movable(text, [finding(line)], jinja=True)
        assert (found.fix_key != "", found.tier) == (can, "P2" if can else None)


def test_only_what_moving_mends_is_moved() -> None:
    (found,) = movable("Now: {{ now }}\n" + RULES, [finding(1, "KV113")], jinja=True)
    assert found.fix_key == ""


def test_lines_that_have_been_moved_stay() -> None:
    text = "A: {{ now }}\nB: {{ rid }}\n" + RULES * 3
    after = moved(text, [finding(1), finding(2)], jinja=True)
    assert after == RULES * 3 + "A: {{ now }}\nB: {{ rid }}\n"
    assert all(not each.fix_key for each in movable(after, [finding(4), finding(5)], jinja=True))


def test_nothing_is_moved_into_a_value_that_a_label_introduces() -> None:
    for ending in [
        "Customer message:\n{{ message }}\n",
        "Question: {{ question }}",
        "\n## Context\n{{ context }}\n\nQuestion: {{ question }}\n",
        "<question>{{ question }}</question>\n",
        '\nText:\n"""\n{{ text }}\n"""\n',
        "**Text**\r\n\r\n{{ text }}\r\n",
    ]:
        newline = "\r\n" if "\r" in ending else "\n"
        rules = RULES.replace("\n", newline) * 3
        text = f"Now: {{{{ now }}}}{newline}{rules}{ending}"
        (found,) = movable(text, [finding(1)], jinja=True)
        assert found.fix_key
        after = moved(text, [finding(1)], jinja=True)
        assert after == f"{rules}Now: {{{{ now }}}}{newline}{ending}"
        assert moved(after, [finding(4)], jinja=True) == after


def test_what_is_moved_is_said_as_often_as_before() -> None:
    """Loops and conditions anywhere: a line that moves is in none of them afterwards."""
    for seed in some(range(40), 8):
        chance = random.Random(seed)
        blocks = [
            "{% for t in tides %}{{ t }} m\n{% endfor %}\n",
            "{% for t in tides %}\n- {{ t }}\n{% endfor %}\n",
            "{% if tides %}High: {{ tides[0] }}\n{% endif %}",
            "{% for t in tides %}{% if t %}{{ t }}{% endif %}\n{% endfor %}",
            "Tides:\n{% for t in tides %}{{ t }}\n{% endfor %}\n",
            "List all windows.\n",
            "The harbor is {{ name }}.\n",
        ]
        text = (
            "Briefing of {{ now }} for the watch.\n" + RULES + "".join(chance.choices(blocks, k=chance.randint(1, 4)))
        )
        after = moved(text, [finding(1)], jinja=True)
        for tides in ([], [0], [3, 0, 5]):
            said = {"now": "12:41", "tides": tides, "name": "Oban"}
            before, then = (Template(each).render(said) for each in (text, after))
            assert sorted(filter(None, before.split("\n"))) == sorted(filter(None, then.split("\n")))


def test_a_text_that_ends_with_a_rule_keeps_its_end() -> None:
    text = "Now: {{ now }}\n" + RULES + "Be kind to {{ name }}\n"
    assert moved(text, [finding(1)], jinja=True) == RULES + "Be kind to {{ name }}\nNow: {{ now }}\n"


def refused(lint: Lint, message: str, *arguments: str) -> None:
    before = contents()
    code, out, err = lint(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
    assert contents() == before


def test_what_the_command_line_may_not_say(lint: Lint, desk: str) -> None:
    refused(lint, "--unsafe-fixes works only with --fix or --diff", desk, "--unsafe-fixes")
    refused(lint, "--diff and --json cannot both be printed", desk, "--diff", "--json")
    refused(lint, "kvtool cannot edit standard input", "-", "--fix")
    refused(lint, "--undo works only with --fix", desk, "--undo", "u.patch")
    refused(lint, "--undo w.yaml is an input", desk, "--fix", "--undo", desk)
    refused(lint, "--probe-timeout is a number of seconds above 0, not 0", "--probe", "true", "--probe-timeout", "0")


def test_files_that_cannot_be_written(lint: Lint, desk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write("t.j2", TEMPLATE)
    arguments = (desk, "t.j2", "--fix", "--unsafe-fixes", "--undo", "u.patch")
    Path("t.j2").chmod(0o444)
    refused(lint, "cannot write t.j2: it is write-protected", *arguments)
    Path("t.j2").chmod(0o644)
    with monkeypatch.context() as patch:
        patch.setattr("kvtool.fixes.edits.apply.os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space")))
        refused(lint, "No space", *arguments)
    assert lint(*arguments)[0] == 0
    assert sorted(contents()) == ["prompts/desk.md", "t.j2", "u.patch", "w.yaml"]


def test_a_link_stays_a_link(lint: Lint) -> None:
    write("real.j2", TEMPLATE)
    Path("t.j2").symlink_to("real.j2")
    assert lint("t.j2", "--fix", "--unsafe-fixes")[0] == 0
    assert Path("t.j2").is_symlink()
    assert Path("real.j2").read_text().endswith("Now: {{ now }}\n")


BUILDER = """\
import datetime, sys
open({trace!r}, "a").write("x")
print("Now:", datetime.datetime.now())
print({rules!r})
"""


@pytest.fixture
def builder(lint: Lint) -> str:
    write("build.py", BUILDER.format(trace="trace.txt", rules=RULES * 8))
    return f"{sys.executable} build.py"


def test_a_probe_names_what_reaches_the_prompt(lint: Lint, builder: str) -> None:
    code, out, err = lint("--probe", builder, "--probe-timeout", "20", "--width", "100")
    assert (code, err) == (1, "")
    assert "clock: timestamp" in out
    assert "KV101" in out
    assert "1 error in a probe\n" in out
    found = document(lint, "--probe", builder)
    assert [(one["code"], one["group"], one["severity"]) for one in found["findings"]] == [("KV101", "probe", "error")]
    assert [leak["factor"] for leak in found["probe"]["leaks"]] == ["clock"]
    assert RULES.strip() not in json.dumps(found)


def test_nothing_is_executed_without_the_flag(lint: Lint, builder: str) -> None:
    assert lint("build.py")[0] in (0, 1)
    assert lint("build.py", "--fix")[0] in (0, 1)
    assert not Path("trace.txt").exists()


def test_a_probe_and_inputs_together(lint: Lint, desk: str, builder: str) -> None:
    code, out, _ = lint(desk, "--probe", builder, "--fix", "--unsafe-fixes", "--select", "KV101")
    assert code == 1
    assert "1 fixed, 1 remaining\n1 error in 1 input and a probe\n" in out
    runs = len(Path("trace.txt").read_text())
    Path("trace.txt").unlink()
    lint("--probe", builder)
    assert len(Path("trace.txt").read_text()) == runs, "the builder is not run again for what is left"


@pytest.mark.parametrize(
    ("source", "timeout", "message"),
    [
        ("raise SystemExit(3)", "60", "failed with exit code 3"),
        ("", "60", "printed nothing"),
        ("import time; time.sleep(60)", "1.5", "did not end within 1.5 s"),
    ],
)
def test_a_builder_that_gives_no_prompt(lint: Lint, source: str, timeout: str, message: str) -> None:
    write("build.py", source)
    code, out, err = lint("--probe", f"{sys.executable} build.py", "--probe-timeout", timeout)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
