# ruff: noqa: RUF001 - letters of other alphabets are meant
"""Names of companies: by what they are by law, and by the trade that they name."""

from __future__ import annotations

import re
from collections.abc import Sequence


def _words(*rows: str) -> frozenset[str]:
    return frozenset(word for row in rows for word in row.split(" "))


_LEGAL = _words(
    "ag gmbh ug kg ohg gbr mbh se sa sas sarl eurl snc spa srl sl slu sab lda ltda eireli inc",
    "incorporated llc llp lp ltd limited plc",
    "corp corporation co bv nv vof cv ab hb as asa ans oy oyj ky aps kft zrt bt sp zoo spzoo doo dd ad",
    "ood eood sro pty pvt pte bhd",
    "ооо оао зао пао ао тов прат ип αε επε αβεε şti aş ลิมิเต็ด",
)
_TRADES = _words(
    # in front, as Romance languages, Greek and Slavic ones have it
    "cabinet laboratoire laboratoires atelier ateliers maison menuiserie boulangerie imprimerie",
    "transports garage clinique pharmacie",
    "fromagerie pépinières pépinière librairie boucherie cave domaine société groupe établissements ets",
    "entreprise agence assurances",
    "banque constructions éditions brasserie hôtel restaurant serrurerie plomberie électricité",
    "clínica laboratorio laboratorios taller talleres panadería librería bodegas transportes grupo",
    "empresa hotel restaurante farmacia",
    "ferretería imprenta carpintería seguros banco construcciones editorial viajes autoescuela",
    "studio officina officine panificio libreria cantina cantine trasporti gruppo impresa albergo",
    "ristorante farmacia tipografia",
    "falegnameria assicurazioni banca costruzioni edizioni pasticceria",
    "laboratório oficina padaria livraria adega escritório farmácia gráfica marcenaria seguros construtora editora",
    "kancelaria piekarnia księgarnia apteka drukarnia stolarnia hurtownia przychodnia zakład biuro grupa",
    "advokátní pekárna knihkupectví lékárna tiskárna truhlářství pekařství",
    "компания фирма группа завод фабрика мастерская аптека клиника типография пекарня",
    # behind, or in one word with the name
    "bank group holding holdings partners associates brothers sons bros industries industrial logistics",
    "insurance consulting studios",
    "labs laboratories foods bakery bakeries brewery breweries clinic clinics dental hotels motors motor",
    "electric electrical energy",
    "plumbing roofing interiors furniture printers press publishing media systems software solutions",
    "technologies technology",
    "services trading shipping freight haulage foundry mills farms dairy vineyards wines outfitters",
    "optics robotics analytics",
    "kanzlei bäckerei metzgerei fleischerei schreinerei tischlerei druckerei buchhandlung apotheke praxis",
    "klinik brauerei spedition",
    "gärtnerei verlag versicherung versicherungen gruppe werke stadtwerke autohaus sanitär elektro",
    "maschinenbau technik",
    "bakkerij slagerij drukkerij boekhandel apotheek kliniek brouwerij transport groep advocaten notarissen",
    "bageri bryggeri tryckeri tandklinik apotek förlag rederi bokhandel byrå åkeri trykkeri forlag advokatfirma",
    "leipomo panimo kirjapaino apteekki kustannus",
)
_SPELLED = re.compile(
    "株式会社|有限会社|合同会社|有限公司|公司|集团|集團|銀行|银行|주식회사|\\(주\\)|㈜|은행|บริษัท|شركة|شرکت"
)
_ENDINGS = re.compile(
    r"(?:bäckerei|metzgerei|schreinerei|tischlerei|druckerei|kanzlei|apotheke|brauerei|gärtnerei|verlag|werke?|bau|technik|klinik"
    r"|bakkerij|drukkerij|brouwerij|bageri|bryggeri|leipomo|panimo)\Z"
)
_PART = re.compile(r"[^\W_]+(?:['\u2019.&-][^\W_]+)*")
_SMALL = _words(
    "de du des la le les l d et del della dei degli di da do dos das e y i und & and of the van von der en og och ja"
)
_LONGEST = 64
_MOST_WORDS = 7
_EXPLAINED = 0.95
_TOLD = 0.5
"""The share of names that say by a word what they are; the others look like names."""
_FEWEST = 3


def are_companies(values: Sequence[str]) -> bool:
    """Whether nearly all values look like names, and most of them say that they are those of companies."""
    if len(values) < _FEWEST:
        return False
    spelled = sum(_SPELLED.search(value) is not None and len(value) <= _LONGEST for value in values)
    if spelled >= _EXPLAINED * len(values):
        return True
    named = [words for value in values if (words := _name(value))]
    told = sum(any(map(_is_told, words)) for words in named)
    return len(named) >= _EXPLAINED * len(values) and told >= _TOLD * len(values)


def _name(value: str) -> list[str]:
    """The words of what looks like a name of several words, each with a capital but for articles; else none."""
    words = _PART.findall(value)
    if not 2 <= len(words) <= _MOST_WORDS or len(value) > _LONGEST or ":" in value or "\n" in value:
        return []
    first = words[0][:1]
    cased = all(
        word[:1].isupper() or word[:1].isdigit() or word.casefold() in _SMALL or _is_told(word) for word in words
    )
    return words if cased and (first.isupper() or first.isdigit()) else []


def _is_told(word: str) -> bool:
    said = word.casefold().replace(".", "")
    return said in _LEGAL or said in _TRADES or _ENDINGS.search(said) is not None
