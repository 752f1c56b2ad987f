"""The HTML page is well-formed, self-contained, harmless and private."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest

from kvtool.report.html import write
from kvtool.report.html.markup import element, prose, share
from kvtool.report.write_options import WriteOptions
from kvtool.results.check import CheckResult
from kvtool.results.finding import Snippet
from kvtool.results.views import Views
from tests.conftest import Command
from tests.files import write as write_file
from tests.made_results import CASES, HOSTILE, check, finding, group, report, result
from tests.report.html_results import full_report, full_result, only, page, views

FIXED_TAGS = frozenset(
    """
    html head meta title style body a svg defs lineargradient stop header div p span i h1 h2 h3 h4 nav ul li main section table
    caption thead tbody tr th td article dl dt dd figure figcaption bdi strong b code pre details summary footer rect line text
    desc circle polyline polygon mark ins del g script
    """.split()  # noqa: SIM905 - a list of 59 strings says no more
)


def hash_of(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def test_is_well_formed_and_whole() -> None:
    for name in CASES:
        for show_text in ["none", "full"]:
            made = CASES[name]()
            found = page(made, "full" if show_text == "full" else "none")
            tags = {node.tag for node in found.all()} - {"#text"}
            assert tags <= FIXED_TAGS
            assert not [
                node for node in found.all() for key in node.attributes if key.startswith("on") or key == "style"
            ]
            identities = [node.attributes["id"] for node in found.all() if "id" in node.attributes]
            assert len(identities) == len(set(identities))
            assert made.verdict.outcome != "fail" or "FAIL" in found.all("title")[0].words()
            for node in found.all():
                for key in ("aria-labelledby",):
                    assert all(word in identities for word in node.attributes.get(key, "").split())
            for link in found.all("a"):
                assert link.attributes["href"][0] == "#"
                assert link.attributes["href"][1:] in identities


def test_asks_for_nothing() -> None:
    for name in CASES:
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
        "eval", "Function", "innerHTML", "outerHTML", "insertAdjacent", "document.write", "fetch", "XMLHttp",
        "import",
    ):  # fmt: skip
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
        "200 more rows in the JSON",
        "349 more findings in the JSON",
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


def test_markup_helpers() -> None:
    assert str(element("a", "<", class_="x", data_y='"', z=None)) == '<a class="x" data-y="&#34;">&lt;</a>'
    assert str(prose("`a<b` and `c`")) == "<code>a&lt;b</code> and <code>c</code>"
    assert str(prose("one ` only")) == "one ` only"
    assert (share(0.5), share(1 / 3), share(-1), share(2)) == ("50%", "33.333%", "0%", "100%")


def test_result_is_not_changed_by_rendering() -> None:
    made: CheckResult = full_result()
    before = made.model_dump()
    write(made, WriteOptions())
    assert made.model_dump() == before
