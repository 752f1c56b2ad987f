"""More than two prompts: the matrix of shared blocks and the tree of common beginnings, against counting by hand and by force."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtool.cli.commands.diff import DiffCommand
from kvtool.config.option import made
from kvtool.diff.matrix import common_trie, diff_many
from kvtool.diff.side_inputs import InputSide
from kvtool.diff.sides import Rendered
from kvtool.errors import KvtoolError
from kvtool.report.terminal.prompt_diffs.diff_matrix import letters, print_many
from kvtool.results.documents.diff import ManyDiff
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.terminal.console import cell_width, make_console
from kvtool.text.tokens.tokenizer import load_tokenizer
from kvtool.text.traced import Origin, Traced
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Turn

RULES = "".join(f"Rule {n}: keep names as they are and answer in one short sentence.\n" for n in range(1, 9))


def ids(*tokens: int) -> Turn:
    return Turn("", token_ids=np.array(tokens, dtype=np.int32))


@pytest.fixture(scope="module")
def renderer():
    tokenizer = load_tokenizer(None)
    return Renderer(lambda: tokenizer, lambda loaded: ChatTemplate.load(None, loaded))


@pytest.fixture
def compare(renderer):
    def compare(*turns: Turn | str, block_size: int = 16) -> ManyDiff:
        sides = []
        for at, each in enumerate(turns):
            name = f"p{at}.txt"
            turn = Turn("", text=Traced.of(each, Origin(name, text=each))) if isinstance(each, str) else each
            sides.append(Rendered.of(InputSide(name, turn, name), renderer))
        return diff_many(sides, renderer, block_size)

    return compare


def shown(diff: ManyDiff, width: int = 80, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="")
    print_many(make_console(file=stream, color="never", width=width), diff)
    stream.flush()
    return raw.getvalue().decode(encoding)


def test_a_matrix_and_a_tree_counted_by_hand(compare):
    a, b, c = ids(1, 2, 3, 4, 5, 6), ids(1, 2, 3, 4, 7), ids(1, 2, 9, 9, 9)
    diff = compare(a, b, c, block_size=2)
    # a has 6 tokens and the last is always computed, so 2 blocks at most of itself
    assert diff.shared_blocks == [[2, 2, 1], [2, 2, 1], [1, 1, 2]]
    assert (diff.prompt_tokens, diff.reusable_in_order.tokens) == (16, 4 + 2)
    root = diff.trie[0]
    assert (root.tokens, root.prompts, root.between) == (2, [0, 1, 2], [0, 2])
    inner, last = (diff.trie[at] for at in root.children)
    assert (inner.tokens, inner.prompts, inner.between) == (4, [0, 1], [0, 1])
    assert [(leaf.tokens, leaf.ends) for leaf in (diff.trie[at] for at in inner.children)] == [(6, [0]), (5, [1])]
    assert (last.tokens, last.ends) == (5, [2])


def test_prompts_that_begin_others_and_equal_ones(compare):
    diff = compare(ids(1, 2), ids(1, 2, 3, 4), ids(1, 2), ids(1, 2, 3), block_size=1)
    root, child, leaf = diff.trie
    assert (root.tokens, root.ends, root.between, root.children) == (2, [0, 2], None, [1])
    assert (child.tokens, child.ends, child.children) == (3, [3], [2])
    assert leaf.ends == [1]
    assert "a c end here" in shown(diff)
    same = compare("one text", "one text", "one text")
    assert same.identical
    assert "they are identical" in shown(same)
    assert "3 equal prompts" in shown(same)


@given(st.lists(st.lists(st.integers(0, 2), max_size=6), min_size=1, max_size=8))
def test_the_tree_holds_every_common_beginning(prompts):
    root = common_trie([np.array(each, dtype=np.int32) for each in prompts])
    branches = list(root.walk())
    assert sorted(end for branch in branches for end in branch.ends) == list(range(len(prompts)))
    common = {}
    for branch in branches:
        beginnings = {tuple(prompts[at][: branch.tokens]) for at in branch.members}
        assert len(beginnings) == 1
        assert len(branch.children) != 1 or branch.ends
        for i in branch.members:
            for j in branch.members:
                common[i, j] = max(common.get((i, j), 0), branch.tokens)
        firsts = [prompts[child.members[0]][branch.tokens] for child in branch.children]
        assert len(set(firsts)) == len(firsts)
    for i, a in enumerate(prompts):
        for j, b in enumerate(prompts):
            length = next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
            assert common[i, j] == length


def test_a_branch_says_what_differs_there(compare):
    texts = [f"Now: 10:1{clock}\n{RULES}{end}" for clock, end in ((5, "one"), (5, "two"), (6, "one"))]
    diff = compare(*texts)
    root = diff.trie[0]
    assert root.between == [0, 2]
    assert (root.difference.kind.code, root.difference.a.line) == ("KV101", 1)
    text = shown(diff)
    assert "then clock time at p0.txt:1:6 (KV101)" in text
    assert text.count("├─") == text.count("└─") == 2


def test_letters():
    assert [letters(at) for at in (0, 25, 26, 27, 26 + 26 * 26)] == ["a", "z", "aa", "ab", "aaa"]


def test_more_than_twelve_have_no_matrix_and_a_legend_of_what_is_named(compare):
    diff = compare(*(f"Now: 10:{clock:02}\n{RULES}" for clock in range(13)))
    assert diff.shared_blocks is None
    text = shown(diff)
    assert "Shared blocks" not in text
    assert "p12.txt" in text
    assert json.loads(diff.to_json())["shared_blocks"] is None


def test_a_large_tree_is_cut_and_says_so(compare):
    diff = compare(*(f"Now: 10:{clock:02}\n{RULES}" for clock in range(40)))
    text = shown(diff, 60)
    assert "more (all with --json)" in text
    assert "… 40 prompts" in text
    assert len(diff.trie) > 40


def test_a_deep_chain_does_not_run_out_of_the_console(compare):
    diff = compare(*(RULES * n for n in range(1, 31)))
    assert shown(diff, 20)
    for width in (60, 80):
        assert max(map(cell_width, shown(diff, width).splitlines())) <= width


CASES = {
    "names": ["::x\x1b\n" + RULES, RULES + "a", RULES + "b"],
    "wide": ["会社の規則 1" * 40, "会社の規則 2" * 40, "会社の規制" * 40],
    "twelve": [f"{'x ' * n}{RULES * 40}{n}" for n in range(12)],
    "empty": ["a", "b", "c"],
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_console(name, width, compare):
    diff = compare(*CASES[name])
    for text in (shown(diff, width), shown(diff, width, "ascii")):
        assert max(map(cell_width, text.splitlines())) <= width
        assert not set(text) & {"\x1b", "\r"}
    assert shown(diff, width, "ascii").isascii()


def test_the_matrix_goes_in_bands_where_it_does_not_fit(compare):
    diff = compare(*(f"{RULES * 200}{n} {'y' * n}" for n in range(12)), block_size=2)
    text = shown(diff, 60)
    rows = [line for line in text.splitlines() if line.startswith("  l  ")]
    assert len(rows) == 3  # the legend, and one in each of two bands
    numbers = [cell for row in rows[1:] for cell in row.split()[1:]]
    assert numbers == [f"{blocks:,}" if at != 11 else "-" for at, blocks in enumerate(diff.shared_blocks[11])]


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for at, text in enumerate((RULES + "one", RULES + "two", RULES + "one")):
        (tmp_path / f"p{at}.txt").write_text(text)
    names = ["p0.txt", "p1.txt", "p2.txt"]
    assert made(DiffCommand, prompts=names, json=True, tokens=True, exit_code=True).run() == 1
    out = capsys.readouterr().out
    data = json.loads(out)
    assert data["schema"] == "kvtool.diff/1"
    assert data["trie"][0]["prompts"] == [0, 1, 2]
    assert data["trie"][0]["difference"]["a"]["path"] == "p0.txt"
    assert data["tokens"]["a"] == data["tokens"]["c"]
    assert "Rule" not in out
    assert made(DiffCommand, prompts=("p0.txt", "p2.txt", "p0.txt"), exit_code=True, color="never", width=80).run() == 0
    capsys.readouterr()
    made(DiffCommand, prompts=names, tokens=True, color="never", width=80).run()
    out = capsys.readouterr().out
    assert "a id  a text" in out
    assert "b id  b text" in out
    with pytest.raises(KvtoolError, match="two prompts"):
        made(DiffCommand, prompts=("p0.txt",)).run()
