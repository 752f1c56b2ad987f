"""A fix of one form changes that form alone, and makes texts equal that differ in nothing else."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from kvtool.fixes.forms.text_form import SingleForm
from kvtool.text.traced import Traced
from kvtool.workload.turn import Turn

LINES = (
    "L\u2019équipe répond d\u2019abord\u00a0: «\u00a0oui\u00a0» \u2014 puis elle attend\u2026",
    "Ask first, then  answer; never\tguess.",
    "  - keep the list short, please  ",
    "    - and this below it",
    "Größe and Cafe\u0301 cost 5\u202f€ today.",
    "Слово 和 \uff41\uff42 stay as they are\u200b.",
    "",
    "Done: e\u0301t\u00e9, \ufb01n.",
)
_LOOKS = str.maketrans("aeopc", "\u0430\u0435\u043e\u0440\u0441")

FORMS: dict[str, tuple[Callable[[str], str], str]] = {
    "line_endings": (lambda text: text.replace("\n", "\r\n"), "\r"),
    "final_newline": (lambda text: text + "\n\n", "\n"),
    "trailing_space": (lambda text: text.replace(".\n", ". \t\n"), " \t"),
    "unicode_form": (lambda text: unicodedata.normalize("NFD", text), "\u0301\u0308\u0327\u00e9\u00f6eo"),
    "invisible": (lambda text: text.replace("s ", "s\u2060 "), "\u2060\u200b"),
    "compatible": (
        lambda text: text.replace("fi", "\ufb01").replace("short", "\uff53hort"),
        "\ufb01\uff53fis\uff41\uff42cabc",
    ),
    "look_alike": (
        lambda text: text.replace("please", "please".translate(_LOOKS)),
        "aeopc" + "aeopc".translate(_LOOKS),
    ),
    "signs": (lambda text: text.replace("\u2019", "'"), "'\u2019\u2014-\u2026."),
    "space_kind": (lambda text: text.replace("t, ", "t,\u00a0"), " \u00a0\u202f"),
    "whitespace": (lambda text: re.sub(r"(?<=\w) (?=\w)", "   ", text), " \t\n"),
}


def prompt(text: str) -> Turn:
    return Turn("g", messages=[{"role": "system", "content": Traced(text)}, {"role": "user", "content": "Why?"}])


def said(turn: Turn) -> str:
    assert turn.messages is not None
    return str(turn.messages[0]["content"])


def left(text: str, form: str) -> str:
    """A text without what a form may change."""
    return re.sub(f"[{re.escape(form)}]", "", text)


@given(st.sampled_from(sorted(FORMS)), st.integers(0, 10**9))
def test_one_form_and_nothing_else(kind: str, seed: int) -> None:
    chance = random.Random(seed)
    base = (
        "\n".join(chance.choices(LINES, k=9))
        + "\nAsk first, then answer.\nThe list is short, please, it\u2019s fine.\nété"
    )
    change, own = FORMS[kind]
    texts = [base if chance.random() < 0.5 else change(base) for _ in range(6)] + [base, change(base)]
    form = SingleForm.learn([prompt(text) for text in texts], kind, {"system"})
    assert form.kinds == (kind,)
    after = [said(form(prompt(text))) for text in texts]
    assert len(set(after)) == 1
    for one, other in zip(texts, after, strict=True):
        assert left(one, own) == left(other, own)
        assert said(form(prompt(other))) == other


def test_indentation_is_that_of_most() -> None:
    for one, other in [("    ", "\t"), ("  ", "\t"), ("", "  "), ("  ", "    "), ("\t\t", "        ")]:
        body = ("Ask first,  then answer.", "Never guess.", "It\u2019s\tfine.")
        mine, theirs = ("".join(f"Rules\n{indent}{line}\n" for line in body) for indent in (one, other))
        form = SingleForm.learn([prompt(text) for text in (mine, mine, theirs)], "whitespace", {"system"})
        assert form.kinds == ("whitespace",)
        assert [said(form(prompt(text))) for text in (mine, theirs)] == [mine, mine]


def test_lines_that_one_text_indents_twice_stay() -> None:
    nested = "a:\n  x: 1\nb:\n    x: 1\n"
    form = SingleForm.learn([prompt(nested), prompt(nested.replace("  ", "\t"))], "whitespace", {"system"})
    assert said(form(prompt(nested))) == nested


def test_what_differs_in_two_forms_is_put_into_both() -> None:
    texts = ["It\u2019s\u00a0fine here.\nDon\u2019t ask.", "It's fine here.\nDon\u2019t ask."]
    form = SingleForm.learn(map(prompt, texts), "space_kind", {"system"})
    assert form.kinds == ("signs", "space_kind")
    assert len({said(form(prompt(text))) for text in texts}) == 1
