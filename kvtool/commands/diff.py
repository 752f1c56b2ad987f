"""The command `kvtool diff-prompts`."""

from __future__ import annotations

import codecs
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kvtool.errors import KvtoolError
from kvtool.report.console import ColorChoice, make_console
from kvtool.text import Origin, Traced

if TYPE_CHECKING:
    from kvtool.prompt import Prompt
    from kvtool.tokenize import Tokenizer

STDIN = "-"


def run_diff(
    a: str,
    b: str,
    *,
    tokenizer: str | None = None,
    block_size: int = 16,
    json: bool = False,
    tokens: bool = False,
    exit_code: bool = False,
    offline: bool = False,
    color: ColorChoice = "auto",
    width: int | None = None,
) -> int:
    """Compare two prompt files (`-` is standard input) and print the result on stdout; returns the exit code.

    0, or with `exit_code` 1 where the texts differ. Raises KvtoolError for input that cannot be read.
    """
    if block_size < 1:
        raise KvtoolError(f"block size {block_size} is not positive", hint="vLLM's default is 16")
    if a == STDIN and b == STDIN:
        raise KvtoolError("only one of the two prompts can be standard input")
    text_a, text_b = read_prompt(a), read_prompt(b)

    from kvtool.diff import diff_prompts
    from kvtool.tokenize import load_tokenizer

    loaded = load_tokenizer(tokenizer, offline=offline)

    def encode(text: str) -> Prompt:
        return loaded.encode(text, add_special_tokens=True)

    prompt_a, prompt_b = encode(text_a), encode(text_b)
    diff = diff_prompts(
        prompt_a,
        prompt_b,
        block_size,
        encode=encode,
        newline=loaded.newline_mask,
        names=(a, b),
        tokenizer=loaded.name,
    )
    if json:
        from json import dumps

        document = diff.to_json()
        if tokens:
            document["tokens"] = {"a": prompt_a.ids.tolist(), "b": prompt_b.ids.tolist()}
        sys.stdout.write(dumps(document, indent=2, sort_keys=True) + "\n")
    else:
        from kvtool.report.diff import print_diff, print_tokens

        console = make_console(color=color, width=width)
        print_diff(console, diff, next_command=not tokens)
        if tokens and diff.first is not None:
            print_tokens(console, diff, prompt_a.ids, prompt_b.ids, lambda token: token_bytes_shown(loaded, token))
    return int(exit_code and text_a != text_b)


def token_bytes_shown(tokenizer: Tokenizer, token: int) -> str:
    """The text of one token; bytes of a character that several tokens share as escapes, special tokens by name."""
    text = tokenizer.decode([token])
    piece = tokenizer.token_text(token)
    if text and "\ufffd" not in text:
        return text
    codes = [_BYTE_LEVEL.get(char) for char in piece]
    if None in codes:
        return piece
    return "".join(chr(code) if code is not None and 0x20 <= code < 0x7F else f"\\x{code:02x}" for code in codes)


def _byte_level() -> dict[str, int]:
    """The alphabet in which byte-level vocabularies write bytes: printable Latin-1 as itself, the others from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [code for code in range(0x100) if code not in printable]
    return {chr(code): code for code in printable} | {chr(0x100 + at): code for at, code in enumerate(others)}


_BYTE_LEVEL = _byte_level()


def read_prompt(path: str) -> Traced:
    """The text of a prompt file as it is, a byte order mark included: for a cache it is a difference."""
    from kvtool.workload.text_files import decode, read_text

    source = Path(path)
    if path == STDIN:
        data = sys.stdin.buffer.read()
        text, start = decode(data, shown="standard input"), data
    elif source.is_fifo():  # the shell's <(command)
        data = source.read_bytes()
        text, start = decode(data, shown=path), data
    else:
        text = read_text(source, shown=path)
        with source.open("rb") as file:
            start = file.read(len(codecs.BOM_UTF8))
    if start.startswith(codecs.BOM_UTF8):
        text = "\ufeff" + text
    return Traced.of(text, Origin(path, text=text))
