"""What git leaves out: the same as git itself says, on patterns and paths of a seed."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from kvtool.text.files.ignored import PatternsAt
from tests.conftest import some

NAMES = ["a", "b", "ab", "foo", "x.py", ".c", "*", "a b", "A", "[a", "]", "ba", "cb"]
PARTS = [
    "a",
    "b",
    "foo",
    "*",
    "**",
    "?",
    "*.py",
    "[ab]",
    "[!a]",
    "[^a]",
    "f*",
    "**a",
    "a**",
    "\\a",
    "\\*",
    "[a",
    "[a-c]b",
]
PARTS += ["*b*", "a b", "[]a]", "a\\ ", "[\\]]", "[!]a]", "\\[a"]


def pattern(rng: random.Random) -> str:
    text = "/".join(rng.choice(PARTS) for _ in range(rng.randint(1, 3)))
    text = rng.choice(["", "", "", "/", "!", "!", "!/", "#", "\\!"]) + text
    return text + rng.choice(["", "", "", "/", " ", "\t", "  "])


def left_out(rules: PatternsAt, folder: Path, path: str) -> bool:
    """As a walk sees it: what is in a folder that is left out is never looked at."""
    names = path.split("/")
    counts = range(1, len(names) + 1)
    return any(rules.says(str(folder.joinpath(*names[:count])), is_folder=count < len(names)) for count in counts)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not there to compare with")
@pytest.mark.parametrize("seed", some(range(12), 3))
def test_git_says_the_same(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    files: list[str] = []
    for _ in range(60):
        path = "/".join(rng.choice(NAMES) for _ in range(rng.randint(1, 4)))
        try:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).touch()
        except OSError:
            continue
        if (tmp_path / path).is_file():
            files.append(path)
    for _ in range(4):
        lines = [pattern(rng) for _ in range(rng.randint(1, 4))]
        (tmp_path / ".gitignore").write_text("\n".join(lines) + "\n")
        asked = subprocess.run(
            ["git", "-C", tmp_path, "check-ignore", "--no-index", "-z", "--stdin"],
            input="\0".join(files),
            capture_output=True,
            text=True,
            check=False,
        )
        rules = PatternsAt.of(str(tmp_path), lines)
        ours = {path for path in files if left_out(rules, tmp_path, path)}
        assert (lines, ours) == (lines, set(asked.stdout.split("\0")) - {""})
