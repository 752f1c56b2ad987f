"""The Jinja environment of a template that is read and never rendered: nothing of it has to be paid for."""

from __future__ import annotations

from jinja2 import nodes
from jinja2.ext import loopcontrols

from kvtool.text.templates.code_generator import Generation, TemplateParser
from kvtool.text.templates.source_places import LocatedEnvironment
from kvtool.text.traced import Traced


class ParsedEnvironment(LocatedEnvironment):
    """The same syntax, and the same origins, as of a template that is rendered. `dollars`: its variables stand in `${…}`."""

    def __init__(self, source: Traced, *, chat: bool, dollars: bool = False) -> None:
        if chat:
            super().__init__(
                source, trim_blocks=True, lstrip_blocks=True, optimized=False, extensions=[Generation, loopcontrols]
            )
        elif dollars:
            super().__init__(
                source,
                keep_trailing_newline=True,
                optimized=False,
                variable_start_string="${",
                variable_end_string="}",
            )
        else:
            super().__init__(source, keep_trailing_newline=True, optimized=False)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        return TemplateParser(self, source, name, filename).parse()
