"""Words and labels before the name of a person."""

from __future__ import annotations

from kvtool.diagnose.values.labels import kind_by_label, kind_of_label


def test_words_before_a_person() -> None:
    for words, is_person in [
        ("sprichst gerade mit", True), ("Tu parles avec", True), ("Stai parlando con", True),
        ("You write to Mr", True), ("are writing with", True), ("is written with", False), ("gerade mit", False),
        ("talk about the", False), ("It goes with", False),
    ]:  # fmt: skip
        kind = kind_by_label(words)
        assert (kind is not None and kind.code == "KV104") == is_person


def test_labels_of_names() -> None:
    for label, code in [
        *(("Nombre", "KV104"), ("Nome completo", "KV104"), ("Imię i nazwisko", "KV104"), ("이름", "KV104")),
        *(
            ("Nombre del archivo", None),
            ("Nom du fichier", None),
            ("Nombre del modelo", "KV105"),
            ("Nome do produto", None),
        ),
    ]:
        kind = kind_of_label(label)
        assert (kind and kind.code) == code
