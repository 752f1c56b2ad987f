"""The table of all engines as a page of its own."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256

from markupsafe import Markup

from kvtool.report.html.template_environment import template_environment
from kvtool.report.words.engine_words import STATUS, answer, evidence, heading, limits, loss_of, losses, row_name
from kvtool.results.documents.engine_table import EngineTable
from kvtool.text.terminal.numbers import percent
from kvtool.text.terminal.runner_commands import blunt_xml
from kvtool.version import __version__

_MOST_GROUPS = 500


def engine_page(table: EngineTable) -> str:
    """The whole page; nothing of it is loaded from anywhere, and no prompt is quoted."""
    environment = template_environment()
    style = environment.get_template("style.css.jinja").render()
    digest = b64encode(sha256(style.encode()).digest()).decode()
    groups = [
        (
            group.name,
            [percent(tokens / group.prompt_tokens if group.prompt_tokens else 0.0) for tokens in group.cached_tokens],
            group.cause or "",
        )
        for group in table.groups[:_MOST_GROUPS]
    ]
    rows = [
        (row_name(row), f"{row.cached_tokens:,}", percent(row.hit_rate), loss_of(row), losses(row), STATUS[row.status])
        for row in table.rows
    ]
    return blunt_xml(
        environment.get_template("engine_table.html.jinja").render(
            policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
            style=Markup(style),  # noqa: S704 - a file of ours, without anything of the result
            version=__version__,
            title=table.input,
            facts=[*heading(table), *table.notes],
            partial=table.partial,
            sentences=answer(table),
            rows=rows,
            groups=groups if len(table.groups) > 1 else [],
            more_groups=max(len(table.groups) - _MOST_GROUPS, 0),
            evidence=evidence(table),
            limits=limits(table),
            next=" ".join(["kvtool", *table.next]) if table.next else "",
        )
    )
