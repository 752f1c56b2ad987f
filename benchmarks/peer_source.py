"""What pcdlint 0.3.0 and promptcachelint 0.1.0 say about the source of a package, each run in an environment of its own.

pcdlint reads Python as kvtool does. Its PCL001 and PCL005 (a value that varies before static text, or before a breakpoint) have
the code of the value that they name, PCL002 is KV112, PCL003 KV113 and PCL004 KV111. promptcachelint reads requests, not source: it
is given each long string of a Python file (holes as they are written) and each template as the system message of a request, the
most that it can be given without traffic. Its CL012 (text that looks volatile) has the code of the pattern that matched; its
other codes are about breakpoints, sizes and time.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from judged import Found

_LEAST_TEXT = 200
"""Characters of a string that may be a prompt."""
_TEMPLATES = (".j2", ".jinja", ".jinja2", ".md", ".txt", ".prompt", ".prompty", ".mustache", ".yaml", ".yml", ".toml")
_PCDLINT_CODES = {"PCL002": "KV112", "PCL003": "KV113", "PCL004": "KV111"}
_PATTERN_CODES = {"uuid": "KV102", "hex-id": "KV102"}
_RANDOM = re.compile(r"uuid|random|secrets|token_|hash|\bid\b", re.IGNORECASE)
_HOST = re.compile(r"getcwd|environ|getenv|platform|hostname|getpid|getuser|cwd", re.IGNORECASE)
_ON_REQUESTS = """
import json, sys
from promptcachelint.detectors import lint_request
from promptcachelint.providers import get_provider
provider = get_provider("openai")
told = []
for file, line, text in json.load(sys.stdin):
    body = {"model": "gpt-5", "messages": [{"role": "system", "content": text}, {"role": "user", "content": "go on"}]}
    for finding in lint_request(provider, body):
        at = text[: finding.offset or 0].count("\\n")
        told.append([file, line + at, finding.code, finding.severity, finding.data.get("pattern", ""), finding.message])
json.dump(told, sys.stdout)
"""


@dataclass(frozen=True)
class Ran:
    """What a process printed, and the CPU seconds (user and system) of it and its children."""

    output: str
    cpu: float
    status: int


def run_measured(command: Sequence[str], given: str = "") -> Ran:
    """Run a command to its end; its caches are its own and empty."""
    with tempfile.TemporaryDirectory() as caches, tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as sink:
        source.write(given.encode())
        source.seek(0)
        environment = {**os.environ, "XDG_CACHE_HOME": caches}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else each start compiles what it imports
        process = subprocess.Popen(command, stdin=source, stdout=sink, stderr=subprocess.DEVNULL, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        sink.seek(0)
        return Ran(sink.read().decode(), usage.ru_utime + usage.ru_stime, process.returncode)


def pcdlint(python: str, folder: Path) -> tuple[list[Found], float]:
    """Its findings and its CPU seconds. Exits where it does not run."""
    ran = run_measured([python, "-m", "pcdlint", "--format", "json", str(folder)])
    if ran.status not in (0, 1, 2):  # 2: a file that it could not parse; the others are judged
        sys.exit(f"pcdlint ended with {ran.status}")
    return [
        Found(
            _below(finding["file_path"], folder), finding["lineno"], _pcdlint_code(finding), finding["severity"].lower()
        )
        for finding in json.loads(ran.output)
    ], ran.cpu


def _pcdlint_code(finding: dict[str, str]) -> str:
    return _PCDLINT_CODES.get(finding["rule_id"]) or _code_of_value(finding["message"])


def _code_of_value(message: str) -> str:
    if _RANDOM.search(message):
        return "KV102"
    return "KV106" if _HOST.search(message) else "KV101"


def promptcachelint(python: str, folder: Path) -> tuple[list[Found], float]:
    """Its findings about the texts of a package, and its CPU seconds without those of reading the package."""
    ran = run_measured([python, "-c", _ON_REQUESTS], json.dumps(list(texts(folder))))
    if ran.status:
        sys.exit(f"promptcachelint ended with {ran.status}")
    return [
        Found(file, line, _PATTERN_CODES.get(pattern, "KV101"), severity)
        for file, line, code, severity, pattern, _message in json.loads(ran.output)
        if code == "CL012"
    ], ran.cpu


def texts(folder: Path) -> Iterator[tuple[str, int, str]]:
    """File, line and text of what could be a prompt: whole templates, and long strings of Python that are no docstrings."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or ".dist-info/" in name:
            continue
        if path.suffix in _TEMPLATES:
            yield name, 1, path.read_text(encoding="utf-8", errors="replace")
        elif path.suffix == ".py":
            yield from (
                (name, line, text) for line, text in strings(path.read_text(encoding="utf-8", errors="replace"))
            )


def strings(source: str) -> Iterator[tuple[int, str]]:
    """Lines and texts of the long strings of a module, each hole of an f-string as it is written."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    inside |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = ""
        if isinstance(node, ast.JoinedStr):
            text = "".join(map(_written, node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            text = node.value
        if len(text) >= _LEAST_TEXT and isinstance(node, ast.expr):
            yield node.lineno, text


def _written(part: ast.expr) -> str:
    return "{" + ast.unparse(part.value) + "}" if isinstance(part, ast.FormattedValue) else str(ast.literal_eval(part))


def _below(path: str, folder: Path) -> str:
    return Path(path).resolve().relative_to(folder.resolve()).as_posix()
