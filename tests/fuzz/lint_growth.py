"""CPU seconds per MB that `kvtool lint` takes for files that were made to be slow: python -m tests.fuzz.lint_growth [NAME …].

Start-up is taken off. Each runs in a fork with a limit of CPU time. Run by hand: times depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.forked import environment

Files = dict[str, bytes]
_RULE = "You are a helpful assistant. Answer the question of the user with care."


def _lines(form: str, *, path: str = "p.py", head: str = "", tail: str = "") -> Callable[[int], Files]:
    """A file of lines that differ in the number that stands for `#`."""

    def files(size: int) -> Files:
        parts, length = [head], len(head)
        while length < size:
            parts.append(form.replace("#", str(len(parts))))
            length += len(parts[-1])
        return {path: ("".join(parts) + tail).encode()}

    return files


def _cycle(size: int) -> Files:
    """Modules of a package, each of which calls six others."""
    count = max(size // 300, 2)
    files = {"pkg/__init__.py": b""}
    for number in range(count):
        others = [(number * 7 + step * 13) % count for step in range(6)]
        imports = "".join(f"from pkg.m{other} import f{other}\n" for other in others)
        calls = " + ".join(f"f{other}(a)" for other in others)
        files[f"pkg/m{number}.py"] = f"{imports}def f{number}(a):\n    return f'You help {{a}}' + {calls}\n".encode()
    return files


def _messages(text: str) -> Callable[[int], Files]:
    def files(size: int) -> Files:
        one = [
            {"role": ("user", "assistant")[number % 2], "content": text.replace("#", str(number))}
            for number in range(2)
        ]
        return {"m.json": json.dumps(one * (size // len(json.dumps(one)) + 1)).encode()}

    return files


SHAPES: dict[str, Callable[[int], Files]] = {
    "f-strings of a module": _lines('PROMPT_# = f"You help {user}. Rule #: be kind."\n'),
    "short constants": _lines('x# = "a"\n'),
    "conditions": _lines('if a#:\n    x# = f"text {b}"\nelse:\n    x# = "other"\n'),
    "attempts": _lines('try:\n    x# = f"text {b}"\nexcept E:\n    x# = "other"\n'),
    "comprehensions": _lines('x# = [f"a {c}" for c in b#]\n'),
    "nested lists": _lines("x# = [[[[['a'], 'b'], 'c'], 'd'], 'e']\n"),
    "small functions": _lines("def f#(a):\n    return a\n\n"),
    "functions in one": _lines("    def g#(b):\n        return x + b\n", head="def f(a):\n    x = f'{a} text'\n"),
    "keys of a mapping": _lines(
        'y# = X["key#"]\n', head="X = {" + "".join(f"'key{n}': 'v'," for n in range(9000)) + "}\n"
    ),
    "keys that are added": _lines('X["k#"] = f"v {u}"\n', head="X = {'a': 'b'}\n"),
    "texts that are added": _lines('x.append(f"line {a} #")\n', head="x = []\n"),
    "one sum": _lines('+ "a#"\n', head='x = ("a"\n', tail=")\n"),
    "chains of format": _lines('x# = "{a} {b} text"' + ".format(a=b)" * 60 + "\n"),
    "calls in calls": _lines("x# = " + "f(" * 60 + "a" + ")" * 60 + "\n"),
    "a parser's tables": _lines("'T#':([#,2],[-1,-#]),", head="_t = {", tail="}\n"),
    "Windows line ends": _lines('PROMPT_# = f"You help {user}. Rule #."\r\n'),
    "ignore comments": lambda size: {"p.py": b"x = 1  # kvtool: ignore[KV101]\n" * (size // 32)},
    "modules in cycles": _cycle,
    "messages with braces": _messages("m# {question}"),
    "messages in Jinja": _messages("m# {{ question }}"),
    "small YAML files": lambda size: {
        f"d{n % 50}/m{n}.yaml": f'prompt: "Help {{name}} {n}"\n'.encode() for n in range(size // 30)
    },
    "placeholders of Jinja": _lines("text {{ name# }} ", path="t.j2"),
    "Jinja with Windows line ends": _lines("The time is {{ now }}, rule #\r\n", path="t.j2"),
    "placeholders in braces": _lines("text {name#} \n", path="t.txt"),
    "placeholders with dollars": _lines("text $name# \n", path="t.txt"),
    "sections of Mustache": lambda size: {"t.txt": b"{{#if a}}text {{.Name}}{{/if}}\n" * (size // 32)},
    "quotes in quotes": lambda size: {"t.md": (("> " * 10_000 + "{name}\n") * (size // 20_000 + 1)).encode()},
    "one long line": _lines(_RULE, path="t.j2", head="{{ now }} "),
    "zero bytes": lambda size: {"p.py": b"x = 1\n" + b"\0" * size},
}


def cpu_seconds(files: Files, limit: int) -> float | None:
    """What `kvtool lint` of these files takes, its processes together; None where that is more than `limit`."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        pid = os.fork()
        if not pid:
            _lint(folder, next(iter(files)) if len(files) == 1 else ".", limit)
        _, status, used = os.wait4(pid, 0)
    return used.ru_utime + used.ru_stime if os.WIFEXITED(status) else None


def _lint(folder: str, given: str, limit: int) -> None:
    """In the child: it does not come back."""
    try:
        from kvtool.cli.app import run

        os.chdir(folder)
        silent = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(silent, stream)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        run(("lint", given, "--no-cache", "--no-config", "--offline", "-q"))
    finally:
        os._exit(0)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.lint_growth", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    parser.add_argument("--size", type=int, default=1_000_000, help="bytes, about [1000000]")
    parser.add_argument("--limit", type=int, default=20, help="CPU seconds of one [20]")
    asked = parser.parse_args()
    os.environ.update(environment())
    nothing = cpu_seconds({"p.py": b"x = f'You help {user}'\n"}, asked.limit) or 0.0
    for name in asked.names or SHAPES:
        files = SHAPES[name](asked.size)
        megabytes = sum(map(len, files.values())) / 1e6
        took = cpu_seconds(files, asked.limit)
        told = (
            f"more than {asked.limit / megabytes:.0f}"
            if took is None
            else f"{max(took - nothing, 0.0) / megabytes:.2f}"
        )
        print(f"{name:32}{megabytes:6.2f} MB{len(files):7} files  {told} s/MB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
