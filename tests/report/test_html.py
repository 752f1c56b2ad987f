"""The HTML page: well-formed, whole, harmless, and right in its figures. What a browser makes of it is in test_html_browser."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest

from kvtool.accounting.ledger.fates import FATES
from kvtool.report.html import write
from kvtool.report.html.charts.icicle import layout
from kvtool.report.html.charts.scales import round_step, round_ticks
from kvtool.report.html.markup import element, prose, share
from kvtool.report.write_options import WriteOptions
from kvtool.results.check import CheckResult
from kvtool.results.finding import ExamplePair, LoggedPlace, Rerun, Snippet
from kvtool.results.views import TreeNode, Views
from tests.conftest import Command
from tests.files import write as write_file
from tests.made_results import CASES, HOSTILE, check, finding, group, report, result
from tests.report.html_results import SECTIONS, Node, full_report, full_result, numbers, page, views

FIXED_TAGS = frozenset(
    """
    html head meta title style body a svg defs lineargradient stop header div p span i h1 h2 h3 h4 nav ul li main section table
    caption thead tbody tr th td article dl dt dd figure figcaption bdi strong b code pre details summary footer rect line text
    desc circle polyline polygon mark ins del g script
    """.split()  # noqa: SIM905 - a list of 59 strings says no more
)


def only(node: Node, tag: str) -> str:
    """The text of the one element of that kind, as it stands."""
    [found] = node.all(tag)
    [text] = found.children
    return text.text


def hash_of(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def rows(node: Node) -> list[list[str]]:
    """The cells of each row of a table's body."""
    [body] = node.all("tbody")
    return [[cell.words() for cell in row.children if cell.tag in ("th", "td")] for row in body.all("tr")]


def table(node: Node, caption: str) -> Node:
    [found] = [one for one in node.all("table") if one.all("caption")[0].words() == caption]
    return found


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("show_text", ["none", "full"])
def test_is_well_formed_and_whole(name: str, show_text: str) -> None:
    made = CASES[name]()
    found = page(made, "full" if show_text == "full" else "none")
    tags = {node.tag for node in found.all()} - {"#text"}
    assert tags <= FIXED_TAGS
    assert not [node for node in found.all() for key in node.attributes if key.startswith("on") or key == "style"]
    identities = [node.attributes["id"] for node in found.all() if "id" in node.attributes]
    assert len(identities) == len(set(identities))
    assert made.verdict.outcome != "fail" or "FAIL" in found.all("title")[0].words()
    for node in found.all():
        for key in ("aria-labelledby",):
            assert all(word in identities for word in node.attributes.get(key, "").split())
    for link in found.all("a"):
        assert link.attributes["href"][0] == "#"
        assert link.attributes["href"][1:] in identities


@pytest.mark.parametrize("name", CASES)
def test_asks_for_nothing(name: str) -> None:
    text = write(CASES[name](), WriteOptions(show_text="full"))
    found = page(CASES[name](), "full")
    [policy] = [node.attributes["content"] for node in found.all("meta") if node.attributes.get("http-equiv")]
    assert policy.split("; ") == [
        "default-src 'none'",
        f"script-src {hash_of(only(found, 'script'))}",
        f"style-src {hash_of(only(found, 'style'))}",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    for node in found.all():
        assert not {"src", "srcset", "data", "action", "background", "poster", "xlink:href"} & set(node.attributes)
        for value in node.attributes.values():
            assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)", value))
    style = found.all("style")[0].words()
    assert "url(" not in style
    assert "@import" not in style
    assert text.count("<script") == text.count("<script>") == 1
    assert "<link" not in text


def test_the_script_evaluates_and_asks_for_nothing() -> None:
    script = only(page(full_result()), "script")
    assert len(script) < 12_000
    assert script.startswith('"use strict";')
    for word in (
        "eval",
        "Function",
        "innerHTML",
        "outerHTML",
        "insertAdjacent",
        "document.write",
        "fetch",
        "XMLHttp",
        "import",
    ):
        assert word not in script
    assert "http" not in script.replace("http://www.w3.org/2000/svg", "")
    assert script == only(page(CASES["hostile"]()), "script")  # nothing of a result is in it


