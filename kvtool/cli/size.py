"""The command `kvtool size`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from kvtool.cli.command import Command
from kvtool.config import bounds
from kvtool.config.option import Argument, Option, check_values, only
from kvtool.config.run_options import Reading, Serving
from kvtool.config.shown_options import Configured, Showing
from kvtool.engine.config import DEFAULT_MODEL, DEFAULT_UTILIZATION, EngineConfig
from kvtool.engine.kv_dtype import AUTO
from kvtool.errors import KvtoolError

if TYPE_CHECKING:
    from kvtool.engine.model.geometry import Geometry
    from kvtool.results.documents.size import SizeDocument
    from kvtool.workload.yaml.schema import EngineOptions


@dataclass(frozen=True, kw_only=True)
class SizeCommand(Command):
    """How many KV blocks, tokens and full-length requests a model leaves room for on common accelerators."""

    model: Annotated[
        str | None,
        Argument(
            "A preset, an HF id of one, or a folder with config.json; left out: the configured one.",
            "[MODEL]",
            variable=True,
        ),
    ] = None
    accelerators: Annotated[tuple[str, ...], Option("Only this one; repeatable.", "NAME", flag="--accelerator")] = ()
    utilization: Annotated[Serving, only("gpu_memory_utilization")]
    max_model_len: Annotated[
        int | None,
        Option(
            "Longest prompt and answer together. [default: the model's]", "N", variable=True, check=bounds.at_least_one
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
        from kvtool.engine.model.geometry import find_geometry
        from kvtool.engine.prediction.latency import ACCELERATORS, find_accelerator
        from kvtool.report.terminal.size import print_size
        from kvtool.text.terminal.streams import printing

        asked = self._asked()
        check_values(self)
        if asked.model is None:
            raise KvtoolError("missing argument 'MODEL'", hint=f"kvtool size {DEFAULT_MODEL}; kvtool size --help")
        geometry = find_geometry(asked.model)
        chosen = [find_accelerator(name) for name in self.accelerators] or list(ACCELERATORS.values())
        document = model_room(
            asked.model,
            geometry,
            chosen,
            max_model_len=asked.max_model_len or geometry.max_position_embeddings,
            kv_cache_dtype=asked.kv_cache_dtype or AUTO,
            tensor_parallel=asked.tensor_parallel or 1,
            block_size=asked.block_size or EngineConfig.block_size,
            utilization=asked.gpu_memory_utilization or DEFAULT_UTILIZATION,
        )
        with printing():
            if self.showing.json:
                sys.stdout.write(document.to_json())
            else:
                print_size(self.showing.console(), document, self._next_command(document, geometry))
        return 0

    def _asked(self) -> EngineOptions:
        """What flags and variables say over what the configuration file says."""
        from kvtool.config.layers import merged
        from kvtool.config.loading import read_config
        from kvtool.workload.yaml.schema import EngineOptions

        asked = EngineOptions.model_construct(
            model=self.model,
            gpu_memory_utilization=self.utilization.gpu_memory_utilization,
            max_model_len=self.max_model_len,
            kv_cache_dtype=self.serving.kv_cache_dtype,
            tensor_parallel=self.serving.tensor_parallel,
            block_size=self.serving.block_size,
        )
        file = read_config(self.configured, allow_outside=self.reading.allow_outside)
        return merged(asked, None if file is None else file.engine)

    def _next_command(self, report: SizeDocument, geometry: Geometry) -> list[str]:
        """More accelerators where none is enough, or else fp8, which holds twice as much; empty where neither can be."""
        from kvtool.engine.engine_error import EngineError
        from kvtool.engine.prediction.sizing import kv_heads_per_rank

        parts, dtype = report.tensor_parallel, report.kv_cache_dtype
        if not any(room.fits for room in report.accelerators):
            parts *= 2
            try:
                kv_heads_per_rank(geometry, parts)
            except EngineError:
                return []
        elif dtype == report.native_dtype:
            dtype = "fp8_e4m3"
        else:
            return []
        command = ["kvtool", "size", report.model]
        if dtype != report.native_dtype:
            command += ["--kv-cache-dtype", dtype]
        if report.max_model_len not in (None, geometry.max_position_embeddings):
            command += ["--max-model-len", str(report.max_model_len)]
        if parts > 1:
            command += ["--tensor-parallel", str(parts)]
        if report.block_size != EngineConfig.block_size:
            command += ["--block-size", str(report.block_size)]
        if report.gpu_memory_utilization != DEFAULT_UTILIZATION:
            command += ["--gpu-memory-utilization", f"{report.gpu_memory_utilization:g}"]
        for name in self.accelerators:
            command += ["--accelerator", name]
        return command
