"""The HTML page in a real browser: no errors, no requests, charts in their places, both colour schemes, keyboard, print.

Needs playwright and a Chromium: that of KVTOOL_CHROMIUM, or `chromium` on the PATH.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kvtool.report.html import write
from kvtool.report.write_options import WriteOptions
from kvtool.results.check import CheckResult
from kvtool.results.show_text import ShowText
from tests.made_results import CASES, HOSTILE, finding, group, report, result
from tests.report.browser_checks import OVERFLOW, OVERLAPS, QUIET, SHAPES, TEXTS_CUT, WEAK_TEXTS, WIDTHS
from tests.report.html_results import SECTIONS, full_report, full_result

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = os.environ.get("KVTOOL_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on the PATH, nor in KVTOOL_CHROMIUM")

Opener = Callable[..., "Page"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    root = ("--no-sandbox",) if hasattr(os, "geteuid") and os.geteuid() == 0 else ()
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=[*root, *QUIET])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def pages(browser: Browser) -> dict[bool, Page]:
    """A page with scripts and one without, which tests open their files in."""
    found = {scripts: browser.new_context(java_script_enabled=scripts).new_page() for scripts in (True, False)}
    for page in found.values():
        page.add_init_script(
            """document.addEventListener("securitypolicyviolation", event => console.error(event.violatedDirective))"""
        )
    return found


@pytest.fixture
def show(pages: dict[bool, Page], tmp_path: Path) -> Iterator[Opener]:
    """Opens the page of a result; at the end nothing may have gone wrong, and nothing but the file may have been asked for."""
    opened: list[str] = []
    problems: list[str] = []
    asked: list[str] = []
    watched = {
        "console": lambda message: problems.append(message.text),
        "pageerror": lambda error: problems.append(str(error)),
        "dialog": lambda dialog: problems.append(dialog.message),
        "request": lambda request: asked.append(request.url),
    }
    for page, (event, note) in product(pages.values(), watched.items()):
        page.on(event, note)  # type: ignore[call-overload] - one of those that it knows

    def start(
        made: CheckResult,
        *,
        width: int = 1400,
        scheme: str = "light",
        show_text: ShowText = "none",
        scripts: bool = True,
    ) -> Page:
        page = pages[scripts]
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(media="null", color_scheme=scheme)  # type: ignore[arg-type] - a word that it knows
        page.mouse.move(0, 0)
        path = tmp_path / f"{len(opened)}.html"
        path.write_text(write(made, WriteOptions(show_text=show_text)), encoding="utf-8")
        opened.append(path.as_uri())
        page.goto(path.as_uri(), wait_until="load")
        return page

    yield start
    for page, (event, note) in product(pages.values(), watched.items()):
        page.remove_listener(event, note)
    assert not problems
    assert asked == opened


CHARTS = {
    "tokens": 1,
    "groups": 3,
    "time": 3,
    "capacity": 1,
    "distance": 1,
    "worst": 2,
    "findings": 2,
    "boundaries": 1,
}
"""How many each section has."""


def test_everything_is_shown_and_can_be_read(show: Opener) -> None:
    page = show(full_result(), width=1000)
    assert page.title() == "FAIL: support.yaml, kvtool report"
    for name, title in SECTIONS.items():
        assert page.locator(f"#w1-{name}").get_by_role("heading", level=3).inner_text() == title
    for name, count in CHARTS.items():
        images = page.locator(f"#w1-{name}").get_by_role("img")
        assert images.count() == count, name
        boxes = images.evaluate_all(
            "all => all.map(one => [one.getBoundingClientRect().width, one.getBoundingClientRect().height])"
        )
        assert all(width > 200 and height > 20 for width, height in boxes), name
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    for scheme, ground in (("light", "rgb(250, 250, 248)"), ("dark", "rgb(19, 22, 25)")):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type] - a word that it knows
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == ground
        found = page.evaluate(WEAK_TEXTS)
        assert found["seen"] > 300
        assert found["weak"] == []
        assert min(page.evaluate(SHAPES)) >= 3


def test_figures_stand_where_they_should(show: Opener) -> None:
    page = show(full_result(), width=1000)

    def box(selector: str) -> dict[str, float]:
        found = page.locator(selector).first.bounding_box()
        assert found is not None
        return dict(found)

    for drawing, ratio in (("#w1-all", 0.635), ("#w1-group-0", 0.4), ("#w1-group-1", 0.87)):
        assert box(f"{drawing} rect.bar")["width"] == pytest.approx(ratio * box(drawing)["width"], abs=3)
    gate, frame = box("#w1-group-0 line.gate:not(.halo)"), box("#w1-group-0")
    assert gate["x"] - frame["x"] == pytest.approx(0.8 * frame["width"], abs=3)
    pieces = page.locator("#w1-tree-icicle rect.piece").all()
    heights = [piece.bounding_box()["height"] for piece in pieces]  # type: ignore[index]
    assert heights[1] == pytest.approx(heights[0] / 2, abs=3)
    assert heights[3] == pytest.approx(heights[0] / 20, abs=3)
    point, curve = box("#w1-capacity-curve circle"), box("#w1-capacity-curve")
    assert point["x"] + point["width"] / 2 - curve["x"] == pytest.approx(
        6 / 7 * curve["width"], abs=3
    )  # 64 of 1 to 128 blocks


def test_fits_every_width(show: Opener) -> None:
    made_by_name = {name: CASES[name]() for name in ("hostile", "lint_only", "passing")}
    costly = report(group(tokens=10**7), findings=[finding(tokens_lost=9_999_999)])
    made_by_name["costly"] = result("none", "", costly)
    for name, made in {"full": full_result(), **made_by_name}.items():
        page = show(made, scheme="dark", show_text="full")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") == width, name
            assert page.evaluate(OVERFLOW) == [], (name, width)
            assert page.evaluate(TEXTS_CUT) == [], (name, width)
            assert page.evaluate(OVERLAPS) == [], (name, width)


def test_by_keyboard(show: Opener) -> None:
    page = show(full_result())
    focused = "document.activeElement.getAttribute('href') ?? document.activeElement.tagName"
    page.keyboard.press("Tab")
    assert page.evaluate(focused) == "#main"
    box = page.locator(".skip").bounding_box()
    assert box is not None
    assert box["y"] >= 0  # it comes into view
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('#w1-findings') !== null")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_tables_open_by_keyboard_and_order_is_that_of_the_page(show: Opener) -> None:
    page = show(full_result())
    stops = []
    for _ in range(120):
        page.keyboard.press("Tab")
        tops = page.evaluate(
            "[document.activeElement.tagName, document.activeElement.getBoundingClientRect().top + scrollY]"
        )
        if tops[0] == "BODY":
            break
        stops.append(tops)
        if tops[0] == "SUMMARY" and len([tag for tag, _ in stops if tag == "SUMMARY"]) == 3:  # behind two findings
            page.keyboard.press("Enter")
            assert page.locator("#w1-tokens details").get_attribute("open") == ""
    order = [top for tag, top in stops if tag in ("SUMMARY", "DIV", "PRE")]
    assert len(order) > 15
    assert order == sorted(order)


def test_what_a_screen_reader_is_told(show: Opener) -> None:
    page = show(full_result())
    snapshot = page.locator("body").aria_snapshot()
    for line in (
        '- link "Skip to the report"', "- banner:", '- heading "support.yaml" [level=1]', '- navigation "Contents":',
        "- main:", '- region "Opportunities":', '- region "Verdict":', '- table "Checks":',
        '- article "Summary FAIL":', '- heading "Token breakdown" [level=3]', '- columnheader "Hit rate"',
        "- contentinfo:",
    ):  # fmt: skip
        assert line in snapshot, line
    images = page.get_by_role("img")
    titles = images.evaluate_all("all => all.map(one => one.querySelector('title').textContent)")
    assert len(titles) == 1 + sum(CHARTS.values())
    assert all(titles)
    chart = page.get_by_role("img", name=re.compile(r"^Token breakdown (?!of )"))
    assert chart.count() == 1
    assert page.get_by_role("img", name="hit rate 40.0%, maximum 90.0%, gate at least 80.0%: FAIL").count() == 1


def shown_groups(page: Page) -> list[str]:
    return page.locator("#w1-groups tbody tr:visible th").all_inner_texts()


def test_groups_are_sorted(show: Opener) -> None:
    names = ["b", "a", "d", "c"]
    hits = dict(zip(names, (20, 300, 1000, 3), strict=True))
    page = show(result("none", "", report(*(group(name, hit=hits[name], reachable=1000) for name in names))))
    assert shown_groups(page) == names
    head = page.get_by_role("columnheader", name="Hit rate")
    assert head.get_attribute("aria-sort") is None
    head.get_by_role("button").click()
    assert (head.get_attribute("aria-sort"), shown_groups(page)) == ("descending", ["d", "a", "b", "c"])
    head.get_by_role("button").press("Enter")
    assert (head.get_attribute("aria-sort"), shown_groups(page)) == ("ascending", ["c", "b", "a", "d"])
    page.get_by_role("columnheader", name="Group").get_by_role("button").click()
    assert shown_groups(page) == ["a", "b", "c", "d"]
    assert page.locator("#w1-groups [aria-sort]").count() == 1


def test_groups_without_a_figure_stay_last(show: Opener) -> None:
    times: dict[str, Any] = {"p50": 0.04, "p90": 0.05, "p99": 0.06}
    slow = times | {"p50": 0.4}
    groups = group("none"), group("fast", predicted_ttft=times), group("slow", predicted_ttft=slow)
    page = show(result("none", "", report(*groups)))
    button = page.get_by_role("columnheader", name="TTFT p50, predicted").get_by_role("button")
    button.click()
    assert shown_groups(page) == ["slow", "fast", "none"]
    button.click()
    assert shown_groups(page) == ["fast", "slow", "none"]


def test_groups_are_filtered(show: Opener) -> None:
    page = show(result("none", "", report(*(group(f"team {name}") for name in ("blue", "red", "green")))))
    status = page.locator("#w1-groups").get_by_role("status")
    assert status.inner_text() == "3 groups"
    field = page.get_by_label("Filter groups")
    field.fill("TEAM re")
    assert (shown_groups(page), status.inner_text()) == (["team red", "team green"], "2 of 3 groups")
    page.get_by_role("columnheader", name="Group").get_by_role("button").click()
    assert shown_groups(page) == ["team green", "team red"]
    field.fill("nothing of it")
    assert (shown_groups(page), status.inner_text()) == ([], "0 of 3 groups")
    field.fill("")
    assert len(shown_groups(page)) == 3


def test_a_piece_of_the_tree_is_told_and_entered(show: Opener) -> None:
    page = show(full_result())
    tree = page.locator("#w1-tree")
    pieces, frame = tree.locator("g.node"), tree.locator("svg.drawing")
    back, status = tree.get_by_role("button", name="Whole tree"), tree.get_by_role("status")
    before = pieces.evaluate_all("all => all.map(one => one.querySelector('.piece').outerHTML)")
    assert back.is_disabled()
    pieces.nth(1).hover()
    hover = tree.locator(".hover")
    assert hover.inner_text().startswith("10 requests, 70 tokens from 20; prompts/support.md:3")
    page.mouse.move(0, 0)
    assert not hover.is_visible()
    pieces.nth(1).click()
    box, whole = pieces.nth(1).locator(".piece").bounding_box(), frame.bounding_box()
    assert box is not None
    assert whole is not None
    assert box["width"] == pytest.approx(whole["width"] * 70 / 80, abs=4)  # it and its child of ten tokens
    assert box["height"] == pytest.approx(320, abs=4)
    assert [pieces.nth(place).is_visible() for place in range(4)] == [False, True, False, True]
    assert status.inner_text().startswith("10 requests, 70 tokens")
    assert "prompts/support.md:3 · 10 requests" in (frame.text_content() or "")
    pieces.nth(1).click()  # what is entered already leads out again
    assert [pieces.nth(place).is_visible() for place in range(4)] == [True] * 4
    pieces.nth(3).click()
    back.click()
    assert pieces.evaluate_all("all => all.map(one => one.querySelector('.piece').outerHTML)") == before


def test_the_tree_by_keyboard(show: Opener) -> None:
    page = show(full_result())
    tree = page.locator("#w1-tree")
    at = "[...document.querySelectorAll('#w1-tree g.node')].indexOf(document.activeElement)"
    assert tree.get_by_role("group", name="Prefix tree: shared prefixes").count() == 1
    assert tree.locator("g.node[tabindex='0']").count() == 1
    tree.locator("g.node").first.focus()
    for key, place in (
        ("ArrowRight", 1),
        ("ArrowDown", 2),
        ("ArrowDown", 2),
        ("ArrowUp", 1),
        ("ArrowRight", 3),
        ("ArrowLeft", 1),
    ):
        page.keyboard.press(key)
        assert page.evaluate(at) == place, key
    assert tree.locator(".hover").is_visible()
    assert tree.locator("g.node[tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    assert tree.get_by_role("button", name="Whole tree").is_enabled()
    page.keyboard.press("Escape")
    assert tree.get_by_role("button", name="Whole tree").is_disabled()
    assert page.evaluate(at) == 1


def test_without_a_script_all_of_it_reads(show: Opener) -> None:
    page = show(full_result(), scripts=False)
    assert page.locator("button, input, .tools, .hover").count() == 0
    assert shown_groups(page) == ["support", "rag"]
    for name, title in SECTIONS.items():
        assert page.locator(f"#w1-{name}").get_by_role("heading", level=3).inner_text() == title
    assert page.get_by_role("img", name="Prefix tree: shared prefixes").count() == 1
    assert page.locator("#w1-tree g.node title").count() == 4
    cards = page.locator("details.card")
    assert cards.nth(0).locator(".about").is_visible()
    assert not cards.nth(1).locator(".about").is_visible()
    cards.nth(1).locator("summary").click()
    assert cards.nth(1).locator(".about").is_visible()


def test_the_policy_stops_what_is_not_of_the_page(show: Opener, tmp_path: Path) -> None:
    """That violations are seen at all: a page into which somebody wrote a script."""
    page = show(full_result())
    text = Path(page.url.removeprefix("file://")).read_text(encoding="utf-8")
    spoiled = tmp_path / "spoiled.html"
    spoiled.write_text(text.replace("<footer", "<script>document.title = 'taken'</script><footer"), encoding="utf-8")
    other = page.context.browser.new_page()  # type: ignore[union-attr] - it has one
    said: list[str] = []
    other.on("console", lambda message: said.append(message.text))
    other.goto(spoiled.as_uri())
    assert other.title() != "taken"
    assert any("Content Security Policy" in one for one in said)
    other.close()


def test_on_paper_every_finding_is_open(show: Opener) -> None:
    page = show(full_result())
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details.card:not([open])").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details.card:not([open])").count() == 1
    page.emulate_media(media="print")
    assert page.locator("details.card .about").nth(1).is_visible()  # without the script, too
    assert not page.locator(".tools").first.is_visible()


def test_print(show: Opener, tmp_path: Path) -> None:
    made = result("fail", "FAIL", full_report(), full_report("chat", "code", "chat.yaml"))
    page = show(made, scheme="dark")
    data = page.pdf(format="A4")
    assert data.startswith(b"%PDF")
    assert len(data) < 2_000_000  # paints that a PDF has no words for would be bitmaps
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 690, "height": 900})  # A4 without its margins
    assert page.evaluate("document.documentElement.scrollWidth") == 690
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
    assert page.evaluate("getComputedStyle(document.querySelector('.contents')).display") == "none"
    assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--ink').trim()") == "#1a1e22"
    assert page.evaluate(
        "[...document.querySelectorAll('figure')].every(one => getComputedStyle(one).breakInside === 'avoid')"
    )


def test_text_is_hidden_unless_asked_for(show: Opener) -> None:
    for show_text in ("none", "full"):
        page = show(CASES["quoting"](), show_text=show_text)
        assert ("an agent" in page.locator("body").inner_text()) == (show_text == "full")
        for quoted in ("pre.snippet", "mark", "pre.patch"):
            assert page.locator(quoted).count() == (show_text == "full")


def test_hostile_names_are_only_text(show: Opener) -> None:
    evil = f"{HOSTILE}\"onload='alert(1)'<img src=x onerror=alert(1)>"
    page = show(result("fail", evil, full_report(evil, f"{evil} 2", evil)), show_text="full")
    assert page.locator("script").count() == 1
    assert page.locator("img, iframe, object, embed, form, base").count() == 0
    piece = page.locator("#w1-tree g.node").first
    piece.hover()
    assert "<img src=x onerror=alert(1)>" in page.locator(".hover").inner_text()
    piece.press("Enter")
    assert "<img src=x onerror=alert(1)>" in page.locator("#w1-tree [role=status]").inner_text()
    page.locator("#w1-groups input").fill("<img onerror=alert(1)> <script>")
    assert page.locator("#w1-groups tbody tr:visible").count() == 2
    assert "<img src=x onerror=alert(1)>" in page.locator("h1").inner_text()
