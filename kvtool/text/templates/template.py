"""Jinja templates whose output knows where each character was written: template text, variable, or traced value."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from types import TracebackType

from jinja2 import Template, meta, nodes
from jinja2.exceptions import TemplateError, TemplateSyntaxError, UndefinedError

from kvtool.errors import KvtoolError, Place
from kvtool.text.templates.content_format import reads_parts
from kvtool.text.templates.environment import TracedEnvironment
from kvtool.text.templates.work import MAX_WORK
from kvtool.text.traced import Origin, Traced

__all__ = ["TracedEnvironment", "TracedTemplate", "compile_template"]

_UNDEFINED = re.compile(r"'(\w+)' is undefined")
_NO_ATTRIBUTE = re.compile(r".* has no attribute '(\w+)'")
_LONGEST_MESSAGE = 1_000
_HAS_SYNTAX = re.compile(r"\{[{%#]")


def compile_template(
    source: Traced | str,
    *,
    chat: bool,
    origin: Origin | None = None,
    clock: Callable[[], datetime] | None = None,
) -> TracedTemplate:
    """A template from its source, which says itself where it stands (Traced) or else stands at `origin`.

    `chat` gives the environment in which Hugging Face renders chat templates, with `clock` behind its `strftime_now`; otherwise
    undefined variables are errors and line breaks at the end are kept. Raises KvtoolError, with the place, on bad syntax.
    """
    if not isinstance(source, Traced):
        source = Traced.of(source, replace(origin or Origin("<template>"), text=source))
    return TracedTemplate(source, chat=chat, clock=clock)


def _shortened(message: str) -> str:
    """What Jinja says may quote the template."""
    return message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]} …"


def _undeclared(tree: nodes.Template, environment: TracedEnvironment) -> frozenset[str]:
    """The names that a template takes from outside: `meta.find_undeclared_variables`, which would compute what is constant."""
    names = meta.TrackingCodeGenerator(environment)
    names.optimizer = None
    names.visit(tree)
    return frozenset(names.undeclared_identifiers)


class TracedTemplate:
    """A compiled template; `variables` are the names it needs."""

    def __init__(self, source: Traced, *, chat: bool, clock: Callable[[], datetime] | None = None) -> None:
        self.source = source
        self.variables: frozenset[str] = frozenset()
        self.reads_parts = False
        """Of a chat template: whether the content of a message is a list of parts for it."""
        self._template: Template | None = None
        if not chat and not _HAS_SYNTAX.search(source):
            return
        source = source.replace("\r\n", "\n").replace("\r", "\n")
        self.source = source
        self._environment = TracedEnvironment(source, chat=chat, clock=clock)
        try:
            tree = self._environment.parse(source)
            self.variables = _undeclared(tree, self._environment) - set(self._environment.globals)
            self.reads_parts = chat and reads_parts(tree)
            code = self._environment.compile(tree, filename="<template>")
            self._template = Template.from_code(self._environment, code, self._environment.make_globals(None))
        except TemplateSyntaxError as error:
            raise KvtoolError(f"template: {_shortened(str(error.message))}", place=self._place(error.lineno)) from error
        except TemplateError as error:
            raise KvtoolError(f"template: {error}", place=self._place(1)) from error
        except (RecursionError, SyntaxError, MemoryError, ValueError, OverflowError) as error:
            place = self._place(self._environment.line_of_most_code)
            raise KvtoolError("template: nested too deeply or too large to compile", place=place) from error

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
        line = self._line(error.__traceback__)
        message = message.replace("kvtool.text.traced.Traced object", "str object").replace(
            "'Traced' object", "'str' object"
        )
        return KvtoolError(f"template: {_shortened(message)}", hint=hint, place=self._place(line, near))

    def _line(self, traceback: TracebackType | None) -> int:
        """The line of the template that was running."""
        line = 1
        while traceback is not None:
            if self._template and traceback.tb_frame.f_code.co_filename == "<template>":
                line = self._template.get_corresponding_lineno(traceback.tb_lineno)
            traceback = traceback.tb_next
        return line

    def _place(self, line: int, near: str | None = None) -> Place | None:
        """The place of a name, else of the first tag, in a line of the template."""
        lines = str.split(self.source, "\n")
        line = min(max(line, 1), len(lines))
        text = lines[line - 1]
        found = re.search(rf"\b{re.escape(near)}\b" if near else r"\{[{%#]", text)
        column = found.start() if found else 0
        width = len(near) if found and near else 1
        offset = sum(len(before) + 1 for before in lines[: line - 1]) + column
        if offset >= len(self.source):
            offset = len(self.source) - 1
        if offset < 0:
            return None
        origin, at = self.source.at(offset)
        if origin is None:
            return None
        return Place(origin.path, *origin.position(at), excerpt=text if origin.verbatim else None, width=width)
