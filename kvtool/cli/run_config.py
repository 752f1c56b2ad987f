"""The command `kvtool config`."""

from __future__ import annotations

import sys

from kvtool.config.loading import read_config
from kvtool.config.settings import Given, WorkloadFile, settings
from kvtool.config.told_settings import settings_document
from kvtool.errors import KvtoolError
from kvtool.text.files.yaml_nodes import load_yaml
from kvtool.text.terminal.console import ColorChoice, make_console
from kvtool.workload.yaml.validate import validate

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
        sys.stdout.write(settings_document(found, None if file is None else file.path).to_json())
        return 0
    from kvtool.report.terminal.settings import print_settings

    print_settings(make_console(color=color, width=width, plain=plain), found, None if file is None else file.path)
    return 0


def _workload(path: str) -> WorkloadFile:
    document = load_yaml(path)
    return WorkloadFile(document, validate(document))
