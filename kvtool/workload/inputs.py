"""Inputs on the command line: one workload file, or any number of logs, traces, prompts, folders and patterns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kvtool.errors import KvtoolError
from kvtool.text.files.text_files import Overlay
from kvtool.workload.logs.logs import LogOptions, LogSource
from kvtool.workload.logs.placed_turns import default_group

if TYPE_CHECKING:
    from kvtool.workload.logs.groups.grouping import ByFile
    from kvtool.workload.yaml.fields import KnownCodes
    from kvtool.workload.yaml.yaml_source import YamlSource

_YAML = (".yaml", ".yml")
_MOST_FILE_GROUPS = 8  # more files than that are grouped by their folders


def open_inputs(
    paths: Sequence[str],
    options: LogOptions,
    *,
    seed: int | None,
    default_seed: int | None = None,
    overlay: Overlay | None = None,
    codes: KnownCodes | None = None,
    allow_outside: bool = False,
    group_by: str | None = None,
    keep_going: bool = False,
) -> YamlSource | LogSource:
    """Return the source that the paths name; KvtoolError where they do not go together or cannot be read.

    `default_seed` is for a workload that says none; `overlay` has texts to read in place of a workload's files;
    `codes` are those that its gates may name (None: any of that shape); `allow_outside`: what it names may lie anywhere.
    `group_by` says what divides the requests of logs into groups; `keep_going`: one that cannot be read does not hide the others.
    """
    workloads = [path for path in paths if path.lower().endswith(_YAML)]
    if workloads and len(paths) > 1:
        raise KvtoolError(
            f"{workloads[0]} is a workload file, which must be the only input", hint="import logs in it with `import:`"
        )
    if workloads:
        from kvtool.workload.yaml.yaml_source import load_yaml_workload

        return load_yaml_workload(
            workloads[0],
            seed=seed,
            default_seed=default_seed,
            on_bad_line=options.on_bad_line,
            overlay=overlay,
            codes=codes,
            allow_outside=allow_outside,
        )
    from kvtool.workload.logs.files.input_files import find_inputs
    from kvtool.workload.logs.groups.detected_grouping import FILE, FOLDER
    from kvtool.workload.logs.groups.grouping import ByFile

    files = find_inputs(paths, log_format=options.format)
    by_folder = len(files.paths) > _MOST_FILE_GROUPS
    source = LogSource(files, options, _ByFolder() if by_folder else None, keep_going=keep_going)
    what = FOLDER if by_folder else FILE
    divide(source, group_by, ByFile(what) if len(files.paths) > 1 else None)
    source.check_clock()
    return source


def divide(source: LogSource, group_by: str | None, by_file: ByFile | None = None) -> None:
    """Group the requests of logs as was asked for or else as their first ones suggest; `by_file` is for those that nothing else
    divides. KvtoolError for fields that are not there."""
    from kvtool.workload.logs.groups.detected_grouping import GroupSample
    from kvtool.workload.logs.groups.grouping import BY_FILE

    sample = GroupSample(group_by)
    limit = source.options.limit
    try:
        for found in source.entries():
            if not isinstance(found, KvtoolError):
                sample.add(found)
            if sample.enough or (limit is not None and sample.records >= limit):
                break
    except KvtoolError:
        pass  # reading reports it
    source.regrouped(sample.grouping(files=len(source.files.paths), by_file=by_file or BY_FILE))


class _ByFolder:
    """Names groups by the folder of a file."""

    def __call__(self, path: str) -> str:
        return Path(path).resolve().parent.name or default_group(path)
