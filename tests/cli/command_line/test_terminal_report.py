"""The report in a terminal: widths, colours, the next command, and gates."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from kvtool.cli.app import run
from kvtool.cli.commands.diff import token_bytes_shown
from kvtool.cli.commands.profile import ProfileCommand
from kvtool.report.answer import answer_of
from kvtool.report.terminal.next_command import shell_lines
from kvtool.report.terminal.profile import ShownProfile, print_profile
from kvtool.results.report import Report
from kvtool.text.terminal.console import make_console
from kvtool.text.tokens.tokenizer import Tokenizer
from tests.cli.command_line.conftest import WORKLOAD, RunKvtool
from tests.files import widest

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "workloads").glob("*.yaml"))


# The report


@pytest.fixture(scope="module")
def finished() -> Callable[[Path], Report]:
    """Profiles of the examples, each made once."""
    known: dict[Path, Report] = {}

    def profile_of(path: Path) -> Report:
        if path not in known:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(ProfileCommand, "_print", lambda _, report, *_rest: known.__setitem__(path, report))
                assert run(["profile", str(path), "--dry-run", "--quiet", "--requests", "12"]) == 0
        return known[path]

    return profile_of


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_fit_their_width_and_keep_their_numbers(
    path: Path, encoding: str, finished: Callable[[Path], Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = finished(path)
    for name, module in list(sys.modules.items()):
        if name.startswith("kvtool.report.terminal") and hasattr(module, "ascii_only"):
            monkeypatch.setattr(module, "ascii_only", lambda _: encoding == "ascii")
    command = ["profile", f"workloads/{path.name}", "--dry-run"]
    profile = profile.model_copy(update={"config": {**profile.config, "input": command[1]}})
    for width in (60, 80, 120):
        stream = StringIO()
        print_profile(
            make_console(file=stream, width=width, color="never"), profile, ShownProfile(command=command, details=True)
        )
        text = stream.getvalue()
        assert widest(text) <= width
        assert encoding != "ascii" or text.isascii()
        words = set(re.split(r"[\s();]+", text))
        numbers = [
            f"{count:,}" for count in (profile.totals.prompt_tokens, profile.totals.requests, *profile.fates.values())
        ]
        screen = "".join("".join(text.splitlines()[:24]).split())  # a long path may be broken anywhere
        assert all("".join(f"{label}{line}".split()) in screen for label, line in answer_of(profile).lines)
        assert {*numbers, *(finding.code for finding in profile.findings)} <= words
        assert f"Filled {profile.kv_cache.filled_blocks:,} block" in " ".join(text.split())
        shares = re.findall(r"^    [a-z' ,()-]+?  .*?([\d.]+)%(?:  [a-z ]+)?$", text, re.MULTILINE)
        shares = shares[: sum(count > 0 for count in profile.fates.values())]
        assert sum(round(float(share) * 10) for share in shares) == 1000


def test_long_names_and_paths_do_not_break_the_report(
    folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "客户支持机器人" * 6
    deep = folder / ("a long folder name/" * 4)
    deep.mkdir(parents=True)
    text = WORKLOAD.replace("name: support", f"name: {name}").replace("name: tenant", f"name: {'y' * 80}")
    path = deep / "it's.yaml"
    path.write_text(text, encoding="utf-8")
    for width in (60, 80, 120):
        code = run(
            ["profile", str(path), "--dry-run", "-t", bytes_json, "--width", str(width), "--min-hit-rate", "0.5"]
        )
        assert code == 1
        assert widest(capsys.readouterr().out) <= width


@pytest.mark.parametrize("width", [30, 60, 120])
def test_the_next_command_can_be_copied(width: int) -> None:
    words = ["profile", "a long/it's/" + "deep/" * 30 + "客户.yaml", "--capacity", "320k tokens", "$HOME", "plain"]
    lines = shell_lines(["kvtool", *words], width, False)
    assert widest("\n".join(lines)) <= width
    assert all(any(shlex.quote(word) in line for line in lines) for word in words)  # no word is broken
    program = "kvtool() { printf '%s\\n' \"$@\"; }\n" + "\n".join(lines)
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True, encoding="utf-8")
    assert done.stdout.splitlines() == words


def test_the_next_command_asks_for_what_this_one_did(
    folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = "--capacity 9000 --requests 6 --seed 4 --group support --no-config --offline"
    assert run(["profile", "w.yaml", "-q", "--dry-run", "--width", "999", "-t", bytes_json, *flags.split()]) == 1
    next_one = f"kvtool optimize w.yaml --tokenizer {bytes_json} {flags} --allow P2"
    assert next_one in [line.strip() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("text", "piece", "shown"),
    [
        (" é", "ĠÃ©", " é"),
        ("\ufffd", "Ġ!~Ã", " !~\\xc3"),
        ("\ufffd", "ġĀ", "\\x7f\\x00"),
        ("", "<|end|>", "<|end|>"),
        ("\ufffd", "▁Ã", "▁Ã"),
    ],
)
def test_bytes_of_a_token_that_are_no_character_are_shown_as_escapes(text: str, piece: str, shown: str) -> None:
    tokenizer = SimpleNamespace(decode=lambda _: text, token_text=lambda _: piece)
    assert token_bytes_shown(cast("Tokenizer", tokenizer), 0) == shown


@pytest.mark.parametrize(
    ("env", "flags", "colored"),
    [
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, [], False),
        ({"FORCE_COLOR": "0"}, [], False),
        ({"CLICOLOR_FORCE": "1"}, [], True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, [], True),
        ({}, [], False),
        ({"NO_COLOR": "1"}, ["--color", "always"], True),
        ({"FORCE_COLOR": "1"}, ["--color", "never"], False),
    ],
)
def test_colour(
    env: dict[str, str],
    flags: list[str],
    colored: bool,
    folder: Path,
    bytes_json: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert run(["profile", "w.yaml", "--dry-run", "--no-advice", "-t", bytes_json, *flags]) == 1
    out = capsys.readouterr().out
    assert ("\x1b[" in out) is colored
    assert "\x1b]8" not in out
    plain = re.sub(r"\x1b\[[\d;]*m", "", out)
    assert "\x1b" not in plain
    assert widest(plain) <= 80


def test_an_ascii_terminal_gets_ascii(kvtool: RunKvtool, folder: Path, bytes_json: str) -> None:
    (folder / "w.yaml").write_text(WORKLOAD.replace("You are", "Ünïcödé 🦊 you are"), encoding="utf-8")
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "PYTHONCOERCECLOCALE": "0"}
    done = kvtool("profile", "w.yaml", "--dry-run", "-t", bytes_json, "--show-text", "snippet", env=env)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.isascii()
    assert "\\xdcn\\xefc" in done.stdout  # the line of a finding


# Gates


@pytest.mark.parametrize(
    ("minimum", "code", "verdict"), [("1.0", 1, "FAIL 1 gate"), ("0.0", 0, "PASS, 1 gate cannot fail (limit 0%)")]
)
def test_a_minimum_for_all_requests(
    minimum: str, code: int, verdict: str, folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["profile", "w.yaml", "-g", "chat", "--dry-run", "-t", bytes_json, "--min-hit-rate", minimum]
    assert run(arguments) == code
    assert verdict in capsys.readouterr().out
    assert run([*arguments, "--json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"] == ("fail" if code else "pass")
    (gate,) = document["gates"]
    assert (gate["id"], gate["code"], gate["group"], gate["path"]) == ("w.yaml/hit_rate", "KV401", None, "w.yaml")
    assert gate["status"] == ("fail" if code else "pass")
    assert (gate["limit"], gate["actual"]) == (float(minimum), document["totals"]["hit_rate"])
    assert "--min-hit-rate" in gate["message"]


def test_a_gate_of_a_group(folder: Path, bytes_json: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["profile", "w.yaml", "--dry-run", "-t", bytes_json]
    assert run(arguments) == 1
    out = capsys.readouterr().out
    assert re.search(r"^  support +12 .* FAIL ", out, re.MULTILINE)
    assert re.search(r"^FAIL 1 gate \(support [\d.]+% < 80\.0%\)$", out, re.MULTILINE)
    path = folder / "w.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace(">=80%", ">=1%"), encoding="utf-8")
    assert run(arguments) == 0
    out = capsys.readouterr().out
    assert re.search(r"^  support +12 .* ok ", out, re.MULTILINE)
    assert re.search(r"^PASS 1 gate$", out, re.MULTILINE)
