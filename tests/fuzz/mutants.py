"""Mutates the code instead of its inputs: python -m tests.fuzz.mutants --count N --seed N, in the root of the repository.

Each mutation is one small change of one place: a comparison, a sign, `and` or `or`, a `not`, an integer. It is made in a copy
of the checkout, and the tests of its room must fail. The exit code is 1 where they pass.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib.util import cache_from_source
from itertools import chain, islice, pairwise, zip_longest
from pathlib import Path
from typing import Literal, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
Verdict = Literal["killed", "survived", "timeout", "fails unmutated"]
RunTests = Callable[[Sequence[str]], int | None]
"""Runs pytest with these arguments; its exit code, None where it took too long."""

_OTHER = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "is": "is not",
    "is not": "is",
    "in": "not in",
    "not in": "in",
    "and": "or",
    "or": "and",
    "+": "-",
    "-": "+",
}
_OPERATOR = re.compile(rb"[<>=!]=|[<>+-]|\b(?:is\s+not|not\s+in|is|in|and|or)\b")
_NO_BEHAVIOR = {"__slots__", "__version__", "__all__"}
"""Names whose values no test can see."""


class Mutation(NamedTuple):
    """Bytes `[start, stop)` of a file, and what is put there."""

    start: int
    stop: int
    new: bytes

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.new + source[self.stop :]


class Mutant(NamedTuple):
    """A mutation of a file; `path` starts in the root of the checkout."""

    path: str
    mutation: Mutation


def mutations(source: bytes) -> list[Mutation]:
    """Every mutation of a Python source, in the order of their places."""
    lines = list(chain([0], (found.end() for found in re.finditer(rb"\n", source))))

    def begin(node: ast.expr) -> int:
        return lines[node.lineno - 1] + node.col_offset

    def end(node: ast.expr) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return lines[node.end_lineno - 1] + node.end_col_offset

    def between(left: ast.expr, right: ast.expr) -> Iterator[Mutation]:
        found = _OPERATOR.search(source, end(left), begin(right))
        if found is not None:
            other = _OTHER[" ".join(found[0].decode().split())]
            yield Mutation(found.start(), found.end(), other.encode())

    made: list[Mutation] = []
    for node in _with_behavior(ast.parse(source)):
        match node:
            case ast.Compare(left=left, comparators=others):
                for pair in pairwise([left, *others]):
                    made += between(*pair)
            case ast.BoolOp(values=values):
                for pair in pairwise(values):
                    made += between(*pair)
            case ast.BinOp(left=left, right=right, op=ast.Add() | ast.Sub()) if not (_is_text(left) or _is_text(right)):
                made += between(left, right)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                made.append(Mutation(begin(node), begin(operand), b""))
            case ast.Constant(value=int(value)) if source[begin(node) : end(node)].replace(b"_", b"").isdigit():
                made.append(Mutation(begin(node), end(node), str(value + 1).encode()))
    return sorted(made)


def is_a_change(source: bytes, mutation: Mutation) -> bool:
    """Whether it gives another program: Python 3.11 does not know where things are in an f-string."""
    try:
        return ast.dump(ast.parse(mutation.applied(source))) != ast.dump(ast.parse(source))
    except (SyntaxError, ValueError):
        return False


def _with_behavior(node: ast.AST) -> Iterator[ast.AST]:
    """Every node of a tree, but those that only type checkers, readers and memory limits see."""
    yield node
    for name, value in ast.iter_fields(node):
        match node, name:
            case _, "annotation" | "returns":
                continue
            case ast.Assert(), "msg":
                continue
            case ast.If(test=ast.Name(id="TYPE_CHECKING")), "body":
                continue
            case ast.Assign(targets=[ast.Name(id=target)]), _ if target in _NO_BEHAVIOR:
                continue
            case ast.Call(func=ast.Name(id="lru_cache")), _:
                continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _with_behavior(child)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def rooms(root: Path) -> dict[str, list[Path]]:
    """The modules of each room that has tests of its own."""
    folders = [*(root / "kvtool").iterdir(), root / "engine"]
    return {
        folder.name: sorted(folder.rglob("*.py"))
        for folder in sorted(folders)
        if folder.is_dir() and not folder.is_symlink() and (root / "tests" / folder.name).is_dir()
    }


def chosen(root: Path, seed: int, *, room: str | None = None, place: str | None = None) -> Iterator[Mutant]:
    """Mutants in a random order, the rooms taking turns. `place` is a file, or a file and a line: `engine/blocks/cache.py:30`."""
    rng = random.Random(seed)
    path, _, line = (place or "").partition(":")
    turns: list[list[Mutant]] = []
    for name, modules in rooms(root).items():
        found: list[Mutant] = []
        for module in modules:
            source = module.read_bytes()
            shown = module.relative_to(root).as_posix()
            if room in (None, name) and path in ("", shown):
                every = [Mutant(shown, mutation) for mutation in mutations(source)]
                found += [each for each in every if not line or int(line) == _line(source, each.mutation)]
        rng.shuffle(found)
        turns.append(found)
    rng.shuffle(turns)
    for mutant in chain.from_iterable(zip_longest(*turns)):
        if mutant is not None and is_a_change((root / mutant.path).read_bytes(), mutant.mutation):
            yield mutant


def _line(source: bytes, mutation: Mutation) -> int:
    return source.count(b"\n", 0, mutation.start) + 1


def room_tests(root: Path, path: str) -> list[list[str]]:
    """The tests that name a module, then the others of its room."""
    module = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    room = module.removeprefix("kvtool.").split(".")[0]
    name = re.compile(rf"\b{re.escape(module if module.startswith('kvtool.') else f'kvtool.{module}')}\b")
    every = sorted((root / "tests" / room).rglob("test_*.py"))
    named = [test for test in every if name.search(test.read_text(encoding="utf-8"))]
    parts = named, [test for test in every if test not in named]
    return [[test.relative_to(root).as_posix() for test in part] for part in parts if part]


def judged(root: Path, mutant: Mutant, run_tests: RunTests) -> Verdict:
    """What tests say of a mutant in a copy of the checkout; the file is put back."""
    path = root / mutant.path
    source = path.read_bytes()
    for tests in room_tests(root, mutant.path):
        try:
            _write(path, mutant.mutation.applied(source))
            code = run_tests(tests)
        finally:
            _write(path, source)
        if code is None:
            return "timeout"
        if code != 0:  # the same tests must pass without it
            return "killed" if run_tests([*tests, "--last-failed"]) == 0 else "fails unmutated"
    return "survived"


def _write(path: Path, source: bytes) -> None:
    """Write a module, and leave no bytecode that is taken for its."""
    path.write_bytes(source)
    Path(cache_from_source(str(path))).unlink(missing_ok=True)


def copied(root: Path, folder: Path) -> Path:
    """A copy of all files of a checkout that git knows or would take, symbolic links as such."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        stdout=subprocess.PIPE,
        check=True,
    )
    for name in filter(None, os.fsdecode(listed.stdout).split("\0")):
        if os.path.lexists(root / name):  # deleted, and git still knows it
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name, follow_symlinks=False)
    return folder


