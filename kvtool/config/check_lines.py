"""The configuration that holds in CI what a profile was asked to hold once."""

from __future__ import annotations

import json

from kvtool.config.asked_run import RunOptions
from kvtool.workload.yaml.schema import EngineOptions


def check_lines(options: RunOptions, hit_rate: float) -> list[str]:
    """The lines of kvtool.toml by which `kvtool check` runs the same inputs in the same way and demands that hit rate."""
    reading = options.reading
    lines = [f"workloads = {json.dumps(list(options.inputs), ensure_ascii=False)}"]
    lines += [f"requests = {reading.requests}"] if reading.requests is not None else []
    lines += [f"seed = {reading.seed}"] if reading.seed is not None else []
    concerns = (options.predicting, options.rendering, options.serving, options.caching)
    said = {
        name: value
        for concern in concerns
        for name, value in vars(concern).items()
        if name in EngineOptions.model_fields and value is not None
    }
    if said:
        lines += [
            "",
            "[engine]",
            *(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in said.items()),
        ]
    return [*lines, "", "[gate]", f'hit_rate = "{100 * hit_rate:g}%"']
