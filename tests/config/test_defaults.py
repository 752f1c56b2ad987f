"""Defaults of options stand in their declarations, and in the engine, whose own they are: nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import kvtool
from kvtool.cli.listed import COMMANDS
from kvtool.config.option import Option, Value, walk

ROOT = Path(kvtool.__file__).parent
FILES = sorted(
    path
    for path in ROOT.rglob("*.py")
    if path.relative_to(ROOT).parts[0] not in ("config", "engine", "kernels")  # the last two know nothing of kvtool
)


def is_name(value: object) -> bool:
    """Whether a value is the name of a thing, such as a model, and no plain word: it then means the default wherever it stands.

    A number may mean many things; it is a default where it stands beside the option's name.
    """
    return isinstance(value, str) and any(map(str.isdigit, value))


def declared() -> dict[str, set[Value]]:
    """The defaults of all options by name: numbers, and names such as that of a model.

    Left out are truth values, 0 and 1, and the words of a choice (`auto`, `vllm`): code asks for those by their names anyway, and
    none of them can drift away from a declaration as a number can, as types hold them to the choice.
    """
    found: dict[str, set[Value]] = {}
    for listed in COMMANDS:
        for each in walk(listed.load()):
            if isinstance(each.mark, Option):
                value = each.default if each.mark.default is None else each.mark.default
                if (isinstance(value, int | float) and value not in (0, 1)) or is_name(value):
                    found.setdefault(each.name, set()).add(value)
    return found


DECLARED = declared()


def written_defaults(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Where a default is written as a literal: its line, and the name of the option."""
    of_value = {value: name for name, values in DECLARED.items() for value in values if is_name(value)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in of_value:
            yield node.lineno, of_value[node.value]
        for name, value in beside(node):
            constant = value.value if isinstance(value, ast.Constant) else None
            for option, values in DECLARED.items():
                if option in name.lower() and constant in values and type(constant) is not bool:
                    yield value.lineno, option


def beside(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names with the values that they get: assigned, as defaults of parameters, given as arguments, where nothing is said."""
    if isinstance(node, ast.arguments):
        positional = [*node.posonlyargs, *node.args]
        yield from ((each.arg, value) for each, value in zip(positional[::-1], node.defaults[::-1], strict=False))
        pairs = zip(node.kwonlyargs, node.kw_defaults, strict=True)
        yield from ((each.arg, value) for each, value in pairs if value is not None)
    elif isinstance(node, ast.Assign):
        yield from ((name_of(target), node.value) for target in node.targets)
    elif isinstance(node, ast.AnnAssign) and node.value is not None and "Option(" not in ast.unparse(node.annotation):
        yield name_of(node.target), node.value
    elif isinstance(node, ast.keyword):
        yield node.arg or "", node.value
    elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        yield from ((name_of(each), node.values[-1]) for each in node.values[:-1])
    elif isinstance(node, ast.IfExp):
        yield from ((name_of(each), other) for each, other in ((node.body, node.orelse), (node.orelse, node.body)))
    elif isinstance(node, ast.Compare):
        yield from ((name_of(node.left), each) for each in node.comparators)


def name_of(node: ast.expr) -> str:
    """What an expression is called: the last of its names, or the key that it asks for."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        return str(node.args[0].value)
    return node.id if isinstance(node, ast.Name) else ""


def test_the_declared_defaults_are_looked_for() -> None:
    assert DECLARED["max_num_batched_tokens"] == {8192}
    assert DECLARED["gpu_memory_utilization"] == {0.92}
    assert DECLARED["model"] == {"llama-3.1-8b"}
    assert len(DECLARED) == 29


def test_a_literal_is_found() -> None:
    for code in [
        "max_num_batched_tokens = 8192",
        "call('llama-3.1-8b')",
        "def f(*, block_size: int = 16): ...",
        "def f(block_size=16, other=3): ...",
        "_DEFAULT_BLOCK_SIZE = 16",
        "class A:\n    max_num_seqs: int = 256",
        "size = asked.block_size or 16",
        "size = 16 if block_size is None else block_size",
        "f(gpu_memory_utilization=0.92)",
        "config.get('block_size') != 16",
    ]:
        assert list(written_defaults(ast.parse(code))) != []


def test_what_means_something_else_is_not() -> None:
    for code in [
        "x = 8192",
        "f(0.92)",
        "replicas = 1",
        "block_size = 32",
        "budget: Annotated[float, Option('')] = 30.0",
    ]:
        assert list(written_defaults(ast.parse(code))) == []


def test_no_default_is_written_again() -> None:
    for path in FILES:
        assert list(written_defaults(ast.parse(path.read_text(encoding="utf-8")))) == []


def test_the_api_says_the_same_default() -> None:
    for name in ["block_size", "max_num_batched_tokens", "max_num_seqs"]:
        (line,) = [line for line in (kvtool.profile.__doc__ or "").splitlines() if line.strip().startswith(f"{name}: ")]
        (default,) = DECLARED[name]
        assert line.endswith(f"; {default} by default.")
