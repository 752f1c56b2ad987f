"""The house: few rooms, each with its own word, and imports that go one way; CONTRIBUTING.md names what there is."""

from __future__ import annotations

import ast
import configparser
import fnmatch
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple, get_args

import pytest

from docs.generators import rooms
from kvtool.results.choices import Rules

ROOT = rooms.ROOT
KVTOOL = ROOT / "kvtool"
PACKAGES = sorted(path.parent.name for path in KVTOOL.glob("*/__init__.py") if path.parent.name != "engine")
COPIES = (KVTOOL / "engine", KVTOOL / "kernels")
"""Links, of which a source package makes copies."""
SOURCES = sorted(
    path
    for top in ("kvtool", "engine", "kernels")
    for path in (ROOT / top).rglob("*.py")
    if not any(map(path.is_relative_to, COPIES))
)
VIEWS = ("kvtool/report/", "kvtool/cli/")
"""A view is named for what it shows."""
TOPS = ("kvtool", "engine", "kernels", "workloads", "tests", "docs", "benchmarks", ".ci")
MADE_UP = re.compile(r"NAME|NNN|\*|CASE|[<>…]")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_the_house_is_small() -> None:
    assert len(PACKAGES) <= 14
    assert len(list(KVTOOL.glob("*.py"))) <= 8


@pytest.mark.parametrize("package", [*(f"kvtool/{name}" for name in PACKAGES), "engine"])
def test_each_package_says_what_it_owns(package: str) -> None:
    """In one sentence: the picture of rooms shows it."""
    docstring = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8")))
    assert docstring
    first = docstring.split("\n\n")[0]
    assert first.endswith(".")
    assert "\n" not in first


def test_each_package_has_its_folder_of_tests() -> None:
    for package in [*PACKAGES, "engine", "kernels"]:
        assert list((ROOT / "tests" / package).glob("test_*.py"))


def subject(path: Path) -> bool:
    """Whether a file has its name to itself: it is no view of another, and no kernel for GPUs beside its twin in torch."""
    name = name_of(path)
    twin = name.startswith("kernels/gpu/") and (path.parents[1] / path.name).is_file()
    return path.name != "__init__.py" and not twin and not name.startswith(VIEWS)


def test_no_file_name_stands_twice() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for path in filter(subject, SOURCES):
        found[path.name].append(name_of(path))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


class Module(NamedTuple):
    """Public classes of a module, and the modules of kvtool that it imports anywhere."""

    classes: list[str]
    imports: set[str]


@cache
def module_of(path: Path) -> Module:
    """Each module is parsed once for all tests of this file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    classes = [
        node.name for node in rooms.statements(tree) if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    return Module(classes, rooms.imported(tree, files()))


@cache
def files() -> dict[str, Path]:
    return rooms.files_of(ROOT)


def test_no_public_class_name_stands_twice() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for path in SOURCES:
        for name in module_of(path).classes:
            found[name].append(name_of(path))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


# Imports


def small_house(root: Path, imports: str) -> Path:
    """Two rooms, `upper` and `lower`, and the engine; `imports` stands in `lower`."""
    (root / ".importlinter").write_text(
        "[importlinter:contract:house]\nlayers =\n    kvtool.upper\n    kvtool.lower\n    kvtool.engine\n"
    )
    for path, text in (
        ("kvtool/upper/__init__.py", '"""Above."""\n'),
        ("kvtool/upper/one.py", "def f() -> None:\n    from kvtool.lower import two\n"),
        ("kvtool/lower/__init__.py", '"""Below."""\n'),
        ("kvtool/lower/two.py", imports),
        ("engine/__init__.py", '"""The engine."""\n'),
        ("kernels/store.py", "x = 1\n"),
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def test_imports_inside_functions_and_for_types_count(tmp_path: Path) -> None:
    types = "if TYPE_CHECKING:\n    from kvtool.kernels.store import x\n"
    house = rooms.read_house(small_house(tmp_path, types))
    assert house.imports == {("upper", "lower"): 1, ("lower", "kernels"): 1}
    assert [room.owns for room in house.rooms][:3] == ["Above.", "Below.", "The engine."]


def test_an_import_that_runs_up_is_refused(tmp_path: Path) -> None:
    with pytest.raises(rooms.RoomsError, match="lower -> upper"):
        rooms.read_house(small_house(tmp_path, "import kvtool.upper.one\n"))


def test_a_room_without_a_floor_is_refused(tmp_path: Path) -> None:
    small_house(tmp_path, "")
    (tmp_path / "kvtool" / "attic.py").write_text("")
    with pytest.raises(rooms.RoomsError, match="attic"):
        rooms.read_house(tmp_path)


def faces() -> dict[str, list[str]]:
    """The modules of each face that the linter holds, by the package."""
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter", encoding="utf-8")
    return {
        section["protected_modules"]: [
            line.removeprefix("** -> ") for line in section["ignore_imports"].split("\n") if line
        ]
        for section in contracts.values()
        if section.get("type") == "protected"
    }


def test_a_face_has_no_module_that_only_its_own_package_imports() -> None:
    """The linter sees imports past a face; that a face is not larger than it must be, it does not."""
    importers: dict[str, set[str]] = defaultdict(set)
    for name, path in files().items():
        for target in module_of(path).imports:
            importers[target].add(name)
    assert len(faces()) >= 5
    for package, modules in faces().items():
        for module in modules:
            assert [name for name in importers[module] if not name.startswith(f"{package}.")], module


def circles_inside(room: str) -> set[str]:
    """The modules of a room that import each other in a circle, those inside of functions and for types too."""
    members = {name: path for name, path in files().items() if name.startswith(f"kvtool.{room}.")}
    imports = {name: (module_of(path).imports & members.keys()) - {name} for name, path in members.items()}
    return {name.removeprefix(f"kvtool.{room}.") for name in members if name in reached(name, imports)}


def reached(start: str, imports: dict[str, set[str]]) -> set[str]:
    """Everything that a module imports, and what that imports; itself only where a circle leads back to it."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = imports[waiting.pop()] - found
        found |= new
        waiting += new
    return found


