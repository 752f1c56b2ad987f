# ruff: noqa: RUF001 - letters of other alphabets are meant
"""How people say what time it is, by language: the hours, and what stands around them."""

from __future__ import annotations

from typing import NamedTuple


class SpokenLanguage(NamedTuple):
    """Parts of a pattern. An hour stands behind one of `before`, or in front of one of `behind`; words of `day` may follow.

    `both`: what stands before an hour stands before other numbers, too, so that something must stand behind it as well.
    """

    hours: str
    before: str
    behind: str
    day: str
    joints: str
    both: bool = False


_ENGLISH = SpokenLanguage(
    "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|noon|midnight",
    r"(?:just|shortly|a little|soon)\s(?:after|before|past)|half\spast|(?:a\s)?quarter\s(?:past|to|after)"
    r"|(?:(?:five|ten|twenty|twenty[- ]five)(?:\sminutes)?|[a-z]{3,9}(?:[- ][a-z]{3,5})?\sminutes?)\s(?:past|to|after|before)",
    r"o.clock",
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|morning|afternoon|evening|night|midday|tonight",
    r"on|in|at|the|of|a",
)
_UP_TO_59 = (
    r"(?:\w{2,9}und(?:zwanzig|dreißig|vierzig|fünfzig)|zwanzig|dreißig|vierzig|fünfzig|\w{2,6}zehn|zehn|elf|zwölf"
    r"|einer|eins?|zwei|drei|vier|fünf|sechs|sieben|acht|neun)"
)
_GERMAN = SpokenLanguage(
    "eins|ein|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|mittag|mitternacht",
    rf"(?:drei ?viertel|viertel|halb)|(?:kurz|viertel|{_UP_TO_59}(?:\sminuten?)?)\s(?:vor|nach)(?:\shalb)?",
    rf"uhr(?:\s{_UP_TO_59}(?:\sminuten?)?)?",
    r"(?:mon|diens|donners|frei|sams|sonn)tag\w{0,11}|mittwoch\w{0,11}|sonnabend\w{0,11}|morgens?|vormittags?|mittags?|nachmittags?"
    r"|abends?|nachts?|früh",
    r"am|des|in|der|den",
)
_DUTCH = SpokenLanguage(
    "een|één|twee|drie|vier|vijf|zes|zeven|acht|negen|tien|elf|twaalf|middernacht",
    r"half|(?:kwart|vijf|tien|twintig|even)\s(?:voor|over)(?:\shalf)?",
    r"uur",
    r"(?:maan|dins|woens|donder|vrij|zater|zon)dag\w{0,8}|ochtends?|morgens?|middags?|avonds?|nachts?",
    r"op|in|de|'s",
)
_NORTH = SpokenLanguage(
    "ett|et|en|ein|to|två|tre|fire|fyra|fem|seks|sex|sju|syv|åtta|åtte|otte|nio|ni|tio|ti|elva|elleve|elve|tolv|midnatt",
    r"halv|kvart\s(?:i|på|over)|(?:fem|ti|tio|tyve|tjue|tjugo)(?:\sminut(?:ter|er)?)?\s(?:i|på|over|över)(?:\shalv)?",
    r"",
    r"(?:mån|man|tis|tirs|ons|tors|tor|fre|lør|lör|søn|sön)dag\w{0,12}|morgon\w{0,3}|morgen\w{0,3}|formiddag\w{0,3}"
    r"|eftermiddag\w{0,3}|ettermiddag\w{0,3}|kväll\w{0,3}|kveld\w{0,3}|aften\w{0,3}|natt\w{0,3}|nat",
    r"på|om|i",
)
_FRENCH = SpokenLanguage(
    "une|deux|trois|quatre|cinq|six|sept|huit|neuf|dix|onze|douze",
    r"",
    r"heures?(?:\s(?:moins\s(?:le\squart|cinq|dix|vingt)|et\s(?:quart|demie)|cinq|dix|vingt|vingt-cinq))?",
    r"(?:lun|mar|mercre|jeu|vendre|same)di|dimanche|matin|midi|après-midi|soir|nuit",
    r"du|de|le|la|ce|l'",
)
_SPANISH = SpokenLanguage(
    "una|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|once|doce",
    r"las?",
    r"(?:menos|y)\s(?:cuarto|media|cinco|diez|veinte|veinticinco)",
    r"lunes|martes|miércoles|jueves|viernes|sábado|domingo|mañana|tarde|noche|madrugada|mediodía",
    r"de|del|la|el|por|en",
    both=True,
)
_ITALIAN = SpokenLanguage(
    "una|due|tre|quattro|cinque|sei|sette|otto|nove|dieci|undici|dodici",
    r"le|l'",
    r"(?:meno|e)\s(?:un\squarto|mezza|mezzo|cinque|dieci|venti|venticinque)",
    r"lunedì|martedì|mercoledì|giovedì|venerdì|sabato|domenica|mattina|mattino|pomeriggio|sera|notte",
    r"di|del|della|il|la|in",
    both=True,
)
_PORTUGUESE = SpokenLanguage(
    "uma|duas|três|quatro|cinco|seis|sete|oito|nove|dez|onze|doze",
    r"as|às",
    r"(?:menos|e)\s(?:um\squarto|quinze|meia|cinco|dez|vinte)|horas?(?:\se\s(?:meia|quinze))?",
    r"(?:segunda|terça|quarta|quinta|sexta)(?:-feira)?|sábado|domingo|manhã|tarde|noite|madrugada",
    r"de|da|do|na|no|à",
    both=True,
)
_RUSSIAN = SpokenLanguage(
    "час|два|три|четыре|пять|шесть|семь|восемь|девять|десять|одиннадцать|двенадцать"
    "|первого|второго|третьего|четвёртого|пятого|шестого|седьмого|восьмого|девятого|десятого|одиннадцатого|двенадцатого",
    r"без\s(?:четверти|пяти|десяти|двадцати)|половина|четверть|(?:пять|десять|двадцать)\sминут",
    r"час(?:а|ов)?",
    r"понедельник\w?|вторник\w?|сред[ауы]|четверг\w?|пятниц[ауы]|суббот[ауы]|воскресень[ея]|утр[ао]м?|дня|днём|вечер(?:а|ом)|ноч[иь]ю?",
    r"в|во",
)
_POLISH = SpokenLanguage(
    "pierwsza|druga|trzecia|czwarta|piąta|szósta|siódma|ósma|dziewiąta|dziesiąta|jedenasta|dwunasta"
    "|pierwszej|drugiej|trzeciej|czwartej|piątej|szóstej|siódmej|ósmej|dziewiątej|dziesiątej|jedenastej|dwunastej",
    r"wpół\sdo|za\s(?:kwadrans|pięć|dziesięć|dwadzieścia)|(?:kwadrans|pięć|dziesięć|dwadzieścia)\spo|godzina",
    r"",
    r"poniedziałek|poniedziałku|wtorek|wtorku|środ[aęy]|czwartek|czwartku|piątek|piątku|sobot[aęy]|niedziel[aęi]|rano|południ[ue]m?"
    r"|wieczór|wieczorem|noc[ąy]?",
    r"w|we|po|przed",
)
_FINNISH = SpokenLanguage(
    "yksi|kaksi|kolme|neljä|viisi|kuusi|seitsemän|kahdeksan|yhdeksän|kymmenen|yksitoista|kaksitoista",
    r"puoli|(?:varttia|viittä|kymmentä|viisi|kymmenen)\s(?:vaille|yli)|kello",
    r"",
    r"(?:maanantai|tiistai|torstai|perjantai|lauantai|sunnuntai)(?:na)?|keskiviikko(?:na)?|aamu\w{0,5}|päivä\w{0,3}|ilta\w{0,5}|illalla|yö\w{0,3}",
    r"",
)
_CZECH = SpokenLanguage(
    "jedna|dvě|tři|čtyři|pět|šest|sedm|osm|devět|deset|jedenáct|dvanáct|jedné|druhé|třetí|čtvrté|páté|šesté|sedmé|osmé|deváté|desáté"
    "|jedenácté|dvanácté",
    r"půl|(?:tři\s)?čtvrtě?\sna|za\s(?:pět|deset)\s(?:minut\s)?",
    r"hodin[ay]?\s(?:[^\W\d_]{1,16}\s){1,2}minut",
    r"pondělí|úterý|středa|středu|čtvrtek|pátek|sobot[ay]|neděle|neděli|ráno|dopoledne|odpoledne|večer|v\snoci",
    r"v|ve",
)
_UKRAINIAN = SpokenLanguage(
    "перша|друга|третя|четверта|п'ята|шоста|сьома|восьма|дев'ята|десята|одинадцята|дванадцята|першу|другу|третю|четверту|п'яту|шосту"
    "|сьому|восьму|дев'яту|десяту|одинадцяту|дванадцяту|першій|другій|третій|четвертій|п'ятій|шостій|сьомій|восьмій|дев'ятій|десятій",
    r"пів\sна|(?:чверть|[^\W\d_]{1,16}\sхвилин)\s(?:на|по)|за\s(?:чверть|[^\W\d_]{1,16}\sхвилин)|о",
    r"годин[аиі]\s[^\W\d_]{1,16}\sхвилин",
    r"понеділ(?:ок|ка)|вівтор(?:ок|ка)|серед[аиу]|четвер(?:га)?|п'ятниц[яіюи]|субот[аиу]|неділ[яіюи]|ранку|вранці|дня|вечора|ввечері|ночі",
    r"у|в|о",
)
_HUNGARIAN = SpokenLanguage(
    "egy|kettő|két|három|négy|öt|hat|hét|nyolc|kilenc|tíz|tizenegy|tizenkettő|tizenkét",
    r"fél|negyed|háromnegyed|(?:öt|tíz)\sperccel\s(?:múlt|(?:fél|negyed|háromnegyed))",
    r"óra\s[^\W\d_]{1,16}\sperc\w{0,3}|órakor",
    r"hétfőn?|kedden?|szerdán?|csütörtök(?:ön)?|péntek(?:en)?|szombat(?:on)?|vasárnap|reggel|délelőtt|délután|este|éjjel",
    r"",
)
_ROMANIAN = SpokenLanguage(
    "unu|două|trei|patru|cinci|șase|șapte|opt|nouă|zece|unsprezece|douăsprezece",
    r"ora|orele",
    r"(?:fără|și)\s(?:un\ssfert|jumătate|cinci|zece|douăzeci)",
    r"luni|marți|miercuri|joi|vineri|sâmbătă|duminică|dimineața|dimineață|după-amiaza|seara|noaptea",
    r"de|în",
)
_TURKISH = SpokenLanguage(
    "biri?|ikiy?i?|üçü?|dördü?|dört|beşi?|altıy?ı?|yediy?i?|sekizi?|dokuzu?|onu?|on\\sbiri?|on\\sikiy?i?",
    r"saat",
    r"buçuk|çeyrek|(?:[^\W\d_]{1,16}\s){1,2}(?:geçe|geçiyor|kala|var)",
    r"pazartesi|salı|çarşamba|perşembe|cuma|cumartesi|pazar|sabahı?|öğleden\sönce|öğleden\ssonra|akşamı?|gece",
    r"",
)
_GREEK = SpokenLanguage(
    "μία|δύο|τρεις|τέσσερις|πέντε|έξι|επτά|εφτά|οκτώ|οχτώ|εννέα|εννιά|δέκα|έντεκα|δώδεκα",
    r"στις|στη|ώρα|η\sώρα",
    r"(?:και|παρά)\s(?:τέταρτο|μισή|πέντε|δέκα|είκοσι)",
    r"δευτέρα|τρίτη|τετάρτη|πέμπτη|παρασκευή|σάββατο|κυριακή|πρωί|μεσημέρι|απόγευμα|βράδυ|νύχτα",
    r"το|την|της|του",
)
_ARABIC = SpokenLanguage(
    "الواحدة|الثانية|الثالثة|الرابعة|الخامسة|السادسة|السابعة|الثامنة|التاسعة|العاشرة|الحادية\\sعشرة|الثانية\\sعشرة",
    r"الساعة",
    r"(?:و|إلا\s?)(?:الربع|ربعا?ً?|النصف|نصفا?ً?|الثلث|ثلثا?ً?|خمس\sدقائق|عشر\sدقائق)|صباحا?ً?|مساءً?|ظهرا?ً?|ليلا?ً?",
    r"(?:الاثنين|الثلاثاء|الأربعاء|الخميس|الجمعة|السبت|الأحد)|صباحا?ً?|مساءً?|ظهرا?ً?|ليلا?ً?",
    r"من|يوم|في",
)
_HEBREW = SpokenLanguage(
    "אחת|שתיים|שלוש|ארבע|חמש|שש|שבע|שמונה|תשע|עשר|אחת\\sעשרה|שתים\\sעשרה",
    r"(?:ב|ה)?שעה",
    r"ו(?:רבע|חצי|חמישה|עשרה|עשרים)",
    r"בבוקר|בצהריים|אחר\sהצהריים|בערב|בלילה|(?:יום\s)?(?:ראשון|שני|שלישי|רביעי|חמישי|שישי|שבת)",
    r"ב|של",
)
_PERSIAN = SpokenLanguage(
    "یک|دو|سه|چهار|پنج|شش|هفت|هشت|نه|ده|یازده|دوازده",
    r"ساعت",
    r"و\s(?:ربع|نیم|پنج|ده|بیست)(?:\sدقیقه)?",
    r"صبح|ظهر|عصر|شب|(?:(?:یک|دو|سه|چهار|پنج)\s?\u200c?)?شنبه|جمعه",
    r"",
)
_HINDI = SpokenLanguage(
    "एक|दो|तीन|चार|पाँच|पांच|छह|छः|छे|सात|आठ|नौ|दस|ग्यारह|बारह",
    r"साढ़े|सवा|पौने|(?:सुबह|दोपहर|शाम|रात)(?:\sके|\sको)?",
    r"बजे|बजकर\s[^\s\d]{1,16}(?:\s[^\s\d]{1,16})?\sमिनट",
    r"सोमवार|मंगलवार|बुधवार|गुरुवार|शुक्रवार|शनिवार|रविवार|सुबह|दोपहर|शाम|रात",
    r"को|की|के",
)
_URDU = SpokenLanguage(
    "ایک|دو|تین|چار|پانچ|چھ|سات|آٹھ|نو|دس|گیارہ|بارہ",
    r"ساڑھے|سوا|پونے|(?:صبح|دوپہر|شام|رات)(?:\sکے)?",
    r"بجے|بج\sکر\s[^\s\d]{1,16}\sمنٹ",
    r"پیر|منگل|بدھ|جمعرات|جمعہ|ہفتہ|اتوار|صبح|دوپہر|شام|رات",
    r"کو|کی|کے",
)
_INDONESIAN = SpokenLanguage(
    "satu|dua|tiga|empat|lima|enam|tujuh|delapan|lapan|sembilan|sepuluh|sebelas|dua\\sbelas",
    r"(?:pukul|jam)(?:\ssetengah)?",
    r"(?:lewat|lebih|kurang)\s[^\W\d_]{1,16}(?:\s[^\W\d_]{1,16})?(?:\smenit)?|tepat",
    r"senin|selasa|rabu|kamis|jumat|sabtu|minggu|pagi|siang|sore|petang|malam",
    r"hari",
)
_VIETNAMESE = SpokenLanguage(
    "một|hai|ba|bốn|năm|sáu|bảy|tám|chín|mười|mười\\smột|mười\\shai",
    r"lúc",
    r"giờ\s(?:rưỡi|đúng|kém\s[^\W\d_]{1,16}(?:\s[^\W\d_]{1,16})?|(?:[^\W\d_]{1,16}\s){1,3}phút|sáng|trưa|chiều|tối)",
    r"sáng|trưa|chiều|tối|đêm|thứ\s(?:hai|ba|tư|năm|sáu|bảy)|chủ\snhật",
    r"ngày|buổi",
)
_SWAHILI = SpokenLanguage(
    "moja|mbili|tatu|nne|tano|sita|saba|nane|tisa|kumi|kumi\\sna\\smoja|kumi\\sna\\smbili",
    r"saa",
    r"(?:na|kasoro)\s(?:robo|nusu|dakika\s[^\W\d_]{1,16})|kamili",
    r"asubuhi|mchana|alasiri|jioni|usiku|jumatatu|jumanne|jumatano|alhamisi|ijumaa|jumamosi|jumapili",
    r"ya",
)
LANGUAGES = (
    _ENGLISH, _GERMAN, _DUTCH, _NORTH, _FRENCH, _SPANISH, _ITALIAN, _PORTUGUESE, _RUSSIAN, _POLISH, _FINNISH, _CZECH, _UKRAINIAN,
    _HUNGARIAN, _ROMANIAN, _TURKISH, _GREEK, _ARABIC, _HEBREW, _PERSIAN, _HINDI, _URDU, _INDONESIAN, _VIETNAMESE, _SWAHILI,
)  # fmt: skip
_HAN_HOUR = r"[一二三四五六七八九十两]{1,3}[点點时時]"
_HAN_PERIOD = r"(?:上午|下午|早上|早晨|晚上|凌晨|中午|傍晚|午前|午後)"
_HANGUL_HOUR = r"(?:열한|열두|한|두|세|네|다섯|여섯|일곱|여덟|아홉|열)[ ]?시"
_HANGUL_MINUTES = r"[ ]?(?:반|[일이삼사오육칠팔구십]{1,4}[ ]?분)"
_BEHIND_HANGUL = rf"(?={_HANGUL_MINUTES}|에\b|까지|부터|쯤|경)"
DENSE = (
    rf"{_HAN_PERIOD}?{_HAN_HOUR}(?:半|[一三]刻|[一二三四五六七八九十零〇]{{1,4}}分|整|钟|鐘|过)",
    rf"{_HAN_PERIOD}{_HAN_HOUR}",
    rf"(?:(?:오전|오후|아침|저녁|밤|새벽)[ ]?{_HANGUL_HOUR}|{_HANGUL_HOUR}{_BEHIND_HANGUL})(?:{_HANGUL_MINUTES})?",
)
"""Of scripts that part no words, all of it: an hour with what says that it is one."""
