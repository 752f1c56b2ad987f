"""Prompts in Python and in data files (YAML, TOML, Prompty) as templates that a workload contains as copies."""

from __future__ import annotations

import json
import keyword
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path, PurePath, PurePosixPath

from kvtool.errors import KvtoolError
from kvtool.lint.code_files import code_prompts
from kvtool.lint.evidence.placeholders import is_known_to_vary, is_limit
from kvtool.lint.evidence.prompt_evidence import speaks_of_marks, speaks_of_models
from kvtool.lint.formats.prompt_formats import may_hold_prompts, prompt_nodes, read_prompts
from kvtool.lint.formats.text_placeholders import traced_template
from kvtool.lint.lint_inputs import CODE_SUFFIXES
from kvtool.lint.passed_values import (
    Constant,
    PassedList,
    RenderedFile,
    SentTools,
    TemplateCalls,
    ValueKind,
    value_kind,
)
from kvtool.lint.python.built_prompts import CodePrompts
from kvtool.lint.python.chats import Chat, ChatMessage, parted
from kvtool.lint.python.rendered_files import only_file, template_paths
from kvtool.lint.python.text_values import MESSAGE_KEYS
from kvtool.lint.skeleton import (
    MARKED_BLOCK,
    Choice,
    Hole,
    Node,
    Repeat,
    TemplatePlace,
    TemplatePlaces,
    leaves,
    style_of,
)
from kvtool.text.files.root_folder import RootFolder
from kvtool.text.files.text_files import read_text
from kvtool.text.terminal.numbers import plural
from kvtool.text.traced import Origin, Traced

__all__ = [
    "Constant",
    "CopiedPrompt",
    "PassedList",
    "RenderedFile",
    "SentTools",
    "TemplateCalls",
    "ValueKind",
    "calls_of",
    "copies_in_file",
    "copy_prompts",
    "copy_text",
    "is_copied",
    "is_known_to_vary",
    "is_limit",
    "may_hold_prompts",
    "rendered_by",
    "speaks_of_marks",
    "speaks_of_models",
]

_MOST = 16
"""Prompts of one file."""
_WORDS_OF_NAME = 4
_MARKUP = re.compile(r"\{\{.*?\}\}|\{%(?! include ).*?%\}|\n|(?=\{% include )|(?<=%\})", re.DOTALL)
"""What is no text, and both ends of an include tag: the name of that file stands for its text."""
_SYNTAX = ("{{", "{%", "{#")
_RESERVED = frozenset(("loop", "self", "super", "caller", "range", "dict", "namespace", "true", "false", "none"))


@dataclass(frozen=True, slots=True)
class CopiedPrompt:
    """A copy of a prompt as a Jinja template, the file that it is from, and the places and kinds of its variables there."""

    path: str
    text: str
    places: dict[str, str] = field(default_factory=dict)
    messages: tuple[tuple[str, str], ...] = ()
    """Role and text of each message of a chat; `text` is all of them. Without: it is one message, whose role is not known."""
    message_places: tuple[str, ...] = ()
    """The file and the first known line of each message."""
    unknown: tuple[str, ...] = ()
    """Notes on constants whose text is not known."""
    kinds: dict[str, ValueKind] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    """The file that is all of a message; empty for any other."""
    name: str = ""
    """What the code calls it, or the function that sends it."""
    tools: SentTools | None = None
    """The tools that are sent with it."""
    line: int = 0
    """The line of the call that sends it, where one does."""
    marks: tuple[str, ...] = ()
    """The time to live of the cache breakpoint that each message ends with; empty for one without."""

    automatic: bool = False
    """Whether the call asks for a breakpoint at the last block."""

    api_call: tuple[str, int] = ("", 0)
    """The file and the line where the API is called; empty where that is not known."""

    @property
    def is_marked(self) -> bool:
        """Return whether a message or a tool has a cache breakpoint."""
        return any(self.marks) or (
            self.tools is not None and any("cache_control" in each for each in self.tools.schemas)
        )


