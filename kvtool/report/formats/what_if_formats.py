"""What `kvtool what-if` found as a file: JSON, Markdown, HTML, CSV, text, or a picture of the terminal view."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING

from kvtool.report.formats.csv_table import cell_text
from kvtool.report.formats.svg import svg_of
from kvtool.report.markdown.text import code, prose
from kvtool.report.outputs import OutputFile, write_texts
from kvtool.report.terminal.plan_views.what_if import print_what_if
from kvtool.report.words.what_if_columns import columns
from kvtool.report.words.what_if_words import answer, heading, legend, not_there
from kvtool.report.write_options import WriteOptions
from kvtool.results.documents.what_if import SweepRow, WhatIfDocument
from kvtool.text.terminal.console import make_console

if TYPE_CHECKING:
    from rich.console import Console

_MOST_ROWS = 100


def write_what_if(document: WhatIfDocument, outputs: Sequence[OutputFile], *, width: int, quiet: bool) -> None:
    """Render everything, then write it: each file whole or not at all; KvtoolError for one that cannot be written."""
    options = WriteOptions(width=width)
    texts = [(output, FORMATTERS[output.format.name](document, options)) for output in outputs]
    write_texts(texts, quiet=quiet)


def _json(document: WhatIfDocument, _options: WriteOptions) -> str:
    return document.to_json()


def _text(document: WhatIfDocument, options: WriteOptions) -> str:
    file = StringIO()
    print_what_if(make_console(file=file, color="never", width=options.width), document)
    return file.getvalue()


def _svg(document: WhatIfDocument, options: WriteOptions) -> str:
    def show(console: Console) -> None:
        print_what_if(console, document)

    return svg_of(show, "kvtool what-if", options.width)


def _html(document: WhatIfDocument, _options: WriteOptions) -> str:
    from kvtool.report.html.what_if import what_if_page

    return what_if_page(document)


def _csv(document: WhatIfDocument, _options: WriteOptions) -> str:
    """A row for each setting with every field of the JSON's, lines ended by CR LF; what a row does not have is empty."""
    file = StringIO(newline="")
    writer = csv.writer(file, lineterminator="\r\n")
    names = list(SweepRow.model_fields)
    writer.writerow(names)
    writer.writerows([_cell(getattr(row, name)) for name in names] for row in document.rows)
    return file.getvalue()


def _cell(value: object) -> str:
    if value is None:
        return ""
    return cell_text(value) if isinstance(value, str) else repr(value)


def _markdown(document: WhatIfDocument, _options: WriteOptions) -> str:
    """A sentence and a table; names cannot become markup, mentions or links."""
    lines = [f"### kvtool: what if, for {code(document.input)}", ""]
    lines += [prose("; ".join([*heading(document), *document.notes])), "", prose(answer(document)), ""]
    shown = columns(document.rows)
    lines.append(f"| {' | '.join(column.head for column in shown)} |")
    lines.append(f"|{'|'.join('--:' if column.kind == 'number' else '---' for column in shown)}|")
    for row in document.rows[:_MOST_ROWS]:
        cells = [
            code(column.cell(row), cell=True) if column.kind == "command" else prose(column.cell(row), cell=True)
            for column in shown
        ]
        lines.append(f"| {' | '.join(cells)} |")
    if len(document.rows) > _MOST_ROWS:
        lines += ["", f"{len(document.rows) - _MOST_ROWS:,} more rows are in the JSON."]
    for lack in not_there(document):
        lines += ["", prose(f"{lack}.")]
    lines += ["", prose(f"{legend(document)}.")]
    return "\n".join(lines) + "\n"


FORMATTERS: Mapping[str, Callable[[WhatIfDocument, WriteOptions], str]] = {
    "json": _json,
    "markdown": _markdown,
    "html": _html,
    "csv": _csv,
    "text": _text,
    "svg": _svg,
}
"""What it can be written as, by the names of the formats."""
