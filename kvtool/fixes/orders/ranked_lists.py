# ruff: noqa: RUF001 - letters of other alphabets are meant
"""Lists whose order is meant: what introduces them says that their items are ranked, or follow each other."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kvtool.diagnose.compare.order import introduction_of
from kvtool.fixes.orders.inline_order import InlineOrder
from kvtool.fixes.orders.permute import ItemOrder
from kvtool.fixes.turn_texts import texts_of
from kvtool.workload.turn import Turn

AS_MEANT = "leave the order where it is meant, as the text before the list says, and put what is shared before the list"
"""What may be done about a list whose order says something."""

_MEANT = re.compile(
    r"\bin (?:th(?:is|at|e (?:following|given|same|stated|listed))|(?:de|a)scending|chronological|decreasing|increasing) order\b"
    r"|\b(?:in|by) order of\b|\border(?:ed|ing)? (?:by|from)\b|\bsorted (?:by|from)\b|\brank(?:ed|ing|s)?\b"
    r"|\bprecedence\b|\bpriorit(?:y|ies|i[sz]ed)\b|\bchronolog|\btimeline\b|\bsequence\b"
    r"|\b\w{2,20}est[\w ]{0,30} first\b|\bmost [\w ]{2,40} first\b"
    r"|\bby (?:relevance|importance|similarity|score|preference)\b|\bone after (?:the other|another)\b"
    r"|\bsteps?\b[^.!?\n]{0,40}:\s*\Z|\breihenfolge\b|\bsortiert\b|geordnet\b|\brang|\bpriorität|\bvorrang"
    r"|\bzuerst\b|\bnacheinander\b|\b\w{0,20}schritte?n?:\s*\Z|\b(?:cet|dans l['’]|par) ?ordre\b|\bclass[ée]e?s?\b"
    r"|\btri[ée]e?s?\b|\bpriorit[éàa]|\bd['’]abord\b|\ben premier\b|\bétapes?\s?:\s*\Z"
    r"|\b(?:este|ese|el siguiente|por|en) orden\b|\bordenad[oa]s?\b|\bprioridade?s?\b|\bprimer[oa]?s?\b"
    r"|\bpasos?\s?:\s*\Z|\b(?:nesta|na|por|em) ordem\b|\bprimeir[oa]s?\b|\b(?:passos|etapas)\s?:\s*\Z"
    r"|\b(?:in|per) (?:quest['’])?ordine\b|\bordinat[iae]\b|\bper prim[oaie]\b|\b(?:passi|fasi)\s?:\s*\Z"
    r"|\bvolgorde\b|\bgesorteerd\b|\bgerangschikt\b|\bprioriteit|\beerst\b|\bstappen:\s*\Z|\bordningsföljd"
    r"|\bsorterade?\b|\brangord|\bprioritet|\bförst\b|\bsteg:\s*\Z|kolejnoś|\bposortowan|\buporządkowan|\bpriorytet"
    r"|\bnajpierw\b|\bkroki:\s*\Z|порядк|отсортирован|упорядочен|приоритет|последовательн|сначала|шаги:\s*\Z"
    r"|\bsıra(?:yla|sıyla|lı|lan|ya)|\bönceli|\badımlar:\s*\Z|ترتيب|مرتبة|بالتسلسل|أولوي|क्रम|प्राथमिकता|चरण"
    r"|順(?!調)|優先|手順|순서|순으로|우선|단계|顺序|排序|优先|步骤|步驟|依次|先后",
    re.IGNORECASE,
)
"""Words by which the items of a list are told to be ranked, or to be done or to have happened one after the other."""

_LOOKED_AT = 8


def is_meant(listed: ItemOrder | None, inline: InlineOrder | None, samples: Sequence[Turn]) -> bool:
    """Whether the order of what would be arranged is meant: most of a few requests say so before the list."""
    if inline is not None and any(map(_MEANT.search, inline.ranks)):
        return True
    said = changed = 0
    for turn in samples:
        for at in texts_of(turn):
            if listed is None or (listed.roles is not None and at.role not in listed.roles):
                continue
            place = listed.first_moved(at.text)
            if place is not None:
                changed += 1
                said += _MEANT.search(introduction_of(str.__str__(at.text), place)) is not None
        if changed >= _LOOKED_AT:
            break
    return 2 * said > changed