def copy_prompts(
    folder: Path,
    names: Iterable[str],
    notes: list[str],
    rendered: list[RenderedFile] | None = None,
    copied: set[str] | None = None,
) -> list[CopiedPrompt]:
    """Return the prompts in these files; `rendered` gets the template files that they render.

    `copied` gets the files that have a prompt, of their own or one that another file sends.

    `notes` get a line for each file that cannot be read, and for each text that is not known.
    """
    rendered = [] if rendered is None else rendered
    copies: list[CopiedPrompt] = []
    code = code_prompts()
    for name in names:
        try:
            copies += _copies(folder, name, rendered, code)
        except (KvtoolError, RecursionError) as error:
            message = error.message if isinstance(error, KvtoolError) else "nested too deeply to read"
            notes.append(f"{name} was left out: {message}")
    if copied is not None:
        copied.update(copy.path for copy in copies)
    sent = ["".join((*_written(_in_one_order(copy)), *_includes(copy.files))) for copy in copies if copy.messages]
    found: list[CopiedPrompt] = []
    taken: Counter[str] = Counter()
    for copy in copies:
        if copy.messages or not _is_sent(_includes(copy.files) or _written(copy.text), sent):
            taken[copy.path] += 1
            found += [copy] if taken[copy.path] <= _MOST else []
    notes += dict.fromkeys(note for copy in found for note in copy.unknown)
    notes += [
        f"{name}: {plural(count - _MOST, 'more prompt')} left out" for name, count in taken.items() if count > _MOST
    ]
    return found


def copies_in_file(folder: Path, name: str) -> list[CopiedPrompt]:
    """Return the copies that a workload can have of a file, which may be a text with placeholders; none if it is missing."""
    copies = copy_prompts(folder, [name], [])
    with suppress(KvtoolError):
        filled = copy_text(folder, name, read_text(folder / name, shown=name))
        copies += [] if filled is None else [filled]
    return copies


def is_copied(text: str, copies: Iterable[CopiedPrompt]) -> bool:
    """Return whether code sends a text that is a file of its own, so its copy has all of it."""
    return _is_sent(_written(text), ("".join(_written(copy.text)) for copy in copies if copy.messages))


def copy_text(folder: Path, name: str, text: str) -> CopiedPrompt | None:
    """Return a text file with placeholders that are not Jinja, such as `{name}`, as a template; None for any other."""
    style = style_of(text)
    if style not in ("format", "marks"):
        return None
    return _from_chat(folder, name, [("", traced_template(Traced.of(text, Origin(name, text=text)), style, sent=True))])


def rendered_by(folder: Path, names: Iterable[str]) -> Iterator[RenderedFile]:
    """Yield the template files that files of code render; a file that cannot be read yields none."""
    code = code_prompts()
    for name in names:
        with suppress(KvtoolError, RecursionError):
            found = code.of(str(folder / name), read_text(folder / name, shown=name)).rendered
            yield from (replace(one, source=name) for one in found)


def calls_of(rendered: Iterable[RenderedFile]) -> dict[str, TemplateCalls]:
    """Return what the calls say that render templates, by the names that code gives these."""
    found: dict[str, TemplateCalls] = {}
    for call in rendered:
        found.setdefault(call.name, TemplateCalls()).add(call)
    return found


