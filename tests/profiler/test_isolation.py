"""What tenants can tell of each other by the cache, and the price of keeping them apart."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from kvtool.accounting.observable import ObservableBook
from kvtool.engine.request import Request
from kvtool.text.tokens.prompt import Prompt
from kvtool.workload.call import Call
from kvtool.workload.jobs import Job
from tests.accounting.rule_runs import turn
from tests.conftest import Command

HEAD = len("system: ")


def log(tenants: int, each: int, *, system: str, model: str | None = None, field: str = "user") -> None:
    """Requests of each tenant in turns, a minute apart, with one system text."""
    lines = []
    for number in range(tenants * each):
        part: dict[str, Any] = {"type": "text", "text": system}
        if model is not None:
            part["prompt_cache_breakpoint"] = {"mode": "explicit"}
        ask = f"{number * 7919 % 9973:04} asks something"
        body: dict[str, Any] = {"messages": [{"role": "system", "content": [part]}, {"role": "user", "content": ask}]}
        if model is not None:
            body |= {"model": model, "prompt_cache_options": {"mode": "explicit"}}
        minute = f"2026-10-20T{8 + number // 60:02}:{number % 60:02}:00Z"
        lines.append(json.dumps({"timestamp": minute, **body, field: f"t{number % tenants}"}))
    Path("prod.jsonl").write_text("\n".join(lines) + "\n")


def test_the_price_of_isolation_to_the_last_token_and_dollar(in_folder: Command) -> None:
    """3 tenants with 10 requests each, a prefix of 2,048: 29 times, or 27 times with salts; 4,096 tokens written, not read."""
    log(3, 10, system="s" * (2048 - HEAD), model="gpt-5.6-sol")
    code, out, err = in_folder("profile", "prod.jsonl", "--dry-run", "--json")
    assert code == 0, err
    found = json.loads(out)["isolation"]
    assert (found["shared_hit_tokens"], found["isolated_hit_tokens"]) == (59_392, 55_296)
    assert found["lost_tokens"] == 4096
    assert Decimal(found["cost"]) == 4096 * Decimal("4.60") / 10**6
    assert found["observable_tokens"] == 0, "what all of them send is public"
    assert found["behind_public_hit_tokens"] == 59_392


def test_an_engine_of_one_s_own(in_folder: Command) -> None:
    log(3, 10, system="s" * 2048, field="end_user")
    found = json.loads(in_folder("profile", "prod.jsonl", "--dry-run", "--json")[1])["isolation"]
    assert found["cost"] is None
    assert found["shared_hit_tokens"] - found["isolated_hit_tokens"] == found["lost_tokens"]
    assert 2 * 2048 <= found["lost_tokens"] < 2 * 2300
    assert found["isolated_ttft"] >= found["predicted_ttft"]


def test_what_only_some_send_is_observable_and_told(in_folder: Command) -> None:
    secret = "the plan of the merger " * 20
    lines = []
    for user, text in (("a", secret), ("b", secret), ("c", "x" * 400), ("c", "x" * 400)):
        messages = [{"role": "user", "content": text}]
        lines.append(json.dumps({"metadata": {"user_id": user}, "messages": messages}))
    Path("prod.jsonl").write_text("\n".join(lines) + "\n")
    code, out, _ = in_folder("profile", "prod.jsonl", "--dry-run", "--json")
    assert code == 0
    report = json.loads(out)
    found = report["isolation"]
    assert [(pair["owner"], pair["reader"]) for pair in found["pairs"]] == [("a", "b")]
    assert found["pairs"][0]["tokens"] == found["observable_tokens"] > 400
    assert found["lines"][0]["path"].endswith("prod.jsonl")
    [finding] = [one for one in report["findings"] if one["code"] == "KV307"]
    assert "merger" not in finding["message"]
    _, text, _ = in_folder("profile", "prod.jsonl", "--dry-run")
    assert "Sent first by" in text
    assert "KV307" in text


def test_one_tenant_or_none_tells_nothing(in_folder: Command) -> None:
    log(1, 4, system="s" * 500)
    assert "isolation" not in json.loads(in_folder("profile", "prod.jsonl", "--dry-run", "--json")[1])


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.lists(st.integers(0, 1), min_size=1, max_size=7), st.integers(0, 7)), max_size=9
    )
)
def test_observed_tokens_against_a_slow_reference(requests: list[tuple[int, list[int], int]]) -> None:
    """A prefix is a tenant's own once it sent it; what all tenants sent at the end is public."""
    book = ObservableBook()
    sent: dict[tuple[int, ...], list[int]] = {}
    reads: list[tuple[tuple[int, ...], int]] = []
    for tenant, ids, hit in requests:
        job_turn = turn(ids)
        job_turn.call = Call(tenant=f"t{tenant}")
        request = Request(id="r", num_prompt_tokens=len(ids), prompt_ids=job_turn.token_ids)
        known = 0
        for stop in range(1, len(ids) + 1):
            prefix = tuple(ids[:stop])
            if prefix in sent:
                known = stop
                if stop <= hit and tenant not in sent[prefix]:
                    reads.append((prefix, tenant))
        assert job_turn.token_ids is not None
        job = Job(job_turn, Prompt(job_turn.token_ids), request, job_turn.token_ids, 1, "")
        book.add(job, "", min(hit, known))
        for stop in range(1, len(ids) + 1):
            owners = sent.setdefault(tuple(ids[:stop]), [])
            if tenant not in owners:
                owners.append(tenant)
    everyone = {tenant for tenant, _, _ in requests}
    expected = sum(set(sent[prefix]) != everyone for prefix, _ in reads)
    assert sum(one.tokens for one in book.observed()) == expected


def test_pages_show_what_the_terminal_shows_and_escape_tenants(in_folder: Command) -> None:
    """Names of tenants are text of a log: hostile ones do nothing in a page or a comment."""
    hostile = '<img src=x onerror=alert(1)>|"`*[a](b)`'
    secret = "the plan of the merger " * 20
    lines = [
        json.dumps({"user": user, "messages": [{"role": "user", "content": text}]})
        for user, text in ((hostile, secret), ("b", secret), ("c", "x" * 400), ("c", "x" * 400))
    ]
    Path("prod.jsonl").write_text("\n".join(lines) + "\n")
    code, terminal, err = in_folder("profile", "prod.jsonl", "--dry-run", "-o", "html=r.html", "-o", "markdown=r.md")
    assert code == 0, err
    html, markdown = Path("r.html").read_text(), Path("r.md").read_text()
    said = "3 tenants: one shared cache or isolated"
    for text in (terminal, html, markdown):
        assert said in text
        assert "With the salt after the text that all tenants send" in " ".join(text.split())
        assert "Sent first by" in text
    assert "prod.jsonl:1" in html
    assert "prod.jsonl:1" in markdown
    for page in (html, MarkdownIt("commonmark").render(markdown)):
        assert "<img" not in page
    [row] = [line for line in markdown.splitlines() if "onerror" in line and line.startswith("| ")]
    assert len(re.findall(r"(?<!\\)\|", row)) == 4, "the name stays in its cell"
