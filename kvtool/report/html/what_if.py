"""What `kvtool what-if` found as a page of its own."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256

from markupsafe import Markup

from kvtool.report.html.headline import HeadlineTile
from kvtool.report.html.page_parts import Section
from kvtool.report.html.scales import short_count
from kvtool.report.html.sweep_lines import block_size_section, capacity_section, policy_section, ttl_section
from kvtool.report.html.sweep_table import sweep_table
from kvtool.report.html.template_environment import template_environment
from kvtool.report.what_if_words import answer, enough_row, heading, legend
from kvtool.results.documents.what_if import SweepRow, WhatIfDocument
from kvtool.text.terminal.numbers import percent, plural
from kvtool.text.terminal.runner_commands import blunt_xml
from kvtool.version import __version__

_SECTIONS: Mapping[str, Callable[[WhatIfDocument, Sequence[SweepRow]], Section]] = {
    "capacity": capacity_section,
    "policy": policy_section,
    "ttl": ttl_section,
    "block-size": block_size_section,
}
"""What draws the rows of an axis."""


def what_if_page(document: WhatIfDocument) -> str:
    """The whole page; nothing of it is loaded from anywhere, it has no script, and no prompt is quoted."""
    environment = template_environment()
    style = "".join(environment.get_template(name).render() for name in ("style.css.jinja", "what_if.css.jinja"))
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return blunt_xml(
        environment.get_template("what_if.html.jinja").render(
            policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
            style=Markup(style),  # noqa: S704 - files of ours, without anything of the result
            version=__version__,
            title=document.input,
            facts=heading(document),
            notes=document.notes,
            answer=answer(document),
            tiles=list(_tiles(document)),
            sections=_sections(document),
            legend=legend(document),
        )
    )


def _sections(document: WhatIfDocument) -> list[Section]:
    """All rows as one table where they are of several axes, then a section for each axis."""
    by_axis: dict[str, list[SweepRow]] = {}
    for row in document.rows:
        by_axis.setdefault(row.axis or "", []).append(row)
    if len(by_axis) > 1:
        whole = Section("changes", "What could be changed", tables=[sweep_table("Changes", document.rows)])
        drawn = [_SECTIONS[axis](document, rows) for axis, rows in by_axis.items() if axis in _SECTIONS]
        return [whole, *(section for section in drawn if section.drawings)]
    return [
        _SECTIONS[axis](document, rows)
        if axis in _SECTIONS
        else Section("rows", "Rows", tables=[sweep_table("Rows", rows)])
        for axis, rows in by_axis.items()
    ]


def _tiles(document: WhatIfDocument) -> Iterator[HeadlineTile]:
    """What can be hit at all, and what it takes."""
    yield HeadlineTile(
        "Reachable",
        percent(document.reachable_hit_rate),
        f"with unlimited room: {document.reachable_blocks:,} of {plural(document.references, 'block')}",
        True,
    )
    if document.capacity:
        held = short_count(document.capacity * document.block_size)
        yield HeadlineTile("Today", f"{document.capacity:,}", f"blocks of room: {held} tokens")
    enough = enough_row(document) if document.rows and document.rows[0].axis == "capacity" else None
    if enough is not None and enough.capacity:
        held = short_count(enough.capacity * document.block_size)
        yield HeadlineTile("Enough", f"{enough.capacity:,}", f"blocks hit 95 % of that or more: {held} tokens")
    held = short_count(document.distinct_blocks * document.block_size)
    yield HeadlineTile("Different blocks", f"{document.distinct_blocks:,}", f"what there is to keep: {held} tokens")
