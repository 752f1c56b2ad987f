"""Help, versions, mistyped words, and inputs that are no requests."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kvtool.cli.app import run
from tests.cli.command_line.conftest import clean_environment


@pytest.mark.parametrize("arguments", [["profile", "--help"], ["diff-prompts", "-h"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    heavy = ["torch", "transformers", "tokenizers", "mistral_common", "numpy", "orjson"]
    program = (
        f"import sys\nfrom kvtool.cli.app import run\nrun({arguments})\nprint([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=clean_environment(), capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["profil"], "did you mean `profile`?"),
        (["diff", "a.txt", "b.txt"], "did you mean `diff-prompts`?"),
        (["profile", "w.yaml", "--gpu", "h100"], "did you mean `--accelerator`, `--device` or `--gpu-memory`?"),
        (["size", "llama-3.1-8b", "--gpu", "h100"], "did you mean `--accelerator`?"),
        (["xyzzy"], "no such command: xyzzy"),
        (["profile", "w.yaml", "--capacty", "3"], "did you mean `--capacity`?"),
        (["profile", "w.yaml", "--frobnicate"], "no such option: --frobnicate"),
        (["profile"], "INPUT is missing"),
        (["trace", "w.jsonl"], "--output is missing"),
        (["profile", "w.yaml", "--block-size", "many"], "--block-size: `many` is not a whole number"),
        (["profile", "w.yaml", "--min-hit-rate", "many"], "--min-hit-rate: `many` is not a number"),
        (["profile", "w.yaml", "--rules", "lru"], "--rules: unknown value `lru`"),
        (["profile", "w.yaml", "--rules", "lru"], "one of vllm, vllm@0.32, vllm@0.33, sglang, "),
        (["profile", "w.yaml", "--capacity"], "--capacity needs a value"),
        (["profile", "w.yaml", "--json=3"], "--json takes no value"),
        (["profile", "w.yaml", "--width", "3"], "--width must be at least 20, not 3"),
        (["explain", "KV101", "KV102"], "too many arguments: KV102"),
        (["diff-prompts", "a.txt"], "diff-prompts needs two prompts"),
    ],
)
def test_usage_errors(arguments: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert re.search(r"^  help: .*kvtool.* --help$", err, re.MULTILINE)
    assert "Traceback" not in err


def test_debug_shows_the_traceback_and_the_message(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", "nothing.yaml", "--debug"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("Traceback")
    assert "error: no such file `nothing.yaml`" in err


def test_a_template_is_no_request(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = "You help.\nNow: {{ now }}\n"
    for name in ("p.j2", "p.md", "p.txt"):
        (folder / name).write_text(template, encoding="utf-8")
        for command in ("profile", "optimize"):
            assert run([command, name]) == 2
            out, err = capsys.readouterr()
            assert (out, "Traceback" in err) == ("", False)
            assert re.match(rf"error: {name}(:2)?: this file is a template", err)
            assert f"kvtool lint {name}" in err
            assert "kvtool init" in err
    (folder / "sent.txt").write_text("You help. It is ten o'clock.\n", encoding="utf-8")
    assert run(["profile", "p.txt", "sent.txt", "--dry-run"]) == 0  # a prompt that quotes one
