"""The sections of the HTML page: what is shown, in which order, and what is left out."""

from __future__ import annotations

import re
from itertools import pairwise

from kvtool.results.finding import ExamplePair, LoggedPlace, Rerun, Snippet
from kvtool.results.views import Views
from tests.made_results import CASES, check, finding, group, report, result
from tests.report.html_results import SECTIONS, full_report, full_result, page, rows, table, views


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
    assert [label for label, _ in lines] == ["Hit rate", "Not reused", "Next"]
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
    assert [one.all(class_="name")[0].words() for one in found.all("figcaption")] == ["rag, request 7"]


def test_worst_prompts_that_are_alike_are_drawn_once() -> None:
    shapes = views()
    first, other = shapes["worst"]
    shapes["worst"] = [first | {"id": f"support/{number}"} for number in range(7)] + [other]
    found = page(result("none", "", full_report(views=Views.model_validate(shapes)))).id("w1-worst")
    captions = [one.words() for one in found.all("figcaption")]
    assert [len(found.all("svg", role="img")), "6 similar" in captions[0], "similar" in captions[1]] == [
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


def test_gates_are_told_in_words() -> None:
    found = page(full_result())
    checks = rows(table(found.id("verdict"), "Checks"))
    assert [row[:6] for row in checks] == [
        ["FAIL", "support", "hit rate", "≥80.0%", "40.0%", "error"],
        ["ok", "rag", "hit rate", "≥80.0%", "87.0%", "error"],
    ]
    captions = [node.words() for node in found.id("w1-groups").all("figcaption")]
    assert captions == [
        "all requests63.5%maximum 89.0%",
        "support FAIL40.0%maximum 90.0%",
        "rag ok87.0%maximum 88.0%",
    ]
    described = [node.words() for node in found.id("w1-groups").all("desc")]
    assert described[1] == "hit rate 40.0%, maximum 90.0%, gate at least 80.0%: FAIL"
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
        "support40.0% → 90.0%only this one 70.0% (mark)",
        "all requests63.5% → 88.5%",
    ]
    widths = [bar.attributes["width"] for bar in card.all("rect") if "least" in bar.attributes.get("class", "")]
    assert widths == ["40%", "90%", "63.5%", "88.5%"]
    assert "Note look here" in card.words()
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
    [missing] = [one for one in found.all(class_="missing") if "no data for charts" in one.words()]
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
        "warning ignore comment without a known code KV002",
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
