"""A document of `kvtool what-if` as a file: JSON, Markdown, HTML, CSV, text, or a picture of the terminal view."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from io import StringIO

from kvtool.report.formats.csv_table import cell_text
from kvtool.report.formats.svg import svg_of
from kvtool.report.formats.text_format import text_of
from kvtool.report.markdown.render import section_lines, table_lines
from kvtool.report.markdown.text import code, prose
from kvtool.report.outputs import OutputFile, write_texts
from kvtool.report.terminal.plan_views.what_if import print_what_if
from kvtool.report.views.plans.what_if import answer, changes, heading, legend
from kvtool.report.views.plans.what_if_rows import rows_table
from kvtool.report.write_options import WriteOptions
from kvtool.results.documents.what_if import SweepRow, WhatIfDocument

_MOST_ROWS = 100


def write_what_if(document: WhatIfDocument, outputs: Sequence[OutputFile], *, width: int, quiet: bool) -> None:
    """Render everything, then write it: each file whole or not at all; KvtoolError for one that cannot be written."""
    options = WriteOptions(width=width)
    texts = [(output, FORMATTERS[output.format.name](document, options)) for output in outputs]
    write_texts(texts, quiet=quiet)


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
    """Return a sentence and a table; names cannot become markup, mentions or links."""
    lines = [f"### kvtool what-if: {code(document.input)}", ""]
    lines += [prose("; ".join([*heading(document), *document.notes])), "", prose(answer(document))]
    if document.rows and document.rows[0].axis is None:
        lines += section_lines(changes(document, document.rows))
    else:
        lines += ["", *table_lines(rows_table("Rows", document.rows, _MOST_ROWS)), "", prose(f"{legend(document)}.")]
    return "\n".join(lines) + "\n"


FORMATTERS: Mapping[str, Callable[[WhatIfDocument, WriteOptions], str]] = {
    "json": lambda document, _: document.to_json(),
    "markdown": _markdown,
    "html": _html,
    "csv": _csv,
    "text": lambda document, options: text_of(lambda console: print_what_if(console, document), options.width),
    "svg": lambda document, options: svg_of(
        lambda console: print_what_if(console, document), "kvtool what-if", options.width
    ),
}
"""Writers by the names of formats."""