def test_nothing_hostile_gets_through() -> None:
    evil = HOSTILE + "\"onload='alert(1)'\" {{ 7 * 7 }} {% raw %} </style></svg></title>"
    made = result(
        "fail",
        evil,
        full_report(
            evil,
            f"{evil}2",
            evil,
            views=Views.model_validate(views(evil, f"{evil}2", evil)),
            findings=[
                finding(
                    group=evil,
                    path=evil,
                    message=evil,
                    fix=evil,
                    tier=evil,
                    warnings=[evil],
                    snippet=Snippet(text=evil, start=3, stop=9_999),
                    patch=f"+{evil}\n-{evil}\n",
                )
            ],
            fates={evil: 100, "hit": 900, evil.upper(): 1000},
            notes=[evil],
            config={evil: evil, "input": evil, "tokenizer": evil, "measured_model": evil},
        ),
        checks=(check(id=evil, group=evil, workload=evil, path=evil, message=evil),),
        notices=[evil],
        inputs=[evil],
    )
    text = write(made, WriteOptions(show_text="full"))
    found = page(made, "full")
    assert {node.tag for node in found.all()} - {"#text"} <= FIXED_TAGS
    assert not [node for node in found.all() for key in node.attributes if key.startswith("on")]
    assert not re.search(r"[^\n\x20-\x7e\xa0-\u2027\u202f-\u205f\u2070-\ud7ff\ue000-\ufdcf]", text)
    assert text.count("<script") == 1
    assert found.words().count("<script>alert(1)</script>") > 20
    assert "\\x1b]8;;" in found.words()
    assert "\\u202e" in found.words()
    assert "{{ 7 * 7 }}" in found.words()


@pytest.mark.parametrize("show_text", ["none", "snippet", "full"])
def test_text_of_prompts_is_hidden_unless_asked_for(show_text: str) -> None:
    secret = "The launch code is 4711."
    shown = finding(
        snippet=Snippet(text=f"Now: {secret}", start=5, stop=8), patch=f"--- a\n+++ a\n@@ -1 +1 @@\n-{secret}\n+new\n"
    )
    made = result("fail", "FAIL", report(findings=[shown]))
    text = write(made, WriteOptions(show_text="none" if show_text == "none" else "full"))
    assert ("4711" in text) == (show_text != "none")
    found = page(made, "none" if show_text == "none" else "full")
    assert [node.words() for node in found.all("mark")] == ([] if show_text == "none" else ["The"])
    assert [node.words() for node in found.all("del")] == ([] if show_text == "none" else [f"-{secret}"])


def test_every_section_is_there_in_order() -> None:
    found = page(full_result())
    sections = found.all("section")
    places = [sections.index(found.id(f"w1-{name}")) for name in SECTIONS]
    assert places == sorted(places)
    for name, title in SECTIONS.items():
        section = found.id(f"w1-{name}")
        assert section.all("h3")[0].words() == title
        assert f"#w1-{name}" in [link.attributes["href"] for link in found.all("nav")[0].all("a")]
    assert not found.all(class_="missing")[1:]  # only that nothing was measured
    assert not found.all(class_="verdict")[0].all("h2")


def test_the_answer_comes_first() -> None:
    found = page(full_result(), "none")
    [answer] = found.all("header")[0].all(class_="answer")
    lines = [(line.all("dt")[0].words(), line.all("dd")[0].words()) for line in answer.all("div")]
    assert [label for label, _ in lines] == ["Hit rate", "Lost", "Next"]
    assert lines[0][1].startswith("63.5% now")
    assert "prompts/support.md:3" in lines[1][1]
    several = page(result("none", "", full_report(), full_report("chat", "code", "chat.yaml")))
    [top] = several.all("header")[0].all(class_="answer")
    assert several.all(class_="of")[0].all("a")[0].attributes["href"] == "#w1"
    assert top.words() == several.id("w1").all(class_="answer")[0].words()
    quiet = page(result("none", "", report(), report(workload="b.yaml")))
    assert not quiet.all("header")[0].all(class_="answer")
    assert [len(part.all(class_="answer")) for part in several.all("article", class_="report")] == [1, 1]


def test_opportunities_are_sorted_by_what_they_save() -> None:
    small, large, none = (
        finding(line=1, tokens_lost=60),
        finding(line=2, tokens_lost=500),
        finding(line=3, tokens_lost=0),
    )
    cards = page(result("none", "", report(findings=[none, small, large]))).all(class_="card")
    assert [card.all(class_="place")[0].words() for card in cards] == [
        f"prompts/support.md:{line}:6" for line in (2, 1, 3)
    ]
    assert [[one.words() for one in card.all(class_="saves")] for card in cards] == [
        ["500 tokens, 50.0%"],
        ["60 tokens, 6.0%"],
        [],
    ]
    widths = [[bar.attributes["width"] for bar in card.all("rect", class_="loss")] for card in cards]
    assert widths == [["100%"], ["12%"], []]
    assert [card.tag for card in cards] == ["details"] * 3
    assert ["open" in card.attributes for card in cards] == [True, False, False]


