"""The command `kvtool schema`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

from kvtool.cli.command import Command
from kvtool.config.option import Argument, only
from kvtool.config.options.shown_options import Showing


@dataclass(frozen=True, kw_only=True)
class SchemaCommand(Command):
    """Print a JSON Schema of a file that kvtool reads (workload, config) or writes (report, check, lint …).

    For an editor, run: kvtool schema workload > workload.schema.json. Then begin a workload file with

    # yaml-language-server: $schema=workload.schema.json
    """

    schema: Annotated[str | None, Argument("Schema, such as workload; without it, all names", "NAME")] = None
    showing: Annotated[Showing, only("json", "color", "plain", "width")]

    def run(self) -> int:
        """Print a schema, or which there are; KvtoolError for a name that there is not."""
        from json import dumps

        from kvtool.results.document_base import dump
        from kvtool.results.documents.schema_list import SchemaList
        from kvtool.results.schemas import SCHEMAS, find_schema
        from kvtool.text.terminal.console import put, say
        from kvtool.text.terminal.table import Column, put_table

        if self.schema is not None:
            sys.stdout.write(dumps(find_schema(self.schema).document(), indent=2, sort_keys=True) + "\n")
        elif self.showing.json:
            sys.stdout.write(dump(SchemaList({each.name: each.what for each in SCHEMAS.values()})))
        else:
            console = self.showing.console()
            columns = (Column("Name", "<"), Column("schema of", "<"))
            put_table(console, columns, [(each.name, each.what) for each in SCHEMAS.values()])
            put(console)
            say(
                console,
                "kvtool schema NAME prints one: for an editor, a test, or whatever reads what kvtool writes",
                indent=0,
            )
        return 0
