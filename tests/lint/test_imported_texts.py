"""Constants that a module imports from another one of its project: lint reads them as if they were written in place."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvtool.lint.code_files import code_prompts
from kvtool.lint.skeleton import Hole, leaves
from tests.files import write

RULES = "Answer only from the handbook, quote the line that you took it from, and be kind. " * 8
SEND = """
def ask(client, text):
    system = f"Request {uuid4()}\\n{%s}\\nClassify the request: book, change or cancel."
    return client.chat.completions.create(messages=[{"role": "system", "content": system}])
"""
Lint = Callable[..., tuple[int, str, str]]


def prompt(path: str, imports: str, name: str) -> list[str | Hole]:
    """The texts and values of the longest prompt of a file that imports a text and puts it after an id."""
    write(path, f"from uuid import uuid4\n{imports}\n{SEND % name}")
    prompts = [list(leaves(nodes)) for nodes in code_prompts().of(path, Path(path).read_text()).prompts]
    return max(prompts, key=len)


def text(path: str, imports: str, name: str) -> str:
    return "".join(leaf for leaf in prompt(path, imports, name) if isinstance(leaf, str))


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write("setup.cfg", "")


FILES: Mapping[str, str] = {"app/__init__.py": "", "app/texts.py": f"RULES = {RULES!r}\n", "app/deep/__init__.py": ""}


def test_a_constant_is_found_wherever_python_finds_it() -> None:
    for path, imports, name in [
        ("app/bot.py", "from app.texts import RULES", "RULES"),
        ("app/bot.py", "from .texts import RULES as R", "R"),
        ("app/bot.py", "from texts import RULES", "RULES"),
        ("app/bot.py", "from . import texts", "texts.RULES"),
        ("app/bot.py", "from .texts import *", "RULES"),
        ("app/deep/bot.py", "from ..texts import RULES", "RULES"),
        ("app/deep/bot.py", "from .. import texts as t", "t.RULES"),
        ("app/deep/bot.py", "import app.texts", "app.texts.RULES"),
        ("main.py", "import app.texts as t", "t.RULES"),
        ("main.py", "from app import texts", "texts.RULES"),
        ("src/main.py", "from app.texts import RULES", "RULES"),
    ]:
        for file, content in FILES.items():
            write(file, content)
        assert RULES in text(path, imports, name)


def test_a_constant_may_be_made_of_others() -> None:
    for defined in [
        "R = 'Be '\nRULES = R + 'kind.'",
        "R = 'kind'\nRULES = f'Be {R}.'",
        "RULES = 'Be '\nRULES += 'kind.'",
        "import textwrap\nRULES = textwrap.dedent('''\\\n    Be kind.''')",
        "RULES = ' '.join(['Be', 'kind.'])",
        "RULES = '  Be kind.'.strip()",
        "from parts import RULES",
        "from parts import *",
        "import parts\nRULES = parts.RULES",
    ]:
        write("parts.py", "RULES = 'Be kind.'\n")
        write("texts.py", defined)
        assert "Be kind." in text("bot.py", "from texts import RULES", "RULES")


def test_texts_of_a_class_and_of_a_mapping_are_found() -> None:
    write("texts.py", "class Texts:\n    RULES = 'Be kind.'\n\nALL = {'rules': 'Be brief.'}\n")
    assert "Be kind." in text("bot.py", "from texts import Texts", "Texts.RULES")
    assert "Be brief." in text("bot.py", "from texts import ALL", "ALL['rules']")


def test_what_the_file_assigns_itself_goes_before_what_it_imports() -> None:
    write("texts.py", "RULES = 'Be kind.'\n")
    assert "Be kind." not in text("bot.py", "from texts import RULES\nRULES = 'Be brief.'", "RULES")


def test_a_constant_that_is_not_known_is_marked_and_is_no_finding() -> None:
    for imports, texts in [
        ("from elsewhere import RULES", ""),
        ("from texts import RULES", "RULES = load()"),
        ("from texts import RULES", "import bot\nRULES = bot.RULES"),
        ("from texts import RULES", "from texts import RULES"),
        ("from texts import RULES", "RULES = (((("),
        ("from ....texts import RULES", "RULES = 'Be kind.'"),
    ]:
        write("texts.py", texts)
        marked = [leaf for leaf in prompt("bot.py", imports, "RULES") if isinstance(leaf, Hole) and leaf.constant]
        assert [(hole.unseen, hole.spot.line) for hole in marked] == [("the text of `RULES`", 5)]


def test_nothing_outside_of_the_project_is_read() -> None:
    write("texts.py", "RULES = 'Be kind.'\n")
    write("project/pyproject.toml", "")
    assert "Be kind." not in text("project/bot.py", "from texts import RULES", "RULES")
    Path("project/texts.py").symlink_to("../texts.py")
    assert "Be kind." not in text("project/bot.py", "from texts import RULES", "RULES")


def test_a_large_module_is_not_read() -> None:
    write("texts.py", "RULES = 'Be kind.'\n" + "# none\n" * 200_000)
    assert "Be kind." not in text("bot.py", "from texts import RULES", "RULES")


_CHARS = st.text(st.characters(exclude_characters="{}$%", exclude_categories=("Cs", "Cc")), min_size=1, max_size=60)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(_CHARS, min_size=1, max_size=5), st.lists(st.booleans(), min_size=4, max_size=4))
def test_random_texts_through_random_modules_are_what_python_makes_of_them(
    parts: list[str], formatted: list[bool]
) -> None:
    for number, part in enumerate(parts):
        before = f"from texts_{number - 1} import T{number - 1}\n" if number else ""
        made = f"T{number - 1} + {part!r}" if number else repr(part)
        if number and formatted[number - 1]:
            made = f"f'{{T{number - 1}}}{{P}}'\n"
        write(f"texts_{number}.py", f"{before}P = {part!r}\nT{number} = {made}\n")
    last = len(parts) - 1
    assert "".join(parts) in text("bot.py", f"from texts_{last} import T{last}", f"T{last}")


def test_the_cache_of_lint_follows_what_is_imported(
    in_folder: Lint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    lint = partial(in_folder, "lint")
    write("p/bot.py", "from uuid import uuid4\nfrom texts import RULES\n" + SEND % "RULES")
    assert "KV102 error" not in lint("p")[1]
    write("p/texts.py", f"RULES = {RULES!r}\n")
    assert "KV102 error" in lint("p")[1]
    os.remove("p/texts.py")  # noqa: PTH107
    assert "KV102 error" not in lint("p")[1]