def test_many_opportunities_are_folded() -> None:
    many = [finding(line=line, tokens_lost=line) for line in range(1, 26)]
    found = page(result("none", "", report(findings=many)))
    [rest] = found.all(class_="rest")
    assert rest.all("summary")[0].words() == "15 more findings"
    assert len(rest.all(class_="card")) == 15
    assert len(found.all(class_="card")) == 25


def test_an_edit_that_a_command_makes_is_named() -> None:
    found = page(result("none", "", report(findings=[finding(in_source=True)], editable=True, workload="a b.yaml")))
    [card] = found.all(class_="card")
    assert card.all(class_="command")[0].words() == "kvtool optimize 'a b.yaml' --allow P2"
    for kept in (finding(in_source=False), finding(in_source=True, rerun=None)):
        assert not page(result("none", "", report(findings=[kept], editable=True))).all(class_="card")[0].all("pre")


def test_a_finding_of_a_log_shows_two_requests() -> None:
    pair = ExamplePair(
        was="a.jsonl:1",
        now="a.jsonl:2",
        command="kvtool diff-prompts a.jsonl:1 a.jsonl:2",
        was_line=Snippet(text="Now: <10:00>", start=5, stop=12),
        now_line=Snippet(text="Now: <10:01>", start=5, stop=12),
    )
    place = LoggedPlace(record=2, part="messages[0] (system)", content=None, line=3)
    seen = finding(path="a.jsonl", line=2, logged=place, example=pair, snippet=pair.now_line)
    [card] = page(result("none", "", report(findings=[seen])), "full").all(class_="card")
    assert card.all(class_="place")[0].words() == "a.jsonl:2 · messages[0] (system), line 3"
    assert card.all(class_="snippet")[0].words() == "was Now: <10:00> now Now: <10:01>"
    assert [one.words() for one in card.all("mark")] == ["<10:00>", "<10:01>"]
    assert card.all(class_="command")[0].words() == pair.command
    [hidden] = page(result("none", "", report(findings=[seen])), "none").all(class_="card")
    assert not hidden.all(class_="snippet")


def test_what_shows_nothing_is_left_out() -> None:
    shapes = views()
    shapes["timelines"] = shapes["timelines"][:1]
    for one in shapes["timelines"][0]["bins"]:
        one["hit_tokens"] = 0
    shapes["prefix_tree"]["nodes"] = [one | {"requests": 1} for one in shapes["prefix_tree"]["nodes"]]
    shapes["reuse"]["bins"] = shapes["reuse"]["bins"][:1]
    for one in shapes["reuse"]["curve"]:
        one["hit_rate"] = 0.0
    for prompt in shapes["worst"]:
        prompt["runs"] = [{"start": 0, "stop": 100, "fate": "unique", "path": "", "line": 0}]
    made = report(fates={"unique": 1000}, views=Views.model_validate(shapes))
    found = page(result("none", "NO GATE: no limit is set", made))
    kept = {node.attributes["id"] for node in found.all("section")}
    assert kept == {"w1-findings", "w1-ttft", "w1-memory", "w1-config"}
    assert {link.attributes["href"] for link in found.all("nav")[0].all("a")} == {"#w1", *(f"#{one}" for one in kept)}
    assert "NO GATE" not in found.words()
    assert found.all("title")[0].words() == "support.yaml, kvtool report"


def test_the_one_group_is_not_told_beside_all_requests() -> None:
    made = result("fail", "FAIL", report(), checks=(check(group=None),))
    section = page(made).id("w1-groups")
    assert [one.all(class_="name")[0].words() for one in section.all("figcaption")] == ["all requests"]
    assert not section.all("table")
    assert "w1-groups" not in {one.attributes.get("id") for one in page(result("none", "", report())).all("section")}


