"""Guards of the layout: what is installed under which name, and who imports what."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ENGINE = sorted((ROOT / "engine").rglob("*.py"))
KERNELS = sorted((ROOT / "kernels").rglob("*.py"))

# Accounting must start fast and run where torch is not needed.
WITHOUT_TORCH = (
    "block",
    "cache",
    "scheduler",
    "events",
    "hashing",
    "request",
    "step",
    "config",
    "free_queue",
    "runner",
)
ENGINE_MAY_IMPORT = {"numpy", "xxhash", "torch", "safetensors", "transformers"}
KERNELS_MAY_IMPORT = {"torch", "triton"}


def imported_modules(source: str) -> Iterator[str]:
    """Every module that running the source may import, wherever the statement stands; `from a import b` gives `a.b`."""
    todo: list[ast.AST] = [ast.parse(source)]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            todo.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        todo.extend(ast.iter_child_nodes(node))


def outsiders(path: Path, allowed: set[str], inside: tuple[str, ...]) -> list[str]:
    """What the file imports beyond the standard library, the allowed roots and the packages that it may build on."""
    return [
        name
        for name in imported_modules(path.read_text(encoding="utf-8"))
        if (root := name.partition(".")[0]) not in sys.stdlib_module_names
        and root not in allowed
        and not f"{name}.".startswith(tuple(f"{package}." for package in inside))
    ]


def test_imported_modules_sees_every_form() -> None:
    source = """
import a.b
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import hidden
else:
    import c
def f():
    from d import e
"""
    assert sorted(imported_modules(source)) == ["a.b", "c", "d.e", "typing.TYPE_CHECKING"]


def test_kernels_is_no_regular_package() -> None:
    """With an __init__.py, a checkout on sys.path would hide PyPI's `kernels`, and transformers would crash."""
    assert not (ROOT / "kernels" / "__init__.py").exists()


@pytest.mark.parametrize("name", ["engine", "kernels", "workloads"])
def test_the_packages_are_links_in_the_checkout(name: str) -> None:
    link = ROOT / "kvtool" / name
    if (ROOT / "PKG-INFO").is_file():
        pytest.skip("a source package has files in their place")
    assert link.is_symlink()
    assert link.readlink() == Path("..") / name


def test_engine_stands_alone() -> None:
    """It must run on a GPU machine that has just these libraries."""
    for path in ENGINE:
        assert outsiders(path, ENGINE_MAY_IMPORT, ("kvtool.engine", "kvtool.kernels")) == []


def test_kernels_stand_alone() -> None:
    for path in KERNELS:
        assert outsiders(path, KERNELS_MAY_IMPORT, ("kvtool.kernels",)) == []


@pytest.mark.parametrize("name", [name for name in WITHOUT_TORCH if (ROOT / "engine" / f"{name}.py").exists()])
def test_accounting_imports_no_torch(name: str) -> None:
    """Neither itself nor through another module of the engine."""
    seen: set[str] = set()
    todo = [name]
    while todo:
        module = todo.pop()
        if module in seen:
            continue
        seen.add(module)
        path = ROOT / "engine" / module.replace(".", "/")
        if not path.is_dir() and not path.with_suffix(".py").is_file():
            path = path.parent  # what is imported is a name in a module
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        for imported in imported_modules(path.read_text(encoding="utf-8")):
            parts = imported.split(".")
            assert parts[0] not in ("torch", "transformers", "safetensors"), f"{path} imports {imported}"
            assert parts[:2] != ["kvtool", "kernels"], f"{path} imports {imported}"
            if parts[:2] == ["kvtool", "engine"] and len(parts) > 2:
                todo.append(".".join(parts[2:]))


@pytest.mark.parametrize("name", ["engine", "workloads"])
def test_a_checkout_without_symbolic_links_says_so(name: str, tmp_path: Path) -> None:
    """Where git makes none, each is a text file with the path that it should lead to."""
    for each in ("engine", "kernels", "workloads"):
        (tmp_path / "kvtool" / each).mkdir(parents=True)
    (tmp_path / "kvtool" / name).rmdir()
    (tmp_path / "kvtool" / name).write_text(f"../{name}", encoding="utf-8")
    (tmp_path / "setup.py").write_text((ROOT / "setup.py").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "tests").mkdir()
    done = subprocess.run([sys.executable, "setup.py", "--version"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(f"kvtool/{name} must be a symbolic link to ../{name}")
    assert "git clone -c core.symlinks=true" in done.stderr


def test_it_does_not_run_without_the_links_and_says_so(tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "kvtool", tmp_path / "kvtool", symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "engine")
    )
    (tmp_path / "kvtool" / "engine").write_text("../engine", encoding="utf-8")
    code = """import sys
sys.path[0] = "."
sys.meta_path = [finder for finder in sys.meta_path if "ditable" not in repr(finder)]  # this checkout's own
from kvtool.__main__ import main
main()"""
    command = [sys.executable, "-c", code, "profile", "x.txt"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": ""}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: kvtool/engine is no symbolic link to ../engine")
    assert "Traceback" not in done.stderr
