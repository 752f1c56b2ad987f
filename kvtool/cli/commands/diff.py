"""The command `kvtool diff-prompts`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from kvtool.cli.command import Command
from kvtool.config.command_line import CommandLine
from kvtool.config.option import Argument, Option, only
from kvtool.config.options.run_options import Caching, Reading, Rendering, Serving
from kvtool.config.options.shown_options import Configured, Quoting, Showing
from kvtool.engine.config import EngineConfig
from kvtool.errors import KvtoolError
from kvtool.text.terminal.streams import check_piped

if TYPE_CHECKING:
    from rich.console import Console

    from kvtool.diff.side_inputs import InputSide
    from kvtool.diff.sides import Rendered
    from kvtool.results.document_base import Document
    from kvtool.results.show_text import ShowText
    from kvtool.text.tokens.tokenizer import Tokenizer
    from kvtool.workload.render import Renderer

_MOST_TABLES = 3
"""Branch points of many prompts whose tokens are listed."""


@dataclass(frozen=True, kw_only=True)
class DiffCommand(Command):
    """Find the first difference of prompts, the blocks that it loses, and what a change would gain.

    It compares two prompts line by line. For more prompts it shows the blocks that each pair shares, and a tree of their
    common beginnings.
    """

    prompts: Annotated[
        tuple[str, ...],
        Argument("Prompts, chat bodies (.json), records (log.jsonl:12), folders or -", "PROMPT"),
    ]
    rendering: Rendering
    reading: Annotated[Reading, only("log_format", "allow_outside")]
    serving: Annotated[Serving, only("block_size")]
    caching: Annotated[Caching, only("provider")]
    tokens: Annotated[bool, Option("Show the token ids around the difference.")] = False
    exit_code: Annotated[bool, Option("Exit 1 if the prompts differ.")] = False
    quoting: Quoting
    configured: Configured
    showing: Annotated[Showing, only("json", "offline", "color", "plain", "width", "command_line")]

    def run(self) -> int:
        """Compare two or more prompts (`read_sides` says what a name may be) and print the result.

        0, or with `exit_code` 1 where the prompts differ. Raises KvtoolError for input that cannot be read.
        """
        from kvtool.config.loading import read_config

        check_piped("diff-prompts", self.prompts)
        file = read_config(self.configured, allow_outside=self.reading.allow_outside)
        tokenizer, chat_template = self.rendering.tokenizer, self.rendering.chat_template
        block_size = self.serving.block_size
        if file is not None:
            said = [name for name, value in vars(self.rendering).items() if value is not None]
            engine = file.engine_without(said)
            tokenizer = tokenizer or engine.tokenizer
            chat_template = chat_template or engine.chat_template
            block_size = engine.block_size if block_size is None else block_size
        by_provider = block_size is None and chat_template is None
        if block_size is not None and block_size < 1:
            raise KvtoolError(
                f"block size {block_size} is not positive", hint=f"vLLM's default is {EngineConfig.block_size}"
            )
        from kvtool.diff.side_inputs import expanded, read_sides

        prompts = expanded(self.prompts, log_format=self.reading.log_format)
        if len(prompts) < 2:
            raise KvtoolError("diff-prompts needs two prompts", hint=_second(prompts))
        from kvtool.text.templates.chat import ChatTemplate

        sides = read_sides(prompts, log_format=self.reading.log_format)

        from kvtool.diff.sides import Rendered
        from kvtool.text.tokens.tokenizer import load_tokenizer
        from kvtool.workload.render import Renderer

        if self.caching.provider is not None:
            from kvtool.accounting.caches.providers import find_provider

            find_provider(self.caching.provider)  # one that is not known is an error
            by_provider = chat_template is None
        else:
            by_provider = by_provider and _are_hosted(sides, tokenizer)
        renderer = Renderer(
            lambda: load_tokenizer(tokenizer, offline=self.showing.offline),
            lambda loaded: ChatTemplate.hosted(loaded) if by_provider else ChatTemplate.load(chat_template, loaded),
        )
        if chat_template is not None:
            _ = renderer.chat_template  # a file that is named must be there, whether a side needs it or not
        if by_provider:
            block_size = 1  # a provider's rules have no blocks of a server
        elif block_size is None:
            block_size = _block_of_server(sides) or EngineConfig.block_size
        rendered = [Rendered.of(side, renderer) for side in sides]
        minimum, step = _steps(sides[1], self.caching.provider) if by_provider else (0, 1)
        show = partial(_two, minimum=minimum, step=step) if len(rendered) == 2 else _many
        command = CommandLine(self.showing.command_line or ("diff-prompts", *prompts))
        document, shown = show(
            rendered, renderer, block_size, command if not self.tokens else None, self.quoting.printed
        )
        if self.showing.json:
            sys.stdout.write(document().to_json())
        else:
            shown(self.showing.console())
        return int(self.exit_code and not all(_same(rendered[0], other) for other in rendered[1:]))


def _are_hosted(sides: Sequence[InputSide], tokenizer: str | None) -> bool:
    """Return whether a provider serves these requests, which then reads them in its own order: tools, system, messages.

    It is decided as `kvtool profile` decides it, by the beginning of the logs.
    """
    if all(side.turn.messages is None for side in sides):
        return False
    from kvtool.accounting.logged_models import LoggedModels
    from kvtool.diff.side_inputs import first_turns
    from kvtool.profiler.reported.hosted_log import LOOKED_AT, are_hosted

    turns = first_turns((side.path for side in sides), LOOKED_AT)
    return are_hosted(turns or [side.turn for side in sides], LoggedModels(tokenizer))


def _block_of_server(sides: Sequence[InputSide]) -> int | None:
    """Return the size of blocks that the reads at the front of the logs have in common; None where too few say."""
    if not any(side.turn.call.usage is not None for side in sides):
        return None
    from kvtool.accounting.misses.read_steps import step_of_reads
    from kvtool.diff.side_inputs import first_turns
    from kvtool.profiler.reported.server_reads import MOST_LOOKED_AT

    turns = first_turns((side.path for side in sides), MOST_LOOKED_AT)
    usages = [each.call.usage for each in (*turns, *(side.turn for side in sides))]
    return step_of_reads(usage.cached or 0 for usage in usages if usage is not None)


def _steps(side: InputSide, provider: str | None) -> tuple[int, int]:
    """Return the tokens from which the provider of a request caches, and its steps; 0 and 1 where that is unknown."""
    from kvtool.accounting.caches.dated_rules import rule_of
    from kvtool.accounting.caches.providers import find_provider

    if provider is not None:
        known = find_provider(provider)
        return known.minimum, known.step
    rule = rule_of(side.turn)
    return (0, 1) if rule is None else (rule.rules.minimum, rule.rules.step)


Show = tuple["Callable[[], Document]", "Callable[[Console], None]"]


def _two(
    sides: list[Rendered],
    renderer: Renderer,
    block_size: int,
    command: CommandLine | None,
    show_text: ShowText,
    *,
    minimum: int,
    step: int,
) -> Show:
    """`command` is the one to propose from; None asks for tokens instead. The provider caches from `minimum` tokens, in steps."""
    from kvtool.diff.sides import diff_sides
    from kvtool.results.documents.diff import ReportedRead

    a, b = sides
    diff = diff_sides(a, b, renderer, block_size)
    if minimum:
        diff = diff.in_steps(minimum, step)
    usage = b.side.turn.call.usage
    reported = None
    if usage is not None and usage.prompt is not None and usage.cached is not None:
        reported = ReportedRead(tokens=usage.cached, prompt_tokens=usage.prompt)

    def document() -> Document:
        ids = _ids(sides, command is None, ("a", "b"))
        return diff.document().model_copy(update={**ids, "minimum_tokens": minimum, "reported": reported})

    def shown(console: Console) -> None:
        from kvtool.report.terminal.prompt_diffs.diff import print_diff, print_tokens

        print_diff(console, diff, command, show_text, minimum=minimum, step=step, reported=reported)
        if command is None and diff.first is not None:
            print_tokens(console, diff.common, a.prompt.ids, b.prompt.ids, _token_text(renderer, show_text))

    return document, shown


def _many(
    sides: list[Rendered], renderer: Renderer, block_size: int, command: CommandLine | None, show_text: ShowText
) -> Show:
    from kvtool.diff.matrix import diff_many
    from kvtool.report.terminal.prompt_diffs.diff_matrix import letters

    diff = diff_many(sides, renderer, block_size)

    def document() -> Document:
        return diff.model_copy(update=_ids(sides, command is None, tuple(map(letters, range(len(sides))))))

    def shown(console: Console) -> None:
        from kvtool.report.terminal.prompt_diffs.diff import print_tokens
        from kvtool.report.terminal.prompt_diffs.diff_matrix import print_many

        print_many(console, diff, command)
        if command is None:
            points = [(branch.tokens, branch.between) for branch in diff.trie if branch.between is not None]
            for common, (i, j) in points[:_MOST_TABLES]:
                ids = sides[i].prompt.ids, sides[j].prompt.ids
                print_tokens(console, common, *ids, _token_text(renderer, show_text), (letters(i), letters(j)))

    return document, shown


def _ids(sides: list[Rendered], wanted: bool, names: tuple[str, ...]) -> dict[str, dict[str, list[int]]]:
    """Return a document without the parts that were not asked for."""
    if not wanted:
        return {}
    return {"tokens": {name: side.prompt.ids.tolist() for name, side in zip(names, sides, strict=True)}}


def _same(a: Rendered, b: Rendered) -> bool:
    if a.prompt.text is None or b.prompt.text is None:
        return bool(a.prompt.ids.tolist() == b.prompt.ids.tolist())
    return a.prompt.text == b.prompt.text


def _second(names: Sequence[str]) -> str:
    from kvtool.diff.side_inputs import RECORD_SUFFIXES
    from kvtool.text.files.compressed import uncompressed

    path, at, record = names[0].rpartition(":") if names else ("", "", "")
    log = path if at and record.isdecimal() else names[0] if names else ""
    is_log = Path(log).is_file() and uncompressed(log).endswith(RECORD_SUFFIXES)  # `HEAD` and a prompt are no logs
    log = log if is_log else "log.jsonl"
    records = shlex.join(["kvtool", "diff-prompts", f"{log}:1", f"{log}:2"])
    return f"pass two files, or two records of a log: {records}; kvtool diff-prompts --help"


def _token_text(renderer: Renderer, show_text: ShowText) -> Callable[[int], str] | None:
    return None if show_text == "none" else lambda token: token_bytes_shown(renderer.tokenizer, token)


def token_bytes_shown(tokenizer: Tokenizer, token: int) -> str:
    """Return the text of one token; bytes of a character that several tokens share as escapes, special tokens by name."""
    text = tokenizer.decode([token])
    piece = tokenizer.token_text(token)
    if text and "\ufffd" not in text:
        return text
    codes = [_BYTE_LEVEL[char] for char in piece if char in _BYTE_LEVEL]
    if len(codes) < len(piece):
        return piece
    return "".join(chr(code) if 0x20 <= code < 0x7F else f"\\x{code:02x}" for code in codes)


def _byte_level() -> dict[str, int]:
    """Return the alphabet in which byte-level vocabularies write bytes: printable Latin-1 as itself, the others from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [code for code in range(0x100) if code not in printable]
    return {chr(code): code for code in printable} | {chr(0x100 + at): code for at, code in enumerate(others)}


_BYTE_LEVEL = _byte_level()
