"""A page of Markdown as a sequence of lines with fenced blocks and generated parts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

Part = Callable[..., str]

_BEGIN = re.compile(r"<!-- begin (\S+)(.*) -->")
_END = "<!-- end -->"
_FILE = re.compile(r"<!-- file (\S+) -->")
_RUN = re.compile(r"<!-- run(.*) -->")
_FENCE = re.compile(r"(`{3,})(\S*)")


class PageError(Exception):
    """A page is not written as the generator expects it."""


class Runner(Protocol):
    """Runs shell blocks in a folder of its own."""

    def write(self, name: str, text: str) -> None: ...
    def run(self, block: str) -> tuple[int, str]: ...


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced block: its language, its text, and the number (from 0) of its first line; `mark` is the comment right above."""

    language: str
    text: str
    line: int
    mark: str | None


def fences(page: str) -> Iterator[Fence]:
    """The fenced blocks of a page, those in generated parts too."""
    lines = page.split("\n")
    at = 0
    while at < len(lines):
        opened = _FENCE.fullmatch(lines[at])
        if opened is None:
            at += 1
            continue
        end = lines.index(opened[1], at + 1)
        before = lines[at - 1] if at and lines[at - 1].startswith("<!-- ") else None
        yield Fence(opened[2], "\n".join(lines[at + 1 : end]) + "\n", at, before)
        at = end + 1


def fenced(text: str, language: str) -> str:
    """Text as a fenced block, whatever stands in it."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    ticks = "`" * (longest + 1)
    return f"{ticks}{language}\n{text.rstrip()}\n{ticks}"


def fill(page: str, parts: Mapping[str, Part], shell: Runner, name: str) -> str:
    """The page with its generated parts made anew; its files and shell blocks are written and run in their order."""
    lines = page.split("\n")
    blocks = {fence.line: fence for fence in fences(page)}
    result: list[str] = []
    said: list[str] | None = None
    pending: Fence | None = None
    at = 0
    while at < len(lines):
        line = lines[at]
        if (begin := _BEGIN.fullmatch(line)) is not None:
            end = lines.index(_END, at)
            arguments = shlex.split(begin[2])
            if begin[1] == "output":
                where = f"{name}:{at + 1}"
                if pending is not None:
                    said = _run(shell, pending, _wanted(arguments), where).rstrip("\n").split("\n")
                    pending = None
                if said is None:
                    raise PageError(f"{where}: no shell block stands before it")
                made = _cut(said, dict(each.split("=", 1) for each in arguments), where)
            else:
                made = parts[begin[1]](*arguments)
            result += [line, made, _END]
            at = end + 1
            continue
        if (fence := blocks.get(at)) is not None:
            end = at + fence.text.count("\n") + 2
            result += lines[at:end]
            mark = fence.mark or ""
            if (file := _FILE.fullmatch(mark)) is not None:
                shell.write(file[1], fence.text)
            elif (run := _RUN.fullmatch(mark)) is not None:
                _run(shell, fence, _wanted(shlex.split(run[1])), f"{name}:{at + 1}")
            elif fence.language == "sh":
                pending = fence
            at = end
            continue
        result.append(line)
        at += 1
    return "\n".join(result)


def _wanted(arguments: list[str]) -> int:
    return next((int(each.removeprefix("exit=")) for each in arguments if each.startswith("exit=")), 0)


def _run(shell: Runner, fence: Fence, wanted: int, where: str) -> str:
    code, output = shell.run(fence.text)
    if code != wanted:
        raise PageError(f"{where}: exit code {code}, not {wanted}, of\n{fence.text}\n{output}")
    return output


def _cut(lines: list[str], options: Mapping[str, str], where: str) -> str:
    """What a block printed: all of it, or from the line with `from=` to the end of the paragraph or the line with `to=`."""
    first, last = 0, len(lines)
    if "from" in options:
        first = next((n for n, line in enumerate(lines) if options["from"] in line), -1)
        if first < 0:
            raise PageError(f"{where}: no line has `{options['from']}`:\n" + "\n".join(lines))
        last = next((n for n in range(first, len(lines)) if not lines[n]), len(lines))
    if "to" in options:
        found = next((n for n in range(first, len(lines)) if options["to"] in lines[n]), -1)
        if found < 0:
            raise PageError(f"{where}: no line has `{options['to']}`:\n" + "\n".join(lines))
        last = found + 1
    return fenced("\n".join(lines[first:last]), "text")
