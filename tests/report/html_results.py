"""A result with everything that the page can show, and ways to look into the page."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from kvtool.report.html import write
from kvtool.report.write_options import WriteOptions
from kvtool.results.check import CheckResult
from kvtool.results.report import Report
from kvtool.results.show_text import ShowText
from kvtool.results.views import Views
from tests.made_results import check, finding, group, report, result

SECTIONS = {
    "findings": "Opportunities",
    "tokens": "Token breakdown",
    "sums": "Tokens by session",
    "groups": "Groups against gates",
    "tree": "Shared prefixes",
    "time": "Hit rate over time",
    "capacity": "Hit rate by capacity",
    "distance": "Reuse distance",
    "worst": "Prompts with the largest losses",
    "causes": "Causes and the gain of their fixes",
    "turns": "Turns of conversations",
    "ttft": "Time to first token",
    "decode": "Decode step",
    "memory": "KV cache",
    "boundaries": "Hits by block size",
    "config": "Configuration",
}
VOID = frozenset(("meta", "link", "br", "hr", "img", "input", "wbr"))


def views(first: str = "support", second: str = "rag", path: str = "prompts/support.md") -> dict[str, Any]:
    """What charts draw, of twenty requests of a hundred tokens each."""
    bins = [(0, 8, 800, 80), (8, 8, 800, 640), (16, 4, 400, 360)]
    shapes = [
        (None, 0, 20, 20, [first, second]),
        (0, 20, 70, 10, [first]),
        (0, 20, 40, 10, [second]),
        (1, 90, 10, 1, [first]),
    ]
    return {
        "timelines": [
            {
                "group": name,
                "bins": [
                    dict(zip(("first", "requests", "prompt_tokens", "hit_tokens"), one, strict=True)) for one in shown
                ],
            }
            for name, shown in ((None, bins), (first, bins[:1] + bins[2:]), (second, bins[1:]))
        ],
        "prefix_tree": {
            "prompt_tokens": 2000,
            "left_out": 490,
            "nodes": [
                {
                    "parent": parent,
                    "start": start,
                    "tokens": tokens,
                    "requests": requests,
                    "groups": groups,
                    "path": path,
                    "line": 3,
                    "part": "messages[0] (system)",
                }
                for parent, start, tokens, requests, groups in shapes
            ],
        },
        "reuse": {
            "sampled": 0.5,
            "uses": 60,
            "first_uses": 40,
            "bins": [
                {"least": 0, "most": 0, "uses": 10},
                {"least": 1, "most": 1, "uses": 20},
                {"least": 64, "most": 127, "uses": 30},
            ],
            "curve": [
                {"blocks": 1, "hit_rate": 0.1},
                {"blocks": 32, "hit_rate": 0.4},
                {"blocks": 128, "hit_rate": 0.635},
            ],
        },
        "worst": [
            {
                "id": f"{name}/7",
                "group": name,
                "turn": 2,
                "prompt_tokens": 100,
                "hit_tokens": 16,
                "runs": [
                    {"start": 0, "stop": 16, "fate": "hit", "path": path, "line": 1},
                    {"start": 16, "stop": 80, "fate": "blocked", "path": path, "line": 3},
                    {"start": 80, "stop": 100, "fate": "unique", "path": "", "line": 0},
                ],
            }
            for name in (first, second)
        ],
    }


def full_report(first: str = "support", second: str = "rag", workload: str = "support.yaml", **fields: Any) -> Report:
    """Every optional part is there. Of 2,000 tokens 1,270 are hits, 510 blocked, 220 unique."""
    turns = [{"turn": turn, "requests": 5, "prompt_tokens": 500, "hit_tokens": 100 * turn} for turn in (1, 2)]
    groups = (
        group(first, turns=turns, predicted_ttft={"p50": 0.04, "p90": 0.05, "p99": 0.06}),
        group(second, hit=870, reachable=880),
    )
    path = "prompts/support.md"
    values: dict[str, Any] = {
        "views": Views.model_validate(views(first, second)),
        "findings": [
            finding(group=first, path=path, warnings=["text that follows refers to it"]),
            finding(
                "KV301", severity="warning", group=second, rerun=None, tokens_lost=60, fix="raise --capacity", tier="P0"
            ),
        ],
        "causes": [
            {
                "group": first,
                "code": "KV101",
                "kind": "timestamp_iso",
                "name": "timestamp (ISO 8601)",
                "part": "messages[0] (system)",
                "variable": "now",
                "path": path,
                "line": 3,
                "column": 6,
                "line_in_text": 2,
                "in_source": True,
                "blame_tokens": 500,
                "share_tokens": 500,
                "requests": 9,
                "distinct_values": 10,
                "volatility_within": 0.0,
                "volatility_across": 1.0,
                "confidence": 1.0,
                "unlock": {"order": 1, "tier": "P2", "before": 0.4, "after": 0.9, "alone": 0.9, "predicted": 0.9},
            }
        ],
        "sums": {
            "by": "session",
            "rows": [
                {
                    "key": "session-1",
                    "requests": 20,
                    "prompt_tokens": 2000,
                    "hit_tokens": 1270,
                    "hit_rate": 0.635,
                    "lost_tokens": 730,
                    "fates": {"hit": 1270, "blocked": 510, "unique": 220},
                }
            ],
        },
        "decode": {
            "batch": 44.7,
            "tokens_mean": 100.0,
            "sampled": "windows",
            "samples": 3,
            "sampled_of": 3,
            "flat_bytes_per_step": 1 << 30,
            "prefix_aware_bytes_per_step": 1 << 29,
            "decode_attention": "auto",
            "chosen": "prefix_aware",
            "prefix_aware_share": 1.0,
            "tpot": {"predicted": {"flat": 0.01, "prefix_aware": 0.008}, "measured": None},
        },
        "boundaries": [
            {
                "group": first,
                "block_size": 16,
                "requests": 10,
                "prompt_tokens": 1000,
                "nothing_shared_requests": 1,
                "sizes": [
                    {"block_size": size, "hit_tokens": hit, "hit_requests": 9, "shared_too_short_requests": 0}
                    for size, hit in ((16, 900), (32, 640))
                ],
                "left_over": [{"tokens": 4, "requests": 9}, {"tokens": 15, "requests": 1}],
                "edit": {"add_tokens": 2, "requests_gained": 9, "tokens_saved": 126},
            }
        ],
        "config": {
            "input": workload,
            "block_size": 16,
            "capacity_blocks": 64,
            "rules": "vllm",
            "seed": 0,
            "tokenizer": "tekken",
            "model": "llama-3.1-8b",
            "accelerator": "h100",
            "calibration": None,
            "tensor_parallel": 1,
        },
        "notes": ["requests one at a time"],
    }
    return report(*groups, workload=workload, **(values | fields))


def full_result(**fields: Any) -> CheckResult:
    """A check of one workload that fails one of two gates."""
    return result(
        "fail",
        "FAIL 1 of 2 checks (support)",
        full_report(**fields),
        checks=(check(), check("pass", id="support.yaml/rag/hit_rate", group="rag", actual=0.87, line=20)),
        notices=["rag.yaml is not in the baseline"],
    )


@dataclass
class Node:
    """An element: what tests ask of it."""

    tag: str
    attributes: dict[str, str]
    children: list[Node] = field(default_factory=list)
    text: str = ""

    def all(self, tag: str = "", **attributes: str) -> list[Node]:
        """Every element below of that kind, in order; `class_` asks for one of the classes."""
        wanted = attributes.pop("class_", "")
        found: list[Node] = []
        for child in self.children:
            if (
                (not tag or child.tag == tag)
                and all(child.attributes.get(name.replace("_", "-")) == value for name, value in attributes.items())
                and (not wanted or wanted in child.attributes.get("class", "").split())
            ):
                found.append(child)
            found += child.all(tag, **attributes, **({"class_": wanted} if wanted else {}))
        return found

    def words(self) -> str:
        """All text below, in order, with single spaces."""
        return " ".join(self._pieces().split())

    def _pieces(self) -> str:
        return self.text + "".join(child._pieces() for child in self.children)

    def id(self, identity: str) -> Node:
        [found] = self.all(id=identity)
        return found


class _Builder(HTMLParser):
    """Fails on a page whose elements do not nest, or that holds what no page of ours may hold."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("", {})
        self.stack = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"an attribute twice in {self.get_starttag_text()}"
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.stack[-1].children.append(node)
        if tag not in VOID:
            self.stack.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop().tag == tag, f"</{tag}> at {self.getpos()} closes another element"

    def handle_data(self, data: str) -> None:
        self.stack[-1].children.append(Node("#text", {}, text=data))

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data[:40]}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration: {data[:40]}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"an instruction: {data[:40]}")


def parse(text: str) -> Node:
    """The page as a tree; AssertionError where it is not well-formed."""
    builder = _Builder()
    builder.feed(text)
    builder.close()
    assert builder.stack == [builder.root], "an element is not closed"
    return builder.root


def page(found: CheckResult, show_text: ShowText = "none") -> Node:
    """The page of a result."""
    return parse(write(found, WriteOptions(show_text=show_text)))


def numbers(texts: list[str]) -> list[float]:
    """Figures without thousands and percent signs."""
    return [float(re.sub(r"[,%]", "", text)) for text in texts]


def only(node: Node, tag: str) -> str:
    """The text of the one element of that kind, as it stands."""
    [found] = node.all(tag)
    [text] = found.children
    return text.text


def rows(node: Node) -> list[list[str]]:
    """The cells of each row of a table's body."""
    [body] = node.all("tbody")
    return [[cell.words() for cell in row.children if cell.tag in ("th", "td")] for row in body.all("tr")]


def table(node: Node, caption: str) -> Node:
    [found] = [one for one in node.all("table") if one.all("caption")[0].words() == caption]
    return found
