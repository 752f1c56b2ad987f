"""A string that is a Python program is no prompt, whatever prompts it quotes."""

from __future__ import annotations

import random

from kvtool.lint.evidence.prompt_evidence import Belief, Evidence, belief
from kvtool.lint.evidence.quoted_code import is_quoted, quoted_ranges
from tests.conftest import some

PROMPT = "You are a careful assistant for travel. Answer the question of the guest. Cite the rule that you use."
IMPORTS = ["import json", "from chains import Prompt", "import loaders as ld", "from stores.vector import Store, find"]


def program(r: random.Random, *, gap: bool) -> str:
    """A function that makes a chain of a quoted prompt; a gap is where a value was put into the text."""
    lines = [
        *r.sample(IMPORTS, r.randint(2, 4)),
        "",
        "def chain(question):",
        f"    prompt = '''{PROMPT} {{question}}'''",
    ]
    lines += ["    scores = " if gap else "    scores = {}"]
    lines += ["    more = {", '        "score": ,' if gap else '        "score": 1,', "    }"] * r.randint(0, 1)
    lines += ["    return Prompt.of(prompt), scores", ""]
    return "\n".join(lines)


def test_a_program_with_a_quoted_prompt_is_code() -> None:
    for seed in some(range(20), 5):
        text = program(random.Random(seed), gap=seed % 2 == 1)
        assert belief(Evidence.NAME, text) is Belief.NO
        assert belief(Evidence.NAME, PROMPT) is not Belief.NO


def test_a_prompt_that_shows_a_program_is_a_prompt() -> None:
    for seed in some(range(6), 2):
        text = f"{PROMPT}\n\nHere is the file:\n\n{program(random.Random(seed), gap=False)}"
        assert belief(Evidence.NAME, text) is Belief.STRONG


def test_a_fence_with_lines_of_code_shows_code() -> None:
    """What a tool is called with has a name of its own; a block of text, or without a name, is filled."""
    for language, is_shown in [("repl", True), ("python", True), ("text", False), ("", False)]:
        block = (
            "Read the part: {part}\n" if not is_shown else 'for part in parts:\n    print(f"Read the\npart: {part}")\n'
        )
        text = f"{PROMPT}\n```{language}\n{block}```\nGo on.\n"
        start = text.index("{part}")
        assert is_quoted(text, start, start + len("{part}"), quoted_ranges(text)) is is_shown
