"""Command lines that are made of others, and that only the declaration of an option knows its flag."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import kvtool
from kvtool.cli.listed import options_of
from kvtool.config.command_line import CommandLine, flag, flags, values_given
from kvtool.config.option import made
from kvtool.config.options.run_options import Reading, Serving

FLAG = re.compile(r"--[a-z][a-z-]*( \S+)?")
PROSE = {"planned_run.py"}
"""It names flags in its errors only."""
OF_OTHERS = {"private_network.py", "agent_commands.py"}
"""They name flags of other programs."""


def line(words: str) -> CommandLine:
    return CommandLine(words.split(), options_of)


def test_values_take_the_place_of_those_that_were_given() -> None:
    for given, values, expected in [
        ("profile a --capacity 1 b", {"capacity": 2}, "profile a b --capacity 2"),
        ("profile a --capacity=1 b --seed=3", {"capacity": 2}, "profile a b --seed=3 --capacity 2"),
        ("profile a -b 32 -s4", {"block_size": 16, "seed": None}, "profile a --block-size 16"),
        ("profile a --json b", {"json": True}, "profile a b --json"),
        ("profile --offline a", {"offline": False}, "profile a"),
        (
            "what-if --no-enable-prefix-caching a",
            {"enable_prefix_caching": True},
            "what-if a --enable-prefix-caching",
        ),
        ("what-if a --model-preset x", {"model": "y"}, "what-if a --model y"),
        ("profile -- --capacity 1", {"seed": None}, "profile -- --capacity 1"),
    ]:
        assert " ".join(line(given).with_(**values)) == expected


def test_options_go_along_where_the_other_command_has_them() -> None:
    checked = line("check w.yaml -b 32 --slo ttft=2s --min-hit-rate 0.5 --replicas 2 --rules vllm -q --offline -n 9")
    assert (
        " ".join(checked.to("optimize", "w.yaml")) == "optimize w.yaml -b 32 --replicas 2 --rules vllm --offline -n 9"
    )
    assert " ".join(checked.to("profile", "x")) == "profile x -b 32 --replicas 2 --rules vllm --offline -n 9"
    assert "--slo ttft=2s" in " ".join(checked.to("what-if", "w.yaml"))


def test_a_line_with_the_same_inputs_leaves_out_what_only_the_first_command_has() -> None:
    written = line("optimize a b --allow P2 --write -o x.jsonl --no-diff --jobs 2 --breakpoints 3 --capacity 5")
    assert " ".join(written.to("profile")) == "profile a b --jobs 2 --capacity 5"


def test_a_line_that_no_shell_gave_carries_nothing() -> None:
    assert CommandLine(("check", "w.yaml", "--seed", "3")).to("profile", "w.yaml") == ("profile", "w.yaml")


def test_words_beside_another_line() -> None:
    today = line("what-if a --no-enable-prefix-caching --capacity 5")
    assert line("what-if a --enable-prefix-caching --capacity 5").beside(today) == ("--enable-prefix-caching",)
    assert line("what-if a --no-enable-prefix-caching --capacity 9").beside(today) == ("--capacity", "9")
    assert line("what-if a --capacity 5").beside(today) == ("what-if", "a", "--capacity", "5")


def test_flags_of_values() -> None:
    assert flags(model="m", groups=("a", "b"), kv_unified=False, offline=True, seed=None) == (
        *("--model", "m", "--group", "a", "--group", "b"),
        *("--no-kv-unified", "--offline"),
    )
    assert flag("enable_prefix_caching") == "--enable-prefix-caching"


def test_said_values_are_those_that_are_no_default() -> None:
    reading = made(Reading, groups=("a",), requests=5, allow_outside=True, jobs=3)
    names = {"groups", "requests", "allow_outside", "jobs", "seed"}
    assert list(values_given(reading, names)) == ["requests", "groups", "allow_outside"]
    assert values_given(Serving(block_size=16), {"block_size"}, block_size=32) == {"block_size": 32}


@pytest.mark.parametrize("room", ["report", "profiler"])
def test_no_flag_is_written_where_it_is_not_declared(room: str) -> None:
    folder = Path(kvtool.__file__).parent / room
    found = [
        f"{path.relative_to(folder)}: {text}"
        for path in sorted(folder.rglob("*.py"))
        if path.name not in PROSE | OF_OTHERS
        for text in _texts(ast.parse(path.read_text(encoding="utf-8")))
        if FLAG.fullmatch(text)
    ]
    assert not found, "take flags from kvtool.config.command_line"


def _texts(tree: ast.AST) -> Iterator[str]:
    """Yield string literals; of f-strings with a word for each value."""
    if isinstance(tree, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in tree.values)
        return
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        yield tree.value
    for child in ast.iter_child_nodes(tree):
        yield from _texts(child)