def _copies(folder: Path, name: str, rendered: list[RenderedFile], reader: CodePrompts) -> Iterator[CopiedPrompt]:
    text = read_text(folder / name, shown=name)
    if name.endswith(CODE_SUFFIXES):
        seen: set[object] = set()
        code = reader.of(str(folder / name), text)
        rendered += (replace(one, source=name) for one in code.rendered)
        each = [
            *code.chats,
            *(
                Chat(called, [("", nodes)])
                for nodes, called in zip(code.prompts, code.names, strict=True)
                if any(isinstance(leaf, str) or leaf.unseen != MARKED_BLOCK for leaf in leaves(nodes))
            ),
        ]
        for chat in each:
            copy = _from_chat(folder, name, chat.messages, chat.sender, chat.places, chat.line)
            call = (_file_of(folder, name, chat.api_call), chat.api_call.line) if chat.api_call is not None else ("", 0)
            copy = replace(copy, tools=chat.tools, automatic=chat.automatic, api_call=call)
            key = copy.messages or _written(copy.text)  # a template and where it is filled are one prompt
            if any(_written(copy.text)) and key not in seen:
                seen.add(key)
                yield copy
        return
    read = read_prompts(str(folder / name), text)
    for prompt in read.prompts if read is not None else ():
        called = _key_above(text, TemplatePlaces(prompt[0].text).at(0, 1).line) if prompt else ""
        if any(part.style == "jinja" for part in prompt):
            yield CopiedPrompt(name, "\n\n".join(str.__str__(part.text) for part in prompt), name=called)
        elif (nodes := prompt_nodes(prompt, sent=True)) and any(part.style for part in prompt):
            yield _from_chat(folder, name, [("", nodes)], called)


_KEY = re.compile(r"([ ]*)(?:- )?[\"']?([\w-]+)[\"']?\s*:")


def _key_above(text: str, line: int) -> str:
    """Return the key in YAML that a text is under, without those that say who sends it; empty where there is none."""
    lines = text.splitlines()[:line]
    indent = len(lines[-1]) - len(lines[-1].lstrip()) + 1 if lines else 0
    for one in reversed(lines):
        key = _KEY.match(one)
        if key is not None and len(key[1]) < indent:
            indent = len(key[1])
            if key[2] not in (*_KNOWN_ROLES, *_ROLES, *MESSAGE_KEYS):
                return key[2]
    return ""


_ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "function": "tool", "placeholder": "user"}
_KNOWN_ROLES = ("system", "developer", "user", "assistant", "tool")


def _written(text: str) -> tuple[str, ...]:
    """Return the lines of constant text in a template, without white space; a value ends one, too."""
    return tuple(part for one in _MARKUP.split(text) if (part := "".join(one.split())))


def _includes(files: Iterable[str]) -> tuple[str, ...]:
    """Return what `_written` leaves of the tags that include files."""
    return tuple(part for file in files if file for part in _written(_include(file)))


def _include(file: str) -> str:
    return f"{{% include {json.dumps(file, ensure_ascii=False)} %}}"


def _in_one_order(copy: CopiedPrompt) -> str:
    """Return the text of a copy with only the first of the orders of each list."""
    text = copy.text
    for name in (name for name, kind in copy.kinds.items() if kind == "order"):
        text = re.sub(rf"\{{% elif {name} == .*?(?=\{{% e)", "", text, flags=re.DOTALL)
    return text


def _is_sent(texts: Sequence[str], sent: Iterable[str]) -> bool:
    """Return whether one chat that is sent has all texts of a prompt."""
    return any(all(text in one for text in texts) for one in sent)


def _named_file(folder: Path, source: str, name: str) -> tuple[str, str] | None:
    """Return path and text of a file that code names; None where none is.

    It is looked for in the folder of the code and those above it up to `folder`, then in the folders beside it, then everywhere
    below `folder`.
    """
    root = RootFolder.of(str(folder / PurePath(source).name))
    above = [os.path.normpath(place / name) for place in PurePosixPath(source).parents]
    beside = [os.path.relpath(each, folder) for each in template_paths(str(folder / source), name)]
    for path in chain(above, beside if len(beside) == 1 else [], only_file(folder, name)):
        if (folder / path).is_file() and root.holds(folder / path):
            with suppress(KvtoolError):
                return PurePath(path).as_posix(), read_text(folder / path, shown=path)
    return None


