"""The command `kvtool config`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from json import dumps
from typing import Any

from kvtool.config.loading import ConfigFile, read_config
from kvtool.config.settings import Given, Setting, WorkloadFile, settings
from kvtool.diagnose import codes
from kvtool.errors import KvtoolError
from kvtool.text.files.yaml_nodes import load_yaml
from kvtool.text.terminal.console import ColorChoice, make_console
from kvtool.text.terminal.runner_commands import blunt_json
from kvtool.workload.yaml.validate import validate

SCHEMA = "kvtool.settings/1"
_YAML = (".yaml", ".yml")


def run_config(
    workload: str | None,
    *,
    given: Given,
    config: str | None = None,
    no_config: bool = False,
    json: bool = False,
    color: ColorChoice = "auto",
    plain: bool = False,
    width: int | None = None,
) -> int:
    """Print every setting, its value, and where that comes from; KvtoolError for a file that cannot be read."""
    if workload is not None and not workload.lower().endswith(_YAML):
        raise KvtoolError(f"`{workload}` is no workload file", hint="only a workload file (.yaml) says settings")
    file = read_config(config, no_config=no_config)
    found = settings(given, None if workload is None else _workload(workload), file)
    if json:
        sys.stdout.write(blunt_json(dumps(document(found, file), indent=2, sort_keys=True, allow_nan=False)) + "\n")
        return 0
    from kvtool.report.terminal.settings import print_settings

    print_settings(make_console(color=color, width=width, plain=plain), found, None if file is None else file.path)
    return 0


def _workload(path: str) -> WorkloadFile:
    document = load_yaml(path)
    return WorkloadFile(document, validate(document, codes))


def document(found: Sequence[Setting], file: ConfigFile | None) -> dict[str, Any]:
    """The settings as plain data; values as they were written."""
    return {
        "schema": SCHEMA,
        "config": None if file is None else file.path,
        "settings": [_setting(one) for one in found],
    }


def _setting(one: Setting) -> dict[str, Any]:
    place = one.origin.place
    return {
        "name": one.name,
        "value": one.value,
        "from": one.origin.kind,
        "said_by": one.origin.name,
        "path": None if place is None else place.path,
        "line": None if place is None else place.line,
    }