def test_what_is_shared_but_fills_no_block_is_not_drawn() -> None:
    shapes = views()
    nodes = shapes["prefix_tree"]["nodes"]
    for tokens, drawn in ((15, False), (16, True)):
        shapes["prefix_tree"]["nodes"] = [nodes[0] | {"tokens": tokens}, nodes[3] | {"parent": 0, "start": tokens}]
        made = page(result("none", "", full_report(views=Views.model_validate(shapes))))
        assert bool(made.all(id="w1-tree")) == drawn


def test_worst_prompts_that_nothing_can_be_done_about_are_not_drawn() -> None:
    shapes = views()
    for prompt in shapes["worst"][:1]:
        for run, fate in zip(prompt["runs"], ("partial_block", "first_use", "unique"), strict=True):
            run["fate"] = fate
    found = page(result("none", "", full_report(views=Views.model_validate(shapes)))).id("w1-worst")
    assert [one.all(class_="name")[0].words() for one in found.all("figcaption")] == ["rag/7"]


def test_worst_prompts_that_are_alike_are_drawn_once() -> None:
    shapes = views()
    first, other = shapes["worst"]
    shapes["worst"] = [first | {"id": f"support/{number}"} for number in range(7)] + [other]
    found = page(result("none", "", full_report(views=Views.model_validate(shapes)))).id("w1-worst")
    captions = [one.words() for one in found.all("figcaption")]
    assert [len(found.all("svg", role="img")), "6 more like it" in captions[0], "more like it" in captions[1]] == [
        2,
        True,
        False,
    ]


def test_rates_that_are_the_same_are_told_once() -> None:
    tiles = page(result("none", "", report(group("support", hit=900, reachable=900)))).all(class_="tiles")[0]
    assert [one.words() for one in tiles.all("dt")] == ["Hit rate", "TTFT p50, predicted"]


def test_tables_can_be_sorted_by_what_they_say() -> None:
    table_ = table(page(full_result()).id("w1-groups"), "Groups")
    assert table_.attributes["data-sorts"] == "groups"
    [body] = table_.all("tbody")
    for row in body.all("tr"):
        for cell in row.all("td", class_="number"):
            shown = cell.words()
            assert bool(shown) == ("data-value" in cell.attributes)
            value = float(cell.attributes.get("data-value", 0))
            if shown.endswith("%"):
                assert f"{100 * value:.1f}%" == shown
            elif shown and not shown.endswith("s"):
                assert f"{value:,.0f}" == shown


def test_pieces_of_the_tree_say_what_they_are_drawn_from() -> None:
    section = page(full_result()).id("w1-tree")
    pieces = section.all("g", class_="node")
    told = [
        tuple(one.attributes.get(f"data-{name}") for name in ("parent", "start", "tokens", "top", "tall"))
        for one in pieces
    ]
    assert told == [
        (None, "0", "20", "0", "1"),
        ("0", "20", "70", "0", "0.5"),
        ("0", "20", "40", "0.5", "0.5"),
        ("1", "90", "10", "0", "0.05"),
    ]
    assert pieces[1].attributes["data-label"] == "prompts/support.md:3 · 10 requests"
    assert pieces[1].all("title")[0].words().endswith("; support")


def test_headings_descend_one_by_one() -> None:
    for made in (full_result(), CASES["lint_only"](), CASES["passing"]()):
        levels = [int(node.tag[1]) for node in page(made).all() if re.fullmatch("h[1-6]", node.tag)]
        assert levels.count(1) == 1
        assert all(later <= earlier + 1 for earlier, later in pairwise(levels))


def test_drawings_have_names_and_tables() -> None:
    found = page(full_result())
    drawings = found.all("svg", role="img")
    for drawing in drawings:
        title, description = drawing.all("title")[0], drawing.all("desc")[0]
        assert drawing.attributes["aria-labelledby"] == f"{title.attributes['id']} {description.attributes['id']}"
        assert title.words()
        assert len(description.words()) > 10
    for name in ("tokens", "groups", "tree", "time", "capacity", "distance", "worst", "boundaries"):
        section = found.id(f"w1-{name}")
        assert section.all("svg", role="img"), name
        assert section.all("table"), name
    silent = [
        svg for svg in found.all("svg") if svg.attributes.get("role") != "img" and "viewbox" not in svg.attributes
    ]
    assert all(svg.attributes.get("aria-hidden") == "true" for svg in silent)


