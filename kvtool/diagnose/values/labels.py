# ruff: noqa: RUF001 - letters of other alphabets are meant
"""What the words before a value say about it, in the languages in which prompts are written."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache

from kvtool.diagnose.codes.entry import DifferenceKind
from kvtool.diagnose.codes.layout.kv201 import KV201
from kvtool.diagnose.codes.values.kv101 import TIME
from kvtool.diagnose.codes.values.kv102 import REQUEST_ID
from kvtool.diagnose.codes.values.kv104 import USER
from kvtool.diagnose.codes.values.kv105 import COUNTER, KV105
from kvtool.diagnose.codes.values.kv106 import ENVIRONMENT
from kvtool.diagnose.codes.values.kv107 import FLAG
from kvtool.diagnose.dates.calendar_words import WORD
from kvtool.diagnose.values.variable_names import kind_of_name

MODEL = DifferenceKind("model", "model version", KV105.code)
READING = DifferenceKind("reading", "reading (temperature, weather, battery)", KV201.code)

_LONGEST = 200
_WINDOW = 48
"""Characters before a value in which its label is looked for."""
_QUOTES = " \t\"'`([{\u00a0\u201c\u201e\u00ab\u300c"
_ENDS = (*(":", "=", ">", " is", " as", " ist", " est", " es", " é", " è"), *("\uff1a", "は", "が", "은", "는"))
_MOST_WORDS = 3
_WITHIN = re.compile(
    r"(?P<label>[^\s:=\uff1a]{1,40})[:=\uff1a][ \t]{0,2}(?P<rest>(?:[^\s\d:=\uff1a]{1,16} ){0,2}[^\s:=\uff1a/]{0,32})$"
)
_WORDS: tuple[tuple[DifferenceKind, tuple[str, ...]], ...] = (
    (
        TIME,
        (
            "zeit uhrzeit zeitpunkt zeitstempel datum heute jetzt heure aujourd'hui maintenant hora fecha",
            "hoy ahora ora oggi adesso agora hoje tijd vandaag tid tidspunkt klokken idag dagens dato",
            "czas godzina dziś dzisiaj teraz čas dnes время дата сегодня сейчас сьогодні зараз saat tarih",
            "bugün şimdi الوقت التاريخ اليوم الآن زمان تاریخ امروز זמן תאריך היום שעה समय तारीख दिनांक आज",
            "সময় তারিখ আজ เวลา วันที่ วันนี้ giờ ngày waktu tanggal ώρα ημερομηνία σήμερα idő dátum aika",
            "päivämäärä tänään 时间 時間 日期 今天 现在 現在 时刻 時刻 日時 日付 今日 시간 날짜 오늘 시각",
            "지금 일시 kello klo nyt klockan klokka uhr ore",
        ),
    ),
    (
        USER,
        (
            "company firm merchant device sid",
            "phone telephone tel mobile caller patient student member nickname benutzer benutzername",
            "nutzer nutzerin kunde kundin konto mandant sprache währung utilisateur utilisatrice client",
            "compte langue pays devise usuario cliente cuenta idioma país moneda utente lingua valuta",
            "paese usuário conta língua moeda gebruiker klant taal användare kund språk bruger użytkownik",
            "klient język waluta uživatel zákazník jazyk пользователь клиент язык валюта страна",
            "користувач kullanıcı müşteri dil المستخدم العميل اللغة العملة کاربر زبان משתמש לקוח שפה",
            "उपयोगकर्ता ग्राहक भाषा मुद्रा ব্যবহারকারী গ্রাহক ভাষা ผู้ใช้ ลูกค้า ภาษา สกุลเงิน pengguna",
            "pelanggan bahasa χρήστης πελάτης γλώσσα felhasználó ügyfél nyelv käyttäjä asiakas kieli 用户",
            "用戶 使用者 客户 客戶 语言 語言 货币 姓名 ユーザー ユーザ 顧客 言語 通貨 氏名 お客様 사용자",
            "고객 언어 통화 성함",
        ),
    ),
    (
        USER,
        (
            "nombre apellido apellidos nome cognome sobrenome naam voornaam achternaam navn namn nimi imię nazwisko jméno příjmení",
            "பெயர் வாடிக்கையாளர் పేరు ಹೆಸರು പേര് नाव નામ ਨਾਮ نام სახელი անուն ឈ្មោះ အမည် ስም jina nume ime meno vardas nafn név ім'я",
            "prénom nom vorname nachname имя фамилия имени isim soyadı név όνομα الاسم نام שם नाम নাম ชื่อ tên nama 名前 이름",
            "paciente patiente alumno alumna élève schüler",
        ),
    ),
    (
        COUNTER,
        (
            "remaining budget quota schritt versuch runde verbleibend übrig étape essai tour restant",
            "restants paso intento turno restantes passo tentativa stap poging krok próba шаг попытка",
            "осталось adım deneme kalan خطوة محاولة चरण प्रयास ขั้นตอน bước langkah βήμα lépés vaihe 步骤",
            "步驟 剩余 剩餘 ステップ 残り 回数 단계 차례 남은",
        ),
    ),
    (
        ENVIRONMENT,
        (
            "operating operativo exploitation betriebssystem операционная 操作系统 作業系統 운영체제",
            "node worker runner instance shard zone",
            "host pod machine server screen resolution zweig verzeichnis ordner rechner branche",
            "répertoire dossier rama directorio carpeta cartella ramo diretório pasta gałąź katalog ветка",
            "каталог папка коммит dal dizin فرع مجلد शाखा 分支 目录 目錄 主机 主機 ブランチ ディレクトリ",
            "ホスト 브랜치 디렉터리 호스트",
        ),
    ),
    (
        REQUEST_ID,
        (
            "kennung vorgang vorgangsnummer identifiant identificador identificativo идентификатор معرف",
            "पहचान 请求编号 请求id 編號 リクエストid 요청번호",
        ),
    ),
    (
        MODEL,
        ("model engine modell modèle modelo modello модель 模型 モデル 모델",),
    ),
    (
        FLAG,
        (
            "arm versuchsgruppe feature features capabilities modules experiments toggles switches",
            "funktionen fonctionnalités funciones funcionalidades funzionalità funkcje функции 機能 功能 기능",
        ),
    ),
    (
        READING,
        (
            "temperature weather humidity battery temperatur wetter luftfeuchtigkeit batterie akku",
            "température météo temperatura clima batería bateria погода температура hava sıcaklık الطقس",
            "तापमान मौसम 温度 溫度 气温 気温 天气 天氣 天気 电量 バッテリー 온도 기온 날씨 배터리",
        ),
    ),
)
_WHEN = (
    "now today tonight currently day week month heute jetzt aujourd'hui maintenant hoy ahora ora oggi adesso agora hoje vandaag nu",
    "idag dziś dzisiaj teraz dnes сегодня сейчас сьогодні зараз bugün şimdi اليوم الآن امروز היום आज আজ วันนี้ σήμερα tänään",
)
"""Words that tell a time by themselves and, beside a noun, since when that is so."""
_OF_THE_DAY = re.compile(r"(?:\A|\s)(?:of|for) (?:the |this )?(?:day|week|month)\Z", re.IGNORECASE)
_SAYS_NOTHING = frozenset(("right", "just", "exactly", "local", "current", "this", "that", "what", "here", "stand"))
_LONGEST_ARTICLE = 3
_MARKS = re.compile(r"\[/?[A-Z_]{3,40}\]|<\|[\w-]{1,40}\|>|<s>")
"""What chat templates write between messages."""
_THINGS = frozenset(
    (
        *("archivo", "fichero", "arquivo", "file", "fichier", "bestand", "plik", "soubor", "файл"),
        *("файла", "fil", "dosya", "ファイル", "文件", "文件名", "파일", "producto", "produit"),
        *("produto", "prodotto", "proyecto", "projet", "projeto", "progetto", "função", "función"),
    )
)
"""What has a name and is no person (`nombre del archivo`)."""
_WHOM = frozenset(
    (
        *(
            "talking to",
            "talk to",
            "speaking to",
            "speaking with",
            "speak with",
            "chatting with",
            "belongs to",
            "is called",
        ),
        *("is named", "called", "named", "helping", "assisting", "hello", "hi", "dear", "hallo", "heißt", "s'appelle"),
        *("se llama", "si chiama", "se chama", "heter", "зовут", "hola", "bonjour"),
    )
)
"""Words before the name of a person."""


def label_before(text: str, low: int) -> str:
    """The words before `text[low:]` on its line that name what follows, up to a colon and the like; empty where there are none."""
    line = str.__getitem__(text, slice(max(low - _WINDOW, 0), low)).rpartition("\n")[2].rstrip(_QUOTES)
    end = next((end for end in _ENDS if line.endswith(end)), None)
    return "" if end is None else " ".join(WORD.findall(_MARKS.split(line[: -len(end)])[-1])[-_MOST_WORDS:])


def kind_of_label(label: str) -> DifferenceKind | None:
    """The kind of value that stands behind these words; None where they do not say. The last word that says one counts.

    A word that says when something else is so is left out: the `weather now` is no time, and the `quote of the day` is none.
    """
    label = _without_when(label)
    said = kind_of_name(label)
    if said is not None:
        return said
    words = WORD.findall(unicodedata.normalize("NFC", label[-_LONGEST:]).casefold().replace("\u2019", "'"))
    if not _THINGS.isdisjoint(words):
        return None
    for word in reversed(words):
        if (kind := _of_word(word)) is not None:
            return kind
    return None


def kind_of_variable(name: str) -> DifferenceKind | None:
    """What a variable holds that was seen to vary: its name says it as for any, else its noun as a label does."""
    said = kind_of_name(name)
    if said is not None:
        return said
    words = [word for word in name[-_LONGEST:].casefold().split("_") if word]
    while len(words) > 1 and words[-1] in ("name", "id", "code"):
        words.pop()
    kind = kind_of_label(words[-1]) if words else None
    return kind if kind is USER else None


def _without_when(label: str) -> str:
    """A label without the words that say when it holds, where it has a noun beside them."""
    words = label[-_LONGEST:].split(" ")
    if len(words) < 2 or _of_when().isdisjoint(word.casefold() for word in words):
        return label
    said = _OF_THE_DAY.sub("", label)
    if not said:
        return said
    left = [word for word in said.split(" ") if word.casefold() not in _of_when()]
    return " ".join(left) if any(_is_noun(word) for word in left) else label


def _is_noun(word: str) -> bool:
    """Whether a word of a label may be what is told: it is longer than an article, and no word such as `current`."""
    return len(word) > _LONGEST_ARTICLE and word.casefold() not in _SAYS_NOTHING


@cache
def _of_when() -> frozenset[str]:
    return frozenset(unicodedata.normalize("NFC", word) for row in _WHEN for word in row.split(" "))


def shared_label(text: str, low: int, first: int) -> tuple[str, int] | None:
    """The label of a word `text[low:]` that differs from `first` on, and where its value begins; None where it has none.

    The label may be a part of the word (`org=acme`), or stand before words that other values have, too (`Customer: Ms. Ada`).
    """
    plain = str.__getitem__(text, slice(max(low - _WINDOW, 0), first)).rpartition("\n")[2]
    within = _WITHIN.search(plain)
    if within is None:
        return None
    label, rest = within["label"], within["rest"]
    return (label, low) if len(rest) >= first - low else (label, first - len(rest))


def kind_beside(words: str) -> DifferenceKind | None:
    """What the words directly before a short value say of it, without a sign that parts them: whose it is, or where it runs."""
    said = words.casefold().split(" ")
    if addresses(said):
        return USER
    if said[-1] in _WHOM or " ".join(said[-2:]) in _WHOM:
        return USER
    kind = kind_of_label(said[-1])
    return kind if kind in (USER, ENVIRONMENT, MODEL) else None


def _of_word(word: str) -> DifferenceKind | None:
    """The kind that a word says; of scripts that part no words, the longest ending of it that is one."""
    found = _kinds().get(word)
    if found is not None or not word or unicodedata.category(word[-1]) not in ("Lo", "Lm", "Mn"):
        return found
    return next((kind for at in range(1, len(word) - 1) if (kind := _kinds().get(word[at:])) is not None), None)


@cache
def _kinds() -> dict[str, DifferenceKind]:
    """The kind of each word; of a word with several the first."""
    return {
        unicodedata.normalize("NFC", word).casefold(): kind
        for kind, rows in reversed(_WORDS)
        for row in rows
        for word in row.split(" ")
    }


def _words(*rows: str) -> frozenset[str]:
    return frozenset(word for row in rows for word in row.split(" "))


_TITLES = _words(
    "mr mrs ms mx miss dr prof sir madam herr herrn frau señor señora señorita sr sra srta don doña monsieur madame",
    "mademoiselle mme mlle signor signora signorina sig dott senhor senhora dona meneer mevrouw dhr mevr pan pani",
    "pana panią господин госпожа господином госпожой",
)
_TALKING = _words(
    "writing write corresponding schreibst schreiben schreibt écris écrivez escribes escribe escribiendo escreve escrevendo scrivi",
    "talking talk speaking speak chatting chat sprichst sprechen redest chattest parles parlez parle discutes hablas",
    "habla hablando conversas parlando parli fala falando conversando praat spreekt rozmawiasz говоришь говорите",
    "общаешься разговариваешь konuşuyorsun taler talar snakker",
)
_WITH = _words("to with mit avec con com met med")


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
