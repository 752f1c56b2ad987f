# ruff: noqa: RUF001 - signs of other scripts are meant
"""Sentences that point at what stands below them: `The following table is that of the reader.`"""

from __future__ import annotations

import re

_LONGEST = 300
_BELOW = re.compile(
    r"""\b(?:following|below|as\sfollows|next\s(?:table|list|block)
    |folgend\w{0,2}|nachstehend\w{0,2}|nachfolgend\w{0,2}|unten
    |suivante?s?|ci-dessous|ci-après|siguientes?|a\scontinuación|abajo|seguintes?|abaixo|a\sseguir
    |següents?|a\scontinuació|seguent[ei]|di\sseguito|qui\ssotto|următo\w{1,4}|mai\sjos
    |volgende|hieronder|onderstaande?|følgende|nedenfor|nedenstående|följande|nedan\w{0,6}|seuraav\w{1,4}|alla\solev\w{1,4}|järgmi\w{1,5}
    |następując\w{1,3}|poniż\w{1,6}|následujíc\w{1,3}|níže|nasledujúc\w{1,3}|nižšie|sljedeć\w{1,3}|sledeć\w{1,3}|naslednj\w{1,3}|spodaj
    |következő\w{0,3}|alábbi\w{0,3}|aşağıda\w{0,3}|şu\stablo
    |следующ\w{1,4}|ниже\w{0,9}|наступн\w{1,4}|нижче\w{0,9}|следн\w{1,4}|по-долу|ακόλουθ\w{1,3}|παρακάτω
    |berikut|di\sbawah|sau\sđây|dưới\sđây|bên\sdưới
    |הבאה?|הבאים|להלן|التالي\w{0,3}|الآتي\w{0,3}|أدناه|زیر|ذیل|درج\sذیل
    )\b
    |下記|以下|下表|下列|如下|次の|下の|아래|다음|निम्न\w*|नीचे|নিচে\w*|নিম্ন\w*|ต่อไปนี้|ด้านล่าง""",
    re.IGNORECASE | re.VERBOSE,
)


def points_below(sentence: str) -> bool:
    """Whether a sentence speaks of what follows it, in one of the languages in which prompts are mostly written."""
    return len(sentence) <= _LONGEST and _BELOW.search(sentence) is not None