def test_waterfall_adds_up() -> None:
    made = full_report(fates={"hit": 1, "blocked": 1, "unique": 1, "evicted": 0, "seam": 1993}, views=None)
    section = page(result("none", "", made)).id("w1-tokens")
    *parts, total = rows(table(section, "Prompt tokens"))
    assert [row[0] for row in parts] == [
        "hit",
        "same text, different tokens",
        "blocked (repeated after a change",
        "unique text",
    ]
    assert sum(numbers([row[1] for row in parts])) == numbers([total[1]])[0] == 1996
    assert round(sum(numbers([row[2] for row in parts])), 1) == 100.0
    bars = [node for node in section.all("rect") if "least" in node.attributes.get("class", "")]
    whole, *lost, hit = [(numbers([bar.attributes["x"]])[0], numbers([bar.attributes["width"]])[0]) for bar in bars]
    assert whole == (0, 100)
    stop = 100.0
    for x, width in lost:
        assert x + width == pytest.approx(stop, abs=0.01)
        stop = x
    assert hit == pytest.approx((0, stop), abs=0.01)


def test_all_fates_have_a_paint_and_a_meaning() -> None:
    made = full_report(fates=dict.fromkeys(FATES, 10), views=None)
    found = page(result("none", "", made))
    paints = {node.attributes["id"]: node for node in found.all("lineargradient")}
    looks = set()
    for bar in found.id("w1-waterfall").all("rect"):
        if paint := bar.attributes.get("fill"):
            shape = paints[paint[5:-1]]
            vector = tuple(shape.attributes[key] for key in ("x2", "y2"))
            looks.add((vector, *(stop.attributes["class"] for stop in shape.all("stop"))))
    assert len(looks) == len(FATES)
    meanings = {row[3] for row in rows(table(found, "Prompt tokens"))}
    assert len(meanings) == len(FATES) + 1  # the sum has none


def test_gates_are_told_in_words() -> None:
    found = page(full_result())
    checks = rows(table(found.id("verdict"), "Checks"))
    assert [row[:6] for row in checks] == [
        ["FAIL", "support", "hit rate", "≥80.0%", "40.0%", "error"],
        ["ok", "rag", "hit rate", "≥80.0%", "87.0%", "error"],
    ]
    captions = [node.words() for node in found.id("w1-groups").all("figcaption")]
    assert captions == [
        "all requests63.5%reachable 89.0%",
        "support FAIL40.0%reachable 90.0%",
        "rag ok87.0%reachable 88.0%",
    ]
    described = [node.words() for node in found.id("w1-groups").all("desc")]
    assert described[1] == "hit rate 40.0%, reachable 90.0%, gate at least 80.0%: FAIL"
    assert found.all(class_="notices")[0].words() == "Notice rag.yaml is not in the baseline"


def test_a_baseline_is_drawn_and_decides_beside_the_gate() -> None:
    fell = check(
        id="w.yaml/support/baseline",
        kind="baseline",
        code="KV402",
        group="support",
        limit=0.785,
        actual=0.4,
        baseline=0.79,
        message="support: hit rate 79.0% -> 40.0%",
    )
    met = check(group="support", limit=0.3, actual=0.4, status="pass")
    found = page(result("fail", "FAIL 1 gate", report(group("support"), gates=[met, fell])))
    section = found.id("w1-groups")
    assert "support FAIL" in section.all("figcaption")[-1].words()
    described = section.all("desc")[-1].words()
    assert described.endswith("gate at least 30.0%: ok, baseline 79.0%: FAIL")
    assert (
        len([node for node in section.all("line") if "before" in node.attributes["class"].split()]) == 3
    )  # halo, mark, key
    assert rows(table(section, "Groups"))[0][-1] == "FAIL"
    assert "79.0% → 40.0%" in rows(table(found.id("verdict"), "Checks"))[0][-1]


def test_figures_of_other_kinds_of_checks() -> None:
    checks = (
        check(id="a", kind="ttft_p90", limit=0.05, actual=0.0504),
        check(id="b", kind="findings", limit=0, actual=3),
        check(id="c", kind="reachable_gap", limit=0.05, actual=0.27),
        check(id="d", kind="baseline", limit=0.8, actual=0.79996, baseline=0.81, status="warn"),
        check(id="e/x", kind="audit", limit=None, actual=None, status="open"),
    )
    made = result("fail", "FAIL", report(), checks=checks)
    found = rows(table(page(made).id("verdict"), "Checks"))
    assert [(row[0], *row[3:6]) for row in found] == [
        ("FAIL", "≤50.00 ms", "50.40 ms", ""),
        ("FAIL", "≤0", "3", ""),
        ("FAIL", "≤5.0%", "27.0%", ""),
        ("WARN", "≥80.000%", "79.996%", "81.0%"),
        ("not judged", "none", "none", ""),
    ]


