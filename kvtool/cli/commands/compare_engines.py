"""The command `kvtool compare-engines`."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Annotated

from kvtool.cli.command import Command
from kvtool.config.option import Argument, Option, only
from kvtool.config.options.rule_flags import RuleFlags
from kvtool.config.options.run_options import Caching, Predicting, Reading, Rendering, Serving, Tracing
from kvtool.config.options.shown_options import Configured, Showing
from kvtool.text.terminal.streams import check_piped


@dataclass(frozen=True, kw_only=True)
class CompareEnginesCommand(Command):
    """Compare the cache rules of all engines on one workload: vLLM, SGLang, TensorRT-LLM, llama.cpp.

    The answer is for the engine that you run (--rules). Each engine gets the same --capacity; llama.cpp has
    its slots on top. Options of an engine change only its rows.
    """

    inputs: Annotated[
        tuple[str, ...],
        Argument(
            "Logs, workload.yaml, prompts, folders or - (stdin); else the only workload of kvtool.toml",
            "INPUT",
            configured=True,
        ),
    ] = ()
    predicting: Annotated[Predicting, only("model")]
    rendering: Rendering
    serving: Annotated[Serving, only("block_size", "capacity", "num_gpu_blocks", "kv_cache_dtype")]
    caching: Annotated[Caching, only("use_timestamps")]
    tracing: Annotated[Tracing, only("rules")]
    rule_flags: RuleFlags
    reading: Reading
    outputs: Annotated[
        tuple[str, ...],
        Option(
            "Report to write: .json, .md, .html, .txt or .svg; repeatable.",
            "[FMT=]PATH",
            flag="--output",
            short="-o",
        ),
    ] = ()
    configured: Configured
    showing: Showing

    def run(self) -> int:
        """Compare and print; 0, or 130 where it was interrupted."""
        check_piped("compare-engines", self.inputs)
        from kvtool.config.asked_run import RunOptions
        from kvtool.config.loading import read_config
        from kvtool.engine.config import EngineConfig
        from kvtool.lint.lint_inputs import refuse_templates
        from kvtool.profiler.engines.side_by_side import EngineComparison
        from kvtool.profiler.opening import open_workload
        from kvtool.report.formats.engine_formats import FORMATTERS
        from kvtool.report.outputs import check_outputs, write_texts
        from kvtool.report.terminal.plan_views.engine_table import print_engine_table
        from kvtool.report.write_options import WriteOptions
        from kvtool.text.terminal.console import DEFAULT_WIDTH
        from kvtool.text.terminal.streams import printing
        from kvtool.text.tokens.tokenizer import Tokenizers

        refuse_templates(self.inputs)
        options = RunOptions(
            inputs=self.inputs,
            predicting=self.predicting,
            rendering=self.rendering,
            serving=self.serving,
            caching=self.caching,
            tracing=Tracing(rules="vllm"),
            all_engines=True,
            reading=self.reading,
        ).over(read_config(self.configured, allow_outside=self.reading.allow_outside))
        asked = replace(options, rule_flags=self.rule_flags)
        asked.check()
        outputs = check_outputs(
            self.outputs,
            self.inputs,
            json=self.showing.json,
            formats=tuple(FORMATTERS),
            allow_outside=self.reading.allow_outside,
        )
        tokenizers = Tokenizers(offline=self.showing.offline)
        opened = open_workload(options, tokenizers, keep_going=True)
        own: str | None = self.tracing.rules or opened.planned.asked.rules or "vllm"
        if opened.planned.plan.hosted:
            own = self.tracing.rules
            serving = replace(options.serving, block_size=EngineConfig.block_size)
            opened = open_workload(replace(options, serving=serving), tokenizers, source=opened.source, keep_going=True)
        with self.showing.progress() as progress:
            table = EngineComparison(opened, self.rule_flags, progress, own).run()
        written = WriteOptions(width=self.showing.width or DEFAULT_WIDTH)
        texts = [(output, FORMATTERS[output.format.name](table, written)) for output in outputs]
        write_texts(texts, quiet=self.showing.quiet)
        with printing():
            if self.showing.json:
                sys.stdout.write(table.to_json())
            elif not any(output.to_stdout for output in outputs):
                print_engine_table(self.showing.console(), table)
        if not table.partial:
            opened.check_read()
        return 130 if table.partial else 0
