"""The page of what-if: well-formed, whole, harmless, each chart with its table; and in a browser, at every width."""

from __future__ import annotations

import os
import re
import shutil
from base64 import b64encode
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.report.html.charts.router_scatter import LabelledPoint, label_places
from kvtool.report.html.what_if import what_if_page
from kvtool.results.documents.what_if import MissingRow, SweepRow, WhatIfDocument
from kvtool.results.next_step import PREVIEW_EDIT
from tests.made_results import HOSTILE
from tests.report.browser_checks import OVERFLOW, OVERLAPS, QUIET, TEXTS_CUT, WEAK_TEXTS, WIDTHS
from tests.report.html_results import Node, parse
from tests.report.what_if_documents import CASES, capacity, document, sampled

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = os.environ.get("KVTOOL_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
NOT_DRAWN = {"one_row", "no_rows", "table", "answer_alone", "odd_commands"}
"""Cases that have no chart."""
EVIL = f"{HOSTILE}\"onload='alert(1)'<img src=x onerror=alert(1)><script>alert(1)</script>\u202e\x1b[31m"


def page(made: WhatIfDocument) -> Node:
    return parse(what_if_page(made))


@cache
def page_of(case: str) -> tuple[str, Node]:
    """The page of a case as text, and parsed; made once."""
    text = what_if_page(CASES[case]())
    return text, parse(text)


def test_is_well_formed_and_asks_for_nothing() -> None:
    for case in CASES:
        text, found = page_of(case)
        nodes = found.all()
        assert not {"script", "img", "link", "iframe", "form", "object", "base"} & {node.tag for node in nodes}
        for node in nodes:
            assert not {"src", "srcset", "style", "action", "xlink:href"} & set(node.attributes)
            assert not [key for key in node.attributes if key.startswith("on")]
        identities = [node.attributes["id"] for node in nodes if "id" in node.attributes]
        assert len(identities) == len(set(identities))
        for node in nodes:
            assert all(word in identities for word in node.attributes.get("aria-labelledby", "").split())
        style = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
        digest = b64encode(sha256(style[0].encode()).digest()).decode()
        [policy] = [node.attributes["content"] for node in found.all("meta") if node.attributes.get("http-equiv")]
        assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
        assert "url(" not in style[0]


def test_each_chart_has_its_table_and_says_what_it_shows() -> None:
    for case in CASES:
        made = CASES[case]()
        found = page_of(case)[1]
        assert sum(len(table.all("tr")) for table in found.all("tbody")) >= len(made.rows)
        sections = list(found.all("section"))
        assert bool(sections) == bool(made.rows)
        charts = 0
        for section in sections:
            images = [node for node in section.all("svg") if node.attributes.get("role") == "img"]
            charts += len(images)
            assert section.all("table")
            for image in images:
                assert image.all("title")[0].words()
                assert len(image.all("desc")[0].words()) > 3
        assert bool(charts) == (case not in NOT_DRAWN)


def test_marks_and_errors_are_told() -> None:
    words = page(capacity()).words()
    assert "today 100 blocks, 1.6k tokens, 200.0 MiB" in words
    assert "95% of the maximum 320 blocks" in words
    assert "unlimited 40.0%" in words
    words = page(sampled()).words()
    assert "mean ± 2 standard errors" in words
    assert "± 3.00 points" in words
    assert "10.0% of the blocks" in words
    assert "2 failed or refused requests left out" in words


def test_the_bound_is_dashed_and_lines_differ_without_colour() -> None:
    found = page(CASES["policies"]())
    lines = [node.attributes["class"] for node in found.all("polyline")]
    assert lines == [*(f"series look{look}" for look in range(5)), "series bound"]
    style = found.all("style")[0].words()
    dashes = [
        re.search(rf"\.series\.{name} \{{[^}}]*dasharray: ([^;]*);", style) for name in ("look1", "look2", "bound")
    ]
    assert len({one[1] for one in dashes if one}) == 3
    forms = {
        (node.tag, "hollow" in node.attributes["class"])
        for node in found.all()
        if "form" in node.attributes.get("class", "").split()
    }
    assert len(forms) == 4  # circle, square, triangle and diamond, which are polygons; circle again without filling


def spoiled(made: WhatIfDocument) -> WhatIfDocument:
    """The same with every free text of it hostile."""
    free = [name for name, field in SweepRow.model_fields.items() if field.annotation == (str | None)]
    rows = [one.model_copy(update=dict.fromkeys(free, EVIL)) for one in made.rows]
    lists: dict[str, Any] = {"notes": [EVIL, EVIL]}
    if made.answer:
        lists |= {"answer": [EVIL, f"{PREVIEW_EDIT}: {EVIL}"], "missing": [MissingRow(change=EVIL, why=EVIL)]}
    return made.model_copy(update={"input": EVIL, "rules": EVIL, "rows": rows, **lists})


def test_nothing_hostile_gets_through() -> None:
    for case in CASES:
        text = what_if_page(spoiled(CASES[case]()))
        found = parse(text)
        assert not {"script", "img"} & {node.tag for node in found.all()}
        assert "\u202e" not in text
        assert "\x1b" not in text
        assert "<img" not in text
        assert "##[" not in text
        assert not [line for line in text.splitlines() if line.lstrip().startswith("::")]


def test_odd_figures_have_a_page() -> None:
    for made in [
        capacity(references=0, reachable_hit_rate=0.0, reachable_blocks=0),
        document([one.model_copy(update={"hit_rate": 0.0}) for one in CASES["policies"]().rows]),
        document([one.model_copy(update={"hit_rate": 1.0}) for one in CASES["ttls"]().rows]),
        capacity(block_size=0, bytes_per_block=0, capacity=0),
        capacity(capacity=10**15),
        document([one.model_copy(update={"capacity": 10**18 + place}) for place, one in enumerate(capacity().rows)]),
        document([one.model_copy(update={"capacity": 0}) for one in capacity().rows]),
        document([one.model_copy(update={"policy": None, "capacity": None}) for one in CASES["policies"]().rows]),
    ]:
        text = what_if_page(made)
        assert "nan" not in re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL).lower()


