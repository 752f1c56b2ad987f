"""The help and the version of `kvtool` itself, without what parses command lines: that takes longer than all of it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from textwrap import TextWrapper

from kvtool.cli.listed import COMMANDS, DEBUG, EPILOG, SHOW_TRACEBACK, SHOW_VERSION, SUMMARY, WIDEST
from kvtool.version import __version__

_OPTIONS = (
    ("-V, --version", SHOW_VERSION),
    (DEBUG, SHOW_TRACEBACK),
    ("--install-completion", "Install completion for the current shell."),
    ("--show-completion", "Show completion for the current shell, to copy it or customize the installation."),
    ("-h, --help", "Show this message and exit."),
)
_NARROWEST = 50
_MARGIN = 2


def told_at_once(argument: str = "--help") -> bool:
    """Print the help or the version where the only argument asks for it, or there is none; False for another argument."""
    if argument in ("-V", "--version"):
        print(f"kvtool {__version__}")
    elif argument in ("-h", "--help"):
        print(root_help(shutil.get_terminal_size().columns))
    else:
        return False
    return True


def root_help(columns: int) -> str:
    """What typer makes of the same texts, without its imports."""
    width = max(min(columns, WIDEST) - _MARGIN, _NARROWEST)
    paragraphs = [
        "Usage: kvtool [OPTIONS] COMMAND [ARGS]...",
        _indented(SUMMARY, width),
        "Options:\n" + _table(_OPTIONS, width),
        "Commands:\n" + _table([(listed.name, listed.short) for listed in COMMANDS], width),
        *(_indented(text, width) for text in EPILOG),
    ]
    return "\n\n".join(paragraphs)


def _indented(text: str, width: int) -> str:
    return TextWrapper(width, initial_indent="  ", subsequent_indent="  ").fill(text)


def _table(rows: Sequence[tuple[str, str]], width: int) -> str:
    first = max(len(name) for name, _ in rows) + _MARGIN
    wrapper = TextWrapper(width - first - _MARGIN)
    indent = "\n" + " " * (first + _MARGIN)
    return "\n".join(f"  {name:<{first}}{indent.join(wrapper.wrap(text))}" for name, text in rows)
