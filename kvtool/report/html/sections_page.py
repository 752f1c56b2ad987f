"""A page of one document, without a script: its answer, tiles, and sections below each other."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256

from markupsafe import Markup

from kvtool.report.html.headline import AnswerLine, HeadlineTile
from kvtool.report.html.template_environment import template_environment
from kvtool.report.views.section import Section
from kvtool.text.terminal.runner_commands import blunt_xml
from kvtool.version import __version__


def sections_page(
    sections: Iterable[Section],
    *,
    title: str,
    head_title: str,
    brand: str,
    facts: Sequence[str],
    notes: Sequence[str],
    answer: Sequence[AnswerLine],
    tiles: Sequence[HeadlineTile] = (),
    caution: str = "",
    note: str = "",
    footer: str = "",
) -> str:
    """Return the page; it loads nothing. The `brand` says what it is of, and the `note` and `footer` are below all sections."""
    environment = template_environment()
    style = "".join(environment.get_template(name).render() for name in ("style.css.jinja", "what_if.css.jinja"))
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return blunt_xml(
        environment.get_template("sections.html.jinja").render(
            policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
            style=Markup(style),  # noqa: S704 - files of ours, without anything of the result
            version=__version__,
            title=title,
            head_title=head_title,
            brand=brand,
            facts=facts,
            notes=notes,
            caution=caution,
            answer=answer,
            tiles=tiles,
            sections=[section.on_pages() for section in sections],
            note=note,
            footer=footer,
        )
    )