def _from_chat(
    folder: Path,
    name: str,
    chat: Sequence[ChatMessage],
    called: str = "",
    written: Sequence[TemplatePlace | None] = (),
    line: int = 0,
) -> CopiedPrompt:
    """Return the copy of a chat, or of a text without a role; `written`: where the first text of each message is.

    `line` is that of the call that sends it.
    """
    each_part = list(parted(chat, written))
    kept = [
        one for one in each_part if any(isinstance(leaf, Hole) or leaf.strip() for leaf in leaves(one[1]))
    ] or each_part
    chat, marks = [(role, each) for role, each, _, _ in kept], tuple(mark for _, _, mark, _ in kept)
    chat = [(role, each[:1] if _is_rendered(each) else each) for role, each in chat]
    nodes = [node for _, each in chat for node in each]
    writer = _Writer(lambda file: _named_file(folder, name, file))
    alone = (each[0].file if len(each) == 1 and isinstance(each[0], Hole) else "" for _, each in chat)
    found = [writer.named_file(one) if one else None for one in alone]
    texts = [
        "".join(writer.written(each)) if one is None else _as_template(one[1])
        for (_, each), one in zip(chat, found, strict=True)
    ]
    roles = [role if role in _KNOWN_ROLES else _ROLES.get(role, "user") for role, _ in chat]
    messages = tuple(zip(roles, texts, strict=True)) if chat[0][0] or len(chat) > 1 else ()
    where = tuple(_place_of(folder, name, each, place, line) for _, each, _, place in kept)
    files = tuple(one[0] if one is not None and _as_template(one[1]) == one[1] else "" for one in found)
    places: dict[str, str] = {}
    kinds: dict[str, ValueKind] = {}
    unknown: list[str] = []
    for variable, order in writer.orders.items():
        places[variable] = f"{_file_of(folder, name, order.spot)}:{order.spot.line}:{order.spot.column}"
        kinds[variable] = "order"
    for leaf in leaves(nodes):
        if isinstance(leaf, Hole):
            variable, place = (
                _variable(leaf),
                f"{_file_of(folder, name, leaf.spot)}:{leaf.spot.line}:{leaf.spot.column}",
            )
            if leaf.spot.line:
                places.setdefault(variable, place)
            kind = "constant" if leaf.constant or leaf.file else value_kind(leaf.kind)
            if kind is not None:
                kinds.setdefault(variable, kind)
            if leaf.constant:
                unknown.append(f"{place}: {leaf.unseen} was not found. The workload contains a made-up text for it.")
    return CopiedPrompt(
        name, "\n\n".join(texts), places, messages, where, tuple(unknown), kinds, files, called, line=line, marks=marks
    )


def _place_of(folder: Path, name: str, nodes: Sequence[Node], written: TemplatePlace | None, line: int) -> str:
    """Return file and line of a message: its own text, else the call that sends it, else what reads its file."""
    spots = [(leaf.spot, bool(leaf.file)) for leaf in leaves(nodes) if isinstance(leaf, Hole) and leaf.spot.line]
    own = next((spot for spot, is_file in spots if not is_file), written)
    if own is None and line:
        return f"{name}:{line}"
    spot = own or next((spot for spot, _ in spots), None)
    return name if spot is None else f"{_file_of(folder, name, spot)}:{spot.line}"


def _is_rendered(nodes: Sequence[Node]) -> bool:
    """Return whether a message is the text of a file, before the values that code passes to it."""
    return all(isinstance(node, Hole) and bool(node.file) == (not number) for number, node in enumerate(nodes))


def _file_of(folder: Path, name: str, spot: TemplatePlace) -> str:
    """Return the file of a place as `folder` names it; `name` for a place that is in none."""
    path = Path(spot.path)
    return PurePath(os.path.relpath(path, folder)).as_posix() if path.is_file() else name


