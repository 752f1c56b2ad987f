# ruff: noqa: RUF001 - letters of other alphabets are meant
"""Names of people: by how they are addressed, by given names that many have, and by the words before them."""

from __future__ import annotations

import re
from collections.abc import Sequence


def _words(*rows: str) -> frozenset[str]:
    return frozenset(word for row in rows for word in row.split(" "))


_TITLES = _words(
    "mr mrs ms mx miss dr prof sir madam herr herrn frau señor señora señorita sr sra srta don doña monsieur madame",
    "mademoiselle mme mlle signor signora signorina sig dott senhor senhora dona meneer mevrouw dhr mevr pan pani",
    "pana panią господин госпожа господином госпожой",
)
_GIVEN = _words(
    "ada adam ahmed aisha akira alan albert alejandro alex alexander ali alice amelia amina ana anders andrea andrew",
    "angela anita anja ann anna anne antonio aya barbara beatriz ben bjørn bob brian carla carlos carmen carol",
    "caroline catherine cecilia charles charlotte chen chloé chloe chris christian christina claire clara claudia",
    "daan dan daniel daniela david deborah diana diego dmitri edward elena eli elif elisa elizabeth ella emil emily",
    "emma eric erik eva ewa fatima felix fernando francesca francisco frank gabriel george giovanni giulia grace",
    "greta hana hannah hans harry hassan helen henrik henry hugo ian ines ingrid irene isabel ivan jack jacob jakub",
    "james jan jane javier jean jennifer jens jessica joan john jon jonas jorge josé jose joseph juan julia julien",
    "karen karin karl kate katarzyna kevin kim klaus lars laura lea leila lena leo leon li liam linda lisa liv louis",
    "lucas lucía lucia luis luke maja marco marcus maria maría marie mario mark marta martin mary mateo matteo maya",
    "mehmet mei mia michael michel miguel mohamed monika nadia nancy natalia nina noah noor olga olivia omar oscar",
    "pablo paolo patricia paul paula pedro peter petra philip piotr priya rachel rahul raj ravi rebecca ricardo",
    "richard rita robert rosa ruth sam samuel sandra sanne sara sarah sergio silvia simon sofia sofía sophie stefan",
    "stephen susan sven tanja thomas tim tina tom tomás ursula valentina vera victor viktor walter william wei yara",
    "yasmin youssef yuki yusuf zara zoë zoe",
    "agnieszka aiko arjun asha bogdan deepa dragan elżbieta emre fatma gábor giorgos haruto hiroshi ioana ivana jelena kenji",
    "kwame lakshmi małgorzata milan minh mustafa natasha ngozi nikos nikola oksana oleksandr pavel radu sakura sanjay",
    "stanislav svetlana tanaka tatiana tomáš tomasz vladimir wanjiru wojciech yolanda zoltán zofia",
    # in other scripts than that of Latin
    "александр алексей алина алла анастасия андрей анна антон артём борис валентина вера виктор владимир галина дарья",
    "денис дмитрий евгений екатерина елена иван игорь ирина кирилл ксения лариса людмила максим мария марина михаил",
    "надежда наталья никита николай олег ольга павел пётр роман светлана сергей софья татьяна фёдор юлия юрий",
    "андрій богдан василь ганна дмитро катерина леся марія микола наталія оксана олександр олена петро руслан сергій",
    "соломія софія тарас тетяна юлія ярослав георги димитър ивана јелена милан никола петар стефан",
    "αλέξανδρος ανδρέας άννα αντώνης βασίλης γιάννης γιώργος δημήτρης ειρήνη ελένη κατερίνα κώστας μαρία νίκος παναγιώτης",
    "σοφία σταύρος χρήστος",
)
_FAMILY_NAMES = re.compile(
    r"(?:[^\W\d_]{2,}(?:enko|chuk|czyk|wicz|wska|wski|ski|cki|ska|cka|ová|ov|ova|ev|eva|ić|vić|sson|sdóttir|dóttir|escu|eanu|oğlu|yan"
    r"|shvili|dze|opoulos|opoulou|akis|idis|енко|чук|ський|ська|ский|ская|ов|ова|ев|ева|ёв|ин|ина|ич|ук|юк|όπουλος|οπούλου|άκης|ίδης|ίδου"
    r"|άκη|ου))\Z"
)
"""Endings that make family names in many languages."""
_TALKING = _words(
    "writing write corresponding schreibst schreiben schreibt écris écrivez escribes escribe escribiendo escreve escrevendo scrivi",
    "talking talk speaking speak chatting chat sprichst sprechen redest chattest parles parlez parle discutes hablas",
    "habla hablando conversas parlando parli fala falando conversando praat spreekt rozmawiasz говоришь говорите",
    "общаешься разговариваешь konuşuyorsun taler talar snakker",
)
_WITH = _words("to with mit avec con com met med")
_PARTICLES = "de|da|do|dos|das|del|della|di|du|la|le|van|von|vom|zu|der|den|ter|ten|bin|ibn|al|el|y|e"
_PART = r"[^\W\d_a-z][^\W\d_]*(?:['\u2019-][^\W\d_]+)*\.?"
_NAME = re.compile(rf"{_PART}(?: (?:(?:{_PARTICLES}) ){{0,2}}{_PART}){{0,4}}")
_BEHIND = re.compile(r"\s*(?:[,;(/|\u2013\u2014]|\b(?:from|of|at|in|aus|bei|à|en|em|w|z|из|в|з)\b).*", re.DOTALL)
"""What may be said of a person behind the name: `Ada Kern, Leeds`, `Ada Kern from Leeds`."""
_FAMILIES = 0.5
"""The share of values that end like family names where none begins with a known given name."""
_EXPLAINED = 0.95
_GIVEN_KNOWN = 0.2
"""The share of values that begin with a known given name where all look like names."""
_ADDRESSED = 0.5
_WHOLE = 0.6
"""The share of values that have more than a given name."""


def are_people(values: Sequence[str]) -> bool:
    """Whether nearly all values are names of people: words with capitals, many of them with a title or a known given name."""
    parted = [found[0].split() for value in values if (found := _NAME.match(value)) and _is_all(value, found.end())]
    if not values or len(parted) < _EXPLAINED * len(values):
        return False
    titled = sum(is_title(words[0]) for words in parted)
    if titled >= _ADDRESSED * len(parted):
        return True
    known = sum(_plain(next((word for word in words if not is_title(word)), "")) in _GIVEN for words in parted)
    whole = sum(len(words) > 1 for words in parted)
    families = sum(len(words) in (2, 3) and _FAMILY_NAMES.match(words[-1]) is not None for words in parted)
    likely = known >= max(_GIVEN_KNOWN * len(parted), 1) or families >= max(_FAMILIES * len(parted), 2)
    return likely and whole >= _WHOLE * len(parted)


def _is_all(value: str, stop: int) -> bool:
    """Whether a value ends where its name does, or goes on with where that person is from."""
    return stop == len(value) or _BEHIND.fullmatch(value, stop) is not None


def is_title(word: str) -> bool:
    """Whether a word says how a person is addressed, so that a name follows."""
    return _plain(word) in _TITLES


def addresses(words: Sequence[str]) -> bool:
    """Whether words directly before a value say that somebody is spoken to: `sprichst gerade mit`."""
    said = [_plain(word) for word in words]
    if not said:
        return False
    if said[-1] in _TITLES:
        return True
    return not _TALKING.isdisjoint(said) and (said[-1] in _WITH or said[-1] in _TALKING - {"chat", "talk", "speak"})


def _plain(word: str) -> str:
    return word.rstrip(".").casefold()
