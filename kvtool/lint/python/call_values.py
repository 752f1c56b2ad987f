"""Values of calls: of the module's own functions, of methods of texts and lists; and what goes into calls of others."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import partial

from kvtool.lint.evidence.placeholders import asked
from kvtool.lint.evidence.prompt_evidence import (
    Evidence,
    call_sends,
    is_example_call,
    is_prompt_keyword,
    is_prompt_name,
    is_quiet,
    message_role,
)
from kvtool.lint.evidence.volatile_calls import has_no_order, order_hole, unordered
from kvtool.lint.python.changed_values import with_between
from kvtool.lint.python.filled_templates import any_of, filled_text
from kvtool.lint.python.rendered_files import text_of_file
from kvtool.lint.python.syntax import dotted
from kvtool.lint.python.text_values import (
    Callee,
    Either,
    FilePath,
    Instance,
    Items,
    Literal,
    Mapped,
    Message,
    Mixed,
    Param,
    Piece,
    Value,
    cut,
)
from kvtool.lint.python.unknown_calls import TEMPLATES, UnknownCalls
from kvtool.lint.skeleton import Hole, TemplatePlace

_TEXT_METHODS = frozenset(
    [
        "strip",
        "lstrip",
        "rstrip",
        "lower",
        "upper",
        "title",
        "capitalize",
        "removeprefix",
        "removesuffix",
        "expandtabs",
        "encode",
        "decode",
        "copy",
        "splitlines",
        "getvalue",
        "items",
        "values",
    ]
)
_OF_MAPPINGS = frozenset(["items", "keys", "values"])
_SET_METHODS = frozenset(["union", "intersection", "difference", "symmetric_difference"])
_FILLING = frozenset(
    [
        "format",
        "format_map",
        "substitute",
        "safe_substitute",
        "render",
        "render_async",
        "format_messages",
        "format_prompt",
    ]
)
_RENDER_BY_NAME = "render_template"
"""Flask's call: the name of a template file, then what is passed to it."""
_RUNNING = frozenset(["invoke", "ainvoke", "stream", "astream", "batch", "abatch"])
"""Calls that run a chain with the values of its template."""
_LOADING = frozenset(["get_template", "select_template", "get_or_select_template"])


