"""Blocks under the word for an example, in any language, are examples when they change places."""

from __future__ import annotations

import random

from kvtool.diagnose.compare.messages import compare_turns
from kvtool.diagnose.compare.order import heads_of_examples
from kvtool.workload.turn import Turn

SAID = [
    f"{what} since {when}, and nobody came to look at it yet."
    for what, when in zip(
        (
            "The tap drips",
            "The lamp is dark",
            "The lift stands still",
            "The door jams",
            "The roof leaks",
            "The heater knocks",
        ),
        ("Monday", "noon", "last week", "the storm", "the spring", "yesterday"),
        strict=True,
    )
]
HEADS = [
    *("### Esempio", "### Esempio {n}", "## Beispiel {n}", "**Exemplo {n}**", "Voorbeeld {n}:", "#### Przykład nr {n}"),
    *(
        "### Ejemplo n.º {n}",
        "### Пример {n}",
        "### 例{n}",
        "### 示例 {n}",
        "### 예시 {n}",
        "### مثال {n}",
        "### उदाहरण {n}",
    ),
    *(
        "### ตัวอย่างที่ {n}",
        "### Ví dụ {n}",
        "### Örnek {n}",
        "### Příklad {n}",
        "### Esimerkki {n}",
        "### Παράδειγμα {n}",
    ),
]


def kinds(head: str) -> set[str]:
    def text(seed: int) -> str:
        order = list(range(len(SAID)))
        random.Random(seed).shuffle(order)
        blocks = [f"{head.format(n=at + 1)}\nSaid: {SAID[of]}\nMark: M{of}" for at, of in enumerate(order)]
        return "\n\n".join(["You sort what tenants say.", *blocks, "Write the mark alone, in capitals."])

    one, other = (
        Turn("g", messages=[{"role": "system", "content": text(seed)}, {"role": "user", "content": f"Well {seed}?"}])
        for seed in (1, 2)
    )
    return {change.kind.code for change in compare_turns(one, other)}


def test_blocks_under_the_word_for_an_example() -> None:
    for head in HEADS:
        assert "KV114" in kinds(head)


def test_blocks_under_another_word_are_documents() -> None:
    for head in ["### Documento {n}", "### Fundstelle {n}", "### Article {n}", "### 文書{n}"]:
        assert "KV114" not in kinds(head)


def test_heads_are_lines_that_say_no_more() -> None:
    assert heads_of_examples("### Esempio 1\nA\n\n### Esempio 2: saluti\nB") == 2
    assert heads_of_examples("Per esempio, il tetto.\nEsempio di un tetto che perde\nExamples of roofs") == 0
