"""What `kvtool bench --server` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.config.command_line import flags
from kvtool.report.terminal.next_command import shell_lines
from kvtool.results.documents.bench import Misses
from kvtool.results.documents.server_bench import ServerBench, TimedPrompt
from kvtool.text.terminal.console import ascii_only, fold, pack, put, sanitize
from kvtool.text.terminal.numbers import duration, percent
from kvtool.text.terminal.table import Column, put_table

if TYPE_CHECKING:
    from rich.console import Console

_EXAMPLE = "workloads/support-bot.yaml"


def print_server_bench(console: Console, bench: ServerBench, output: str | None) -> None:
    """Seconds by length and hits, the line that was fitted and its error; what to do with the file."""
    plain = ascii_only(console)
    head = [
        f"kvtool bench --server {sanitize(bench.source, ascii_only=plain)}",
        sanitize(bench.model, ascii_only=plain),
        f"{bench.requests:,} prompts, {bench.tokens:,} tokens",
    ]
    for line in pack(head, console.width, separator=" | " if plain else " · ", indent=2):
        put(console, line, "bold")
    put(console)
    columns = [Column("prompt"), Column("cached"), Column("quartile"), Column("slowest"), Column("fitted")]
    put_table(console, columns, [_row(point) for point in bench.points])
    put(console)
    fitted = bench.fitted
    for text in (
        (
            f"seconds = {fitted.a_s:.3g} + {fitted.b_s_per_token:.3g} a computed token"
            f" + {fitted.c_s_per_token_pair:.3g} for each token that one attends to"
        ),
        f"each held out in turn  {_missed(bench.held_out)}; in the fit {_missed(bench.fit)}",
        *(
            [f"latency model  {_missed(bench.calibration_held_out)} on those held out"]
            if bench.calibration_held_out is not None
            else []
        ),
    ):
        for line in fold(f"  {text}", console.width, indent=4):
            put(console, line)
    put(console)
    put(console, "Next:", "dim")
    command = ["bench", *flags(server=bench.source), "-o", "server.json"]
    if output is not None:
        command = ["profile", _EXAMPLE, *flags(server=bench.source, calibration=output)]
    for line in shell_lines(["kvtool", *command], console.width, plain):
        put(console, line, "dim")


def _row(point: TimedPrompt) -> list[str]:
    times = (point.seconds, point.slowest_s, point.fitted_s)
    return [f"{point.prompt_tokens:,}", f"{point.cached_tokens:,}", *map(duration, times)]


def _missed(misses: Misses) -> str:
    return f"off by {percent(misses.median)} in the median, {percent(misses.worst)} at most"
