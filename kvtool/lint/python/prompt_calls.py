"""Calls that make prompts in a file of code: templates of LangChain, and SDKs. Nothing is executed or imported."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kvtool.errors import KvtoolError
from kvtool.lint.python.called_models import base_url_of, client_names, client_of, model_of, text_constants
from kvtool.lint.python.python_source import PythonSource
from kvtool.lint.python.syntax import dotted, last_names

_SDK_CALLS: tuple[tuple[tuple[str, ...], frozenset[str]], ...] = (
    (("chat", "completions"), frozenset(("create", "parse", "stream"))),
    (("responses",), frozenset(("create", "parse", "stream"))),
    (("messages",), frozenset(("create", "stream"))),
    (("models",), frozenset(("generate_content", "generate_content_stream"))),
    (("litellm",), frozenset(("completion", "acompletion"))),
)
"""What is before the last name of a call, and that name: OpenAI, OpenAI, Anthropic, Google, LiteLLM."""
_AI_SDK = frozenset(("generateText", "streamText", "generateObject", "streamObject"))
_FROM_LITELLM = frozenset(("completion", "acompletion"))
_NO_PROMPT = ("threads", "messages")
_TEMPLATE = "PromptTemplate"
_MAKERS = frozenset(("from_messages", "from_template", "fromMessages", "fromTemplate"))
_FILLED = frozenset(("format", "format_map"))


@dataclass(frozen=True, slots=True)
class PromptCall:
    """A call that makes or sends a prompt: its place, what is called, and how text is put together in it (may be empty)."""

    path: str
    line: int
    column: int
    name: str
    how: str = ""
    model: str = ""
    base_url: str | None = None
    """The address of the API that the call or the client that it makes sends to; empty: not known."""
    client: str = ""
    """The name of the client that the call makes, or sends with."""

    @property
    def sends(self) -> bool:
        """Return whether a prompt goes to a model here."""
        return bool(self.name) and _TEMPLATE not in self.name

    def __str__(self) -> str:
        with_text = f" with {self.how}" if self.how else ""
        return f"{self.path}:{self.line}:{self.column} ({self.name}{with_text})"


def prompt_calls(path: str, read: Callable[[], PythonSource]) -> list[PromptCall]:
    """The calls of a file, by place; none where it does not parse. `read` parses it, in whatever language it is written."""
    try:
        source = read()
        nodes = list(ast.walk(source.tree))
    except (KvtoolError, RecursionError):
        return []
    litellm = {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == "litellm"
        for alias in node.names
        if alias.name in _FROM_LITELLM
    }
    found: list[PromptCall] = []
    constants, clients = text_constants(source.tree), client_names(nodes)
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        name, url = _name(node, litellm), base_url_of(node, constants)
        if name or url is not None:
            spot, how = source.spot_of(node), _how(node, source.formatted)
            model, client = model_of(node, constants), clients.get(node, "")
            client = client_of(node, name.count(".")) if name and _TEMPLATE not in name else client
            found.append(PromptCall(path, spot.line, spot.column, name, how, model, url, client))
    return sorted(found, key=lambda call: (call.line, call.column))


def _name(node: ast.Call, litellm: Iterable[str]) -> str:
    """Return the known name of what is called; empty for any other call."""
    parts = last_names(node.func)
    if not parts:
        return ""
    if parts[-1].endswith(_TEMPLATE):
        return parts[-1]
    if parts[-1] in _MAKERS and len(parts) > 1 and parts[-2].endswith(_TEMPLATE):
        return f"{parts[-2]}.{parts[-1]}"
    if dotted(node.func) in litellm:
        return f"litellm.{parts[-1]}" if parts[-1] in _FROM_LITELLM else parts[-1]
    if parts[-1] in _AI_SDK:
        return parts[-1]
    if parts[-3:-1] == list(_NO_PROMPT):
        return ""
    for owners, methods in _SDK_CALLS:
        if parts[-1] in methods and tuple(parts[-1 - len(owners) : -1]) == owners:
            return ".".join([*owners, parts[-1]])
    return ""


def _how(call: ast.Call, formatted: str) -> str:
    """Return the way the text in a call is put together, the first that is found."""
    for argument in [*call.args, *(word.value for word in call.keywords)]:
        for node in ast.walk(argument):
            if isinstance(node, ast.JoinedStr) and any(isinstance(part, ast.FormattedValue) for part in node.values):
                return formatted
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _FILLED:
                return "str.format"
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and _is_text(node.left):
                return "%"
    return ""


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
