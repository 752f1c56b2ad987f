"""Origins of values of which nothing else is known.

Callers give it, a model or the world answers it, or an object keeps it from one request to the next.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import replace

from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.codes.values.kv104 import USER
from kvtool.lint.evidence.placeholders import (
    asked,
    doubt_of,
    is_setting,
    is_settled,
    names_a_conversation,
    names_a_part,
    placeholder,
)
from kvtool.lint.evidence.prompt_evidence import Evidence, call_sends, is_prompt_name, is_quiet, snake_case
from kvtool.lint.evidence.value_precision import keeps
from kvtool.lint.python.changed_values import is_given, with_hole
from kvtool.lint.python.name_values import Names
from kvtool.lint.python.syntax import dotted, is_number, names_in
from kvtool.lint.python.text_values import Items, Literal, Many, Message, Param, Piece, Value, pieces_of, varies, ways
from kvtool.lint.skeleton import CONVERSATION, Hole, TemplatePlace

_ASKED_OF_OBJECTS = frozenset(
    ("question", "query", "user_query", "user_input", "user_message", "question_text", "input_text")
)
"""Attributes of an object that is made for one request."""
_ANSWERS = re.compile(
    r"(?:^|_)(?:search|retrieve|fetch|scrape|crawl|recall|transcribe|similarity_search|get_relevant_documents)(?:_|$)"
)
"""Names of calls that bring what is another for each question: what is found, or what is on a page."""
_MAKES_NO_TEXT = re.compile(
    r"template|tokens|embed|batch|stream|bind|load|style|guideline|setting|config|schema|(?:^|_)(?:name|info|version|client)s?(?:_|$)"
)
"""Names of calls that speak of a model and give no answer of it as a text."""
_WEB = re.compile(r"^(?:requests|httpx|urllib)\.|\burlopen$")
_SET_UP = re.compile(r"^_*(?:init|setup|set|configure|load|reset|build|create|register|from|with|update_config)(?:_|$)")
"""Names of methods that set an object up, once for all of its requests."""
_DEEPEST = 4
_FIRST = 20
"""Pieces of a text in which a loop is looked for."""


class ValueOrigins(Names):
    """Tells where a value comes from."""

    listed: frozenset[str] = frozenset()
    """Names of values that are one of a few, which the function names: a text for each of them is shared."""

    def asked_of(self, node: ast.expr) -> Hole | None:
        if not self.in_function:
            return None
        spot = self.source.spot_of(node)
        if name := self._given_name(node, _DEEPEST):
            if name in self.listed:
                return None
            hole = asked(name.removeprefix("self."), spot) or _key_of_settings(name, spot)
            if "." in name and not name.startswith("self.") and (own := _of_person(name, spot)) is not None:
                return own
            if hole is not None and self._is_number(node) and not self._of_turn(name):
                return replace(hole, doubt="open", hidden=True)  # how many: that is mostly set once
            if hole is not None and hole.doubt == "open" and self._varies_as_made(name, node):
                hole = replace(hole, doubt="use")
            per_call = not is_setting(name) and name.removeprefix("self.") not in _ASKED_OF_OBJECTS
            return None if hole is None else replace(hole, given=per_call)
        name, written = self._local_name(node, _DEEPEST), dotted(node)
        if not name and (self._of_turn(written) or (written and self.is_answer(node))):
            name = written
        hole = asked(name, spot) if name else None
        if hole is not None and hole.doubt == "open" and self._varies_as_made(name, node):
            return replace(hole, doubt="use")
        return hole if hole is not None and hole.doubt == "use" else None

    def origin_of(self, node: ast.expr) -> Hole | None:
        """Return the hole of something put into a text, of which only is known where it comes from."""
        return self.asked_of(node) or self.imported_constant(node)

    def of_loop(self, value: Value, node: ast.expr) -> Value:
        """Add a hole to the text of a loop over something unknown.

        Its name says that it is another in each request: `formatted_notes`, `code`."""
        if not self.in_function or varies(value):
            return value
        if not any(isinstance(one, Many) for one in pieces_of(value, _FIRST)):
            return value
        hole = asked(dotted(node).removeprefix("self."), self.source.spot_of(node))
        return (hole, *value) if hole is not None and hole.doubt == "use" else value

    def answered(self, over: ast.expr, body: Value) -> Value:
        """Return a hole for a text of each thing that was found, where nothing in the text says that it is another each time."""
        if not self.in_function or varies(body) or not any(isinstance(one, str | Literal) for one in body):
            return ()
        name = dotted(over) or _called(over)
        hole = asked(name, self.source.spot_of(over)) if self.is_answer(over) else None
        return () if hole is None else (replace(hole, doubt="use"),)

    def put(self, node: ast.expr) -> Value:
        """Return a value put into a text between others: a hole of its origin where only that is known."""
        value = self.of_loop(self.value_of(node), node)
        if isinstance(node, ast.Constant | ast.List | ast.Dict | ast.JoinedStr) or not is_given(value):
            return value
        hole = self.origin_of(node)
        return with_hole(value, hole) if value or hole is None else (hole,)

    def text_beside_value(self, node: ast.expr, value: Value) -> Value:
        """Return a value beside a text: a hole of its origin where only that is known."""
        return self.put(node) if is_given(value) else value

    def goes_on(self, node: ast.expr, value: Value, *others: Value) -> Value:
        """A conversation of which nothing is known but its name: messages after it are new in each request anyway.

        `others` hold messages: the list that it is put into, or what is added to it.
        """
        messages = any(isinstance(one, Message) for other in others for one in pieces_of(other, _FIRST))
        root = node.value if isinstance(node, ast.Subscript) else _not_empty(node)
        name = dotted(root) or _called(root)
        if not messages or not (is_given(value) or _is_copy(value)) or not holds_turns(name):
            return value
        return (*value, Items(((self.conversation(node, name),),)))

    def conversation(self, node: ast.expr, name: str) -> Hole:
        """Return the hole of earlier messages: text after them is new in each request anyway, text before them is before all."""
        return Hole(self.source.spot_of(node), OTHER, f"`{name}`", doubt="use", hidden=True, unseen=CONVERSATION)

    def sent_turns(self, node: ast.Call) -> Value:
        """Return the hole of the conversation that a call sends after its system prompt; nothing where it sends none."""
        for word in node.keywords:
            if word.arg in TURNS and (name := _turns_in(word.value, _DEEPEST)):
                return (self.conversation(word.value, name),)
        return ()

    def element_name(self, node: ast.expr) -> str:
        """Return the name of something that callers give, or of an element of it; empty for any other."""
        if not self.in_function:
            return ""
        root = _root(node)
        name = dotted(node) if isinstance(root, ast.Name) and root.id in self.elements else ""
        return name or self._given_name(node, _DEEPEST) or self._local_name(node, _DEEPEST)

    def is_given(self, node: ast.expr) -> bool:
        return self.in_function and bool(self._given_name(node, _DEEPEST))

    def bind_unknown(self, target: ast.expr, over: ast.expr) -> None:
        """The names of a loop over something of which only its origin is known have that origin."""
        names = names_in(target)
        if self.is_given(over):
            self.given |= names
        elif self.asked_of(over) is not None:
            self.unknown |= names

    def _given_name(self, node: ast.expr, deep: int) -> str:
        """The name of what callers give, or of what is another in each call, that an expression is made of."""
        root = _root(node)
        if isinstance(root, ast.Name):
            given = root.id in self.given or any(map(self._is_given_now, ways(self.values.get(root.id, ()))))
            given = given or (root.id == "self" and self._changes(dotted(node).removeprefix("self.")))
            read = f".{node.attr}" if isinstance(node, ast.Attribute) else ""
            return (dotted(node) or f"{root.id}{read}") if given else ""  # `messages[-1].role` is a role
        if not deep:
            return ""
        if isinstance(root, ast.Call) and (name := self._answering(root)):
            return name
        if isinstance(root, ast.Call) and (key := _key_asked_for(root)) and isinstance(root.func, ast.Attribute):
            name = self._given_name(root.func.value, deep - 1)
            return f"{name}.{key}" if name else ""
        return next((name for part in _parts(root) if (name := self._given_name(part, deep - 1))), "")

    def _is_given_now(self, piece: Piece) -> bool:
        """Return whether callers give it to the function that is read, not once to the object that it belongs to."""
        if not isinstance(piece, Param):
            return False
        return not piece.name.startswith("self.") or self._changes(piece.name.removeprefix("self."))

    def _local_name(self, node: ast.expr, deep: int) -> str:
        """The name of a variable, or of a function that is called, of which nothing is known."""
        root = _root(node)
        if isinstance(root, ast.Name):
            eligible = root.id in self.unknown and root.id not in self.kept and not self.values.get(root.id)
            return dotted(node) if eligible else ""
        if not deep:
            return ""
        if isinstance(root, ast.Call) and isinstance(root.func, ast.Name | ast.Attribute):
            last = root.func.attr if isinstance(root.func, ast.Attribute) else root.func.id
            if (hole := asked(last, self.source.spot_of(node))) is not None and hole.doubt == "use":
                return last
        return next((name for part in _parts(root) if (name := self._local_name(part, deep - 1))), "")

    def _of_turn(self, name: str) -> bool:
        """Return whether a name is one of a loop that asks in each turn: what it means then is asked about."""
        return name.partition(".")[0] in self.turns and not names_a_part(name)

    def _varies_as_made(self, name: str, node: ast.expr) -> bool:
        """Return whether what is known of how something came says that it is another in each request, whatever it is called."""
        if self._of_turn(name) or self._made_of_asked(node):
            return True
        return isinstance(node, ast.Name) and not names_a_part(name) and self.is_answer(node)

    def is_answer(self, node: ast.expr, deep: int = _DEEPEST) -> bool:
        """Return whether it is what a model answered or the world gave, or made of that."""
        root = _root(node)
        if isinstance(root, ast.Name):
            return root.id in self.answers
        if not isinstance(root, ast.Call) or not deep:
            return False
        return bool(self._answering(root)) or any(self.is_answer(part, deep - 1) for part in _parts(root))

    def _made_of_asked(self, node: ast.expr) -> bool:
        """Return whether a variable is another form of a question that callers give: a `cleaned` of a `text`."""
        if not isinstance(node, ast.Name):
            return False
        made_of = [one.name for one in ways(self.values.get(node.id, ())) if isinstance(one, Param)]
        return node.id not in made_of and any(not is_settled(one) and doubt_of(one) == "use" for one in made_of)

    def _is_number(self, node: ast.expr) -> bool:
        """Return whether it is a parameter that is declared as a number, or how many something has."""
        if isinstance(node, ast.Call):
            called = dotted(node.func)
            return called in ("len", "@.len") or (
                called == "str" and self._is_number(node.args[0] if node.args else node.func)
            )
        if not isinstance(node, ast.Name):
            return False
        return any(isinstance(one, Param) and is_number(one.declared) for one in self.values.get(node.id, ()))

    def asks(self, body: list[ast.stmt]) -> bool:
        """Return whether statements ask a model, by the names of what they call and of what they hand on."""
        return any(self._asks(one) for statement in body for one in ast.walk(statement) if isinstance(one, ast.Call))

    def _asks(self, call: ast.Call) -> bool:
        name = self.canonical(dotted(call.func))
        if call_sends(name) is Evidence.ASKED:
            return True
        given = [*call.args, *(word.value for word in call.keywords)]
        return bool(name) and not is_quiet(name) and any(is_prompt_name(dotted(one)) for one in given)

    def is_kept(self, node: ast.expr) -> bool:
        """Return whether it is what an object was made with, or a form of it."""
        root = _root(node)
        if isinstance(root, ast.Name):
            return (
                self._is_constant(root)
                or root.id in self.kept
                or (root.id == "self" and not self._changes(dotted(node).removeprefix("self.")))
            )
        if isinstance(root, ast.Call) and isinstance(root.func, ast.Attribute) and keeps(root.func.attr):
            return self.is_kept(root.func.value)
        if isinstance(root, ast.Call) and isinstance(root.func, ast.Name):
            return any(not self._is_constant(one) and self.is_kept(one) for one in root.args)
        return isinstance(root, ast.BoolOp | ast.IfExp) and any(map(self.is_kept, _parts(root)))

    def _is_constant(self, node: ast.expr) -> bool:
        """Return whether it is a constant of the module, or what is read into one once."""
        return (
            isinstance(node, ast.Name)
            and node.id.isupper()
            and node.id not in self.values
            and (node.id in self.imports or self.module.has(node.id))
        )

    def _changes(self, attribute: str) -> bool:
        """Return whether an attribute differs per request: it is a question, or methods change it that set nothing up."""
        if attribute in _ASKED_OF_OBJECTS:
            return True
        name = attribute.partition(".")[0]
        if self.cls is None or not name or is_settled(name) or names_a_part(name):
            return False
        data = not self.cls.is_set_up and any(one.holds_data for one in self.program.bases(self.cls))
        if data and not self.asks_for and doubt_of(name) == "use":
            return True
        writers = [writer for one in self.program.bases(self.cls) for writer in one.written.get(name, ())]
        return any(not writer.is_setup and not _SET_UP.match(writer.node.name) for writer in writers)

    def _answering(self, call: ast.Call) -> str:
        """The last name of a call that asks a model, or brings what is found; empty for any other."""
        written = dotted(call.func)
        name = self.canonical(written)
        last = name.rpartition(".")[2] or (call.func.attr if isinstance(call.func, ast.Attribute) else "")
        if _MAKES_NO_TEXT.search(last.lower()):
            return ""
        if call_sends(name or last) is Evidence.ASKED or _WEB.search(name) or _ANSWERS.search(snake_case(last)):
            return last
        return ""


TURNS = frozenset(("messages", "contents", "input", "history", "chat_history", "message_history"))
"""Keywords under which calls of SDKs get what was said so far."""


def is_request_body(keys: Iterable[object]) -> bool:
    """Return whether a mapping with these keys is what an API is sent: a model, and what was said so far."""
    known = set(keys)
    return "model" in known and not known.isdisjoint(TURNS)


def holds_turns(name: str) -> bool:
    """Return whether a name is one for the messages that were exchanged so far: `history`, `state.messages`."""
    return names_a_conversation(name) or name.rpartition(".")[2].lower().endswith("messages")


def _turns_in(node: ast.expr, deep: int) -> str:
    """The name of earlier messages that a list of messages is made of; empty where it is written in place."""
    root = node.value if isinstance(node, ast.Starred | ast.Await | ast.Subscript) else node
    name = dotted(root) or _called(root)
    if name:
        return name if holds_turns(name) else ""
    parts = root.elts if isinstance(root, ast.List | ast.Tuple) else _parts(root)
    if isinstance(root, ast.BinOp):
        parts = [root.left, root.right]
    return next((name for part in parts if deep and (name := _turns_in(part, deep - 1))), "")


def _is_copy(value: Value) -> bool:
    """Return whether it is a list of nothing but what callers give: `[...history]`."""
    lists = [piece.values for piece in value if isinstance(piece, Items) and piece.order is None]
    return len(lists) == len(value) and all(one and is_given(one) for values in lists for one in values or ((),))


def _not_empty(node: ast.expr) -> ast.expr:
    """Return `history` of `history or []`."""
    while isinstance(node, ast.Await | ast.Starred):
        node = node.value
    if not isinstance(node, ast.BoolOp):
        return node
    parts = [one for one in node.values if not (isinstance(one, ast.List | ast.Tuple) and not one.elts)]
    return parts[0] if len(parts) == 1 else node


def _called(node: ast.expr) -> str:
    """The last name of what is called; empty for anything else."""
    root = _root(node)
    return root.func.attr if isinstance(root, ast.Call) and isinstance(root.func, ast.Attribute) else ""


def _key_asked_for(call: ast.Call) -> str:
    """The key in `given.get("question")`; empty for any other call."""
    first = call.args[0] if call.args and isinstance(call.func, ast.Attribute) and call.func.attr == "get" else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


def _of_person(name: str, spot: TemplatePlace) -> Hole | None:
    """Return the hole of an attribute that says who asks, by its name: `user.first_name`."""
    hole = placeholder(name, spot)
    return hole if hole is not None and hole.kind is USER else None


def _key_of_settings(name: str, spot: TemplatePlace) -> Hole | None:
    """Return the hole of a value within a mapping or object named like settings, by its key."""
    owner, _, key = name.rpartition(".")
    hole = asked(key, spot) if owner and not owner.startswith("self") else None
    return replace(hole, what=f"`{name}`", doubt="open") if hole is not None and hole.doubt == "use" else None


def _root(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Await | ast.Starred):
        node = node.value
    return node


def _parts(root: ast.expr) -> list[ast.expr]:
    """The expressions that one is made of."""
    if isinstance(root, ast.Call):
        parts = [*root.args, *(word.value for word in root.keywords)]
        return [*parts, root.func.value] if isinstance(root.func, ast.Attribute) else parts
    if isinstance(root, ast.BoolOp):
        return root.values
    if isinstance(root, ast.IfExp):
        return [root.body, root.orelse]
    if isinstance(root, ast.Dict):
        return [value for key, value in zip(root.keys, root.values, strict=True) if key is None]
    return [root.generators[0].iter] if isinstance(root, ast.ListComp | ast.GeneratorExp) else []
