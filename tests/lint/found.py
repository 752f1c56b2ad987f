"""What lint finds in a text of a test."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kvtool.config.asked_run import RunOptions
from kvtool.lint.finder import Finder
from kvtool.lint.skeleton import Node
from kvtool.lint.sources import TextInput
from kvtool.lint.static import found_losses
from kvtool.results.finding import Finding
from kvtool.text.tokens.tokenizer import Tokenizers


def static_findings(
    path: str,
    text: str,
    prompts: Iterable[Iterable[Node]],
    count: Callable[[str], int],
    *,
    block_size: int,
    least: int,
    used: int = 0,
    named: int = 0,
) -> list[Finding]:
    """The findings of the prompts of one file, by place (`found_losses`)."""
    found = found_losses(path, text, prompts, count, block_size=block_size, least=least, used=used, named=named)
    return [one.finding for one in found]


def made_findings(text: str) -> list[Finding]:
    """What a whole run says of a Python file `made.py` with this text."""
    finder = Finder(RunOptions(inputs=["made.py"]), Tokenizers(offline=True))
    return finder(TextInput("made.py", text, "python"))
