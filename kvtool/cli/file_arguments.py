"""File names that begin like options: hooks and patterns of the shell put them where options may stand."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kvtool.errors import KvtoolError
from kvtool.text.terminal.streams import STDIN

_ONLY_INPUTS = "--"
"""What comes behind it is no option."""


def check_file_names(arguments: Sequence[str]) -> None:
    """KvtoolError for an option that is a file in the working folder, too: who named the file does not say what kvtool does."""
    for argument in arguments:
        if argument == _ONLY_INPUTS:
            return
        if argument.startswith("-") and argument != STDIN and os.path.lexists(argument):
            raise KvtoolError(
                f"`{argument}` is an option and the name of a file that is here",
                hint="write ./ before the file, or -- before all inputs; for the option, rename the file",
            )
