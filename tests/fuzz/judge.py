"""What every command line owes, whatever it was given: the reasons why an outcome is wrong."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from tests.fuzz.commands import BYTES
from tests.fuzz.forked import MEMORY_BYTES, Ran

CODES = {0, 1, 2, 4}
"""4: a tokenizer or a model that a file names and that cannot be had here."""
UNSAFE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)
"""Controls but line feed and tab, and what turns text around or hides in it."""
STYLE = re.compile(r"\x1b\[[0-9;]*m")
"""Of `--color always`."""
RUNNER_COMMAND = re.compile(r"(?m)^[ \t]*::|##(?:\[|vso\[)")
_NEVER_NEGATIVE = re.compile(
    r"(?:prompt|hit|cached|cache_write|output|computed|reachable)_tokens|paid|cost|predicted|input|output|cache_read"
)
_PART = re.compile(r"\.part$")
_SCHEMAS = {
    "kvtool.report/1": "report",
    "kvtool.check/1": "check",
    "kvtool.baseline/1": "baseline",
    "kvtool.compare/1": "compare",
    "kvtool.lint/1": "lint",
    "kvtool.optimize/1": "optimize",
    "kvtool.diff/1": "diff",
    "kvtool.explain/1": "explain",
    "kvtool.size/1": "size",
    "kvtool.logs/1": "logs",
    "kvtool.settings/1": "settings",
    "kvtool.what-if/1": "what-if",
    "kvtool.engines/1": "engines",
    "kvtool.trace/1": "trace",
    "kvtool.replay/1": "replay",
    "kvtool.watch/1": "watch",
    "kvtool.why/1": "why",
    "kvtool.prices/1": "prices",
}


CONFIGURATIONS = frozenset(("kvtool.toml", "pyproject.toml"))


def faults(ran: Ran) -> Iterator[str]:
    """Why this outcome is wrong; nothing where it is right."""
    if ran.signal is not None:
        yield {24: "hang: CPU time", 9: "hang or memory: killed", 11: "crash"}.get(ran.signal, f"signal {ran.signal}")
        return
    if ran.code not in CODES:
        yield f"exit code {ran.code}"
    if "Traceback" in ran.err or "a bug in kvtool" in ran.err:
        yield "a bug is told of"
    if ran.peak_bytes > MEMORY_BYTES:
        yield f"memory: {ran.peak_bytes >> 20} MB"
    judged = ran.job.arguments[:1] == ("check",)  # it may tell in its report why it could not judge
    if ran.code == 2 and not judged and not re.search(r"(?m)^(error: |usage: )", ran.err):
        yield "exit code 2 without an error"
    if ran.code == 2 and not judged and ran.out and ran.job.program == "kvtool" and not _several(ran):
        yield "exit code 2 with an output"
    yield from _unsafe("stderr", ran.err)
    yield from _stdout(ran)
    for name, data in ran.written.items():
        yield from _file(ran, name, data)
    if any(map(_PART.search, ran.left)):
        yield f"left behind: {ran.left}"
    if ran.changed and "u.patch" in ran.written:
        yield from _undone(ran)
    elif ran.changed and not {"--write", "--fix", "--update-baseline", "--force", "--pyproject"} & set(
        ran.job.arguments
    ):
        yield f"changed: {', '.join(ran.changed)}"


def _several(ran: Ran) -> bool:
    """Whether there are other inputs than a bad one, which are judged all the same; without any, a configuration names them."""
    command, *arguments = ran.job.arguments
    inputs = [each for each in arguments if (each in ran.job.files and each != BYTES) or each == "-"]
    named = "." in arguments or len(inputs) > 1 or (not inputs and not CONFIGURATIONS.isdisjoint(ran.job.files))
    missing = re.search("no such file|cannot open", ran.err) is not None
    return (command in ("lint", "profile") and (named or missing)) or (command == "trace" and '"failed"' in ran.out)


def _undone(ran: Ran) -> Iterator[str]:
    """Whether the patch takes back what was written."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in ran.changed.items():
            Path(folder, name).write_bytes(data)
        Path(folder, "u.patch").write_bytes(ran.written["u.patch"])
        done = subprocess.run(["git", "apply", "u.patch"], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            yield f"the undo patch does not apply: {done.stderr[:200]}"
        for name in ran.changed:
            if not done.returncode and Path(folder, name).read_bytes() != ran.job.files[name]:
                yield f"{name} is not what it was after the undo patch"


def without_place(ran: Ran) -> str | None:
    """The first line of an error of exit code 2 that names no line of the file that was changed; None where it does."""
    if ran.code != 2 or not ran.job.mutated:
        return None
    first = ran.err.split("\n", 1)[0]
    return None if re.search(r"[^\s:]:\d+(:\d+)?: ", first) else first


def _unsafe(where: str, text: str) -> Iterator[str]:
    if found := UNSAFE.search(text):
        yield f"{where} has {found.group()!a} in {text[max(found.start() - 40, 0) : found.end() + 20]!a}"
    elif found := RUNNER_COMMAND.search(text):
        yield f"{where} has a command for a runner: {text[found.start() : found.end() + 40]!a}"


def _stdout(ran: Ran) -> Iterator[str]:
    arguments = ran.job.arguments
    if "--json" in arguments:
        if ran.code in (0, 1):
            yield from json_faults("stdout", ran.out)
    elif "github" in arguments:  # its commands are what is asked for
        yield from _unsafe("stdout", ran.out.replace("::", ""))
    elif ran.job.program == "kvtool":
        yield from _unsafe("stdout", STYLE.sub("", ran.out) if "always" in arguments else ran.out)


def _file(ran: Ran, name: str, data: bytes) -> Iterator[str]:
    if name in ran.job.files and ran.job.files[name] == data:
        return  # it was there and stays what it was
    if name.endswith(".parquet"):
        if data[:4] != b"PAR1" or data[-4:] != b"PAR1":
            yield f"{name} is cut"
        return
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        yield f"{name} is not UTF-8: {error}"
        return
    if not text and ran.code == 2:
        return
    if name.endswith((".json", ".sarif")):
        yield from json_faults(name, text)
    elif name.endswith((".xml", ".svg")):
        try:
            ET.fromstring(text)
        except ET.ParseError as error:
            yield f"{name}: {error}"
    elif name.endswith(".jsonl"):
        if text and not text.endswith("\n"):
            yield f"{name} is cut"
        for line in text.splitlines():
            json.loads(line)
    elif name.endswith((".html", ".md", ".txt", ".prom")):
        yield from (f"{name}: {said}" for said in _unsafe(name, text.replace("::", "")))
        if name.endswith(".html") and not text.rstrip().endswith("</html>"):
            yield f"{name} is cut"


def json_faults(where: str, text: str) -> Iterator[str]:
    """Whether a text is one JSON document, without raw controls, as its schema says."""
    try:
        document = json.loads(text, parse_constant=_no_constant)
    except ValueError as error:
        yield f"{where} is not JSON: {error}"
        return
    if found := UNSAFE.search(text):
        yield f"{where} has {found.group()!a} in {text[max(found.start() - 40, 0) : found.end() + 20]!a}"
    yield from (f"{where} has {said}" for said in _negative(document))
    name = document.get("schema") if isinstance(document, dict) else None
    if isinstance(name, str) and name in _SCHEMAS:
        wrong = next(_validator(_SCHEMAS[name]).iter_errors(document), None)
        if wrong is not None:
            yield f"{where} is not {name}: {wrong.json_path}: {wrong.message[:200]}"


def _negative(value: Any) -> Iterator[str]:
    """Tokens and amounts of money that are less than nothing."""
    if isinstance(value, list):
        for each in value:
            yield from _negative(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            if _NEVER_NEGATIVE.fullmatch(key) and re.fullmatch(r"-[0-9.]*[1-9].*", str(each)):
                yield f"`{key}`: {str(each)[:40]}"
            yield from _negative(each)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


@cache
def _validator(name: str) -> Any:
    from jsonschema import Draft202012Validator

    from kvtool.results.schemas import SCHEMAS

    return Draft202012Validator(SCHEMAS[name].document())
