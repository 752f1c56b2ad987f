"""The commands that tell without measuring: `lint` and `explain`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from kvtool.cli.env_variables import named_variables
from kvtool.cli.options import (
    BadLine,
    BlockSize,
    Capacity,
    ChatTemplateFile,
    Color,
    ConfigFileName,
    Groups,
    Json,
    LogFormat,
    NoConfig,
    Offline,
    Output,
    Plain,
    Quiet,
    Requests,
    Seed,
    ShowTextOption,
    TokenizerName,
    Width,
)
from kvtool.text.terminal.streams import check_piped

ErrorOn = Literal["error", "warning", "info"]


def lint(
    context: typer.Context,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="INPUT", help="workload.yaml, logs, .txt/.md/.j2 templates, .py files, or -.", show_default=False
        ),
    ] = None,
    select: Annotated[
        list[str] | None, typer.Option("--select", metavar="CODES", help="Only these: KV101,KV104 or KV1; repeatable.")
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", metavar="CODES", help="Not these; repeatable.")
    ] = None,
    error_on: Annotated[
        ErrorOn | None, typer.Option(help="Exit 1 from this severity on. [default: error]", show_default=False)
    ] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Edit the files: what neither moves nor changes content.")] = False,
    unsafe_fixes: Annotated[
        bool, typer.Option("--unsafe-fixes", help="With --fix or --diff: move and change text, too.")
    ] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="Print what --fix would do; exit 1 where that is something.")
    ] = False,
    undo: Annotated[
        str | None, typer.Option("--undo", metavar="FILE", help="With --fix: a patch that takes it back.")
    ] = None,
    probe: Annotated[
        str | None,
        typer.Option(
            "--probe", metavar="SPEC", help="RUN a prompt builder, 'python build.py' or module:function, many times."
        ),
    ] = None,
    probe_timeout: Annotated[float, typer.Option(metavar="SECONDS", help="For each run of the probe.")] = 30.0,
    tokenizer: TokenizerName = None,
    chat_template: ChatTemplateFile = None,
    block_size: BlockSize = None,
    capacity: Capacity = None,
    on_bad_line: BadLine = "error",
    log_format: LogFormat = None,
    requests: Requests = None,
    group: Groups = None,
    seed: Seed = None,
    show_text: ShowTextOption = None,
    output: Output = None,
    config: ConfigFileName = None,
    no_config: NoConfig = False,
    json: Json = False,
    offline: Offline = False,
    quiet: Quiet = False,
    color: Color = "auto",
    plain: Plain = False,
    width: Width = None,
) -> int:
    """What costs prefix-cache hits, and where: findings only.

    Workloads, logs and prompts (two or more .txt/.md files) are run through the engine. Of one template or a Python file, where no
    traffic tells what varies, it reports what a name or a call says: nothing in it is executed or imported.

    Only --probe executes code: it runs a prompt builder with one circumstance changed at a time (clock, hash seed, locale, folder,
    user…) and names each that reaches the prompt. Without INPUT, the workloads that kvtool.toml names are linted.
    """
    inputs = inputs or []
    check_piped("lint", inputs)
    from kvtool.cli.run_lint import run_lint
    from kvtool.config.apply_config import configured_lint
    from kvtool.config.lint_arguments import LintArguments

    with named_variables(context):
        arguments = LintArguments(
            inputs=inputs,
            select=tuple(select or ()),
            ignore=tuple(ignore or ()),
            error_on=error_on,
            fix=fix,
            unsafe_fixes=unsafe_fixes,
            diff=diff,
            undo=undo,
            probe=probe,
            probe_timeout=probe_timeout,
            tokenizer=tokenizer,
            chat_template=chat_template,
            block_size=block_size,
            capacity=capacity,
            on_bad_line=on_bad_line,
            log_format=log_format,
            requests=requests,
            groups=tuple(group or ()),
            seed=seed,
            show_text=show_text,
            outputs=tuple(output or ()),
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
        return run_lint(configured_lint(arguments))


def explain(
    code: Annotated[str | None, typer.Argument(metavar="CODE", help="Such as KV101; left out: all codes.")] = None,
    list_all: Annotated[bool, typer.Option("--list", help="All codes, with their names.")] = False,
    json: Json = False,
    color: Color = "auto",
    plain: Plain = False,
    width: Width = None,
) -> int:
    """What a code means, why it costs, an example before and after, the fix, and when to ignore it."""
    from kvtool.cli.run_explain import run_explain

    return run_explain(code, list_all=list_all, json=json, color=color, plain=plain, width=width)
