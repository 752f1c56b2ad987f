"""Puts the configuration file under what stands on the command line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvtool.config.loading import ConfigFile, read_config
from kvtool.errors import KvtoolError

if TYPE_CHECKING:
    from kvtool.config.arguments import ProfileArguments
    from kvtool.config.lint_arguments import LintArguments


def configured(arguments: ProfileArguments) -> ProfileArguments:
    """The arguments with what the configuration file says where they say nothing; KvtoolError where it cannot be read."""
    return with_file(arguments, read_config(arguments.config, no_config=arguments.no_config))


def with_file(arguments: ProfileArguments, file: ConfigFile | None) -> ProfileArguments:
    """The same with a file that was read already."""
    if file is None:
        return arguments
    return replace(
        arguments,
        defaults=file.engine,
        default_seed=file.config.seed,
        requests=file.config.requests if arguments.requests is None else arguments.requests,
    )


def configured_lint(arguments: LintArguments) -> LintArguments:
    """The arguments of `kvtool lint`, likewise; without any input or probe, its inputs are the workloads of the configuration."""
    file = read_config(arguments.config, no_config=arguments.no_config)
    inputs = arguments.inputs
    if not inputs and arguments.probe is None:
        inputs = file.workloads if file is not None else []
        if not inputs:
            raise KvtoolError("missing argument 'INPUT...'", hint="kvtool lint --help")
    if file is None:
        return arguments
    lint = file.config.lint
    return replace(
        arguments,
        inputs=inputs,
        defaults=file.engine,
        default_seed=file.config.seed,
        requests=file.config.requests if arguments.requests is None else arguments.requests,
        select=arguments.select or tuple(lint.select),
        ignore=arguments.ignore or tuple(lint.ignore),
        error_on=arguments.error_on or lint.error_on,
    )
