"""Prompts in Python and in data files (YAML, TOML, Prompty) as templates that a workload contains as copies."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kvtool.errors import KvtoolError
from kvtool.lint.code_files import code_prompts
from kvtool.lint.formats.prompt_formats import may_hold_prompts, prompt_nodes, read_prompts
from kvtool.lint.lint_inputs import CODE_SUFFIXES
from kvtool.lint.skeleton import Choice, Hole, Node, leaves
from kvtool.text.files.text_files import read_text

__all__ = ["CopiedPrompt", "copy_prompts", "may_hold_prompts"]

_MOST = 4
"""Prompts of one file."""
_SYNTAX = ("{{", "{%", "{#")
_RESERVED = frozenset(("loop", "self", "super", "caller", "range", "dict", "namespace", "true", "false", "none"))


@dataclass(frozen=True, slots=True)
class CopiedPrompt:
    """A copy of a prompt as a Jinja template, the file that it is from, and the places of its variables there."""

    path: str
    text: str
    places: dict[str, str] = field(default_factory=dict)


def copy_prompts(folder: Path, names: Iterable[str], notes: list[str]) -> list[CopiedPrompt]:
    """Return the prompts in these files; `notes` get a line for each file that cannot be read."""
    found: list[CopiedPrompt] = []
    for name in names:
        try:
            found += list(_copies(folder, name))[:_MOST]
        except (KvtoolError, RecursionError) as error:
            message = error.message if isinstance(error, KvtoolError) else "nested too deeply to read"
            notes.append(f"{name} was left out: {message}")
    return found


def _copies(folder: Path, name: str) -> Iterator[CopiedPrompt]:
    text = read_text(folder / name, shown=name)
    if name.endswith(CODE_SUFFIXES):
        seen: set[str] = set()
        for nodes in code_prompts(str(folder / name), text)[0]:
            constant = "".join(leaf for leaf in leaves(nodes) if isinstance(leaf, str))
            if constant.strip() and constant not in seen:  # a template and where it is filled are one prompt
                seen.add(constant)
                yield _from_nodes(name, nodes)
        return
    read = read_prompts(str(folder / name), text)
    for prompt in read.prompts if read is not None else ():
        if any(part.style == "jinja" for part in prompt):
            yield CopiedPrompt(name, "\n\n".join(str.__str__(part.text) for part in prompt))
        elif (nodes := prompt_nodes(prompt)) and any(part.style for part in prompt):
            yield _from_nodes(name, nodes)


def _from_nodes(name: str, nodes: Iterable[Node]) -> CopiedPrompt:
    nodes = list(nodes)
    places: dict[str, str] = {}
    for leaf in leaves(nodes):
        if isinstance(leaf, Hole):
            spot = leaf.spot
            places.setdefault(_variable(leaf), f"{name}:{spot.line}:{spot.column}")
    return CopiedPrompt(name, "".join(_Writer().written(nodes)), places)


class _Writer:
    """Writes nodes as Jinja: choices become conditions, repeated texts become loops."""

    def __init__(self) -> None:
        self._number = 0

    def written(self, nodes: Iterable[Node]) -> Iterator[str]:
        for node in nodes:
            if isinstance(node, str):
                yield _literal(node)
            elif isinstance(node, Hole):
                yield f"{{{{ {_variable(node)} }}}}"
            elif isinstance(node, Choice):
                yield from self._choice(node)
            else:
                self._number += 1
                number = self._number
                yield f"{{% for item_{number} in repeated_{number} %}}"
                yield from self.written(node.body)
                yield "{% endfor %}"

    def _choice(self, node: Choice) -> Iterator[str]:
        self._number += 1
        name = f"variant_{self._number}"
        for at, branch in enumerate(node.branches):
            yield f'{{% {"elif" if at else "if"} {name} == "{at + 1}" %}}'
            yield from self.written(branch)
        if node.branches:
            yield "{% endif %}"


def _literal(text: str) -> str:
    if not any(mark in text for mark in _SYNTAX):
        return text
    return re.sub(r"\{(?=[{%#])", "{{ '{' }}", text)


def _variable(hole: Hole) -> str:
    """Return a name for a value: that of the code that says what it is."""
    name = re.sub(r"\W+", "_", hole.what, flags=re.ASCII).strip("_")
    if not name or name[0].isdigit() or keyword.iskeyword(name) or name in _RESERVED:
        name = f"value_{name}".rstrip("_")
    return name
