"""Paints of fates: a colour for each family, a texture for each fate, and what it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from kvtool.accounting.ledger.fates import FATES
from kvtool.report.html.charts.drawing import sample
from kvtool.report.html.markup import element
from kvtool.report.html.page_parts import Key
from kvtool.report.views.fates import fate_name


@dataclass(frozen=True, slots=True)
class PaintOfFate:
    """`family` is a colour of the style sheet, `texture` a key of `_TEXTURES`; none of a family has the texture of another."""

    family: str
    texture: str
    meaning: str


_LOOKS = {
    "hit": PaintOfFate("solid", "bare", "the engine reused it from the cache"),
    "caching_off": PaintOfFate("run", "wide", "prefix caching is switched off"),
    "not_read": PaintOfFate("run", "leaning", "the request asks for prompt logprobs, so no cache is read"),
    "evicted": PaintOfFate("run", "up", "evicted before reuse; a larger cache keeps it"),
    "window": PaintOfFate("block", "down", "a sliding window had dropped its tokens"),
    "host_list_full": PaintOfFate("run", "steep", "later saves replaced it in host memory"),
    "slot_lost": PaintOfFate(
        "run", "bare", "llama.cpp gave its place to another prompt, and no saved copy replaced it"
    ),
    "taken_over": PaintOfFate("block", "steep", "another request took over its block"),
    "expired": PaintOfFate("run", "flat", "its time to live ended before reuse"),
    "scattered": PaintOfFate("run", "down", "another replica had it"),
    "below_minimum": PaintOfFate("block", "up", "the shared prefix is shorter than what the provider caches"),
    "unmarked": PaintOfFate("block", "fine", "the shared prefix ends at no breakpoint that the provider stored"),
    "setting_changed": PaintOfFate("text", "steep", "requests with other settings have their own cache of this prefix"),
    "not_kept": PaintOfFate("block", "coarse", "it was computed, but its boundary was not kept"),
    "answer_not_kept": PaintOfFate("run", "coarse", "the answer of the last turn was computed, but not kept"),
    "no_state": PaintOfFate(
        "block", "wide", "linear attention saves a state only at the end of a step or chunk, or in a checkpoint"
    ),
    "drafts": PaintOfFate("block", "leaning", "drafts need the token after the last block"),
    "long_block": PaintOfFate("block", "bare", "it ends inside a long block of the model"),
    "in_flight": PaintOfFate("run", "fine", "it was being computed at that moment"),
    "isolated": PaintOfFate("run", "upright", "the prefix is in the cache of another tenant, key, model or region"),
    "last_token": PaintOfFate(
        "block", "upright", "the last full block is computed again for the logits of the last token"
    ),
    "partial_block": PaintOfFate("block", "flat", "it is shared, but the shared prefix ends before its block does"),
    "seam": PaintOfFate("text", "upright", "the same characters have different tokens"),
    "cosmetic": PaintOfFate("text", "fine", "the same text repeats, but order or format differs before it"),
    "blocked": PaintOfFate("text", "up", "the same text repeats after text that changes"),
    "displaced": PaintOfFate("text", "down", "an earlier prompt contains the same line elsewhere"),
    "first_use": PaintOfFate("new", "steep", "first use of a prefix that later prompts reuse"),
    "unique": PaintOfFate("new", "bare", "used once"),
}
_TEXTURES = {
    "bare": (8.0, 0.0, 0.0),
    "up": (4.2, 4.2, 0.36),
    "down": (4.2, -4.2, 0.36),
    "upright": (4.0, 0.0, 0.4),
    "flat": (0.0, 4.0, 0.4),
    "steep": (6.5, 2.2, 0.3),
    "fine": (2.2, 2.2, 0.36),
    "wide": (9.0, 0.0, 0.5),
    "coarse": (7.4, 7.4, 0.28),
    "leaning": (6.5, -2.2, 0.3),
}
"""Stripes: one period across and down in pixels, and the part of it that is marked.

Gradients, not patterns: in a PDF these would be a bitmap for every shape that is painted with one.
"""
_UNKNOWN = PaintOfFate("new", "wide", "this version does not know it")


def fate_meaning(fate: str) -> str:
    """Return why tokens have it."""
    return _LOOKS.get(fate, _UNKNOWN).meaning


def fate_fill(fate: str) -> str:
    """Return the paint of a fate, for an attribute `fill`."""
    return f"url(#fate-{fate if fate in _LOOKS else 'unknown'})"


def fate_class(fate: str) -> str:
    """Return the class that gives a shape of this fate its outline."""
    return f"fate {_LOOKS.get(fate, _UNKNOWN).family}"


def swatch(fill: str | None, class_: str) -> Markup:
    """Draw a sample of a paint, for a legend."""
    shape = element("rect", x=0.5, y=0.5, width=17, height=11, class_=class_, fill=fill)
    return sample(shape)


def legend(fates: Mapping[str, str]) -> list[Key]:
    """Return a key for each of these fates with its text, in the order of the ledger."""
    known = {fate: place for place, fate in enumerate(FATES)}
    ordered = sorted(fates, key=lambda fate: (known.get(fate, len(known)), fate))
    return [Key(swatch(fate_fill(fate), fate_class(fate)), fate_name(fate), fates[fate]) for fate in ordered]


def paints() -> Markup:
    """Define the textures, once for a page."""
    stripes = [_stripes(f"fate-{fate}", look) for fate, look in _LOOKS.items()]
    stripes += [_stripes("fate-unknown", _UNKNOWN)]
    stripes += [_stripes(f"paint-{name}", look) for name, look in _PAINTS.items()]
    return element(
        "svg", element("defs", *stripes), width=0, height=0, class_="paints", aria_hidden="true", focusable="false"
    )


_PAINTS = {
    "reach": PaintOfFate("hit", "up", ""),
    "across": PaintOfFate("hit", "fine", ""),
    "before": PaintOfFate("block", "up", ""),
    "beyond": PaintOfFate("run", "up", ""),
    "once": PaintOfFate("pale", "up", ""),
}
"""Textures of other drawings than those of fates."""


def paint(name: str) -> str:
    """Return a texture by its name, for an attribute `fill`."""
    return f"url(#paint-{name})"


def _stripes(identity: str, look: PaintOfFate) -> Markup:
    """Define a gradient that repeats, with steps that are steep but not hard."""
    across, down, marked = _TEXTURES[look.texture]
    stops = [(0.0, "marks"), (marked, "marks"), (min(marked + 0.08, 1.0), "ground"), (0.92, "ground"), (1.0, "marks")]
    if not marked:
        stops = [(0.0, "ground"), (1.0, "ground")]
    return element(
        "linearGradient",
        *(element("stop", offset=offset, class_=f"{part} {look.family}") for offset, part in stops),
        id=identity,
        x1=0,
        y1=0,
        x2=across,
        y2=down,
        gradientUnits="userSpaceOnUse",
        spreadMethod="repeat",
    )
