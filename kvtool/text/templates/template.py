"""Jinja templates whose output knows where each character was written: template text, variable, or traced value."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from types import TracebackType

from jinja2 import Environment, Template, meta, nodes
from jinja2.exceptions import TemplateError, TemplateNotFound, TemplateRuntimeError, TemplateSyntaxError, UndefinedError

from kvtool.errors import KvtoolError, Place
from kvtool.text.templates.application import Application
from kvtool.text.templates.environment import TracedEnvironment
from kvtool.text.templates.included_templates import MAIN, unified_lines
from kvtool.text.templates.work import MAX_WORK
from kvtool.text.traced import Origin, Traced

_MESSAGES, _CONTENT = "messages", "content"


def reads_parts(tree: nodes.Template) -> bool:
    """Return whether contents are lists of parts for this template.

    The first loop over one decides; a tree that vLLM's detection cannot follow (two names for one value of a list) takes texts.
    """
    names = _names_of_messages(tree)
    if names is None:
        return False
    said = [loop for loop in tree.find_all(nodes.For) if any(_reads(loop.iter, name) for name in names)]
    if not all(isinstance(loop.target, nodes.Name) for loop in said):
        return False
    messages = {loop.target.name for loop in said if isinstance(loop.target, nodes.Name)}
    in_macros, arguments = _macro_loops(tree, messages)
    for loop in tree.find_all(nodes.For):
        over = loop.iter
        if any(_reads(over, name, _CONTENT) for name in messages) or (
            isinstance(over, nodes.Name)
            and (over.name in arguments.get(id(loop), ()) or (id(loop) not in in_macros and over.name == _CONTENT))
        ):
            return isinstance(loop.target, nodes.Name)
    return False


def _names_of_messages(tree: nodes.Template) -> set[str] | None:
    """The list of messages and what it is assigned to, filtered, tested or cut; None where it is taken apart in an assignment."""
    names = {_MESSAGES}
    waiting = [_MESSAGES]
    assigned = list(tree.find_all(nodes.Assign))
    while waiting:
        name = waiting.pop()
        for each in assigned:
            if not _reads(each.node, name):
                continue
            if not isinstance(each.target, nodes.Name):
                return None
            if each.target.name not in names:
                names.add(each.target.name)
                waiting.append(each.target.name)
    return names


def _macro_loops(tree: nodes.Template, messages: set[str]) -> tuple[set[int], dict[int, set[str]]]:
    """The loops inside macros, and of each the macro's arguments that receive a message's content somewhere."""
    inside: set[int] = set()
    arguments: dict[int, set[str]] = {}
    calls = [call for call in tree.find_all(nodes.Call) if isinstance(call.node, nodes.Name)]
    for macro in tree.find_all(nodes.Macro):
        own = [argument.name for argument in macro.args]
        given: set[str] = set()
        for call in calls:
            if not isinstance(call.node, nodes.Name) or call.node.name != macro.name:
                continue
            pairs = [*zip(own, call.args, strict=False), *((each.key, each.value) for each in call.kwargs)]
            given |= {
                name
                for name, value in pairs
                if name in own and any(_reads(value, message, _CONTENT) for message in messages)
            }
        for loop in macro.find_all(nodes.For):
            inside.add(id(loop))
            if given:
                arguments[id(loop)] = given
    return inside, arguments


def _reads(node: nodes.Node | None, name: str, key: str | None = None) -> bool:
    """Return whether an expression is a variable, or a field of it, filtered, tested or cut."""
    while True:
        if isinstance(node, nodes.Filter | nodes.Test) or (
            isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice)
        ):
            node = node.node
        elif key is None:
            return isinstance(node, nodes.Name) and node.ctx == "load" and node.name == name
        elif isinstance(node, nodes.Getitem):
            return isinstance(node.arg, nodes.Const) and node.arg.value == key and _reads_name(node.node, name)
        else:
            return isinstance(node, nodes.Getattr) and node.attr == key and _reads_name(node.node, name)


def _reads_name(node: nodes.Node, name: str) -> bool:
    return isinstance(node, nodes.Name) and node.ctx == "load" and node.name == name


__all__ = ["TracedEnvironment", "TracedTemplate", "compile_template"]

_UNDEFINED = re.compile(r"'(\w+)' is undefined")
_NO_ATTRIBUTE = re.compile(r".* has no attribute '(\w+)'")
_LONGEST_MESSAGE = 1_000
_NUL = "\0"
_HAS_SYNTAX = re.compile(r"\{[{%#]")
_MOST_INCLUDED = 100
"""Templates whose variables are looked for."""
_UNKNOWN_NAME = re.compile(r"No (filter|test) named '([^']{1,80})'")
_UNKNOWN_TAG = re.compile(r"unknown tag '(\w{1,80})'")


def compile_template(
    source: Traced | str,
    *,
    chat: bool,
    origin: Origin | None = None,
    clock: Callable[[], datetime] | None = None,
    application: Application | None = None,
) -> TracedTemplate:
    """A template from its source, which says itself where it is (Traced) or else is at `origin`.

    `chat` gives the environment in which Hugging Face renders chat templates, with `clock` after its `strftime_now`; otherwise
    undefined variables are errors and line breaks at the end are kept. `application` has the templates that it includes, and
    filters and tests that Jinja does not have. Raises KvtoolError, with the place, on bad syntax.
    """
    if not isinstance(source, Traced):
        source = Traced.of(source, replace(origin or Origin(MAIN), text=source))
    return TracedTemplate(source, chat=chat, clock=clock, application=application)


def _shortened(message: str) -> str:
    """Shorten a message of Jinja, which may quote the template."""
    return message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]} …"


def undeclared_names(tree: nodes.Template, environment: Environment) -> frozenset[str]:
    """The names that a template takes from outside: `meta.find_undeclared_variables`, which would compute what is constant."""
    names = meta.TrackingCodeGenerator(environment)
    names.optimizer = None
    names.visit(tree)
    return frozenset(names.undeclared_identifiers)


class TracedTemplate:
    """A compiled template; `variables` are the names that it and the templates it includes need."""

    def __init__(
        self,
        source: Traced,
        *,
        chat: bool,
        clock: Callable[[], datetime] | None = None,
        application: Application | None = None,
    ) -> None:
        self.source = source
        self._chat = chat
        self.variables: frozenset[str] = frozenset()
        self.any_variable = False
        """Whether it includes a template that only a rendering knows, which may need any variable."""
        self.reads_parts = False
        """Of a chat template: whether the content of a message is a list of parts for it."""
        self._template: Template | None = None
        if not chat and not _HAS_SYNTAX.search(source):
            return
        source = unified_lines(source)
        self.source = source
        self._environment = TracedEnvironment(source, chat=chat, clock=clock, application=application)
        try:
            tree = self._environment.parse(source)
            names = set(undeclared_names(tree, self._environment))
            self._template = self._environment.compile_source(source, tree, None, MAIN)
            self._read_included(tree, names)
            self.variables = frozenset(names - set(self._environment.globals))
            self.reads_parts = chat and reads_parts(tree)
        except TemplateSyntaxError as error:
            raise self._syntax_error(error) from error
        except TemplateError as error:
            raise KvtoolError(f"template: {error}", place=self._place(1)) from error
        except (RecursionError, SyntaxError, MemoryError, ValueError, OverflowError) as error:
            place = self._place(self._environment.line_of_most_code)
            raise KvtoolError("template: nested too deeply or too large to compile", place=place) from error

    def _read_included(self, tree: nodes.Template, names: set[str]) -> None:
        """Add the variables of the templates that are included, and of those that these include."""
        environment = self._environment
        waiting: list[tuple[str | None, str | None]] = [(name, None) for name in meta.find_referenced_templates(tree)]
        while waiting:
            name, includer = waiting.pop()
            found = None
            if name is None or len(environment.static) >= _MOST_INCLUDED:
                self.any_variable = True
            else:
                with suppress(KvtoolError, TemplateRuntimeError):  # rendering says so, if it gets there
                    found = environment.find_source(name, includer)
            if found is None or found[0] in environment.static:
                continue
            path, source = found
            environment.static.add(path)
            with environment.reading(source), suppress(TemplateSyntaxError):
                inner = environment.parse(source)
                names |= undeclared_names(inner, environment)
                waiting += [(each, path) for each in meta.find_referenced_templates(inner)]

    def render(self, variables: Mapping[str, object], steps: int = MAX_WORK) -> Traced:
        """The text for these variables. Raises KvtoolError, with the place in the template, on every failure; one is that it
        takes more than so many steps."""
        if self._template is None:
            return self.source
        environment = self._environment
        environment.start(steps)
        try:
            context = self._template.new_context(dict(variables))
            return environment.concat(self._template.root_render_func(context))
        except TemplateNotFound as error:
            raise self._not_found(error) from error
        except TemplateSyntaxError as error:
            raise self._syntax_error(error) from error
        except UndefinedError as error:
            said = str(error.message)[:_LONGEST_MESSAGE]
            name = _UNDEFINED.fullmatch(said)
            if name is None:
                attribute = _NO_ATTRIBUTE.fullmatch(said)
                raise self._failed(str(error.message), error, near=attribute and attribute[1]) from error
            close = difflib.get_close_matches(name[1], [*variables, *environment.globals], n=1)
            hint = f"did you mean `{close[0]}`?" if close else None
            raise self._failed(f"undefined variable `{name[1]}`", error, hint, name[1]) from error
        except RecursionError as error:
            raise self._failed("it calls itself too deeply", error) from error
        except MemoryError as error:
            raise self._failed("it needs too much memory", error) from error
        except KvtoolError:
            raise
        except Exception as error:  # an expression of the template may raise anything
            raise self._failed(str(error) or type(error).__name__, error) from error

    @property
    def left(self) -> int:
        """Steps that the last rendering left; below zero where they did not suffice."""
        return self._environment.left if self._template is not None else MAX_WORK

    def _failed(
        self, message: str, error: BaseException, hint: str | None = None, near: str | None = None
    ) -> KvtoolError:
        source, line = self._running(error.__traceback__)
        message = message.replace("kvtool.text.traced.Traced object", "str object").replace(
            "'Traced' object", "'str' object"
        )
        return KvtoolError(f"template: {_shortened(message)}", hint=hint, place=self._place(line, near, source))

    def _not_found(self, error: TemplateNotFound) -> KvtoolError:
        names = getattr(error, "templates", None) or [error.name]
        which = ", ".join(f"`{str(name).partition(_NUL)[0]}`" for name in names)
        hint = "kvtool looks in the folder of this template and in the folders above it"
        return self._failed(f"includes {which}, which does not exist", error, hint, str(names[0]).partition(_NUL)[0])

    def _syntax_error(self, error: TemplateSyntaxError) -> KvtoolError:
        message = str(error.message)
        hint: str | None = None
        near: str | None = None
        if self._chat:
            pass  # its server renders it, which adds nothing to Jinja
        elif (unknown := _UNKNOWN_NAME.match(message)) is not None:
            kind, near = unknown.groups()
            message = f"unknown {kind} `{near}`"
            hint = f"if your application defines it, declare it in the workload: `{kind}s: [{near}]`"
        elif (tag := _UNKNOWN_TAG.search(message)) is not None:
            near = tag[1]
            hint = f"kvtool knows the tags of Jinja, `do`, `break` and `continue`; replace `{near}`"
        return KvtoolError(
            f"template: {_shortened(message)}",
            hint=hint,
            place=self._place(error.lineno, near, self._environment.failed),
        )

    def _running(self, traceback: TracebackType | None) -> tuple[Traced, int]:
        """The template that was running, and the line in it."""
        source, line = self.source, 1
        compiled = self._environment.compiled if self._template else {}
        while traceback is not None:
            found = compiled.get(traceback.tb_frame.f_code.co_filename)
            if found is not None:
                line, source = found[0].get_corresponding_lineno(traceback.tb_lineno), found[1]
            traceback = traceback.tb_next
        return source, line

    def _place(self, line: int, near: str | None = None, source: Traced | None = None) -> Place | None:
        """The place of a name, else of the first tag, in a line of a template."""
        source = self.source if source is None else source
        lines = str.split(source, "\n")
        line = min(max(line, 1), len(lines))
        text = lines[line - 1]
        found = re.search(rf"(?<!\w){re.escape(near)}(?!\w)" if near else r"\{[{%#]", text)
        column = found.start() if found else 0
        width = len(near) if found and near else 1
        offset = sum(len(before) + 1 for before in lines[: line - 1]) + column
        if offset >= len(source):
            offset = len(source) - 1
        if offset < 0:
            return None
        origin, at = source.at(offset)
        if origin is None:
            return None
        return Place(origin.path, *origin.position(at), excerpt=text if origin.verbatim else None, width=width)
