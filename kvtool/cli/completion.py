"""Shell completion: typer's protocol, and the values that options with names of ours may have."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

VARIABLE = "_KVTOOL_COMPLETE"
"""Set by the shell's completion script; says which shell asks."""

_MENU = 60
"""Columns that a menu of a shell shows of a help."""


@dataclass(frozen=True, slots=True)
class _Item:
    """A value that fits, as typer's formatters read it."""

    value: str
    help: str | None = None
    type: str = "plain"


Values = Callable[[], Sequence[tuple[str, str]]]
"""Values, each with what it is."""


def asked() -> bool:
    """Return whether a shell wants to complete a command line, instead of running it."""
    return bool(os.environ.get(VARIABLE))


def complete(command: Any) -> int:
    """Answer the shell for the command line in its variables; returns the exit code."""
    for subcommand in getattr(command, "commands", {}).values():
        for option in subcommand.params:
            if (values := _VALUES.get((subcommand.name, option.name)) or _VALUES.get(option.name)) is not None:
                setattr(option, "shell_complete", _completer(values))  # noqa: B010 - a method, replaced in this one object
            if getattr(option, "help", None):
                option.help = _brief(option.help)
    try:
        command.main(args=[], prog_name="kvtool", complete_var=VARIABLE)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    return 0


def _brief(text: str) -> str:
    """Return the help of an option without its default, which typer would take for markup, and on one line of a menu."""
    text = text.partition(" [")[0]
    if len(text) > _MENU:
        text = text[:_MENU].rpartition(" ")[0] + "..."
    return text.replace("[", "\\[")


def _completer(values: Values) -> Callable[[Any, Any, str], list[Any]]:
    def items(_context: Any, *rest: Any) -> list[Any]:
        incomplete = str(rest[-1]) if rest else ""
        *before, last = incomplete.split(",")  # CODES may be several
        prefix = "".join(f"{word}," for word in before)
        wanted = last.lower()
        return [_Item(prefix + value, what) for value, what in values() if value.lower().startswith(wanted)]

    return items


def _models() -> list[tuple[str, str]]:
    from kvtool.engine.model.configs.find_served import preset_sources

    return list(preset_sources().items())


def _accelerators() -> list[tuple[str, str]]:
    from kvtool.engine.prediction.latency import ACCELERATORS

    return [(name, f"{accelerator.memory >> 30} GiB") for name, accelerator in ACCELERATORS.items()]


def _kv_dtypes() -> list[tuple[str, str]]:
    from kvtool.engine.kv_dtype import KV_CACHE_DTYPES

    return [(name, "") for name in KV_CACHE_DTYPES]


def _dtypes() -> list[tuple[str, str]]:
    from kvtool.measure.measure_options import MODEL_DTYPES

    return [(name, "") for name in MODEL_DTYPES]


def _devices() -> list[tuple[str, str]]:
    return [("auto", "CUDA where there is one"), ("cpu", ""), ("cuda", "")]


def _codes() -> list[tuple[str, str]]:
    from kvtool.diagnose.codes import entries

    return [(entry.code, entry.name) for entry in entries()]


def _providers() -> list[tuple[str, str]]:
    from kvtool.accounting.caches.providers import PROVIDERS

    return [(provider.name, "") for provider in PROVIDERS]


def _log_formats() -> list[tuple[str, str]]:
    from kvtool.workload.logs.files.plain_text_files import TEXT_FORMAT
    from kvtool.workload.logs.formats.known_formats import record_formats

    return [*((each.name, each.shape) for each in record_formats()), (TEXT_FORMAT, "a file is a prompt")]


def _formats() -> list[tuple[str, str]]:
    from kvtool.report.registry import FORMATS

    return [(each.name, each.what) for each in FORMATS.values()]


def _tiers() -> list[tuple[str, str]]:
    return [("P2", "text is moved"), ("P3", "text is changed")]


_VALUES: dict[str | tuple[str, str], Values] = {
    "model": _models,
    "accelerator": _accelerators,
    "accelerators": _accelerators,
    "kv_cache_dtype": _kv_dtypes,
    "dtype": _dtypes,
    "device": _devices,
    "provider": _providers,
    "log_format": _log_formats,
    "select": _codes,
    "ignore": _codes,
    "allow": _tiers,
    ("check", "error_on"): _codes,
    ("explain", "code"): _codes,
    ("profile", "outputs"): _formats,
    ("lint", "outputs"): _formats,
    ("check", "outputs"): _formats,
    ("report", "outputs"): _formats,
}
"""Completion of options by their names, or those of one command."""
