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
    """Write a first configuration: find the prompts, simulate them, and set a gate at today's hit rate.

    kvtool finds templates, prompts and logs in FOLDER by their names. Without a workload file it writes one, with made-up values
    for the variables of the templates. It names the line that loses most. The gate is today's hit rate, rounded down;
    check --tighten raises it later. Prompts in code, YAML and TOML are copied into the workload file. No code is run.
    Where such a copy differs, --force copies the prompts again, and keeps your values and gates. It also makes up values for new
    variables of your templates.
    """

    def run(self) -> int:
        """Find prompts, run them, and write a configuration; 0, or 130 where it was interrupted and nothing was written.

        KvtoolError where nothing was found, or a file to write already exists.
        """
        from pathlib import Path

        from kvtool.cli.commands.init.called_rules import CalledRules, rules_of_calls
        from kvtool.cli.commands.init.compose import (
            WORKLOAD,
            compose_workload,
            compose_workloads,
            copied_places,
            read_prompts,
            unmarked_sentence,
            workload_name,
        )
        from kvtool.cli.commands.init.compose_config import compose_config
        from kvtool.cli.commands.init.copy_again import copied_again, report_copied_again, with_new_variables
        from kvtool.cli.commands.init.detect import detect
        from kvtool.cli.commands.init.steps import (
            appended,
            engine_settings,
            in_no_workload,
            measured_inputs,
            names_outside,
            overwritten_config,
            report_nothing_found,
            report_written,
            target_file,
            text_of,
            write_all,
        )
        from kvtool.config.loading import load_config
        from kvtool.gate.tightening import lowered_limits
        from kvtool.lint.prompt_copies import RenderedFile, calls_of, copy_prompts, rendered_by
        from kvtool.workload.yaml.made_up_values import has_made_up

        folder = Path(self.folder)
        found = detect(folder)
        target = target_file(self, folder)
        check_values(self)
        prompts = None
        rendered: list[RenderedFile] = []
        notes = [] if found.workloads else found.notes  # with a workload file no copy is made that they would be about
        copied: set[str] = set()
        copies = copy_prompts(folder, [*found.code, *found.data], notes, rendered, copied)
        rendering = found.rendering if found.templates else []
        sources = dict.fromkeys([*found.code, *rendering, *(each.path for each in copies)])
        if self.force or not found.workloads:
            rendered += rendered_by(folder, rendering)
            prompts = read_prompts(folder, found.templates, notes, copies, calls_of(rendered))
        if found.workloads and prompts is not None:
            beside = [name for name in found.workloads if "/" not in name]
            again = copied_again(folder, beside, compose_workload(prompts))
            if (again := again or with_new_variables(folder, beside, prompts.passed)) is not None:
                if not self.dry_run:
                    write_all(folder, {again.name: again.text})
                report_copied_again(self, folder, again)
                return 0
            found.notes += in_no_workload(folder, prompts, found.read)
            prompts = None
        engine = engine_settings(self, folder)
        called = CalledRules() if "block_size" in engine else rules_of_calls(found.calls)
        texts = {} if prompts is None else compose_workloads(folder, prompts, called, found.marking)
        names = {each: workload_name(each) if len(texts) > 1 else WORKLOAD for each in texts}
        files = {names[each]: text for each, text in texts.items()}
        there = next((name for name in files if (folder / name).exists()), None)
        if there is not None and not self.force:
            raise KvtoolError(f"`{folder / there}` already exists", hint="overwrite it with --force")
        inputs = [*found.workloads, *files, *found.logs]
        if not inputs:
            raise report_nothing_found(self.folder, found)
        places = copied_places(prompts.prompts) if prompts is not None else {}
        provider = "" if len(texts) > 1 else next(iter(texts), called.provider)
        rules = called.sentence_on(names)
        if provider:
            engine["provider"] = provider
        measured = measured_inputs(self, folder, inputs, files, found.notes, places, provider)
        if measured.hosted and not texts and not provider:
            rules = ""  # the workload files name their providers
        served = texts or measured.providers & {*called.providers.values()}
        rules = (rules + unmarked_sentence(served, found.marking)).lstrip()
        if measured.partial:
            print("kvtool: interrupted; nothing was written", file=sys.stderr)
            return 130
        if not measured.rates:
            raise report_nothing_found(self.folder, found)
        workloads = {*found.workloads, *files} & set(measured.rates)
        made_up = {name for name in workloads if has_made_up(text_of(folder, name, files))}
        text = compose_config(
            measured.rates,
            groups=measured.groups,
            engine=engine,
            losses=measured.losses,
            made_up=made_up,
            sources=list(sources),
            table=_TABLE if self.pyproject else "",
            rules=rules,
            hosted=measured.hosted,
        )
        files[target.name] = appended(target, text) if self.pyproject else text
        lowered: list[str] = []
        if not self.dry_run:
            before = overwritten_config(target)
            write_all(folder, files)
            after = load_config(str(target))
            lowered = [] if before is None else lowered_limits(before, after)
        outside = names_outside(folder, engine)
        report_written(
            self,
            found,
            prompts,
            measured,
            files,
            text,
            made_up=made_up,
            copied=copied,
            outside=outside,
            lowered=lowered,
            rules=rules,
        )
        return 0
