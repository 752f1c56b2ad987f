"""Sorting of the inputs of `kvtool lint`: traffic is run, templates are read.

A workload (.yaml with `groups:`) is run by itself; logs, traces and prompts are run together. Jinja and Mustache files, XML,
Python, TypeScript and JavaScript files, text files with Jinja in them, and files in which frameworks keep prompts
(`lint.formats.prompt_formats`) are templates. A text file (.txt, .md) that is alone is a template where it has `{name}` or `$name`
placeholders; of several, such files are prompts that were sent, as braces and dollars are common in those.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from kvtool.config.find import find_config
from kvtool.errors import KvtoolError, Place
from kvtool.lint.front_matter import body_start
from kvtool.lint.passed_values import PassedValue
from kvtool.lint.python.python_source import python_text
from kvtool.text.files.text_files import decode, file_bytes, read_text
from kvtool.text.files.yaml_document import parse_yaml_data
from kvtool.workload.logs.files.plain_text_files import PLAIN_SUFFIXES

InputKind = Literal["workload", "logs", "prompts", "template", "python", "typescript", "text"]

WORKLOAD_SUFFIXES = (".yaml", ".yml")
_OF_ALL = (".json", ".toml")
JINJA_SUFFIXES = (".j2", ".jinja", ".jinja2", ".tmpl")
MUSTACHE_SUFFIXES = (".mustache", ".hbs", ".handlebars")
MARKUP_SUFFIX = ".xml"
"""Texts with tags around their parts: prompts in files of this suffix are texts with placeholders, hardly ever XML."""
TEMPLATE_SUFFIXES = (*JINJA_SUFFIXES, *MUSTACHE_SUFFIXES, MARKUP_SUFFIX)
_BLANK_BYTES = 4096
DATA = "data"
"""The style of a file that holds prompts beside other things."""
MOST_DATA_BYTES = 4 * 1024 * 1024
_GROUPS = re.compile(r"^[\"']?groups[\"']?[ \t]*:", re.MULTILINE)
_VERSION = re.compile(r"^version[ \t]*:", re.MULTILINE)
_GO_MARK = re.compile(r"\{\{-?\s{0,8}(?:\.(?:[A-Za-z_]|\s{0,8}\}\})|\$|[#^/&][A-Za-z])")
"""What no Jinja has: `{{ .Name }}`, `{{$name}}`, `{{#if name}}`."""
TYPESCRIPT_SUFFIXES = (".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs")
CODE_SUFFIXES = (".py", *TYPESCRIPT_SUFFIXES)
OTHER_CODE = {
    ".go": "Go",
    ".rs": "Rust",
    ".java": "Java",
    ".kt": "Kotlin",
    ".cs": "C#",
    ".rb": "Ruby",
    ".php": "PHP",
    ".swift": "Swift",
    ".scala": "Scala",
    ".ex": "Elixir",
    ".dart": "Dart",
}
"""Languages whose code is named as not read, by the suffix of their files."""
CODE_BYTES = 4 * 1024 * 1024
TEMPLATE_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TextInput:
    """A file that was read: a template, or code. `style` is how its placeholders are written, or DATA.

    `found`: nobody named it, it lay in a folder that was named. `marks`: what in it code replaces by itself. `passed`: the
    values that code passes to it and that surely differ from call to call. `included`: the texts of files that it includes,
    by their names; `children`: those of files that extend it.
    """

    path: str
    text: str
    kind: InputKind
    style: str = ""
    found: bool = False
    marks: tuple[str, ...] = ()
    passed: tuple[PassedValue, ...] = ()
    included: tuple[tuple[str, str], ...] = ()
    children: tuple[str, ...] = ()

    @property
    def is_code(self) -> bool:
        """Return whether it is code that may build prompts."""
        return self.kind in ("python", "typescript")

    @property
    def is_template(self) -> bool:
        """Return whether all of the file is one prompt, so that its lines can be moved."""
        return not self.is_code and self.style not in (DATA, "mustache")


@dataclass(slots=True)
class Inputs:
    """`runs` are the inputs of one run each, `texts` the files that are read."""

    runs: list[list[str]] = field(default_factory=list)
    texts: list[TextInput] = field(default_factory=list)
    prompts: list[TextInput] = field(default_factory=list)
    """Text files that are run as prompts: their comments count."""
    foreign: list[str] = field(default_factory=list)
    """YAML that is neither a workload nor holds prompts."""
    problems: list[KvtoolError] = field(default_factory=list)
    """What is wrong with files that could not be read."""


def sort_inputs(paths: Sequence[str], alone: Collection[str] = ()) -> Inputs:
    """Sort inputs by what to do with them; files that cannot be read become problems of the result.

    `alone` are texts each of which is a template by itself, whatever others there are.
    """
    result = Inputs()
    together: list[str] = []
    plain: list[TextInput] = []
    for path in dict.fromkeys(paths):
        suffix = Path(path).suffix.lower()
        try:
            data = _data(path, suffix, named=path not in alone)
        except KvtoolError as error:
            result.problems.append(error)
            continue
        if data is not None and data.style == DATA:
            result.texts.append(replace(data, found=path in alone))
        elif data is not None:
            result.foreign.append(path)
        elif suffix in WORKLOAD_SUFFIXES:
            result.runs.append([path])
        elif suffix in (*TEMPLATE_SUFFIXES, *CODE_SUFFIXES, *PLAIN_SUFFIXES):
            try:
                one = replace(_read(path, suffix), found=path in alone)
            except KvtoolError as error:
                result.problems.append(error)
                continue
            (plain if one.kind == "text" and path not in alone else result.texts).append(one)
        elif suffix in OTHER_CODE:
            result.problems.append(_other_code(path, OTHER_CODE[suffix]))
        else:
            together.append(path)
    if len(plain) == 1 and not together:
        result.texts.append(plain[0])
    else:
        result.prompts = plain
        together += [one.path for one in plain]
    if together:
        result.runs.append([path for path in dict.fromkeys(paths) if path in together])
    return result


def _other_code(path: str, language: str) -> KvtoolError:
    hint = "it reads Python, TypeScript and JavaScript; for others, lint the files of their prompts or a log"
    return KvtoolError(f"kvtool lint does not read {language} code", hint=hint, place=Place(path))


def _data(path: str, suffix: str, *, named: bool) -> TextInput | None:
    """A file that holds prompts beside other things, with the style DATA; without one where YAML is nothing that is known.

    None for all others: workloads, logs, and YAML or JSON that cannot be read, which whoever runs it says.
    """
    from kvtool.lint.formats.prompt_formats import FORMAT_SUFFIXES, read_prompts

    if suffix not in FORMAT_SUFFIXES:
        return None
    shared = suffix in (*WORKLOAD_SUFFIXES, *_OF_ALL)  # formats of other things, too
    try:
        text = read_text(Path(path), shown=path, place=Place(path), limit=MOST_DATA_BYTES)
        one = TextInput(path, text, "template", DATA)
        if suffix in WORKLOAD_SUFFIXES and _GROUPS.search(text) and (named or _VERSION.search(text)):
            return None
        if not (named and shared) or read_prompts(path, text) is not None:
            return one
        if suffix in WORKLOAD_SUFFIXES:
            parse_yaml_data(text, path)  # what is broken is told as such
    except KvtoolError:
        if shared:
            return None
        raise
    return None if suffix in _OF_ALL or _VERSION.search(text) else replace(one, style="")


def without_documents(paths: Sequence[str]) -> list[str]:
    """The inputs but for text files that are no Jinja template: a README is no prompt. What cannot be read is reported later."""
    return [path for path in paths if Path(path).suffix.lower() not in PLAIN_SUFFIXES or _is_jinja(path)]


def _is_jinja(path: str) -> bool:
    try:
        one = _read(path, Path(path).suffix.lower())
    except KvtoolError:
        return True
    from kvtool.text.templates.code_generator import is_jinja

    return one.style == "jinja" and is_jinja(one.text)


def _read(path: str, suffix: str) -> TextInput:
    if suffix in CODE_SUFFIXES:
        kind: InputKind = "python" if suffix == ".py" else "typescript"
        if _is_blank(path):
            return TextInput(path, "", kind)  # an empty module is no mistake, as an empty prompt is
        data = file_bytes(Path(path), shown=path, place=Place(path), limit=CODE_BYTES)
        code = python_text(data, path) if kind == "python" else decode(data, shown=path, place=Place(path))
        return TextInput(path, code, kind)
    text = read_text(Path(path), shown=path, place=Place(path), limit=TEMPLATE_BYTES)
    if suffix in MUSTACHE_SUFFIXES or (suffix in (".tmpl", MARKUP_SUFFIX, *PLAIN_SUFFIXES) and _GO_MARK.search(text)):
        return TextInput(path, text, "template", "mustache")
    from kvtool.lint.skeleton import style_of

    style = "jinja" if suffix in JINJA_SUFFIXES else style_of(text[body_start(text) :])
    return TextInput(path, text, "template" if style == "jinja" or suffix == MARKUP_SUFFIX else "text", style)


def _is_blank(path: str) -> bool:
    """Return whether a file is there and holds white space at most."""
    try:
        with Path(path).open("rb") as file:
            start = file.read(_BLANK_BYTES)
            return not start.strip() and not file.read(1)
    except (OSError, ValueError):
        return False  # whoever reads it says why


def refuse_templates(paths: Sequence[str]) -> None:
    """KvtoolError where templates are given as requests: what fills their placeholders is not known.

    A text file with Jinja in it may be a prompt that quotes some, so such files are refused only where there are no others.
    """
    for path in paths:
        if Path(path).suffix.lower() in (*CODE_SUFFIXES, *JINJA_SUFFIXES, *MUSTACHE_SUFFIXES) and Path(path).is_file():
            raise _template_given(path)
    if not all(Path(path).suffix.lower() in PLAIN_SUFFIXES for path in paths):
        return
    try:
        found = [_read(path, Path(path).suffix.lower()) for path in paths]
    except KvtoolError:
        return  # whoever runs it says what is wrong with it
    if found and all(one.kind == "template" for one in found):
        from kvtool.lint.skeleton import JINJA_MARK

        raise _template_given(found[0].path, JINJA_MARK.search(found[0].text))


def _template_given(path: str, mark: re.Match[str] | None = None) -> KvtoolError:
    line = None if mark is None else mark.string.count("\n", 0, mark.start()) + 1
    suffix = Path(path).suffix.lower()
    code = "Python" if suffix == ".py" else "JavaScript" if "js" in suffix else "TypeScript"
    text = code if suffix in CODE_SUFFIXES else "a template"
    made = "kvtool init to make a workload from the prompts here"
    if find_config() is not None:  # init was run, and would refuse
        made = "kvtool profile without a file: it runs the workload of your configuration"
    return KvtoolError(
        f"this file is {text}, not requests: nothing fills its placeholders",
        hint=f"run kvtool lint {shlex.quote(path)}, or {made}",
        place=Place(path, line),
    )