def test_the_table_has_its_answer_its_commands_and_what_is_missing() -> None:
    found = page(CASES["table"]())
    commands = [node.words() for node in found.all("pre")]
    said = "kvtool what-if traffic.jsonl --gpu-memory 80GiB --use-timestamps"
    flags = ["", " --fixed 1", " --capacity 200", " --host-memory 256GiB", ""]
    assert commands == [f"{said} --fixed 1", *(f"{said}{each}" for each in flags)]
    words = found.words()
    assert "Change first, without more hardware" in words
    assert "behind the rules. It computes 18.8% fewer prompt tokens." in words
    assert "there is one replica: say --replicas 4" in words
    changes = found.all("table")[0]
    heads = [node.words() for node in changes.all("th") if node.attributes.get("scope") == "col"]
    assert (heads[:3], heads[-1]) == (["Change", "Hit rate", "Computed"], "Run it")
    last = [row.all("td")[-1].words() for row in changes.all("tbody")[0].all("tr")]
    assert last == [each.strip() for each in flags]


def test_the_best_router_is_the_soonest_and_the_bound_is_a_line() -> None:
    found = page(CASES["routers"]())
    [ring] = [node for node in found.all("g") if node.all("circle")[0].attributes["class"] == "best"]
    assert ring.all("title")[0].words() == "least-ttft, 4 replicas: 26.0%, TTFT p99 10.0 s"
    texts = [node.words() for node in found.all("text")]
    assert {"sglang", "dynamo", "llm-d", "longest-prefix", "round-robin"} <= set(texts)
    assert "maximum of any router 36.6%" in found.words()


