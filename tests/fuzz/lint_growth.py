"""CPU seconds per MB that `kvtool lint` takes for files that were made to be slow: python -m tests.fuzz.lint_growth [NAME …].

Each is read in two sizes; what takes more than three times as long for twice the text is marked. Start-up is taken off. Each runs
in a fork with a limit of CPU time. Run by hand: times depend on the machine; the tests count how often lines are looked for
(tests/lint/test_line_places.py).
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
from tests.fuzz.growth import LEAST_SECONDS, STEEP

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


def _items(one: object, path: str) -> Callable[[int], Files]:
    """JSON with many of these in a list, over many lines."""
    text = json.dumps(one)
    return lambda size: {path: json.dumps([json.loads(text)] * (size // len(text) + 1), indent=1).encode()}


_PROMPT = "Now {now}: " + _RULE * 2
_JINJA = "Now {{ now }}: " + _RULE * 2
FORMATS: dict[str, Callable[[int], Files]] = {
    "BAML": _lines(f'function F#(now: string) -> string {{\n  prompt "{_JINJA}"\n}}\n', path="f.baml"),
    "Prompty": _lines(f"user:\n{_JINJA}\nassistant:\nyes\n", path="p.prompty", head="---\nname: x\n---\n"),
    "dotprompt": _lines(f'{{{{role "user"}}}}\n{_JINJA}\n', path="p.prompt", head="---\nmodel: x\n---\n"),
    "prompts in YAML": _lines(f"  p#: |\n    {_PROMPT}\n    {{question}}\n", path="prompts.yaml", head="prompts:\n"),
    "ignored prompts in YAML": _lines(
        f"  # kvtool: ignore[KV101]\n  p#: |\n    {_PROMPT}\n", path="prompts.yaml", head="prompts:\n"
    ),
    "CrewAI": _lines(f"a#:\n  role: '{{topic}} expert'\n  goal: {_RULE}\n  backstory: >\n    x\n", path="agents.yaml"),
    "agent templates": _lines(
        f"  a#:\n    system_template: '{_JINJA}'\n    instance_template: 'x'\n", path="agent.yaml", head="agent:\n"
    ),
    "promptfoo": _lines(f"  - '{_JINJA}'\n", path="promptfooconfig.yaml", head="providers: [echo]\nprompts:\n"),
    "messages in YAML": _lines(f"  - {{role: user, content: '{_PROMPT}'}}\n", path="m.yaml", head="messages:\n"),
    "LangChain": _items({"_type": "prompt", "input_variables": ["now"], "template": _PROMPT}, "l.json"),
    "LlamaIndex": _items({"template_vars": ["now"], "template": _PROMPT}, "l.json"),
    "DSPy": _items({"signature": {"instructions": _RULE}, "demos": [{"question": _RULE}]}, "d.json"),
    "Semantic Kernel": _lines(
        "  {{now}} " + _RULE + "\n", path="s.yaml", head="template_format: handlebars\ntemplate: |\n"
    ),
    "skprompt": _lines("{{$now}} " + _RULE + "\n", path="skprompt.txt"),
    "prompts in TOML": _lines(f'[t#]\nsystem = """{_JINJA}"""\nuser = """{{{{ x }}}}"""\n', path="p.toml"),
    "notebook": _items({"cell_type": "code", "source": [f"P = f'{_PROMPT}'"]}, "n.ipynb"),
    "Handlebars": _lines("{{#if a}}Now {{now}} " + _RULE + "{{/if}}\n", path="t.hbs"),
    "XML": _lines(f"<p>{_PROMPT}</p>\n", path="prompt.xml", head="<x>\n", tail="</x>"),
    "marks in a text": _lines(f"<<NOW#>> [USER_INPUT] {_RULE}\n", path="prompt.txt"),
    "long lines in Jinja": _lines("x" * 2_000 + "{{ now# }}\n", path="t.j2"),
    "ignore comments in Jinja": _lines("{# kvtool: ignore[KV101] #}\n" + _JINJA + "\n", path="t.j2"),
    "signs of two bytes on one line": _lines("'é#', f'é {a}', ", head="x = [", tail="]\n"),
    "names of characters": _lines('x# = f"\\N{DASH} {a}" "\\N{DASH}"\n'),
}
"""The formats of prompts, each as many prompts in one file."""
SHAPES: dict[str, Callable[[int], Files]] = FORMATS | {
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
    parser.add_argument("--size", type=int, default=500_000, help="bytes of the smaller file, about [500000]")
    parser.add_argument("--limit", type=int, default=20, help="CPU seconds of one [20]")
    asked = parser.parse_args()
    os.environ.update(environment())
    nothing = cpu_seconds({"p.py": b"x = f'You help {user}'\n"}, asked.limit) or 0.0
    steep = 0
    for name in asked.names or SHAPES:
        took: list[float] = []
        for size in (asked.size, 2 * asked.size):
            files = SHAPES[name](size)
            used = cpu_seconds(files, asked.limit)
            took.append(float(asked.limit) if used is None else max(used - nothing, 1e-3))
        megabytes = sum(map(len, files.values())) / 2e6
        mark = took[1] > LEAST_SECONDS and took[1] / took[0] > STEEP
        steep += mark
        told = f"{took[0] / megabytes:8.2f} s/MB{took[1] / took[0]:6.1f}{'  steep' if mark else ''}"
        print(f"{name:32}{megabytes:6.2f} MB{len(files):7} files{told}", flush=True)
    return 1 if steep else 0


if __name__ == "__main__":
    sys.exit(main())
