"""The command that edits prompts, under the options of the command that proposes it."""

from __future__ import annotations

from collections.abc import Sequence

from kvtool.cli.listed import options_of
from kvtool.config.command_line import flags, values_given
from kvtool.results.choices import SIZES


def edit_command(options: object, inputs: Sequence[str], capacity: object, /, **instead: object) -> list[str]:
    """Return `optimize` with the options that decide what prompts hit. `capacity`, in usable blocks, replaces a given size."""
    if any(getattr(options.serving, name, None) is not None for name in SIZES):  # type: ignore[attr-defined]  # each command with sizes
        instead["capacity"] = capacity
    return ["optimize", *inputs, *flags(**values_given(options, options_of("optimize"), **instead))]
