"""What lint finds in a text of a test."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

from kvtool.config.asked_run import RunOptions
from kvtool.lint.file_findings import Finder
from kvtool.lint.findings.template_findings import find_losses
from kvtool.lint.formats.jinja_prompts import jinja_template
from kvtool.lint.formats.text_placeholders import traced_template
from kvtool.lint.lint_inputs import InputKind, TextInput
from kvtool.lint.skeleton import Node
from kvtool.results.finding import Finding
from kvtool.text.tokens.tokenizer import Tokenizers
from kvtool.text.traced import Origin, Traced


def static_findings(
    path: str, text: str, prompts: Iterable[Iterable[Node]], count: Callable[[str], int], **limits: int
) -> list[Finding]:
    """The findings of the prompts of one file, by place; `limits` are those of `find_losses`."""
    return find_losses(path, text, prompts, count, **limits)


def made_findings(text: str, name: str = "made.py") -> list[Finding]:
    """What a whole run says of a file of code with this text: of Python, or of TypeScript by its name."""
    kind: InputKind = "python" if name.endswith(".py") else "typescript"
    return Finder(RunOptions(inputs=[name]), _tokenizers())(TextInput(name, text, kind))


@cache
def _tokenizers() -> Tokenizers:
    """Those of all tests of a process: a tokenizer is loaded once."""
    return Tokenizers(offline=True)


def text_template(path: str, text: str, style: str) -> list[Node]:
    """The nodes of a text that is a file of its own."""
    return traced_template(Traced.of(text, Origin(path, text=text)), style)


def jinja_file(path: str, text: str) -> list[Node]:
    """The nodes of a Jinja template that is a file of its own."""
    return jinja_template(Traced.of(text, Origin(path, text=text)))
