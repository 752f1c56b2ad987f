"""What a file is told depends on the file and its imports, never on which files were read before it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kvtool.lint.code_files import code_prompts

Lint = Callable[..., tuple[int, str, str]]
RULES = "Answer the guest in two short sentences and never promise a room that is not free. " * 12
CLOCKS = ("datetime.now()", "uuid4()", "random.random()")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))


def package(folder: Path, seed: int, count: int) -> list[Path]:
    """Modules that import each other in circles and chains, some of which send what others make."""
    random_ = random.Random(seed)
    paths = []
    for number in range(count):
        others = [*random_.sample(range(count), 3), (number + 1) % count]
        lines = [
            "import random",
            "from datetime import datetime",
            "from uuid import uuid4",
            "from openai import OpenAI",
        ]
        lines += [
            f"from m{other} import make{other}, TEXT{other}" for other in dict.fromkeys(others) if other != number
        ]
        asked = next(other for other in others if other != number)
        value = random_.choice([*CLOCKS, f"make{asked}(n)", f"make{asked}(n)"])
        lines += [
            f"TEXT{number} = 'Number {number}. ' + {random_.choice([repr(RULES), f'TEXT{asked}'])}",
            f"def make{number}(n):",
            f"    return f'Now {{{value}}}. {{TEXT{asked}}} {RULES}'",
            "def ask(question):",
            f"    system = make{asked}(question) + TEXT{number}",
            "    messages = [{'role': 'system', 'content': system}, {'role': 'user', 'content': question}]",
            "    return OpenAI().chat.completions.create(model='m', messages=messages)",
        ]
        paths.append(folder / f"m{number}.py")
        paths[-1].write_text("\n".join(lines) + "\n")
    return paths


@pytest.mark.parametrize(("seed", "count"), [(1, 5), (2, 9), (3, 30)])
def test_a_file_is_read_the_same_alone_and_after_any_others(tmp_path: Path, seed: int, count: int) -> None:
    paths = package(tmp_path, seed, count)
    alone = {path: repr(code_prompts().of(str(path), path.read_text())) for path in paths}
    assert any("Hole(" in read for read in alone.values())
    for order in (paths, paths[::-1], random.Random(seed).sample(paths, count)):
        together = code_prompts()
        for path in order:
            assert repr(together.of(str(path), path.read_text())) == alone[path], path.name


@pytest.mark.usefixtures("own_cache")
def test_findings_are_the_same_by_any_jobs_order_and_cache(in_folder: Lint) -> None:
    names = [path.name for path in package(Path(), 4, 12)]

    def findings(*given: str) -> list[dict[str, object]]:
        found = json.loads(in_folder("lint", *given, "--json")[1])["findings"]
        return sorted(found, key=lambda each: (each["path"], each["line"], each["column"], each["code"]))

    one = findings(*names, "--no-cache", "--jobs", "1")
    assert len({finding["path"] for finding in one}) > 1
    for given in ((*names[::-1], "--no-cache"), (*names, "--no-cache", "--jobs", "2"), (".",), (".",), tuple(names)):
        assert findings(*given) == one