class Calls(UnknownCalls):
    """Tells what is known of calls."""

    def _of_call(self, node: ast.Call) -> Value:
        written = dotted(node.func)
        if self._silent or not is_example_call(written):
            return self._called(node, written)
        self._silent = True  # what an example or a test case holds is no prompt by itself
        value = self._called(node, written)
        self._silent = False
        return value

    def _called(self, node: ast.Call, written: str) -> Value:
        name = self.canonical(written)
        spot = self.source.spot_of(node)
        local = bool(written) and written.partition(".")[0] in self.values
        target = self.callee(node.func, written)
        if target is not None:
            return self._program_call(target, node, name, spot)
        if not local and (given := self.imported_call(written, node)) is not None:
            return given
        if not local or name != written:
            known = self._known(node, name, spot)
            if known is not None:
                return known
        if name.rpartition(".")[2] == "MessagesPlaceholder":
            return (self.conversation(node, self._placeholder_name(node)),)
        if is_quiet(name or (node.func.attr if isinstance(node.func, ast.Attribute) else "")):
            return ()
        if role := message_role(name) or self._role(node):
            return self._message(node, role)
        if name.rpartition(".")[2] == _RENDER_BY_NAME and node.args:
            return self._fill(node, node.args[1:], self._template_file(node.args[0]) or (), node.func)
        if isinstance(node.func, ast.Attribute):
            found = self._method(node, node.func, name, spot)
            if found is not None:
                return found
        return self._other_call(node, name, spot)

    @staticmethod
    def _role(node: ast.Call) -> str:
        """The role that `Message(role=…, content=…)` is given, as far as it is written; empty for any other call."""
        given = {word.arg: word.value for word in node.keywords}
        if "role" not in given or "content" not in given:
            return ""
        role = given["role"]
        written = str(role.value) if isinstance(role, ast.Constant) else dotted(role).lower()
        return next((one for one in ("system", "developer", "user", "assistant", "tool") if one in written), "other")

    def _placeholder_name(self, node: ast.Call) -> str:
        """Return the name of the messages that are put in, `history` where it is not written."""
        names = [*node.args, *(word.value for word in node.keywords if word.arg == "variable_name")]
        return next((name for one in names if (name := self._constant(one))), "history")

    def _message(self, node: ast.Call, role: str) -> Value:
        given = {word.arg: word.value for word in node.keywords if word.arg}
        content = next(
            (given[key] for key in ("content", "text", "template", "prompt") if key in given),
            node.args[0] if node.args else None,
        )
        if content is None:
            return ()
        value = self._parts(
            self.as_text(self.value_of(content), content)
            if not isinstance(content, ast.List)
            else self.value_of(content)
        )
        if "Template" in dotted(node.func):
            value = self._later(value, self._parts_of_template(node))
        return (Message(role, value),)

    def _method(self, node: ast.Call, function: ast.Attribute, name: str, spot: TemplatePlace) -> Value | None:
        """Methods of texts, lists, mappings and paths; None for any other."""
        method = function.attr
        if method == "join" and node.args:
            return self._join(node.args[0], self._written(function.value) or "")
        base = self.value_of(function.value)
        if not name and method not in _SET_METHODS and has_no_order(f"_.{method}"):
            order = unordered(f"_.{method}", self._words(node), spot)
            return (Items((), order),)
        if method == "replace" and len(node.args) >= 2:
            return self._replaced(node, base, spot)
        if method in _OF_MAPPINGS and not node.args and (pairs := self._pairs(base, method)):
            return pairs
        if method in _TEXT_METHODS and base:
            return base
        if method in _FILLING:
            return self._fill(node, node.args, base, function.value)
        if method in _LOADING and node.args:
            return self._template_file(node.args[0])
        if method in _RUNNING and node.args and filled_text(base):
            return self._run_chain(node.args[0], base)
        if method == "partial" and base:
            given = {word.arg: self._factory(word.value) for word in node.keywords if word.arg is not None}
            self.told(filled := self._later(base, given), Evidence.SENT)
            return filled
        if method in ("get", "pop", "setdefault") and node.args and (held := self._of_key(node.args[0], base)):
            return held
        if method in _SET_METHODS and any(isinstance(piece, Items) and piece.order for piece in base):
            return base
        if (found := self._of_path(node, method, base)) is not None:
            return found
        pattern = self._constant(node.args[0]) if node.args else None
        left = self.refine(base, method, pattern)
        return left if left and all(isinstance(piece, Hole | Either | Param) for piece in base) else None

    def _of_key(self, key: ast.expr, base: Value) -> Value:
        """Return the value of a mapping under a key: where the key is not known, one of its texts."""
        written = self._constant(key)
        if written is None:
            return any_of(base)
        values = (piece.get(written) for piece in base if isinstance(piece, Mapped))
        return next((value for value in values if value is not None), ())

    @staticmethod
    def _pairs(base: Value, method: str) -> Value:
        """Return the elements of a loop over a mapping with known keys; nothing for any other."""
        pairs = [pair for piece in base if isinstance(piece, Mapped) for pair in piece.pairs]
        if not pairs or not all(isinstance(piece, Mapped) for piece in base):
            return ()
        keys: list[Value] = [(Literal(key),) for key, _ in pairs]
        values: list[Value] = [value for _, value in pairs]
        both: list[Value] = [(Items(pair),) for pair in zip(keys, values, strict=True)]
        return (Items(tuple(keys if method == "keys" else values if method == "values" else both)),)

    def _of_path(self, node: ast.Call, method: str, base: Value) -> Value | None:
        """Methods of paths and of files that were opened; None for any other. What files hold is not known."""
        path = next((one for one in base if isinstance(one, FilePath)), None)
        if path is None:
            return None
        if method in ("joinpath", "with_name"):
            return self._path(base, *map(self.value_of, node.args))
        if method in ("open", "resolve", "absolute"):
            return base
        if method in ("read_text", "read"):
            return () if path.given else (path, text_of_file(path.name, self.source.spot_of(node)))
        return None

    def _join(self, argument: ast.expr, between: str) -> Value:
        if isinstance(argument, ast.List | ast.Tuple):
            return cut(with_between([self.as_text(self.put(one), one) for one in argument.elts], between))
        value = self.value_of(argument)
        pieces: list[Piece] = []
        for piece in value:
            if isinstance(piece, Items):
                order = piece.order
                if order is not None and isinstance(argument, ast.Name | ast.Attribute):
                    order = order.at(self.source.spot_of(argument))
                parts = with_between(piece.values, between)
                pieces += parts if order is None else [Mixed(order, piece.values, between)]
            elif isinstance(piece, Mapped):
                pieces += with_between([(key,) for key, _ in piece.pairs], between)
            elif isinstance(piece, Either):
                pieces.append(Either(tuple(self.as_text(one, argument) for one in piece.branches)))
            else:
                pieces.append(piece)
        if value and not pieces and self.in_function:
            hole = asked(dotted(argument), self.source.spot_of(argument))  # a list of what nothing is known of
            pieces += [hole] if hole is not None and hole.doubt == "use" else []
        return cut(pieces)

    def _named_order(self, node: ast.Call, piece: Piece) -> Piece:
        """Return a list that a function put into another order, with what its argument says that the list holds."""
        if not isinstance(piece, Items) or piece.order is None or not node.args:
            return piece
        return replace(piece, order=order_hole(piece.order, self._words(node.args[0]), piece.order.spot))

    def _program_call(self, target: Callee | Instance, node: ast.Call, name: str, spot: TemplatePlace) -> Value:
        """A call of a function or a class of the same module."""
        if isinstance(target, Instance):
            for word in node.keywords:
                if word.arg is not None:
                    self.reported_as(word.arg, self.value_of(word.value), is_prompt_keyword(name, word.arg))
            if role := message_role(name) or self._role(node):
                return self._message(node, role)
            if self.program.is_text(target.cls) and node.args:
                value = self.value_of(node.args[0])
                says = is_prompt_name(target.cls.node.name)
                self.told(value, Evidence.NAME if says else Evidence.NOTHING)
                return value
            if target.cls.node.name.endswith(TEMPLATES):
                return self._other_call(node, name, spot)
            return (self.program.made(target, node, self),)
        says = is_prompt_name(target.function.node.name)
        for word in node.keywords:
            self._reported_tools(word)
            if word.arg is not None and (evidence := is_prompt_keyword(name, word.arg)):
                self.reported_as(word.arg, self.value_of(word.value), evidence)
        if sends := call_sends(name):
            for one in node.args:
                self.told(self.value_of(one), sends)
        value = tuple(map(partial(self._named_order, node), self.program.call(target, node, self)))
        if says:
            self.told(value, Evidence.NAME)
        if (
            not value
            and (hole := self.by_name(target.function.node.name, spot)) is not None
            and self.program.constant_of(target) is None
        ):
            return (hole,)
        return value