def test_fixes_show_before_and_after() -> None:
    proof = Rerun(
        group_before=0.4, group_after=0.9, total_before=0.635, total_after=0.885, group_alone=0.7, group_predicted=None
    )
    found = page(
        result(
            "none", "", full_report(findings=[finding(rerun=proof, warnings=["look here"])], views=None, editable=True)
        )
    )
    [card] = found.all(class_="card")
    assert [node.words() for node in card.all("figcaption")] == [
        "support40.0% → 90.0%this fix alone 70.0% (mark)",
        "all requests63.5% → 88.5%",
    ]
    widths = [bar.attributes["width"] for bar in card.all("rect") if "least" in bar.attributes.get("class", "")]
    assert widths == ["40%", "90%", "63.5%", "88.5%"]
    assert "Look look here" in card.words()
    assert found.id("w1").words().count("kvtool optimize support.yaml --allow P2") == 1


def test_tried_fixes_are_not_called_proven_together() -> None:
    tried = Rerun(
        group_before=0.4, group_after=0.5, total_before=0.4, total_after=0.5, group_alone=None, group_predicted=None
    )
    found = page(result("none", "", report(findings=[finding("KV301", rerun=None, tried=tried)])))
    assert "Tried in a separate run." in found.all(class_="card")[0].words()
    assert "With fixes" not in found.words()


def test_what_is_missing_names_the_command_once() -> None:
    found = page(result("none", "", report(workload="my logs.jsonl")))
    [missing] = [one for one in found.all(class_="missing") if "saved without" in one.words()]
    assert missing.all("pre")[0].words() == "kvtool profile 'my logs.jsonl' -o report.html"
    identities = {node.attributes.get("id") for node in found.all()}
    assert not identities & {f"w1-{name}" for name in ("tree", "time", "capacity", "distance", "worst")}


def test_partial_run() -> None:
    found = page(CASES["partial"]())
    assert found.all("h1")[0].words() == "support.yaml"
    assert found.all(class_="verdict")[0].words().startswith("PARTIAL")
    assert "PARTIAL The run was interrupted" in found.id("w1").words()
    assert rows(table(found.id("verdict"), "Checks"))[0][0] == "not judged"


def test_findings_alone() -> None:
    found = page(CASES["lint_only"]())
    assert not found.all(class_="report")
    cards = found.id("files").all(class_="card")
    assert [card.all("h3")[0].words() for card in cards] == [
        "error clock or date early in the prompt KV101",
        "warning ignore that names no known code KV002",
    ]
    assert "tokens lost" not in cards[0].words()  # nothing was measured
    assert "1 error, 1 warning; 1 finding silenced by comments." in found.id("files").words()
    assert [node.attributes["id"] for node in found.id("codes").all(class_="entry")] == ["code-KV002", "code-KV101"]


def test_several_workloads_and_files() -> None:
    seen = finding("KV104", group="", path="app.py", rerun=None)
    one, other = full_report(), full_report("chat", "code", "chat.yaml")
    made = result("pass", "PASS", one, other, findings=[*one.findings, *other.findings, seen])
    found = page(made)
    links = [node.attributes["href"] for node in found.all("nav")[0].all("a")]
    assert links == ["#verdict", "#w1", "#w2", "#files", "#codes"]
    assert [node.words() for node in found.id("files").all(class_="place")] == ["app.py:3:6"]
    assert [row[0] for row in rows(table(found.id("verdict"), "Workloads"))] == ["support.yaml", "chat.yaml"]
    assert len(found.all("article", class_="report")) == 2


def test_silenced_findings_are_left_out() -> None:
    kept, silenced = finding(), finding(line=9)
    made = result("none", "", report(findings=[kept, silenced]), findings=[kept], ignored=1)
    section = page(made).id("w1-findings")
    assert len(section.all(class_="card")) == 1
    assert "1 error; 1 finding silenced by comments." in section.words()


