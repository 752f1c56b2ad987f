"""All options of a run together, and what does not go together among them."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kvtool.config.layers import EXCLUDES
from kvtool.config.loading import ConfigFile
from kvtool.config.option import check_values
from kvtool.config.options.pricing_options import Pricing
from kvtool.config.options.rule_flags import RuleFlags
from kvtool.config.options.run_options import (
    Caching,
    Measuring,
    Mirroring,
    Predicting,
    Reading,
    Rendering,
    ServerSettings,
    Serving,
    Tracing,
)
from kvtool.errors import KvtoolError
from kvtool.results.choices import SIZES
from kvtool.workload.yaml.schema import EngineOptions

NOTHING_MEASURED = Measuring(measure_budget=0.0)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """All that decides what a run of some inputs gives; `fallback` and `fallback_seed` are what the configuration file says."""

    inputs: Sequence[str]
    predicting: Predicting = field(default_factory=Predicting)
    rendering: Rendering = field(default_factory=Rendering)
    serving: Serving = field(default_factory=Serving)
    mirroring: Mirroring = field(default_factory=Mirroring)
    reported: ServerSettings = field(default_factory=ServerSettings)
    caching: Caching = field(default_factory=Caching)
    tracing: Tracing = field(default_factory=Tracing)
    rule_flags: RuleFlags = field(default_factory=RuleFlags)
    pricing: Pricing = field(default_factory=Pricing)
    reading: Reading = field(default_factory=Reading)
    measuring: Measuring = NOTHING_MEASURED
    alone: frozenset[str] = frozenset()
    """Inputs of lint that are templates by themselves, whatever others there are: what a folder brought."""
    all_engines: bool = False
    """Whether engines are compared, so that `rules` is no choice of one."""
    fallback: EngineOptions | None = None
    """Options of the engine from the configuration file; a workload file goes before it."""
    fallback_seed: int | None = None
    """Its seed, likewise."""
    fallback_file: ConfigFile | None = None
    """The file, which knows where it says so."""
    notes: tuple[str, ...] = ()
    """Origins of the options that reports must name."""

    def over(self, file: ConfigFile | None) -> RunOptions:
        """Return the options with those of the configuration file below them."""
        if file is None:
            return self
        reading = self.reading
        if reading.requests is None:
            reading = replace(reading, requests=file.config.requests)
        engine = file.engine_without(given_options_of(self))
        return replace(self, reading=reading, fallback=engine, fallback_seed=file.config.seed, fallback_file=file)

    @property
    def model(self) -> str | None:
        """Return the model that flags name, or a server runs."""
        return self.predicting.model or self.reported.server_model

    @property
    def group_by(self) -> str | None:
        """Return the fields that divide logs into groups, if given."""
        file = self.fallback_file
        return self.reading.group_by or (None if file is None else file.config.group_by)

    @property
    def log_format(self) -> str | None:
        """Return the format of logs, or a map of it, where anybody says one."""
        said, file = self.reading.log_map or self.reading.log_format, self.fallback_file
        if said is not None or file is None or (logs := file.config.logs).map is None:
            return said
        if logs.only_tenant:
            return None
        if logs.messages is None and logs.prompt is None:
            hint = 'add messages = "path.to.messages" or prompt = "path"'
            raise KvtoolError("[logs] names no prompt", hint=hint, place=file.place("logs"))
        return logs.map

    @property
    def tenant(self) -> str | None:
        """Return the field that says whose request of a log it is, where anybody names it."""
        file = self.fallback_file
        return self.reading.tenant or (None if file is None else file.config.logs.tenant)

    def check(self) -> None:
        """Check the values of options and their combination. Raises KvtoolError."""
        check_values(self)
        measuring, serving = self.measuring, self.serving
        if self.tracing.rules == "block-lru" and measuring.events is not None:
            raise KvtoolError("--events are those of the engine; --rules block-lru has none")
        if measuring.events_no_tokens and measuring.events is None:
            raise KvtoolError("--events-no-tokens says what --events leaves out", hint="add --events FILE")
        if measuring.audit and not measuring.seconds:
            raise KvtoolError(
                "--audit compares the logits of real runs, and --dry-run or --measure-budget 0 asks for none",
                hint="give --measure-budget SECONDS",
            )
        self._check_outputs()
        if self.predicting.calibration is not None and self.predicting.accelerator is not None:
            raise KvtoolError(
                "--calibration and --accelerator both say what the predictions are for", hint="leave one out"
            )
        sizes = [name for name in SIZES if getattr(serving, name) is not None]
        if len(sizes) > 1:
            first, second = (f"--{name.replace('_', '-')}" for name in sizes[:2])
            raise KvtoolError(f"{first} and {second} both say how large the cache is", hint="leave one out")

    def _check_outputs(self) -> None:
        """Check that no file is written that is an input or another output."""
        taken = {os.path.realpath(path): "an input" for path in self.inputs if path != "-"}
        if self.predicting.calibration is not None:
            taken[os.path.realpath(self.predicting.calibration)] = "the calibration"
        if self.measuring.kv_events is not None:
            taken[os.path.realpath(self.measuring.kv_events)] = "what --kv-events reads"
        for flag, path in (("--events", self.measuring.events), ("--metrics", self.measuring.metrics)):
            if path is None:
                continue
            if path == "-":
                raise KvtoolError(f"{flag} needs a file: standard output has the report")
            real = os.path.realpath(path)
            if real in taken:
                raise KvtoolError(f"{flag} {path} is {taken[real]}, too", hint="give a file of its own")
            taken[real] = f"the file of {flag}"


def of_engine(options: RunOptions) -> dict[str, object]:
    """Return the options of the engine from flags and variables, by their keys in files."""
    concerns = (
        options.predicting,
        options.rendering,
        options.serving,
        options.caching,
        options.tracing,
        options.rule_flags,
    )
    return {name: value for concern in concerns for name, value in vars(concern).items() if value is not None}


def given_options_of(options: RunOptions) -> list[str]:
    """Return the options by which flags and variables may hide what the configuration file says."""
    names = {*EngineOptions.model_fields, *EXCLUDES}
    return [name for name, value in of_engine(options).items() if name in names]


def check_lines(options: RunOptions, hit_rate: float) -> list[str]:
    """Return the lines of kvtool.toml by which `kvtool check` runs the same inputs in the same way and demands that hit rate."""
    reading = options.reading
    lines = [f"workloads = {json.dumps(list(options.inputs), ensure_ascii=False)}"]
    lines += [f"requests = {reading.requests}"] if reading.requests is not None else []
    lines += [f"seed = {reading.seed}"] if reading.seed is not None else []
    said = {name: value for name, value in of_engine(options).items() if name in EngineOptions.model_fields}
    if said:
        lines += [
            "",
            "[engine]",
            *(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in said.items()),
        ]
    return [*lines, "", "[gate]", f'hit_rate = "{100 * hit_rate:g}%"']
