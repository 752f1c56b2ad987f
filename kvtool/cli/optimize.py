"""The command `kvtool optimize`."""

from __future__ import annotations

from typing import Annotated

import typer

from kvtool.cli.env_variables import named_variables
from kvtool.cli.options import (
    BadLine,
    BlockSize,
    Capacity,
    ChatTemplateFile,
    Color,
    Concurrency,
    ConfigFileName,
    Groups,
    Json,
    LogFormat,
    NoConfig,
    Offline,
    Plain,
    Quiet,
    Requests,
    Seed,
    TokenizerName,
    Width,
)
from kvtool.text.terminal.streams import check_piped


def optimize(
    context: typer.Context,
    inputs: Annotated[
        list[str], typer.Argument(metavar="INPUT", help="workload.yaml; or logs, which are told of, not edited.")
    ],
    allow: Annotated[
        str | None,
        typer.Option("--allow", metavar="TIERS", help="Also P2 (text moved) and P3 (text changed), such as P2,P3."),
    ] = None,
    unsafe_fixes: Annotated[bool, typer.Option("--unsafe-fixes", help="The same as --allow P2,P3.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Write the edited files, and a patch that undoes it.")] = False,
    diff: Annotated[bool, typer.Option("--diff/--no-diff", help="Show the edits.")] = True,
    undo: Annotated[
        str | None, typer.Option("--undo", metavar="FILE", help="The patch. [default: INPUT.undo.patch]")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="The log (JSON lines) in the order that wins with --capacity."
        ),
    ] = None,
    breakpoints: Annotated[
        int | None,
        typer.Option("--breakpoints", metavar="N", help="Compute where to set 1 to 4 cache_control breakpoints."),
    ] = None,
    tokenizer: TokenizerName = None,
    chat_template: ChatTemplateFile = None,
    block_size: BlockSize = None,
    capacity: Capacity = None,
    concurrency: Concurrency = None,
    on_bad_line: BadLine = "error",
    log_format: LogFormat = None,
    requests: Requests = None,
    group: Groups = None,
    seed: Seed = None,
    config: ConfigFileName = None,
    no_config: NoConfig = False,
    json: Json = False,
    offline: Offline = False,
    quiet: Quiet = False,
    color: Color = "auto",
    plain: Plain = False,
    width: Width = None,
) -> int:
    """Rewrite prompts so that they share more, prove it by running them again, and write only where told.

    Every fix carries a proof tier: P0 leaves the token ids alone, P1 changes the form and not the content, P2 moves text, P3
    changes it. P0 and P1 are tried by default; the others need consent.
    """
    check_piped("optimize", inputs)
    from kvtool.cli.run_optimize import OptimizeArguments, run_optimize
    from kvtool.config.apply_config import configured
    from kvtool.config.arguments import ProfileArguments

    run = ProfileArguments(
        inputs=inputs,
        tokenizer=tokenizer,
        chat_template=chat_template,
        block_size=block_size,
        capacity=capacity,
        concurrency=concurrency,
        on_bad_line=on_bad_line,
        log_format=log_format,
        requests=requests,
        groups=tuple(group or ()),
        seed=seed,
        measure_budget=0.0,
        json=json,
        offline=offline,
        quiet=quiet,
        color=color,
        plain=plain,
        width=width,
        config=config,
        no_config=no_config,
        command_line=context.obj or (),
    )
    with named_variables(context):
        run = configured(run)
        return run_optimize(OptimizeArguments(run, allow, unsafe_fixes, write, diff, undo, output, breakpoints))