def test_large_results_stay_small() -> None:
    many = 400
    groups = [group(f"group {number}") for number in range(many)]
    shapes = views()
    shapes["timelines"] = [
        shapes["timelines"][0] | {"group": name} for name in (None, *(f"group {n}" for n in range(many)))
    ]
    node = shapes["prefix_tree"]["nodes"][0] | {"requests": 1, "tokens": 2}
    shapes["prefix_tree"]["nodes"] = [node] * many
    shapes["worst"] = shapes["worst"][:1] * many
    made = result(
        "fail",
        "FAIL",
        report(*groups, views=Views.model_validate(shapes), findings=[finding(line=line) for line in range(1, many)]),
        checks=tuple(check(id=f"{number}", group=f"group {number}") for number in range(many)),
    )
    text = write(made, WriteOptions())
    assert len(text) < 800_000
    words = page(made).words()
    for left in (
        "380 groups with smaller losses",
        "388 more groups",
        "200 more rows left out",
        "349 more findings left out",
    ):
        assert left in words


def test_is_deterministic() -> None:
    assert write(full_result(), WriteOptions()) == write(full_result(), WriteOptions())


def test_profile_writes_the_page(in_folder: Command) -> None:
    write_file(
        "prompts/support.md",
        "Clock: {{ now }}\nYou are a support agent who answers calmly and in full sentences. Be brief.\n",
    )
    write_file(
        "w.yaml",
        "version: 1\nvars: {now: {datetime: 1m}}\ngroups:\n  - name: a<b>\n    requests: 12\n"
        "    messages: [{role: system, file: prompts/support.md}, {role: user, text: hi}]\n    gate: {hit_rate: '>=99%'}\n",
    )
    code, _, err = in_folder("profile", "w.yaml", "--dry-run", "-o", "r.html", "-b", "8")
    assert code == 1, err
    text = Path("r.html").read_text(encoding="utf-8")
    assert "a&lt;b&gt;" in text
    assert "a<b>" not in text
    assert "answers calmly" not in text
    assert 'class="missing"' in text  # no TTFT was measured
    assert "saved without" not in text  # and all views are there


def test_unknown_tier_and_code() -> None:
    found = page(result("none", "", report(findings=[finding("KV999", tier="P9")])))
    [card] = found.all(class_="card")
    assert "P9" in card.words()
    assert not card.all("a")


def test_no_groups_no_tokens() -> None:
    empty = report()
    totals = empty.totals.model_copy(update={"prompt_tokens": 0, "hit_tokens": 0, "requests": 0})
    views_ = Views(timelines=[], prefix_tree=None, reuse=None, worst=[])
    made = result("none", "", empty.model_copy(update={"groups": [], "fates": {}, "totals": totals, "views": views_}))
    found = page(made)
    assert {node.attributes["id"] for node in found.all("section")} == {
        "w1-findings",
        "w1-ttft",
        "w1-memory",
        "w1-config",
    }
    assert not found.all("figure")


def node(parent: int | None, requests: int) -> TreeNode:
    return TreeNode(parent=parent, start=0, tokens=5, requests=requests, groups=[], path="", line=0, part="")


def test_icicle_layout_nests() -> None:
    nodes = [node(None, 6), node(0, 3), node(1, 1), node(0, 2), node(None, 2)]
    expected = [(0, 0.6), (0, 0.3), (0, 0.1), (0.3, 0.2), (0.6, 0.2)]
    spans = [number for span in layout(nodes, 10) for number in span]
    assert spans == pytest.approx([number for span in expected for number in span])


def test_icicle_layout_of_a_tree_that_contradicts_itself() -> None:
    spans = layout([node(7, 3), node(0, 9), node(1, 4), node(1, 14)], 1)
    assert all(top >= 0 and top + height <= 1 + 1e-9 for top, height in spans)


def test_markup_helpers() -> None:
    assert str(element("a", "<", class_="x", data_y='"', z=None)) == '<a class="x" data-y="&#34;">&lt;</a>'
    assert str(prose("`a<b` and `c`")) == "<code>a&lt;b</code> and <code>c</code>"
    assert str(prose("one ` only")) == "one ` only"
    assert (share(0.5), share(1 / 3), share(-1), share(2)) == ("50%", "33.333%", "0%", "100%")


def test_round_ticks() -> None:
    assert round_ticks(2079, 4) == [0, 1000, 2000]
    assert round_ticks(0, 4) == [0]
    assert [round_step(last, 64) for last in (1, 64, 65, 130, 1_000_000)] == [1, 1, 2, 5, 20_000]


def test_result_is_not_changed_by_rendering() -> None:
    made: CheckResult = full_result()
    before = made.model_dump()
    write(made, WriteOptions())
    assert made.model_dump() == before
