# ruff: noqa: RUF001 - letters of other alphabets are meant
"""Names of people by how they look, and by the words before them."""

from __future__ import annotations

import pytest

from kvtool.diagnose.labels import kind_beside, kind_of_label
from kvtool.diagnose.person_names import are_people


@pytest.mark.parametrize(
    "values",
    [
        "Ruth Feld|Ana Prado|Omar Saidi|Liv Tran|Jon Abara",
        "Herrn Braun|Frau Vogt|Frau Dr. Kern",
        "M. Roux|Mme Girard|Mlle Faure",
        "María de la Cruz|Luis Peña|Zbigniew Wójcik|Eva Soto",
        "Jan de Vries|Sanne Bakker|Pieter van den Berg",
        "Оксана Бондар|Тарас Кравець|Леся Мороз",
        "Ostap Hrytsenko|Yurii Shevchuk|Lev Kovalenko",
        "Ada|Bob|Eva",
        "Wanda|Pilar|Kwame|Sanjay",
        "Йордан|Виолета|Галена|Красимир",
        "ანა|გიორგი|ნინო",
        "李静|王伟|张敏|欧阳娜",
        "रमेश यादव|सुनीता देवी|मोहन पटेल|गीता कुमारी",
        "김민수|박지영|이서준",
        "Ruth Feld from Leeds|Ana Prado from Porto|Omar Saidi, Lyon",
    ],
)
def test_people(values: str) -> None:
    assert are_people(values.split("|"))


@pytest.mark.parametrize(
    "values",
    [
        "",
        "Order Status|Refund Request|Late Delivery",
        "New York|San Jose|Los Angeles|Santa Fe",
        "Leeds|York|Hull",
        "New York from Leeds|San Jose from Porto",
        "Великий Новгород|Нижний Тагил|Старая Русса",
        "Ana Prado asks|Omar Saidi waits|Ruth Feld pays",
        "Ada|Bob",
        "Amber|Green|Red",
        "Linz|Graz|Oslo|York",
        "Madrid|Berlin|London|Paris",
        "订单|退款|投诉",
        "주문|환불|배송",
        "Ada asks why|Bob asks how",
        "Premium Plan|Basic Plan|Team Plan",
        "ruth feld|ana prado",
    ],
)
def test_other_words_with_capitals(values: str) -> None:
    assert not are_people(values.split("|") if values else [])


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
    kind = kind_beside(words)
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
