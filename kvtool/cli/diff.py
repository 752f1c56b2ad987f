"""The command `diff-prompts`: its command line."""

from __future__ import annotations

from typing import Annotated

import typer

from kvtool.cli.env_variables import named_variables
from kvtool.cli.options import (
    BlockSize,
    ChatTemplateFile,
    Color,
    ConfigFileName,
    Json,
    LogFormat,
    NoConfig,
    Offline,
    Plain,
    TokenizerName,
    Width,
)
from kvtool.text.terminal.streams import check_piped


def diff_prompts(
    context: typer.Context,
    prompts: Annotated[
        list[str],
        typer.Argument(
            metavar="PROMPT",
            help="Prompt files, chat bodies (.json), records (log.jsonl:12), or - for stdin (once).",
        ),
    ],
    tokenizer: TokenizerName = None,
    chat_template: ChatTemplateFile = None,
    log_format: LogFormat = None,
    block_size: BlockSize = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Show the token ids around the difference.")] = False,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 1 where the prompts differ.")] = False,
    config: ConfigFileName = None,
    no_config: NoConfig = False,
    json: Json = False,
    offline: Offline = False,
    color: Color = "auto",
    plain: Plain = False,
    width: Width = None,
) -> int:
    """Where prompts part, what differs there, which blocks that loses, and what changing it would give.

    Two prompts are compared line by line; of more, the blocks that each pair shares and the tree of their common beginnings.
    """
    check_piped("diff-prompts", prompts)
    from kvtool.cli.run_diff import run_diff
    from kvtool.config.loading import read_config

    with named_variables(context):
        file = read_config(config, no_config=no_config)
        if file is not None:
            tokenizer = tokenizer or file.engine.tokenizer
            chat_template = chat_template or file.engine.chat_template
            block_size = file.engine.block_size if block_size is None else block_size
        return run_diff(
            *prompts,
            tokenizer=tokenizer,
            chat_template=chat_template,
            log_format=log_format,
            block_size=16 if block_size is None else block_size,
            json=json,
            tokens=tokens,
            exit_code=exit_code,
            offline=offline,
            color=color,
            plain=plain,
            width=width,
        )
