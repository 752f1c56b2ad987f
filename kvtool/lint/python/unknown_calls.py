"""Calls of which nothing is known but their names: what goes into them may go into a prompt, or is sent as a chat."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.lint.evidence.prompt_evidence import Evidence, call_sends, is_prompt_keyword, is_system_name
from kvtool.lint.python.chats import has_messages, messages_in
from kvtool.lint.python.filled_templates import filled_text
from kvtool.lint.python.sent_tools import sent_tools
from kvtool.lint.python.syntax import dotted, keyed
from kvtool.lint.python.template_fills import TemplateFills
from kvtool.lint.python.text_values import (
    MARKS,
    MESSAGE_KEYS,
    MOST_INSIDE,
    Items,
    Mapped,
    Message,
    Param,
    Piece,
    SentChat,
    Value,
    data_of,
    has_param,
    pieces_of,
)
from kvtool.lint.python.value_origins import TURNS, holds_turns
from kvtool.lint.skeleton import MARKED_BLOCK, Hole, TemplatePlace

_TOOLS = frozenset(["tools", "functions"])
_TOOL_TEXT = "description"
_ASKED_WITH = frozenset(["prompt", "input", "messages", "query", "contents", "inputs"])
_OPTIONS = ("system", "messages", "prompt")
"""What an object of options gives a call that asks a model."""
TEMPLATES = ("Template", "from_template", "from_string", "from_messages")
_PASSES = (
    "format",
    "dedent",
    "escape",
    "strip",
    "clean",
    "truncate",
    "wrap",
    "indent",
    "render",
    "to_text",
    "to_str",
    "normalize",
    "as_text",
)


_LONGEST_OPTION = 24
"""Characters of a written text without white space that may say how a call does what it does."""


def _is_option(node: ast.expr) -> bool:
    if not isinstance(node, ast.Constant):
        return False
    return not isinstance(node.value, str) or (len(node.value) <= _LONGEST_OPTION and not re.search(r"\s", node.value))


def _descriptions(tools: ast.expr) -> Iterator[ast.expr]:
    """Yield the texts in definitions of tools: `{"description": text}`, or `tool(description=text)`."""
    for node in ast.walk(tools):
        if isinstance(node, ast.Dict):
            yield from (one for key, one in keyed(node).items() if key == _TOOL_TEXT)
        elif isinstance(node, ast.Call):
            yield from (each.value for each in node.keywords if each.arg == _TOOL_TEXT)


_LAST = "-1"


def _key(node: ast.expr) -> str:
    """Return a constant key; `_LAST` for `-1` and `len(items) - 1`."""
    if isinstance(node, ast.UnaryOp | ast.BinOp) and isinstance(node.op, ast.USub | ast.Sub):
        number = node.operand if isinstance(node, ast.UnaryOp) else node.right
        return _LAST if isinstance(number, ast.Constant) and number.value == 1 else ""
    return str(node.value) if isinstance(node, ast.Constant) else ""


def _ttl_of_mark(pairs: Iterable[tuple[str, Value]]) -> str | None:
    """Return for how long a block's mark keeps what it ends, also one in the options of a client's provider; None without one."""
    for key, value in pairs:
        inside = [pair for piece in value if isinstance(piece, Mapped) for pair in piece.pairs]
        if key in MARKS:
            return "1h" if data_of(dict(inside).get("ttl", ())) == "1h" else "5m"
        if key not in MESSAGE_KEYS and (ttl := _ttl_of_mark(inside)) is not None:
            return ttl
    return None


class UnknownCalls(TemplateFills):
    """Tells what calls of other programs get, and what they send."""

    @staticmethod
    def _parts(content: Value) -> Value:
        """The texts of a message that is a list of parts."""
        result: list[Piece] = []
        for piece in content:
            for one in piece.values if isinstance(piece, Items) else ((piece,),):
                for part in one:
                    text = (
                        next((v for key in MESSAGE_KEYS if (v := part.get(key)) is not None), ())
                        if isinstance(part, Mapped)
                        else (part,)
                    )
                    result += text
        return tuple(result)

    def _other_call(self, node: ast.Call, name: str, spot: TemplatePlace) -> Value:
        """A call of which nothing is known but its name: its arguments may go into a prompt."""
        last = name.rpartition(".")[2] or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
        sends = call_sends(name or last)
        passed: list[Value] = []
        makes = last.endswith(TEMPLATES) or sends is Evidence.SENT
        given = self._parts_of_template(node) if makes else {}
        turns = self.sent_turns(node) if sends is Evidence.ASKED else ()
        for argument in node.args:
            value = self.value_of(argument)
            passed.append(value)
            self.told(self._later(value, given) if makes else value, sends)
        for word in node.keywords:
            value = self.value_of(word.value)
            passed.append(value)
            if makes and word.arg in ("template", "prefix", "suffix"):
                self.told(self._later(value, given), Evidence.NAME)
            self._reported_parts(word, value, name, sends)
            if word.arg is None:
                continue
            self._reported_tools(word)
            evidence = is_prompt_keyword(name or last, word.arg)
            if sends and word.arg in _ASKED_WITH:
                evidence = sends
            later = makes or word.arg == "template"
            if is_system_name(word.arg):
                value = (*value, *turns) if value else value
                self.reported_as(word.arg, self._later(value, given) if later else value, evidence)
            else:
                self.told(self._later(value, given) if later else value, evidence)
            if makes and word.arg in ("template", "messages", "prompt"):
                passed[0] = value
        self._add_chat(node, passed, sends, last)
        if makes and passed:
            return passed[0]
        if any(part in last.lower() for part in _PASSES):
            return self._passed_on(node, passed)
        hole = self.by_name(last, spot) if last[:1].islower() else None
        return (hole,) if hole is not None else ()

    def _reported_parts(self, word: ast.keyword, value: Value, name: str, sends: Evidence) -> None:
        """Report the parts of an object of options: one that is spread into a call, or that a call which asks a model gets."""
        spread = word.arg is None
        for piece in value if spread or sends is Evidence.ASKED else ():
            if isinstance(piece, Param) and spread and sends is Evidence.ASKED:
                for key in _OPTIONS:
                    self.reported_as(key, self.attribute_of((piece,), key), sends)
            for key, one in piece.pairs if isinstance(piece, Mapped) else ():
                says = is_prompt_keyword(name, key)
                if spread or says is Evidence.SENT:
                    self.reported_as(key, one, says)
                if spread and key in _TOOLS and sends:
                    self.tools(one, word.value)

    def _add_chat(self, node: ast.Call, values: Sequence[Value], sends: Evidence, last: str) -> None:
        """Keep the messages that a call sends: those of the system are before all others, whatever their order is."""
        words = zip(node.keywords, values[len(node.args) :], strict=True)
        found = (sent_tools(value, self.source.spot_of(word.value)) for word, value in words if word.arg in _TOOLS)
        tools = next((each for each in found if each is not None), None)
        if last == "from_template" and values:
            self.program.chats.add([("user", self._later(values[0], {}))], self.label)
        if sends is not Evidence.ASKED:
            for word, value in zip(node.keywords, values[len(node.args) :], strict=True):
                says = is_prompt_keyword(last, word.arg) if word.arg is not None else Evidence.NOTHING
                if says is Evidence.SENT and is_system_name(word.arg or ""):  # an agent, which sends it later
                    text = self._parts(self.given_by(value))
                    self.program.chats.add([("system", text)], self.label, sent=SentChat((), tools))
            return
        system: list[tuple[str, Value]] = []
        others: list[tuple[str, Value]] = []
        names = [*("" for _ in node.args), *(word.arg or "**" for word in node.keywords)]
        given = [*node.args, *(word.value for word in node.keywords)]
        for name, one, value in zip(names, given, values, strict=True):
            if name and is_system_name(name):
                system.append(("system", self._parts(value)))
            elif has_messages(value):
                others += messages_in(value)
            elif name in TURNS and holds_turns(dotted(one)):
                others.append(("placeholder", (self.conversation(one, dotted(one)),)))
            elif name in _ASKED_WITH or (not name and filled_text(value)):
                others.append(("user", value))
        body = [value for name, value in zip(names, values, strict=True) if name in ("**", "extra_body")]
        parts = [pair for value in body for piece in value if isinstance(piece, Mapped) for pair in piece.pairs]
        automatic = not MARKS.isdisjoint((*names, *(key for key, _ in parts)))
        self.send(SentChat((*system, *others), tools, automatic, self.source.spot_of(node)), node)

    def mark_of(self, node: ast.expr, pairs: Iterable[tuple[str, Value]]) -> Value:
        """Return the mark of a block with these parts; nothing without one."""
        if (ttl := _ttl_of_mark(pairs)) is None:
            return ()
        return (Hole(self.source.spot_of(node), OTHER, ttl, doubt="open", hidden=True, unseen=MARKED_BLOCK),)

    def changes_last(self, target: ast.expr, value: Value) -> bool:
        """`messages[-1]["content"] = …`, `messages[-1]["content"][-1]["cache_control"] = …`."""
        keys: list[str] = []
        root = target
        while not (name := dotted(root)):
            if not isinstance(root, ast.Subscript | ast.Attribute):
                return False
            keys.insert(0, root.attr if isinstance(root, ast.Attribute) else _key(root.slice))
            root = root.value
        items = next((piece for piece in reversed(self.values.get(name, ())) if isinstance(piece, Items)), None)
        last = items.values[-1] if items is not None and items.values else ()
        message = last[-1] if last else None
        if items is None or not isinstance(message, Message) or keys[0] != _LAST:
            return False
        if keys[1:] == ["content"]:
            content = self._parts(value)
        elif not (mark := self.mark_of(target, [(keys[-1], value)])):
            return False
        else:
            content = (*message.content, *mark)
        changed_last = replace(items, values=(*items.values[:-1], (replace(message, content=content),)))
        self.values[name] = tuple(changed_last if piece is items else piece for piece in self.values[name])
        return True

    def send(self, chat: SentChat, node: ast.Call) -> None:
        """A call sends a chat, by itself or through another function."""
        self.program.chats.add(chat.messages, self.label, line=self.source.spot_of(node).line, sent=chat)
        inside = sum(1 for _, text in chat.messages for _ in pieces_of(text, MOST_INSIDE))
        if self.in_function and inside < MOST_INSIDE and any(has_param(text) for _, text in chat.messages):
            self.chats.append(chat)

    @staticmethod
    def _passed_on(node: ast.Call, values: Sequence[Value]) -> Value:
        """The text that a call gives back in another form: the first argument that is no option, `"NFKC"` beside a text."""
        given = [*node.args, *(word.value for word in node.keywords)]
        texts = [value for one, value in zip(given, values, strict=True) if not _is_option(one)]
        return (texts or list(values) or [()])[0]

    def _reported_tools(self, word: ast.keyword) -> None:
        """Tools that are handed on by a keyword of that name: in no fixed order, or with changing descriptions."""
        if word.arg in _TOOLS:
            self.tools(self.value_of(word.value), word.value)
            for text in _descriptions(word.value):
                self.tool_text(self.value_of(text))
