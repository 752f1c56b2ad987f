"""The configuration that holds in CI what a profile was asked to hold once."""

from __future__ import annotations

import json

from kvtool.config.asked_run import RunOptions, of_engine
from kvtool.workload.yaml.schema import EngineOptions


def check_lines(options: RunOptions, hit_rate: float) -> list[str]:
    """The lines of kvtool.toml by which `kvtool check` runs the same inputs in the same way and demands that hit rate."""
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
