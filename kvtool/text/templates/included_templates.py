"""Templates that others include: found, compiled once, and paid for where only a rendering knows their names."""

from __future__ import annotations

from typing import Any

from jinja2 import Template, nodes
from jinja2.exceptions import TemplateNotFound, TemplateRuntimeError, TemplateSyntaxError

from kvtool.text.templates.application import Application
from kvtool.text.templates.code_generator import ParsedEnvironment
from kvtool.text.templates.work import Work
from kvtool.text.traced import Traced

_COMPILED_CHARACTER = 40
"""Steps of compiling a character of a template that is included by a name that only a rendering knows."""
_LONGEST_INCLUDED = 1 << 20
MAIN = "<template>"
"""The file name of a template's code; templates that it includes have numbers."""


class IncludingEnvironment(Work, ParsedEnvironment):
    """The environment of one template and of those that it includes, imports or extends."""

    def __init__(self, source: Traced, *, chat: bool, application: Application | None) -> None:
        super().__init__(source, chat=chat)
        self._application = application or Application()
        self._found: dict[tuple[str, str | None], tuple[str, Traced] | None] = {}
        self._included: dict[str, Template] = {}
        self.compiled: dict[str, tuple[Template, Traced]] = {}
        """By the file name of its code: each template with its source."""
        self.failed = source
        """The source in which a syntax error is."""
        self.static: set[str] = set()
        """Included templates whose names the code of the template says."""

    def compile_source(self, source: Traced, tree: nodes.Template, name: str | None, filename: str) -> Template:
        """Compile a parsed template; call it inside `reading` of its source."""
        code = self.compile(tree, name=name, filename=filename)
        template = Template.from_code(self, code, self.make_globals(None))
        self.compiled[filename] = template, source
        return template

    def find_source(self, name: str, includer: str | None) -> tuple[str, Traced] | None:
        """Return the path and the source of a template that another one includes; None where there is none."""
        if (name, includer) not in self._found:
            found = self._application.find(name, includer) if self._application.find is not None else None
            if found is not None and len(found.source) > _LONGEST_INCLUDED:
                raise TemplateRuntimeError(f"`{name}` is larger than {_LONGEST_INCLUDED >> 20} MiB")
            self._found[name, includer] = None if found is None else (found.name, unified_lines(found.source))
        return self._found[name, includer]

    def join_path(self, template: str, parent: str) -> str:
        return f"{template}\0{parent}"  # `_load_template` knows both then

    def _load_template(self, name: Any, globals: Any = None) -> Template:  # noqa: A002 - Jinja's name
        del globals
        wanted, _, includer = str(name).partition("\0")
        found = self.find_source(wanted, includer or None)
        if found is None:
            raise TemplateNotFound(wanted)
        path, source = found
        if path not in self.static:
            self.spend(_COMPILED_CHARACTER * len(source))
        if path not in self._included:
            filename = f"{MAIN[:-1]} {len(self._included) + 1}>"
            with self.reading(source):
                try:
                    self._included[path] = self.compile_source(source, self.parse(source), path, filename)
                except TemplateSyntaxError:
                    self.failed = source
                    raise
        return self._included[path]


def unified_lines(source: Traced) -> Traced:
    """Return the source with the line breaks that Jinja counts."""
    return source.replace("\r\n", "\n").replace("\r", "\n")
