"""What `kvtool lint` is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kvtool.results.choices import Severity
from kvtool.results.show_text import ShowText
from kvtool.text.terminal.console import ColorChoice
from kvtool.workload.yaml.schema import EngineOptions


@dataclass(frozen=True, slots=True)
class LintArguments:
    """The command line of `kvtool lint`; None is "not given"."""

    inputs: Sequence[str]
    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    error_on: Severity | None = None
    fix: bool = False
    unsafe_fixes: bool = False
    diff: bool = False
    undo: str | None = None
    probe: str | None = None
    probe_timeout: float = 30.0
    tokenizer: str | None = None
    chat_template: str | None = None
    block_size: int | None = None
    capacity: str | None = None
    on_bad_line: Literal["error", "skip"] = "error"
    log_format: str | None = None
    requests: int | None = None
    groups: Sequence[str] = ()
    seed: int | None = None
    config: str | None = None
    no_config: bool = False
    defaults: EngineOptions | None = None
    """What the configuration file says of the engine; a workload file goes before it."""
    default_seed: int | None = None
    show_text: ShowText | None = None
    outputs: Sequence[str] = ()
    json: bool = False
    offline: bool = False
    quiet: bool = False
    color: ColorChoice = "auto"
    plain: bool = False
    width: int | None = None
    command_line: Sequence[str] = ()