def test_the_map_says_each_figure_and_outlines_the_best() -> None:
    cells = [node for node in page(CASES["splits"]()).all("rect") if "heat" in node.attributes["class"].split()]
    cells = [node for node in cells if node.all("title")]
    assert len(cells) == 21
    best = [node.all("title")[0].words() for node in cells if "chosen" in node.attributes["class"]]
    assert best
    assert all(text.endswith("100%") for text in best)


def test_break_even_is_said_for_each_bandwidth() -> None:
    words = page(CASES["tiers"]()).words()
    assert "At 1 GB/s, computing is always faster than loading." in words
    assert "At 14 GB/s, loading is faster than computing from 1,024 tokens on." in words
    assert "no tier" in words


@given(
    st.lists(
        st.tuples(st.floats(0, 1), st.floats(10, 300), st.text("abcdefg-", min_size=1, max_size=22)),
        min_size=1,
        max_size=20,
    )
)
def test_labels_run_into_nothing(drawn: list[tuple[float, float, str]]) -> None:
    points = [LabelledPoint(*each) for each in drawn]
    places = label_places(points, range(len(points)), 320.0)
    for width in (270, 420, 1300):
        boxes = []
        for point, place in zip(points, places, strict=True):
            if place is None:
                continue
            length, x = 7 * len(point.text), point.x * width + place.across
            left = {"start": x, "end": x - length, "middle": x - length / 2}[place.anchor]
            boxes.append((left, left + length, point.y + place.down - 6, point.y + place.down + 6))
        for one, other in combinations(boxes, 2):
            assert one[1] <= other[0] or other[1] <= one[0] or one[3] <= other[2] or other[3] <= one[2]
        for left, right, top, bottom in boxes:
            assert left > -6
            assert right < width + 6
            assert not [p for p in points if left < p.x * width < right and top < p.y < bottom]


# In a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium on the PATH, nor in KVTOOL_CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    root = ("--no-sandbox",) if hasattr(os, "geteuid") and os.geteuid() == 0 else ()
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=[*root, *QUIET])
        yield opened
        opened.close()


def test_fits_and_can_be_read_at_every_width(browser: Browser, tmp_path: Path) -> None:
    context = browser.new_context(java_script_enabled=True)
    shown = context.new_page()
    problems: list[str] = []
    shown.on("console", lambda message: problems.append(message.text))
    for name, make in {**CASES, "hostile": lambda: spoiled(CASES["policies"]())}.items():
        path = tmp_path / f"{name}.html"
        path.write_text(what_if_page(make()), encoding="utf-8")
        shown.goto(path.as_uri(), wait_until="load")
        for scheme in ("dark", "light"):  # colours move nothing
            shown.emulate_media(color_scheme=scheme)  # type: ignore[arg-type] - a word that it knows
            assert shown.evaluate(WEAK_TEXTS)["weak"] == [], (name, scheme)
        for width in WIDTHS:
            shown.set_viewport_size({"width": width, "height": 900})
            assert shown.evaluate("document.documentElement.scrollWidth") == width, (name, width)
            assert shown.evaluate(OVERFLOW) == [], (name, width)
            assert shown.evaluate(TEXTS_CUT) == [], (name, width)
            assert shown.evaluate(OVERLAPS) == [], (name, width)
    assert problems == []
    context.close()


def test_print(browser: Browser, tmp_path: Path) -> None:
    context = browser.new_context(color_scheme="dark", viewport={"width": 690, "height": 900})
    shown = context.new_page()
    path = tmp_path / "page.html"
    path.write_text(what_if_page(sampled()), encoding="utf-8")
    shown.goto(path.as_uri(), wait_until="load")
    assert shown.pdf(format="A4").startswith(b"%PDF")
    shown.emulate_media(media="print")
    assert shown.evaluate("document.documentElement.scrollWidth") == 690
    assert shown.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--ink').trim()") == "#1a1e22"
    assert shown.locator("section table").first.is_visible()
    context.close()
