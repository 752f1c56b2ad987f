"""Templates that code fills: texts of its own, texts of LangChain, and files, with what is passed to them."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from kvtool.lint.evidence.placeholders import asked, constant_text, is_setting
from kvtool.lint.evidence.prompt_evidence import Evidence, is_prompt_name
from kvtool.lint.evidence.value_precision import sure_kind
from kvtool.lint.evidence.volatile_calls import environment, order_hole
from kvtool.lint.passed_values import Constant, PassedList
from kvtool.lint.python.changed_values import changed, holes_of, is_given, with_hole
from kvtool.lint.python.filled_templates import filled_text, formatted, template_style, with_replaced
from kvtool.lint.python.known_calls import KnownCalls
from kvtool.lint.python.rendered_files import lists_in, rendered_files, text_of_file
from kvtool.lint.python.syntax import dotted, keyed
from kvtool.lint.python.text_values import (
    Callee,
    FilePath,
    Literal,
    Mapped,
    Param,
    Piece,
    RenderCall,
    Value,
    cut,
    has_param,
    text_of,
)
from kvtool.lint.skeleton import Hole, TemplatePlace

_MARK = re.compile(r"[^\w\s]{1,3}\s?\w{2,60}\s?[^\w\s]{0,3}|[A-Z]{1,20}(?:_[A-Z0-9]{1,20}){1,4}")
"""A placeholder of whatever form: `{question}`, `<<question>>`, `%question%`, `THE_QUESTION`."""


_SIGNS = "$<>[]{}()%@#*_ "
"""What is around the name in it."""


def _is_mark(node: ast.expr) -> bool:
    """Return whether it is a placeholder with a name that is not known: `"{" + key + "}"`."""
    if not isinstance(node, ast.JoinedStr | ast.BinOp):
        return False
    return any(
        isinstance(one, ast.Constant) and isinstance(one.value, str) and "{" in one.value for one in ast.walk(node)
    )


def _named_text(file: FilePath, spot: TemplatePlace) -> Hole | Param | None:
    """Return the text of a template file, or of one that a caller names; None where not all of its name is known then."""
    params = [piece for piece in file.made if isinstance(piece, Param)]
    if file.name or len(params) != 1:
        return text_of_file(file.name, spot) if file.name else None
    (asked_for,) = params

    def filled(given: Value) -> Value:
        name = [one for piece in file.made for one in (given if piece is asked_for else (piece,))]
        texts = [text_of(one) for one in name if isinstance(one, str | Literal)]
        return (text_of_file("".join(texts), spot),) if texts and len(texts) == len(name) else ()

    return Param(asked_for.name, filled=filled)


def _lists(passed: Iterable[tuple[str, ast.expr | None, Value]]) -> list[tuple[str, PassedList]]:
    return [found for key, _, value in passed for found in lists_in(key, value)]


class TemplateFills(KnownCalls):
    """Tells what templates give that are filled."""

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
            mark, given = needle.strip(_SIGNS).lower(), node.args[1]
            hole = asked(mark, spot)
            name = dotted(given)
            if (name.startswith("self.") and is_setting(name)) or self._is_setting(given):
                hole = constant_text(mark, spot)  # an object or a process has it once, whatever the mark is called
            put = self._filled_in(given) or (
                (hole,) if hole is not None and (hole.constant or hole.doubt == "use") else ()
            )
        else:
            put = self._argument(node.args[1])
        return cut(with_replaced(base, needle, put))

    def _fill(self, node: ast.Call, given_args: list[ast.expr], base: Value, template: ast.expr) -> Value:
        """Return the text that a call makes of a template; `template` is what the code calls it."""
        last = dotted(node.func).rpartition(".")[2] or getattr(node.func, "attr", "")
        style = "format" if last.startswith("format") else "jinja" if last.startswith("render") else "dollar"
        named: set[str] = set()  # of a mapping for several templates one that is not seen may show nothing
        positional = [self._filled_in(one) for one in given_args]
        unpacked = [*given_args, *(word.value for word in node.keywords if word.arg is None)]
        mapped, words = list(self._unpacked(unpacked)), self._keywords(node)
        given = {key: inside for key, _, inside in mapped}
        for key, one, _ in words:
            if (put := self._put_under(key, one)) is not None:
                given[key] = put
                named.add(key)
        given = {key: self.as_text(value, node) for key, value in given.items()}
        if any(isinstance(piece, Literal) and piece.imported for piece in base):
            base = ()  # its own file reports it
        base = tuple(
            part for piece in base for part in (piece.template or (piece,) if isinstance(piece, Param) else (piece,))
        )
        if filled_text(base):
            text = cut(formatted(base, given, positional, style))
            if is_prompt_name(dotted(template)):
                self.told(text, Evidence.NAME)
            return text
        files = [piece for piece in base if isinstance(piece, FilePath) and not piece.given]
        passed, settled = [*mapped, *words], self._settled(node)
        constants = dict(found for each in passed for found in self._constants(*each))
        mappings = tuple(value for one in unpacked if has_param(value := self.value_of(one)))
        keywords = self._passes_keywords(node)
        for piece in files:
            if piece.made or mappings or keywords:
                self.renders.append(
                    RenderCall(
                        piece.made or (piece.name,),
                        tuple((key, value) for key, _, value in passed),
                        mappings,
                        tuple((path, known) for path, known in constants.items() if known is not None),
                        tuple(settled),
                        keywords,
                    )
                )
        self.program.rendered += rendered_files(base, given, settled, constants.items(), _lists(passed))
        self._order_passed(files, given)
        written = dotted(template)
        imported = self.canonical(written) != written  # its own file reports a placeholder that is named for a clock
        unseen = [value for key, value in given.items() if not imported or sure_kind(key) is None]
        self.somewhere([*positional, *unseen], template)
        shown = [value for key, value in given.items() if key in named]
        if base and all(isinstance(piece, Param) and piece.hole is None for piece in base):
            fill = partial(self._filled_with, given=given, positional=positional, style=style)
            first: Value = tuple(replace(piece, filled=fill) for piece in base if isinstance(piece, Param))
        else:
            spot = self.source.spot_of(node)
            found = (_named_text(each, spot) for each in files)
            texts: Value = tuple(each for each in found if each is not None)
            first = (*texts, *holes_of(base))
        return cut((*first, *(part for value in (*positional, *shown) for part in holes_of(value))))

    def _order_passed(self, files: list[FilePath], given: Mapping[str, Value]) -> None:
        """A list in another order each time goes into a template: reported at the call, with the name of the template."""
        if not self._silent and (name := next((piece.name for piece in files if piece.name), "")):
            orders = (
                order_hole(piece, variable, piece.spot)
                for variable, value in given.items()
                for piece in value
                if isinstance(piece, Hole) and piece.order
            )
            self.program.found.add_holes(replace(order, elsewhere=True, file=name) for order in orders)

    def _constants(self, path: str, node: ast.expr | None, value: Value) -> Iterator[tuple[str, Constant | None]]:
        """Yield the paths below a value that is passed, each with its constant; None where it is something else."""
        one = value[0] if len(value) == 1 else None
        if isinstance(one, Mapped):
            parts = keyed(node) if isinstance(node, ast.Dict) else {}
            for key in dict.fromkeys((*parts, *(key for key, _ in one.pairs))):
                yield from self._constants(f"{path}.{key}", parts.get(key), one.get(key) or ())
        elif (
            value
            and (texts := [text_of(piece) for piece in value if isinstance(piece, str | Literal)])[len(value) - 1 :]
        ):
            yield path, "".join(texts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str | int | float):
            yield path, node.value
        else:
            called = self.callee(node.func, dotted(node.func)) if isinstance(node, ast.Call) else None
            yield path, self.program.constant_of(called) if isinstance(called, Callee) else None

    def _unpacked(self, mappings: Iterable[ast.expr]) -> Iterator[tuple[str, ast.expr | None, Value]]:
        """Yield the known keys of mappings that a call unpacks, each with what is written for it, and its value."""
        for one in mappings:
            parts = keyed(one) if isinstance(one, ast.Dict) else {}
            pairs = (pair for piece in self.value_of(one) if isinstance(piece, Mapped) for pair in piece.pairs)
            yield from ((key, parts.get(key), inside) for key, inside in pairs)

    def _keywords(self, node: ast.Call) -> list[tuple[str, ast.expr, Value]]:
        """Return the keywords of a call, each with what is written for it, and its value."""
        return [(word.arg, word.value, self.value_of(word.value)) for word in node.keywords if word.arg is not None]

    def _passes_keywords(self, node: ast.Call) -> bool:
        """Return whether a call gets all further keywords of the function that is read."""
        return any(word.arg is None and dotted(word.value) == self.keywords_name != "" for word in node.keywords)

    def render_with(self, rendering: RenderCall, node: ast.Call, parameters: Collection[str]) -> None:
        """A call gives a template of another function its name or values; those for `parameters` are in it already."""
        words = [each for each in self._keywords(node) if rendering.keywords and each[0] not in parameters]
        settled = {*rendering.settled, *(set(self._settled(node)) & {key for key, _, _ in words})}
        mapped = (piece for value in rendering.mappings for piece in value if isinstance(piece, Mapped))
        values = [*rendering.values, *(pair for piece in mapped for pair in piece.pairs)]
        passed = [*((key, None, value) for key, value in values), *words]
        given = {key: self._filled_in(one) for key, one, _ in words}
        constants = dict(found for each in passed for found in self._constants(*each)) | dict(rendering.constants)
        keywords = rendering.keywords and self._passes_keywords(node)
        if keywords or has_param(rendering.name) or any(map(has_param, rendering.mappings)):
            every = tuple((key, value) for key, _, value in passed)
            known = tuple((path, one) for path, one in constants.items() if one is not None)
            self.renders.append(
                replace(rendering, values=every, constants=known, settled=tuple(settled), keywords=keywords)
            )
        texts = [text_of(piece) for piece in rendering.name if isinstance(piece, str | Literal)]
        if texts and len(texts) == len(rendering.name):
            files = [FilePath(name="".join(texts))]
            self.program.rendered += rendered_files(
                files, dict(values) | given, settled, constants.items(), _lists(passed)
            )
            self._order_passed(files, given)

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

    def _run_chain(self, node: ast.expr, base: Value) -> Value:
        """Hand on the messages of a chain that runs with these values; what the chain gives is not known."""
        several = node.elts if isinstance(node, ast.List) else [node]
        for one in several:
            given = {
                key: inside
                for piece in self.value_of(one)
                for key, inside in (piece.pairs if isinstance(piece, Mapped) else ())
                if inside
            }
            self.told(
                self._later(base, {key: self.as_text(inside, one) for key, inside in given.items()}), Evidence.ASKED
            )
        return ()
