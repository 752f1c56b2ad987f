"""What stands on the command line as INPUT: one workload file, or any number of logs, traces and prompts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kvtool.errors import KvtoolError
from kvtool.text.files.text_files import Overlay
from kvtool.workload.logs.logs import LogOptions, LogSource, default_group
from kvtool.workload.yaml.fields import KnownCodes
from kvtool.workload.yaml.yaml_source import YamlSource, load_yaml_workload

_YAML = (".yaml", ".yml")
_MOST_FILE_GROUPS = 8


def open_inputs(
    paths: Sequence[str],
    options: LogOptions,
    *,
    seed: int | None,
    default_seed: int | None = None,
    overlay: Overlay | None = None,
    codes: KnownCodes | None = None,
    allow_outside: bool = False,
) -> YamlSource | LogSource:
    """The source that the paths name; KvtoolError where they do not go together or cannot be read.

    `default_seed` is for a workload that says none; `overlay` has texts to read in place of a workload's files;
    `codes` are those that its gates may name (None: any of that shape); `allow_outside`: what it names may lie anywhere.
    """
    workloads = [path for path in paths if path.lower().endswith(_YAML)]
    if workloads and len(paths) > 1:
        raise KvtoolError(
            f"{workloads[0]} is a workload file; it is profiled alone", hint="put logs into it with `import:`"
        )
    if workloads:
        return load_yaml_workload(
            workloads[0],
            seed=seed,
            default_seed=default_seed,
            on_bad_line=options.on_bad_line,
            overlay=overlay,
            codes=codes,
            allow_outside=allow_outside,
        )
    return LogSource(paths, options, group=_grouping(paths))


def _grouping(paths: Sequence[str]) -> _ByFolder | None:
    """A group for each file while they are few, then one for each folder."""
    return None if len(paths) <= _MOST_FILE_GROUPS else _ByFolder()


class _ByFolder:
    """Names groups by the folder of a file."""

    def __call__(self, path: str) -> str:
        return Path(path).resolve().parent.name or default_group(path)
