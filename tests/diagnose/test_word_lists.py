"""Words and patterns in TOML files beside modules: all are used, all compile, and none is read before it is needed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from kvtool.diagnose.word_lists import read_words

KVTOOL = Path(__file__).resolve().parents[2] / "kvtool"
FILES = sorted(
    path
    for room in ("diagnose", "fixes", "lint")
    for path in (KVTOOL / room).rglob("*.toml")
    if path.with_suffix(".py").is_file()
)


def test_a_module_uses_each_key_and_each_pattern_compiles() -> None:
    for path in FILES:
        code = path.with_suffix(".py").read_text(encoding="utf-8")
        for key, value in read_words(str(path.with_suffix(".py"))).items():
            assert f'"{key}"' in code, key
            if f'_pattern("{key}")' in code:
                re.compile("".join(value))
        for key in re.findall(r'word_set\(__file__, "(\w+)"\)', code):
            words = read_words(str(path.with_suffix(".py")))[key].split()
            assert len(words) == len(set(words)), key


def test_words_are_read_when_they_are_needed() -> None:
    """Those of lint when it is imported: nothing else imports it."""
    modules = ", ".join(
        ".".join(path.with_suffix("").relative_to(KVTOOL.parent).parts)
        for path in FILES
        if not path.is_relative_to(KVTOOL / "lint")
    )
    program = (
        f"import {modules}; from kvtool.diagnose.word_lists import read_words; print(read_words.cache_info().misses)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=KVTOOL.parent
    )
    assert done.stdout.split() == ["0"]
