"""The command `kvtool config`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from kvtool.cli.command import Command
from kvtool.config.option import Argument, Origins, only
from kvtool.config.options.rule_flags import RuleFlags
from kvtool.config.options.run_options import Caching, Predicting, Reading, Rendering, Serving, Tracing
from kvtool.config.options.shown_options import Configured, Showing, Writing
from kvtool.errors import KvtoolError

if TYPE_CHECKING:
    from kvtool.config.option_values import WorkloadFile

_YAML = (".yaml", ".yml")


@dataclass(frozen=True, kw_only=True)
class ConfigCommand(Command):
    """Show every option, its value and its origin: flag, variable, workload file, configuration file or default."""

    workload: Annotated[str | None, Argument("Workload file with options", "[INPUT]")] = None
    predicting: Annotated[Predicting, only("model", "accelerator")]
    rendering: Rendering
    serving: Serving
    caching: Annotated[Caching, only("concurrency", "replicas", "routing", "ttl", "provider")]
    tracing: Annotated[Tracing, only("rules")]
    rule_flags: RuleFlags
    reading: Annotated[Reading, only("requests", "group_by", "seed")]
    writing: Annotated[Writing, only("show_text")]
    configured: Configured
    showing: Annotated[Showing, only("json", "offline", "color", "plain", "width")]
    given: Annotated[Mapping[str, tuple[object, str]], Origins.GIVEN] = field(default_factory=dict)

    def run(self) -> int:
        """Print every option, its value, and where that comes from; KvtoolError for a file that cannot be read."""
        from kvtool.config.loading import read_config
        from kvtool.config.option_values import option_values

        if self.workload is not None and not self.workload.lower().endswith(_YAML):
            raise KvtoolError(
                f"`{self.workload}` is no workload file", hint="only a workload file (.yaml) says options"
            )
        file = read_config(self.configured)
        found = option_values(self.given, None if self.workload is None else _workload(self.workload), file)
        if self.showing.json:
            from kvtool.config.option_document import options_document

            sys.stdout.write(options_document(found, None if file is None else file.path).to_json())
            return 0
        from kvtool.report.terminal.option_values import print_option_values

        print_option_values(self.showing.console(), found, None if file is None else file.path)
        return 0


def _workload(path: str) -> WorkloadFile:
    from kvtool.config.option_values import WorkloadFile
    from kvtool.diagnose import codes
    from kvtool.text.files.yaml_document import load_yaml
    from kvtool.workload.yaml.validate import validate

    document = load_yaml(path)
    return WorkloadFile(document, validate(document, codes))
