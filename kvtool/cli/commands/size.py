"""The command `kvtool size`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from kvtool.cli.command import Command
from kvtool.config import bounds
from kvtool.config.command_line import flags
from kvtool.config.option import Argument, Option, check_values, only
from kvtool.config.options.run_options import Reading, Serving
from kvtool.config.options.shown_options import Configured, Showing
from kvtool.engine.config import DEFAULT_MODEL, DEFAULT_UTILIZATION, EngineConfig
from kvtool.engine.kv_dtype import AUTO
from kvtool.errors import KvtoolError

if TYPE_CHECKING:
    from kvtool.results.documents.size import SizeDocument
    from kvtool.workload.yaml.schema import EngineOptions


_IN_FLIGHT = 2
"""Steps at a time: vLLM schedules asynchronously unless it is told not to."""


_MOST_PARTS = 64
"""Accelerators that one model is proposed for."""


@dataclass(frozen=True, kw_only=True)
class SizeCommand(Command):
    """Show how many KV blocks, tokens and full-length requests a model leaves room for, by accelerator."""

    model: Annotated[
        str | None,
        Argument(
            "Preset, its HF id, a folder or a config.json; without it, the configured model",
            "[MODEL]",
            variable=True,
        ),
    ] = None
    named: Annotated[
        str | None,
        Option("Model, the same as MODEL.", "NAME", flag="--model", also="--model-preset --model-config"),
    ] = None
    accelerators: Annotated[
        tuple[str, ...], Option("Accelerator to show; repeatable.", "NAME", flag="--accelerator")
    ] = ()
    utilization: Annotated[Serving, only("gpu_memory_utilization")]
    max_model_len: Annotated[
        int | None,
        Option(
            "Longest prompt plus answer, in tokens.", "N", variable=True, check=bounds.at_least_one, words="the model's"
        ),
    ] = None
    """Its default is another one than that of runs, as in vLLM."""
    serving: Annotated[Serving, only("kv_cache_dtype", "tensor_parallel", "block_size")]
    reading: Annotated[Reading, only("allow_outside")]
    configured: Configured
    showing: Annotated[Showing, only("json", "color", "plain", "width")]

    def run(self) -> int:
        """Print what the model leaves for its KV cache on each accelerator."""
        from kvtool.accounting.model_room import model_room
        from kvtool.engine.groups.model_plan import ServeOptions
        from kvtool.engine.model.configs.find_served import find_served
        from kvtool.engine.prediction.latency import ACCELERATORS, find_accelerator
        from kvtool.report.terminal.plan_views.size import print_size
        from kvtool.text.terminal.streams import printing

        if self.model is not None and self.named is not None:
            raise KvtoolError("the model is given twice: as MODEL and with --model")
        asked = self._asked()
        check_values(self)
        if asked.model is None:
            raise KvtoolError("MODEL is missing", hint=f"kvtool size {DEFAULT_MODEL}; kvtool size --help")
        served = find_served(asked.model)
        chosen = [find_accelerator(name) for name in self.accelerators] or list(ACCELERATORS.values())
        options = ServeOptions(
            block_size=asked.block_size,
            kv_cache_dtype=asked.kv_cache_dtype or AUTO,
            tensor_parallel=asked.tensor_parallel or 1,
            max_model_len=asked.max_model_len or served.max_model_len,
            concurrent_batches=_IN_FLIGHT,
        )
        utilization = asked.gpu_memory_utilization or DEFAULT_UTILIZATION

        def sized(parts: int) -> SizeDocument:
            shared = replace(options, tensor_parallel=parts)
            return model_room(asked.model or "", served, shared, chosen, utilization=utilization)

        document = sized(options.tensor_parallel)
        with printing():
            if self.showing.json:
                sys.stdout.write(document.to_json())
            else:
                command = self._next_command(document, served.max_model_len, asked.block_size, sized)
                print_size(self.showing.console(), document, command)
        return 0

    def _asked(self) -> EngineOptions:
        """Return the options of flags and variables over those of the configuration file."""
        from kvtool.config.layers import merged
        from kvtool.config.loading import read_config
        from kvtool.workload.yaml.schema import EngineOptions

        asked = EngineOptions.model_construct(
            model=self.model or self.named,
            gpu_memory_utilization=self.utilization.gpu_memory_utilization,
            max_model_len=self.max_model_len,
            kv_cache_dtype=self.serving.kv_cache_dtype,
            tensor_parallel=self.serving.tensor_parallel,
            block_size=self.serving.block_size,
        )
        file = read_config(self.configured, allow_outside=self.reading.allow_outside)
        return merged(asked, None if file is None else file.engine)

    def _next_command(
        self, report: SizeDocument, longest: int | None, asked_block: int | None, sized: Callable[[int], SizeDocument]
    ) -> list[str]:
        """More accelerators where none is enough, or else fp8, which holds twice as much; empty where neither can be."""
        parts, dtype = report.tensor_parallel, report.kv_cache_dtype
        if not any(room.fits for room in report.accelerators):
            parts = _enough(parts, sized)
            if not parts:
                return []
        elif dtype == report.native_dtype and not any(group.kind == "mamba" for group in report.groups):
            dtype = "fp8_e4m3"  # beside states it would make blocks longer, which fewer prompts fill
        else:
            return []
        utilization = report.gpu_memory_utilization
        options = flags(
            kv_cache_dtype=dtype if dtype != report.native_dtype else None,
            max_model_len=report.max_model_len if report.max_model_len != longest else None,
            tensor_parallel=parts if parts > 1 else None,
            block_size=asked_block if asked_block != EngineConfig.block_size else None,
            gpu_memory_utilization=f"{utilization:g}" if utilization != DEFAULT_UTILIZATION else None,
            accelerator=self.accelerators,
        )
        return ["kvtool", "size", report.model, *options]


def _enough(parts: int, sized: Callable[[int], SizeDocument]) -> int:
    """Return the number of accelerators that hold the model, doubled until they do; 0 where it cannot be cut that far."""
    from kvtool.engine.engine_error import EngineError

    while parts < _MOST_PARTS:
        parts *= 2
        try:
            if any(room.fits for room in sized(parts).accelerators):
                return parts
        except EngineError:
            return 0
    return 0
