"""Prompts and values of other Python files of the same package."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvtool.lint.python.built_prompts import PythonPrompts
from kvtool.lint.python.package import PythonFiles
from tests.lint.made_python import RULES, program

IMPORTS = (
    ("from app.clock import stamp", "stamp()"),
    ("from .clock import stamp", "stamp()"),
    ("from . import clock", "clock.stamp()"),
    ("import app.clock as c", "c.stamp()"),
    ("from app import clock", "clock.stamp()"),
    ("import app.clock", "app.clock.stamp()"),
    ("from app import stamp", "stamp()"),
    ("from app.clock import Clock", "Clock().at()"),
    ("from app.clock import STAMP", "STAMP"),
)


@pytest.mark.parametrize(("statement", "call"), IMPORTS)
def test_helpers_of_other_modules(tmp_path: Path, statement: str, call: str) -> None:
    files = {
        "app/__init__.py": "from app.clock import stamp\n",
        "app/clock.py": (
            "import datetime\nSTAMP = datetime.datetime.now()\ndef stamp():\n    return f'Time: {datetime.datetime.now()}'\n"
            "class Clock:\n    def at(self):\n        return datetime.datetime.now()\n"
        ),
        "app/main.py": f"{statement}\nRULES = {RULES!r}\ndef build_prompt():\n    return f'At {{{call}}}: ' + RULES\n",
    }
    (one,) = program(tmp_path, files)["app/main.py"]
    assert one in (("KV101", 4, 17), ("KV101", 4, 18))  # of a bare value the braces, of a text the call


def test_templates_of_other_modules(tmp_path: Path) -> None:
    files = {
        "app/__init__.py": "",
        "app/prompts.py": f"MAIN = 'At {{text}}: ' + {RULES!r}\n",
        "app/main.py": (
            "import datetime\nfrom app.prompts import MAIN\ndef go():\n"
            "    return MAIN.format(text=datetime.datetime.now())\n"
        ),
    }
    assert program(tmp_path, files) == {"app/main.py": [("KV101", 4, 29)], "app/prompts.py": [("KV201", 1, 12)]}


def test_what_is_put_into_a_template_of_another_module_is_told_once(tmp_path: Path) -> None:
    files = {
        "app/__init__.py": "",
        "app/prompts.py": f"MAIN = 'About {{topic}}: ' + {RULES!r}\n",
        "app/main.py": "from app.prompts import MAIN\ndef build_prompt(topic):\n    return MAIN.format(topic=topic)\n",
    }
    assert program(tmp_path, files) == {"app/prompts.py": [("KV201", 1, 15)]}


def test_prompt_files_of_the_package(tmp_path: Path) -> None:
    (tmp_path / "app/prompts").mkdir(parents=True)
    (tmp_path / "app/prompts/main.md").write_text("At {at}: " + RULES, encoding="utf-8")
    for read in (
        "(Path(__file__).parent / 'prompts' / 'main.md').read_text()",
        "Path(__file__).parent.joinpath('prompts', 'main.md').read_text(encoding='utf-8')",
        "open(os.path.join(os.path.dirname(__file__), 'prompts', 'main.md')).read()",
        "importlib.resources.files('app').joinpath('prompts/main.md').read_text()",
    ):
        files = {
            "app/__init__.py": "",
            "app/main.py": (
                "import datetime, importlib.resources, os\nfrom pathlib import Path\n"
                f"PROMPT = {read}\ndef go():\n    return PROMPT.format(at=datetime.datetime.now())\n"
            ),
        }
        assert program(tmp_path, files) == {"app/main.py": [("KV101", 5, 29)]}


def test_what_a_result_depends_on(tmp_path: Path) -> None:
    for name, text in {
        "__init__": "",
        "a": "from app.b import b\nA = b()\n",
        "b": "from app.c import c\nb = c\n",
        "c": "",
    }.items():
        (tmp_path / "app").mkdir(exist_ok=True)
        (tmp_path / f"app/{name}.py").write_text(text, encoding="utf-8")
    read = PythonPrompts()
    path = str(tmp_path / "app/a.py")
    read(path, Path(path).read_text(encoding="utf-8"))
    uses = read.new_uses()
    assert str(tmp_path / "app/b.py") in uses[path]
    assert str(tmp_path / "app/c.py") in uses[str(tmp_path / "app/b.py")]
    read(path, Path(path).read_text(encoding="utf-8"))
    assert read.new_uses() == {}, "each is told once"


def test_modules_that_import_each_other(tmp_path: Path) -> None:
    files = {
        "app/__init__.py": "from app.a import *\n",
        "app/a.py": "from app.b import two\ndef one():\n    return two()\nA = two()\n",
        "app/b.py": (
            f"from app.a import one, A\nimport uuid\ndef two():\n    return one() or A\n"
            f"PROMPT = f'{{two()}}{{uuid.uuid4()}}' + {RULES!r}\n"
        ),
    }
    assert program(tmp_path, files) == {"app/b.py": [("KV102", 5, 19)]}


def test_files_outside_of_the_package_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("At {at}: " + RULES, encoding="utf-8")
    module = PythonFiles().given(str(tmp_path / "app.py"), "x = 1\n")
    assert PythonFiles().prompt_file(module, ("..", "secret.md")) is None
    assert PythonFiles().prompt_file(module, (str(tmp_path / "secret.md"),)) is None
