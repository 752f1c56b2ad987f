"""The command `kvtool init`."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from kvtool.cli.command import Command
from kvtool.cli.commands.init.init_options import InitOptions
from kvtool.config.option import check_values
from kvtool.errors import KvtoolError

_TABLE = "tool.kvtool"


@dataclass(frozen=True, kw_only=True)
class InitCommand(InitOptions, Command):
    """Write kvtool.toml for the prompts of a folder, with their hit rates of today as the gate.

    It finds templates, prompts and logs by name. Without a workload file it writes one, with made-up values for what the
    prompts do not say. It runs every workload, measures nothing, and rounds limits down to whole percent. It lists prompts in
    Python, and never runs them.
    """

    def run(self) -> int:
        """Find prompts, run them, and write a configuration; 0, or 130 where it was interrupted and nothing was written.

        KvtoolError where nothing was found, or something is in the way.
        """
        from pathlib import Path

        from kvtool.cli.commands.init.compose import (
            WORKLOAD,
            compose_config,
            compose_workload,
            has_placeholders,
            read_prompts,
        )
        from kvtool.cli.commands.init.detect import detect
        from kvtool.cli.commands.init.steps import (
            appended,
            engine_settings,
            measured_inputs,
            names_outside,
            report_nothing_found,
            report_written,
            target_file,
            text_of,
            write_all,
        )
        from kvtool.config.loading import load_config

        folder = Path(self.folder)
        found = detect(folder)
        target = target_file(self, folder)
        check_values(self)
        prompts = [] if found.workloads else read_prompts(folder, found.templates, found.notes)
        files = {WORKLOAD: compose_workload(prompts)} if prompts else {}
        if WORKLOAD in files and (folder / WORKLOAD).exists() and not self.force:
            raise KvtoolError(f"`{folder / WORKLOAD}` is there already", hint="--force overwrites it")
        inputs = [*found.workloads, *files, *found.logs]
        if not inputs:
            raise report_nothing_found(self.folder, found)
        measured = measured_inputs(self, folder, inputs, files, found.notes)
        if measured.partial:
            print("kvtool: interrupted; nothing was written", file=sys.stderr)
            return 130
        if not measured.rates:
            raise report_nothing_found(self.folder, found)
        engine = engine_settings(self, folder)
        workloads = {*found.workloads, *files} & set(measured.rates)
        placeholders = {name for name in workloads if has_placeholders(text_of(folder, name, files))}
        text = compose_config(
            measured.rates,
            groups=measured.groups,
            engine=engine,
            placeholders=placeholders,
            table=_TABLE if self.pyproject else "",
        )
        files[target.name] = appended(target, text) if self.pyproject else text
        if not self.dry_run:
            write_all(folder, files)
            load_config(str(target))
        outside = names_outside(folder, engine)
        report_written(self, found, prompts, measured, files, text, placeholders=placeholders, outside=outside)
        return 0
