# ruff: noqa: RUF001 - letters of other alphabets are meant
"""References that a move leaves dangling: "the date above", "the following list", "see below"."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence

from kvtool.fixes.turn_texts import TextAt, texts_of
from kvtool.workload.turn import Turn

_NOT_A_PLACE = (
    r"(?!\s(?:(?:all|a|an|average|zero|sea|ground|head|normal|market|par)\b|\d|(?:one|two|three|four|five|six|seven|eight|nine|ten"
    r"|eleven|twelve|twenty|thirty|forty|fifty|sixty|hundred)\b))"
)
"""`Stays above ten degrees` says how much, and nothing of the text."""
BACK = re.compile(
    r"""\b(?:
    (?:everything|anything|all|as|see|listed|mentioned|shown|stated|given|described|noted|defined|specified|provided|said|the\sone|outlined|instructions?
        |rules?|text|date|time|list|example|examples|section|context|information|documents?|tools?|data|output|values?)\s(?:\w+\s)?above\b"""
    + _NOT_A_PLACE
    + r"""
    |the\s(?:\w+\s){0,2}above\b"""
    + _NOT_A_PLACE
    + r"""
    |(?:copied|taken|apply|date|time|list|value|values|rules?|name|one|ones)\sfrom\sabove\b
    |(?:the\s)?above-?\s?(?:mentioned|given|stated|listed|described|date|time|list|example|rules?|text|section|context|information
        |documents?|instructions?|data|tools?)\b
    |the\sabove\b(?!\sall)
    |(?:the\s|your\s)?(?:previous|preceding|aforementioned|foregoing)\s(?:example|examples|line|lines|list|section|paragraph|sentence|text
        |date|time|rule|rules|item|instruction|instructions|document|documents|block|entry|step|note|value|values|context|information)\b
    |(?:as\s)?(?:mentioned|stated|noted|described|defined|said|listed|given|specified)\s(?:earlier|before|previously)\b
    |(?:wie\s|siehe\s)?(?:weiter\s)?oben(?:\s?(?:genannt|stehend|erwähnt|angegeben|beschrieben)\w{0,3})?\b
    |(?:der|die|das|den|dem)\s(?:obige|obigen|vorherige|vorherigen|vorige|vorigen|vorstehende|vorstehenden)\s\w+
    |ci-dessus|susmentionné\w{0,2}
    |(?:exemple|date|liste|section|texte|ligne|paragraphe|règle)s?\sprécédente?s?\b
    |(?:más\s)?arriba\b|(?:mencionad|indicad|descrit|citad)[oa]s?\s(?:anteriormente|antes)\b
    |(?:ejemplo|fecha|lista|sección|texto|línea|párrafo|regla|tabla)s?\santerior(?:es)?\b|lo\santerior\b
    |as\s(?:stated|noted|said|listed|given|specified|described|mentioned|shown)\b|(?:see|in|per)\sthe\s(?:table|list|listing|map|example)\b
    |obenstehend\w{0,3}|vorgenannt\w{0,3}|siehe\s(?:tabelle|liste|beispiel|karte)\b
    |plus\shaut\b|voir\s(?:le|la|les|l')\s?(?:tableau|liste|exemple|carte)\b
    |acima\b|supracitad[oa]s?\b|(?:data|lista|exemplo|seção|texto|tabela|regra)s?\santerior(?:es)?\b|ver\sa\s(?:tabela|lista)\b
    |véase\s(?:la|el)\s\w+
    |hierboven|bovenstaand\w{0,2}|bovengenoemd\w{0,2}|qui\ssopra|sopraindicat\w|ovan(?:stående|nämnd\w{0,2})?\b|ovenfor\b
    |powyżej|powyższ\w{1,3}|yukarıda\w{0,3}
    |выше\w*|предыдущ\w{1,4}|(?:указанн|упомянут)\w{1,4}\sранее|см\.\s(?:таблиц|список|пример)\w*
    )
    |上記|上述|前述|先述|上面的?|上文|如上|上列|上表|以上の|前の(?:節|項|例|表)|上の(?:表|リスト|例|文|日付|日時|規則|ルール)|参见|见表
    |위의|위에서|위에\s?(?:언급|명시|적힌|나온|있는)|앞서|상기|전술
    |أعلاه|المذكورة?|السابقة?|سالف|فيما\sسبق|انظر\s(?:الجدول|القائمة)
    |ऊपर|उपर्युक्त|उपरोक्त|पूर्वोक्त|पिछल[ेीा]""",
    re.IGNORECASE | re.VERBOSE,
)
FORWARD = re.compile(
    r"""\b(?:
    (?:everything|anything|all|what|that|which|each|rules?|instructions?|sections?|text|lines?|lists?|examples?|policies|guidelines|context)
        \s(?:that\s)?(?:(?:is|are|stands?|comes?|listed|written|given|said)\s)?below\b"""
    + _NOT_A_PLACE
    + r"""
    |(?:everything|anything|all|what|rules?|instructions?)\s(?:that|which)?\s?follows?\b
    |the\sfollowing\b(?:\s\w+)?|as\sfollows\b|(?:see|listed|given|shown|described|stated|provided|defined|found|specified|as)\sbelow\b
    |the\s(?:\w+\s){1,2}below\b|below\s(?:is|are)\b|(?:the\s)?next\s(?:line|section|paragraph|example|list|block|sentence)\b
    |(?:siehe\s|weiter\s|wie\s)?unten(?:\s?(?:genannt|stehend|aufgeführt|angegeben|beschrieben)\w{0,3})?\b
    |(?:der|die|das|den|dem|im)\sfolgende\w{0,2}\b(?:\s\w+)?|wie\sfolgt\b|nachstehend\w{0,3}
    |ci-dessous|(?:la|le|les|l')\s?\w+\ssuivante?s?\b|comme\ssuit\b
    |plus\sbas\b|\w+\ssuivant(?:e|s|es)?\b|abaixo\b|a\sseguir\b|seguintes?\b
    |hieronder|onderstaand\w{0,2}|qui\ssotto|di\sseguito|nedan(?:stående)?\b|nedenfor\b|poniżej|poniższ\w{1,3}|aşağıda\w{0,3}
    |ниже\w*|следующ\w{1,4}
    |a\scontinuación\b|(?:más\s)?abajo\b|(?:el|la|los|las)\s(?:\w+\s)?siguientes?\b
    )
    |下記|以下|次の|後述|下の(?:表|リスト|例)|下述|下面|如下|下列|下文|下表|接下来
    |아래|다음(?:의|과|은|을)?|하기와
    |أدناه|التالية?|الآتية?|فيما\sيلي|كما\sيلي
    |नीचे|निम्नलिखित|निम्न|अगल[ेीा]""",
    re.IGNORECASE | re.VERBOSE,
)
FIRST_PLACE = re.compile(
    r"""\b(?:
    (?:the\s|your\s|its\s)?(?:very\s)?(?:first|top|opening|topmost)\s(?:line|sentence|row|paragraph|block|field|header)\b(?!\sof\s(?:your|the|each|every)\s
        (?:answer|reply|response|output|summary|e-?mail|letter|message\syou|commit|code|file|document|text\syou))
    |line\s(?:1|one)\b
    |(?:at\s)?the\s(?:very\s)?(?:top|beginning|start|head)\sof\s(?:this|the)\s(?:prompt|system\sprompt|message|instructions?|page)\b
    |(?:this|the)\s(?:system\s)?prompt\s(?:begins|starts|opens)\swith\b
    |(?:erste[nr]?|oberste[nr]?)\sZeile\b|am\s(?:Anfang|Beginn)\s(?:dieses|des)\sPrompts\b
    |première\sligne\b|primera\slínea\b|primeira\slinha\b|prima\sriga\b|eerste\sregel\b|första\sraden\b|første\slinje\b
    |pierwsz\w{1,4}\s(?:lini|wiersz)\w*|první\s\w{0,4}řád\w+|ilk\ssatır\w*|dòng\sđầu\b|baris\spertama\b
    |перв\w{1,4}\sстрок\w+
    )
    |第一行|首行|最初の行|一行目|冒頭の行|先頭行|첫\s?(?:번째\s)?(?:줄|행)|السطر\sالأول|पहली\s(?:पंक्ति|लाइन)|บรรทัดแรก""",
    re.IGNORECASE | re.VERBOSE,
)
"""A text that counts from its front."""
GOES_WITH = re.compile(
    r"""[\s"'(*_]*(?:
    (?:on|at|in|from|since|until|by|for|during|after|before)\s(?:this|that|these|those|the\ssame)\s\w+
    |(?:this|that|these|those|such|said)\s(?:date|day|time|moment|month|week|year|id|identifier|number|name|value|user|customer|session|directory
        |folder|path|file|branch|table|list)\b
    |(?:\w+\s){0,2}(?:this|that)\s(?:person|caller|member|guest|client|patient|visitor|traveller|traveler|student|employee|account|order
        |ticket|case|company|organi[sz]ation|tenant|team|store|city|country|language|currency|locale|timezone)\b
    |(?:this|that|these|those)\s(?:means|implies|applies|must|should|can|may|will|has|have|changes|determines)\b
    |(?:this|that|these|those)\s(?:is|are)\s(?:what|why|how|where|when|who)\b
    |(?:use|treat|apply|follow|obey|trust|respect|quote|mention)\s(?:(?:it|them)\b|(?:this|that)(?=\s?[,.;!]))
    |(?:keep|stick|hold|rely|answer|build)\s(?:to|for|by|on|only\sfor)\s(?:(?:it|them)\b|(?:this|that)(?=\s?[,.;!]))
    |(?:go|act|work|decide|calculate|compute|count|reckon|plan|judge|measure|reason|start|begin)\s(?:by|on|with|from|off)\s(?:it|them|this|that)\b
    |(?:nutze|nutzen\ssie|verwende|verwenden\ssie|beachte|nimm|halte)\s(?:ihn|sie|es|dich\sdaran)\b
    |(?:utilise[sz]?|respecte[sz]?|suis|suivez)-l(?:e|a|es)\b|(?:úsal|utilízal|respétal|síguel)[oa]s?\b
    |(?:it|they|he|she)\s(?!is\b|'s\b|was\b|will\sbe\b)\w+|therefore\b|hence\b
    |(?:an|zu|in|mit|seit|bis|ab|bei|für)\s(?:diese[mrns]|jene[mrns])\s\w+|(?:diese[mrns]?|dies)\s(?!ist\b|sind\b)\w+|(?:daher|deshalb|deswegen)\b
    |(?:à|en|dans|depuis|pour)\s(?:ce|cet|cette|ces)\s\w+|(?:cela|ceci)\s(?!est\b)\w+|(?:ce|cet|cette|ces)\s(?!n'|sont\b)\w{3,}
    |(?:en|a|desde|para|con)\s(?:est[ea]s?|es[ea]s?)\s\w+|(?:est[eao]s?|es[eao]s?)\s(?!es\b|son\b)\w+|por\s(?:eso|isso)\b
    |(?:neste|nesta|nesse|nessa|desde\sest[ea])\s\w+|(?:iss[oa]|ess[ea]s?)\s(?!é\b)\w+
    |(?:в|на|к|с|до)\s(?:эт|т)(?:от|ой|ом|у|ого)\s\w+|(?:этот|эта|эти)\s\w+|поэтому\b
    )
    |\s*(?:这|那|该|此(?![刻外时時际際])|当日|当天|因此|この|その|それ|これ|当日|したがって|이\s|그\s|그날|이날|따라서|في\sهذا|في\sهذه|هذا\sال|هذه\sال|لذلك|इस\s|उस\s|इसलिए|यह\s(?!है))""",
    re.IGNORECASE | re.VERBOSE,
)
"""The beginning of a sentence that says nothing without the one before it."""
_NEAR = 3
"""Lines that are not blank before what was moved, in which something may announce it."""
_SHORT = 10
_MOST_CHARS = 400_000
_MOST_LINES = 5000
_MOST_FOUND = 8
_LONGEST_LINE = 4000
_LONGEST_PHRASE = 48


def refers_back(text: str) -> bool:
    """Whether a text speaks of something above it."""
    return BACK.search(text[:_MOST_CHARS]) is not None


def refers_forward(text: str) -> bool:
    """Whether a text speaks of something below it."""
    return FORWARD.search(text[:_MOST_CHARS]) is not None


def goes_with_previous(sentence: str) -> bool:
    """Whether a sentence says nothing without the one before it."""
    return GOES_WITH.match(sentence) is not None


def dangling_references(before: Turn, after: Turn) -> list[str]:
    """What may refer to text that stands elsewhere now, in words; of the prompt only the phrase itself is quoted.

    Looked at are the moved lines, the three lines before the place that they left, and the text that they jumped over.
    """
    old, new = _lines(before), _lines(after)
    moved = _moved(old, new)
    found: dict[str, None] = {}
    for start, stop, landed in moved:
        # Two stretches changed places; where both are short, nobody can say which of them was moved.
        low, middle, high = (start, stop, max(landed, stop)) if landed > start else (landed, start, stop)
        for line in old[low:middle]:
            for phrase in _phrases(FORWARD, line):
                found[f"“{phrase}” stands in text that moved, and something else follows it now"] = None
            for phrase in _phrases(BACK, line) if low == start or middle - low <= _SHORT else ():
                found[f"“{phrase}” stands in text that moved, and something else is before it now"] = None
            if goes_with_previous(line) and line == next(iter(old[low:middle])) and start == low:
                found[f"“{_begin(line)}” begins text that moved, and something else is before it now"] = None
        for line in [line for line in old[middle:high] if line][:1]:
            if goes_with_previous(line):
                found[f"“{_begin(line)}”, right behind text that moved, may mean it"] = None
        for line in old[middle:high]:
            for phrase in _phrases(BACK, line):
                found[f"“{phrase}” may mean text that was above it and moved"] = None
        found.update(dict.fromkeys(_of_what_was_first(old, low, high)))
        for line in [line for line in old[max(low - 2 * _NEAR, 0) : low] if line][-_NEAR:]:
            for phrase in _phrases(FORWARD, line):
                found[f"“{phrase}”, right before text that moved, may announce it"] = None
        if len(found) >= _MOST_FOUND:
            break
    return list(found)[:_MOST_FOUND]


def _of_what_was_first(lines: Sequence[str], low: int, high: int) -> Iterator[str]:
    """What counts from the front of a text whose first lines moved away."""
    if not any(lines[:low]):
        for line in lines[low:high]:
            for phrase in _phrases(FIRST_PLACE, line):
                yield f"“{phrase}” may mean what stood first and moved"


def role_changes(before: Turn, after: Turn) -> list[tuple[str, str]]:
    """The roles that lost lines and those that got them, in pairs; empty where every line stayed with its role."""
    old, new = (
        [(role, str.__str__(text)) for role, text in _said(before)],
        [(role, str.__str__(text)) for role, text in _said(after)],
    )
    lost, got = _surplus(old, new), _surplus(new, old)
    return [(a, b) for a in lost for b in got if a != b]


def _surplus(these: Sequence[tuple[str, str]], those: Sequence[tuple[str, str]]) -> list[str]:
    """Roles that have more characters in `these` than in `those`, blank ones aside."""
    sizes: dict[str, int] = {}
    for said, sign in ((these, 1), (those, -1)):
        for role, text in said:
            sizes[role] = sizes.get(role, 0) + sign * len("".join(text.split()))
    return [role for role, size in sizes.items() if size > 0]


def _said(turn: Turn) -> Iterator[tuple[str, str]]:
    yield from ((at.role, at.text) for at in texts_of(turn))


def _lines(turn: Turn) -> list[str]:
    """The lines of all texts in order, within bounds."""
    lines: list[str] = []
    left = _MOST_CHARS
    for at in _from_both_ends(list(texts_of(turn))):
        for line in str.__str__(at.text).split("\n"):
            if left < 0 or len(lines) > _MOST_LINES:
                return lines
            lines.append(line[:_LONGEST_LINE].strip())
            left -= len(line)
    return lines


def _from_both_ends(texts: list[TextAt]) -> list[TextAt]:
    """Of very long conversations the beginning and the end: text moves between these."""
    return texts if len(texts) <= 64 else [*texts[:32], *texts[-32:]]


def _moved(old: list[str], new: list[str]) -> Iterator[tuple[int, int, int]]:
    """Runs `[start, stop)` of old lines that the longest common order leaves out, and before which old line they landed."""
    from rapidfuzz.distance import LCSseq

    names: dict[str, int] = {}
    a = array("q", (names.setdefault(line, len(names)) for line in old))
    b = array("q", (names.setdefault(line, len(names)) for line in new))
    blocks = [block for block in LCSseq.editops(a, b).as_matching_blocks() if block.size]
    place_in_old: dict[int, int] = {}  # of each new line that is left over: where it stands among the old ones
    at_new = at_old = 0
    for block in blocks:
        place_in_old.update((index, at_old) for index in range(at_new, block.b))
        at_new, at_old = block.b + block.size, block.a + block.size
    place_in_old.update((index, len(old)) for index in range(at_new, len(new)))
    landed = {new[index]: place for index, place in place_in_old.items() if new[index]}
    kept = {index for block in blocks for index in range(block.a, block.a + block.size)}
    start: int | None = None
    for index in range(len(old) + 1):
        gone = index < len(old) and index not in kept
        if gone and start is None and old[index]:
            start = index
        if start is not None and not gone:
            yield start, index, landed.get(old[start], len(old))
            start = None


def _phrases(pattern: re.Pattern[str], line: str) -> Iterator[str]:
    for found in pattern.finditer(line):
        yield " ".join(found[0].split())[:_LONGEST_PHRASE]


def _begin(line: str) -> str:
    """The first words of a line."""
    return " ".join(line[:_LONGEST_PHRASE].split()[:3])
