"""Values of calls: of the module's own functions, of methods of texts and lists; and what goes into calls of others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.lint.evidence.placeholders import asked
from kvtool.lint.evidence.prompt_evidence import (
    Evidence,
    call_sends,
    is_example_call,
    is_prompt_keyword,
    is_prompt_name,
    is_quiet,
    is_system_name,
    message_role,
)
from kvtool.lint.evidence.value_precision import sure_kind
from kvtool.lint.evidence.volatile_calls import environment, has_no_order, unordered
from kvtool.lint.python.changed_values import changed, holes_of, is_given, with_hole
from kvtool.lint.python.chats import has_messages, messages_in
from kvtool.lint.python.filled_templates import any_of, filled_text, formatted, template_style, with_replaced
from kvtool.lint.python.known_calls import KnownCalls
from kvtool.lint.python.rendered_files import rendered_files
from kvtool.lint.python.syntax import dotted, keyed
from kvtool.lint.python.text_values import (
    MESSAGE_KEYS,
    Callee,
    Either,
    FilePath,
    Instance,
    Items,
    Literal,
    Mapped,
    Message,
    Param,
    Piece,
    Value,
    cut,
    has_param,
    text_of,
)
from kvtool.lint.python.value_origins import TURNS, holds_turns
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
_TOOLS = frozenset(["tools", "functions"])
_SET_METHODS = frozenset(["union", "intersection", "difference", "symmetric_difference"])
_FILLING = frozenset(
    ["format", "format_map", "substitute", "safe_substitute", "render", "format_messages", "format_prompt"]
)
_LOADING = frozenset(["get_template", "select_template", "get_or_select_template"])
_ASKED_WITH = frozenset(["prompt", "input", "messages", "query", "contents", "inputs"])
_TEMPLATES = ("Template", "from_template", "from_string", "from_messages")
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


_MARK = re.compile(r"[^\w\s]{1,3}\s?\w{2,60}\s?[^\w\s]{0,3}|[A-Z]{1,20}(?:_[A-Z0-9]{1,20}){1,4}")
"""A placeholder of whatever form: `{question}`, `<<question>>`, `%question%`, `THE_QUESTION`."""


_LONGEST_OPTION = 24
"""Characters of a written text without white space that may say how a call does what it does."""


def _is_option(node: ast.expr) -> bool:
    if not isinstance(node, ast.Constant):
        return False
    return not isinstance(node.value, str) or (len(node.value) <= _LONGEST_OPTION and not re.search(r"\s", node.value))


def _with_between(values: Sequence[Value], between: str) -> Iterator[Piece]:
    """Texts that `join` puts together."""
    for number, value in enumerate(values):
        if number and between:
            yield between
        yield from value


_SIGNS = "$<>[]{}()%@#*_ "
"""What is around the name in it."""


def _is_mark(node: ast.expr) -> bool:
    """Return whether it is a placeholder with a name that is not known: `"{" + key + "}"`."""
    if not isinstance(node, ast.JoinedStr | ast.BinOp):
        return False
    return any(
        isinstance(one, ast.Constant) and isinstance(one.value, str) and "{" in one.value for one in ast.walk(node)
    )


class Calls(KnownCalls):
    """Tells what is known of calls."""

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
            return self._fill(node, function, base)
        if method in _LOADING and node.args:
            return self._template_file(node.args[0])
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

    def _template_file(self, node: ast.expr) -> Value | None:
        """Return the template file of a name, or of one that callers give a part of; None for any other."""
        if (name := self._written(node)) is not None:
            return (FilePath(name=name),)
        made = self.value_of(node)
        return (FilePath(made=made),) if has_param(made) else None

    def _replaced(self, node: ast.Call, base: Value, spot: TemplatePlace) -> Value:
        """`text.replace("[QUESTION]", value)`: where nothing is known of the value, the mark says what it is."""
        needle = self._written(node.args[0])
        if needle is None:
            return self._later(base, {}) if _is_mark(node.args[0]) else base
        if _MARK.fullmatch(needle):
            hole = asked(needle.strip(_SIGNS).lower(), spot)
            put = self._filled_in(node.args[1]) or ((hole,) if hole is not None and hole.doubt == "use" else ())
        else:
            put = self._argument(node.args[1])
        return cut(with_replaced(base, needle, put))

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
            return () if path.given else (path, self._text_of_file(node, path))
        return None

    def _text_of_file(self, node: ast.Call, path: FilePath) -> Hole:
        """Return the hole of what a file holds, which is the same in all requests."""
        what = f"the text of `{path.name}`" if path.name else "the text of a file"
        return Hole(self.source.spot_of(node), OTHER, "`file`", doubt="open", hidden=True, unseen=what)

    def _fill(self, node: ast.Call, function: ast.Attribute, base: Value) -> Value:
        given: dict[str, Value] = {}
        named: set[str] = set()  # of a mapping for several templates one that is not seen may show nothing
        positional: list[Value] = []
        for one in node.args:
            value = self.value_of(one)
            for piece in value:
                if isinstance(piece, Mapped):
                    given |= dict(piece.pairs)
            positional.append(self._filled_in(one))
        for word in node.keywords:
            if word.arg is None:
                for piece in self.value_of(word.value):
                    given |= dict(piece.pairs) if isinstance(piece, Mapped) else {}
            elif (put := self._put_under(word.arg, word.value)) is not None:
                given[word.arg] = put
                named.add(word.arg)
        style = "format" if function.attr.startswith("format") else "jinja" if function.attr == "render" else "dollar"
        given = {key: self.as_text(value, node) for key, value in given.items()}
        if any(isinstance(piece, Literal) and piece.imported for piece in base):
            base = ()  # its own file reports it
        base = tuple(
            part for piece in base for part in (piece.template or (piece,) if isinstance(piece, Param) else (piece,))
        )
        if not filled_text(base):
            if any(word.arg is None and dotted(word.value) == self.keywords_name != "" for word in node.keywords):
                self.renders += [
                    piece.made or (piece.name,) for piece in base if isinstance(piece, FilePath) and not piece.given
                ]
            self.program.rendered += rendered_files(base, given, self._settled(node))
            template = dotted(function.value)
            imported = (
                self.canonical(template) != template
            )  # its own file reports a placeholder that is named for a clock
            unseen = [value for key, value in given.items() if not imported or sure_kind(key) is None]
            self.somewhere([*positional, *unseen], function.value)
            shown = [value for key, value in given.items() if key in named]
            if base and all(isinstance(piece, Param) and piece.hole is None for piece in base):
                fill = partial(self._filled_with, given=given, positional=positional, style=style)
                first: Value = tuple(replace(piece, filled=fill) for piece in base if isinstance(piece, Param))
            else:
                first = holes_of(base)
            return cut((*first, *(part for value in (*positional, *shown) for part in holes_of(value))))
        text = cut(formatted(base, given, positional, style))
        if is_prompt_name(dotted(function.value)):
            self.told(text, Evidence.NAME)
        return text

    def render_with(self, made: Value, node: ast.Call) -> None:
        """A call hands its keywords on to the template whose name is `made`."""
        if all(isinstance(piece, str | Literal) for piece in made):
            name = "".join(text_of(piece) for piece in made if isinstance(piece, str | Literal))
            given = {word.arg: self._filled_in(word.value) for word in node.keywords if word.arg is not None}
            self.program.rendered += rendered_files((FilePath(name=name),), given, self._settled(node))

    def _settled(self, node: ast.Call) -> list[str]:
        """Return the keywords that get a constant of the module, or a setting of the process."""
        return [
            word.arg
            for word in node.keywords
            if word.arg is not None
            and not isinstance(word.value, ast.Constant)
            and (self.is_kept(word.value) or self._is_setting(word.value))
        ]

    def _is_setting(self, node: ast.expr) -> bool:
        called = node.func if isinstance(node, ast.Call) else node
        return environment(self.canonical(dotted(called)), self.source.spot_of(node)) is not None

    @staticmethod
    def _filled_with(base: Value, given: Mapping[str, Value], positional: list[Value], style: str) -> Value:
        return cut(formatted(base, given, positional, style))

    def _filled_in(self, node: ast.expr) -> Value:
        """Return the value for a placeholder: a hole where only is known that callers give it."""
        value = self.of_loop(self._argument(node), node)
        hole = self.origin_of(node) if is_given(value) else None
        return with_hole(value, hole) if value or hole is None else (hole,)

    def _put_under(self, name: str, node: ast.expr) -> Value | None:
        """Return the value for a named placeholder; None where only its name is known, and that says enough."""
        value = self._filled_in(node)
        if value or isinstance(node, ast.Constant | ast.List | ast.Dict | ast.Compare):
            return value
        hole = asked(name, self.source.spot_of(node))
        return None if hole is not None and hole.doubt == "use" else value

    def _join(self, argument: ast.expr, between: str) -> Value:
        if isinstance(argument, ast.List | ast.Tuple):
            return cut(_with_between([self.as_text(self.put(one), one) for one in argument.elts], between))
        value = self.value_of(argument)
        pieces: list[Piece] = []
        for piece in value:
            if isinstance(piece, Items):
                order = piece.order
                if order is not None:
                    inside = isinstance(argument, ast.Name | ast.Attribute)
                    pieces.append(order.at(self.source.spot_of(argument)) if inside else order)
                pieces += _with_between(piece.values, between)
            elif isinstance(piece, Mapped):
                pieces += _with_between([(key,) for key, _ in piece.pairs], between)
            elif isinstance(piece, Either):
                pieces.append(Either(tuple(self.as_text(one, argument) for one in piece.branches)))
            else:
                pieces.append(piece)
        if value and not pieces and self.in_function:
            hole = asked(dotted(argument), self.source.spot_of(argument))  # a list of what nothing is known of
            pieces += [hole] if hole is not None and hole.doubt == "use" else []
        return cut(pieces)

    def _other_call(self, node: ast.Call, name: str, spot: TemplatePlace) -> Value:
        """A call of which nothing is known but its name: its arguments may go into a prompt."""
        last = name.rpartition(".")[2] or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
        sends = call_sends(name or last)
        passed: list[Value] = []
        makes = last.endswith(_TEMPLATES) or sends is Evidence.SENT
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
            if word.arg is None:
                for piece in value:
                    for key, one in piece.pairs if isinstance(piece, Mapped) else ():
                        self.reported_as(key, one, is_prompt_keyword(name, key))
                        if key in _TOOLS and sends:
                            self.tools(one, word.value)
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

    def _add_chat(self, node: ast.Call, values: Sequence[Value], sends: Evidence, last: str) -> None:
        """Keep the messages that a call sends: those of the system are before all others, whatever their order is."""
        if last == "from_template" and values:
            self.program.chats.add([("user", self._later(values[0], {}))])
        if sends is not Evidence.ASKED:
            return
        system: list[tuple[str, Value]] = []
        others: list[tuple[str, Value]] = []
        names = [*("" for _ in node.args), *(word.arg or "" for word in node.keywords)]
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
        self.program.chats.add([*system, *others])

    @staticmethod
    def _passed_on(node: ast.Call, values: Sequence[Value]) -> Value:
        """The text that a call gives back in another form: the first argument that is no option, `"NFKC"` beside a text."""
        given = [*node.args, *(word.value for word in node.keywords)]
        texts = [value for one, value in zip(given, values, strict=True) if not _is_option(one)]
        return (texts or list(values) or [()])[0]

    def _reported_tools(self, word: ast.keyword) -> None:
        """Tools in no fixed order that are handed on by a keyword of that name."""
        if word.arg in _TOOLS:
            self.tools(self.value_of(word.value), word.value)

    @staticmethod
    def _later(value: Value, given: Mapping[str, Value]) -> Value:
        """A text that is filled later, in the way that its placeholders are written; `given` is filled in already."""

        def change(piece: Piece) -> Value | None:
            if not isinstance(piece, Literal):
                return None
            text = tuple(formatted((piece,), given, [], template_style(piece)))
            return (
                tuple(replace(one, hidden=True) if isinstance(one, Hole) else one for one in text)
                if piece.imported
                else text
            )

        return cut(changed(value, change))

    def _parts_of_template(self, node: ast.Call) -> dict[str, Value]:
        """Return the values that a template gets with its text, by placeholder: `partial_variables={"now": clock}`."""
        given: dict[str, Value] = {}
        for word in node.keywords:
            if word.arg is not None and isinstance(word.value, ast.Dict):
                given |= {key: self._factory(one) for key, one in keyed(word.value).items()}
            elif word.arg is not None and isinstance(word.value, ast.Call) and dotted(word.value.func) == "dict":
                given |= {one.arg: self._factory(one.value) for one in word.value.keywords if one.arg is not None}
        return given

    def _factory(self, node: ast.expr) -> Value:
        """Return a value to fill in, or the result of a function that is called for it then."""
        value = self.value_of(node)
        if any(isinstance(piece, Callee) for piece in value) or (
            not value and isinstance(node, ast.Name | ast.Attribute)
        ):
            value = self._made(node)
        return self.as_text(value, node)

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
            if target.cls.node.name.endswith(_TEMPLATES):
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
        value = self.program.call(target, node, self)
        if says:
            self.told(value, Evidence.NAME)
        if (
            not value
            and (hole := self.by_name(target.function.node.name, spot)) is not None
            and not self.program.gives_constant(target)
        ):
            return (hole,)
        return value
