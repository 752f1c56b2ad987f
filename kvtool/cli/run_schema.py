"""The command `kvtool schema`."""

from __future__ import annotations

import sys
from json import dumps

from kvtool.results.documents.schema_list import SchemaList
from kvtool.results.model import dump
from kvtool.results.schemas import SCHEMAS, find_schema
from kvtool.text.terminal.console import ColorChoice, make_console, put, say
from kvtool.text.terminal.table import Column, put_table

_COLUMNS = (Column("Name", "<"), Column("schema of", "<"))


def run_schema(
    name: str | None,
    *,
    json: bool = False,
    color: ColorChoice = "auto",
    plain: bool = False,
    width: int | None = None,
) -> int:
    """Print a JSON Schema, or which there are; KvtoolError for a name that there is not."""
    if name is not None:
        sys.stdout.write(dumps(find_schema(name).document(), indent=2, sort_keys=True) + "\n")
    elif json:
        sys.stdout.write(dump(SchemaList({each.name: each.what for each in SCHEMAS.values()})))
    else:
        console = make_console(color=color, width=width, plain=plain)
        put_table(console, _COLUMNS, [(each.name, each.what) for each in SCHEMAS.values()])
        put(console)
        say(
            console,
            "kvtool schema NAME prints one: for an editor, a test, or whatever reads what kvtool writes",
            indent=0,
        )
    return 0