@pytest.mark.parametrize("room", [*PACKAGES, "engine"])
def test_no_modules_of_a_room_import_each_other_in_a_circle(room: str) -> None:
    assert circles_inside(room) == set()


# Rules


ASKS_FOR_RULES = (
    "kvtool/config/",
    "kvtool/accounting/servers/choose.py",
    "kvtool/accounting/plan.py",
    "kvtool/profiler/planned_run.py",
    "kvtool/profiler/run_description.py",
)
"""Where a name of rules may be compared: everywhere else a server, its traits or a property of the plan say what differs."""
OF_DOCUMENTS = ("kvtool/report/views/plans/what_if.py", "kvtool/profiler/engines/side_by_side.py")
"""A saved document has only the name of its rules; a comparison of engines goes through all names."""


def test_rules_are_compared_by_name_in_one_place() -> None:
    names = "|".join(get_args(Rules))
    compared = re.compile(rf'(==|!=|in \() ?"({names})"|"({names})" (==|!=)')
    found = {
        name
        for path in SOURCES
        if (name := name_of(path)).startswith("kvtool/") and not name.startswith((*ASKS_FOR_RULES, *OF_DOCUMENTS))
        if compared.search(path.read_text(encoding="utf-8"))
    }
    assert found == set()


# Pages


def named_paths(page: Path) -> Iterator[str]:
    """Paths between backticks that begin with a folder of the repository or with a room; not patterns such as `KVnnn.py`."""
    for text in re.findall(r"`([\w.][\w./*-]*/[\w./*-]*)`", page.read_text(encoding="utf-8")):
        first = text.split("/")[0]
        if (first in TOPS or first in PACKAGES) and not MADE_UP.search(text):
            yield text


def test_paths_that_pages_name_exist() -> None:
    for page in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "docs" / "development").glob("*.md")),
    ]:
        missing = [text for text in named_paths(page) if not any((top / text).exists() for top in (ROOT, KVTOOL))]
        assert not missing


def table_of_rooms() -> dict[str, tuple[bool, list[str]]]:
    """Of each room in CONTRIBUTING.md, whether the linter is said to hold its face, and the modules of it, with patterns."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)/`( \*)? \|.*\| (.*) \|$", page, re.MULTILINE)
    return {name: (bool(star), re.findall(r"`([^`]+)`", face)) for name, star, face in rows}


def test_contributing_names_every_room_and_its_face() -> None:
    table = table_of_rooms()
    assert sorted(table) == sorted([*PACKAGES, "engine", "kernels"])
    held = faces()
    for room, (star, patterns) in table.items():
        modules = [name for name in rooms.files_of(ROOT) if name.startswith(f"kvtool.{room}.")]
        for pattern in patterns:
            assert fnmatch.filter(modules, f"kvtool.{room}.{pattern}"), f"{room}: {pattern}"
        assert star == (f"kvtool.{room}" in held), room
        for module in held.get(f"kvtool.{room}", ()):
            assert any(fnmatch.fnmatch(module, f"kvtool.{room}.{pattern}") for pattern in patterns), module
