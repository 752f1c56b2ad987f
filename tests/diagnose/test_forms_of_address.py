"""Words and labels before the name of a person."""

from __future__ import annotations

import pytest

from kvtool.diagnose.values.labels import kind_by_label, kind_of_label


@pytest.mark.parametrize(
    ("words", "is_person"),
    [
        ("sprichst gerade mit", True),
        ("Tu parles avec", True),
        ("Stai parlando con", True),
        ("You write to Mr", True),
        ("are writing with", True),
        ("is written with", False),
        ("gerade mit", False),
        ("talk about the", False),
        ("It goes with", False),
    ],
)
def test_words_before_a_person(words: str, is_person: bool) -> None:
    kind = kind_by_label(words)
    assert (kind is not None and kind.code == "KV104") == is_person


@pytest.mark.parametrize(
    ("label", "code"),
    [
        *(("Nombre", "KV104"), ("Nome completo", "KV104"), ("Imię i nazwisko", "KV104"), ("이름", "KV104")),
        *(
            ("Nombre del archivo", None),
            ("Nom du fichier", None),
            ("Nombre del modelo", "KV105"),
            ("Nome do produto", None),
        ),
    ],
)
def test_labels_of_names(label: str, code: str | None) -> None:
    kind = kind_of_label(label)
    assert (kind and kind.code) == code
