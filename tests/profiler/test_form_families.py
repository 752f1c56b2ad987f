"""Two families of one text that differ in form only, each with many requests: the second one is told, and won back."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from kvtool.results.report import Report
from kvtool.workload.render import Renderer
from tests.profiler.test_forms import chats, of_code
from tests.profiler.test_real_cases import log, profile, prose

KOREAN = (
    "당신은 시립 수영장의 안내원입니다. 방문객의 질문에 짧고 친절하게 답하세요.\n\n"
    "입장권은 성인 사천 원, 어린이 이천 원이며 열 번을 이용하면 한 번은 무료입니다.\n\n"
    "수영모를 꼭 써야 하고, 음식물은 가져올 수 없으며, 사물함은 동전으로 잠급니다.\n\n"
)
CZECH = (
    "Jste průvodkyně městské knihovny. Čtenářům odpovídáte stručně, přátelsky a česky.\n\n"
    "Výpůjční lhůta činí čtyři týdny, prodloužit ji lze dvakrát, není-li titul rezervován.\n\n"
    "Průkaz je nepřenosný; při ztrátě se účtuje poplatek šedesát korun, děti ho neplatí.\n\n"
)
ENGLISH = prose(600, seed=8)
FORMS: dict[str, tuple[str, Callable[[str], str]]] = {
    "Korean, decomposed": (KOREAN, lambda text: unicodedata.normalize("NFD", text)),
    "Czech, decomposed": (CZECH, lambda text: unicodedata.normalize("NFD", text)),
    "on one line": (KOREAN.replace("\n\n", " "), lambda text: unicodedata.normalize("NFD", text)),
    "wide letters": (
        ENGLISH,
        lambda text: "".join(chr(ord(each) + 0xFEE0) if each.isalpha() else each for each in text),
    ),
    "spaces without a break": (CZECH, lambda text: text.replace(" ", "\u00a0")),
    "invisible": (ENGLISH, lambda text: "\u200b".join(text)),
}


def of_two(tmp_path: Path, renderer: Renderer, text: str, other: str) -> Report:
    """A third of twelve requests have the other text."""
    return profile(log(tmp_path, chats(lambda number, _: other if number % 3 == 1 else text)), renderer)


@pytest.mark.parametrize("name", FORMS)
def test_the_second_family_is_of_form_only(name: str, tmp_path: Path, byte_renderer: Renderer) -> None:
    text, form = FORMS[name]
    one = of_two(tmp_path, byte_renderer, text, text).totals.hit_rate
    report = of_two(tmp_path, byte_renderer, text, form(text))
    finding = of_code(report, "KV121")
    assert finding.rerun is not None
    assert finding.rerun.group_after >= one - 0.02


def test_another_text_is_a_family_of_its_own(tmp_path: Path, byte_renderer: Renderer) -> None:
    report = of_two(tmp_path, byte_renderer, KOREAN, CZECH)
    assert not [finding.message for finding in report.findings if finding.code == "KV121"]