def pytest_in(root: Path, seconds: float) -> RunTests:
    """Runs the tests of a copy, with its code; what takes longer is killed."""

    def run_tests(arguments: Sequence[str]) -> int | None:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-x", "-q", *arguments],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    return run_tests


def main() -> int:
    """Parse, mutate, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.mutants", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=20, help="mutants [20]")
    parser.add_argument("--seed", type=int, default=0, help="of which ones [0]")
    parser.add_argument("--room", choices=rooms(ROOT), help="only of this room")
    parser.add_argument("--place", metavar="FILE[:LINE]", help="only of this file, or of one of its lines")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds for the tests of one mutant [900]")
    asked = parser.parse_args()
    os.nice(10)
    verdicts: Counter[Verdict] = Counter()
    with tempfile.TemporaryDirectory(prefix="kvtool-mutants-") as folder:
        root = copied(ROOT, Path(folder, "checkout"))
        run_tests = pytest_in(root, asked.limit)
        for mutant in islice(chosen(root, asked.seed, room=asked.room, place=asked.place), asked.count):
            verdict = judged(root, mutant, run_tests)
            verdicts[verdict] += 1
            print(_shown(root, mutant, verdict), flush=True)
    counts = ", ".join(f"{number} {verdict}" for verdict, number in sorted(verdicts.items()))
    print(f"{verdicts.total()} mutants, seed {asked.seed}: {counts}")
    return 1 if verdicts["survived"] else 0


def _shown(root: Path, mutant: Mutant, verdict: Verdict) -> str:
    source = (root / mutant.path).read_bytes()
    line = _line(source, mutant.mutation)
    old, new = (text.split(b"\n")[line - 1].decode().strip() for text in (source, mutant.mutation.applied(source)))
    return f"{verdict}  {mutant.path}:{line}\n    - {old}\n    + {new}"


if __name__ == "__main__":
    sys.exit(main())
