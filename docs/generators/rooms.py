"""The rooms of kvtool as its code has them: their floors from `.importlinter`, what each owns, and who imports whom."""

from __future__ import annotations

import ast
import configparser
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "kvtool"
_FACE_OF = {PACKAGE: "api"}
"""The root package holds the names of the API, and nothing else."""
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")
"""Where a statement holds others: itself, its handlers of errors, or its cases."""
_BELOW_ALL = "kernels"
"""A folder without `__init__.py`: the linter does not see it, and it imports nothing of ours."""


class RoomsError(Exception):
    """A room without a floor, or an import that runs up."""


@dataclass(frozen=True, slots=True)
class Room:
    """A package or a module directly in `kvtool/`; `owns` is the first sentence of its docstring."""

    name: str
    owns: str
    lines: int
    is_package: bool


@dataclass(frozen=True, slots=True)
class House:
    """Floors from the roof down, and for each pair of rooms the number of modules of the one that a module of the other imports."""

    floors: tuple[tuple[Room, ...], ...]
    imports: Counter[tuple[str, str]]

    @property
    def rooms(self) -> list[Room]:
        return [room for floor in self.floors for room in floor]


def read_house(root: Path = ROOT) -> House:
    """Reads every import, those inside functions and for types only included; refuses one that runs up."""
    files = files_of(root)
    texts = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    names = _floors(root)
    found = {room_of(name) for name in files}
    if left := found.symmetric_difference(name for floor in names for name in floor):
        raise RoomsError(f"on no floor of .importlinter, or there and not in the code: {sorted(left)}")
    imports = Counter(
        (room_of(name), room_of(target))
        for name, text in texts.items()
        for target in imported(
            ast.parse(text), files
        )  # a tree at a time: hundreds that are kept cost Python twice the time
        if room_of(target) != room_of(name)
    )
    level = {name: number for number, floor in enumerate(names) for name in floor}
    if up := sorted(f"{one} -> {other}" for one, other in imports if level[one] >= level[other]):
        raise RoomsError(f"imports that run up, or between two rooms of one floor: {up}")
    floors = tuple(tuple(_room(name, texts) for name in floor) for floor in names)
    return House(floors, imports)


def room_of(module: str) -> str:
    """The room of a module: the second part of its dotted name."""
    return _FACE_OF.get(module) or module.split(".")[1]


def imported(tree: ast.Module, known: dict[str, Path]) -> set[str]:
    """The modules of kvtool that a module imports anywhere; imports are absolute."""
    found = set()
    for node in statements(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else node.module for name in inner}
    return {name for name in found if name.split(".")[0] == PACKAGE}


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Every statement of a module, however deep; what stands inside expressions, nine tenths of the nodes, is not looked at."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        for name in _BODIES:
            left += getattr(node, name, ())
        if isinstance(node, ast.stmt):
            yield node


def files_of(root: Path) -> dict[str, Path]:
    """Dotted names and files; `kvtool/engine` and `kvtool/kernels` are links, which a walk does not follow."""
    found = {}
    for top, folder in (("", PACKAGE), (f"{PACKAGE}.", "engine"), (f"{PACKAGE}.", "kernels")):
        for path in sorted((root / folder).rglob("*.py")):
            dotted = ".".join(path.relative_to(root).with_suffix("").parts)
            found[top + dotted.removesuffix(".__init__")] = path
    return found


def _floors(root: Path) -> list[list[str]]:
    """The layers of the contract from the top, and the floor that it cannot see."""
    contract = configparser.ConfigParser()
    contract.read(root / ".importlinter", encoding="utf-8")
    layers = contract["importlinter:contract:house"]["layers"].split("\n")
    floors = [[name.strip().split(".")[1] for name in layer.split("|")] for layer in layers if layer.strip()]
    return [*floors, [_BELOW_ALL]]


def _room(name: str, texts: dict[str, str]) -> Room:
    dotted = f"{PACKAGE}.{name}"
    inside = [text for module, text in texts.items() if module == dotted or module.startswith(f"{dotted}.")]
    lines = sum(text.count("\n") for text in inside)
    if dotted in texts:
        owns = ast.get_docstring(ast.parse(texts[dotted])) or ""
    else:
        owns = "Kernels in torch, and under `gpu/` in Triton, with the same signatures."
    return Room(name, owns.split("\n")[0], lines, len(inside) > 1)