class _Writer:
    """Writes nodes as Jinja: choices become conditions, repeated texts become loops."""

    def __init__(self, named_file: Callable[[str], tuple[str, str] | None]) -> None:
        self.named_file = named_file
        self._number = 0
        self._taken: Counter[str] = Counter()
        self.orders: dict[str, Hole] = {}
        """Variables that choose an order of a list, and where that is left to chance."""
        self.elements: dict[str, str] = {}
        """Names in the loop that is written, and what they are of its element."""

    def written(self, nodes: Iterable[Node]) -> Iterator[str]:
        for node in nodes:
            if isinstance(node, str):
                yield _literal(node)
            elif isinstance(node, Hole) and node.file and (found := self.named_file(node.file)) is not None:
                path, text = found
                yield _include(path) if style_of(text) == "jinja" else _literal(text)
            elif isinstance(node, Hole):
                name = _variable(node)
                yield "" if node.unseen == MARKED_BLOCK else f"{{{{ {self.elements.get(name, name)} }}}}"
            elif isinstance(node, Choice):
                yield from self._choice(node)
            else:
                yield from self._loop(node)

    def _loop(self, node: Repeat) -> Iterator[str]:
        """Write a text for each element of a list: what only its name is known of is the element, or a field of it."""
        self._number += 1
        item = f"item_{self._number}"
        holes = [leaf for leaf in leaves(node.body) if isinstance(leaf, Hole)]
        names = dict.fromkeys(
            _variable(one) for one in holes if not (one.constant or one.file or one.unseen or value_kind(one.kind))
        )
        of_item = {name: f"{item}.{name}" if len(names) > 1 else item for name in names if name not in self.elements}
        self.elements |= of_item
        body = "".join(self.written(node.body))
        called = self._free_name(next(iter(names)), "list") if names else self._free_name("repeated", *_words(body))
        yield f"{{% for {item} in {called} %}}"
        if node.between:
            yield f"{{% if not loop.first %}}{_literal(node.between)}{{% endif %}}"
        yield body
        yield "{% endfor %}"
        for name in of_item:
            self.elements.pop(name)

    def _choice(self, node: Choice) -> Iterator[str]:
        texts = list(dict.fromkeys("".join(self.written(branch)) for branch in node.branches))
        if len(texts) < 2:
            yield from texts
            return
        if node.order is not None:
            name = f"{_variable(node.order)}_{len(texts)}"
            self.orders[name] = node.order
        else:
            name = self._free_name("variant", *_words(next(filter(None, texts))))
        for at, text in enumerate(texts):
            yield f'{{% {"elif" if at else "if"} {name} == "{at + 1}" %}}{text}'
        yield "{% endif %}"

    def _free_name(self, *parts: str) -> str:
        """Return the parts as a name that no other list or choice of this prompt has."""
        name = "_".join(parts)
        self._taken[name] += 1
        return name if self._taken[name] == 1 and len(parts) > 1 else f"{name}_{self._taken[name]}"


def _words(text: str) -> list[str]:
    """Return the first words of the constant text of a template, for a name."""
    return [word.lower() for word in re.findall(r"[A-Za-z]+", _MARKUP.sub(" ", text))[:_WORDS_OF_NAME]]


def _as_template(text: str) -> str:
    """Return the text of a file as a template; one that is none has it as it is."""
    return text if style_of(text) == "jinja" else _literal(text)


def _literal(text: str) -> str:
    if not any(mark in text for mark in _SYNTAX):
        return text
    return re.sub(r"\{(?=[{%#])", "{{ '{' }}", text)


def _variable(hole: Hole) -> str:
    """Return a name for a value: that of the code that says what it is."""
    what = hole.unseen if hole.constant else hole.what
    name = re.sub(r"\W+", "_", what, flags=re.ASCII).strip("_")
    if not name or name[0].isdigit() or keyword.iskeyword(name) or name in _RESERVED:
        name = f"value_{name}".rstrip("_")
    return name
