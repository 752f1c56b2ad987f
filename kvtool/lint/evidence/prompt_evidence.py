"""Evidence that a text is a prompt: where the code sends it, its name, and its wording."""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from enum import IntEnum
from functools import lru_cache

from kvtool.diagnose.word_lists import word_set
from kvtool.lint.python.python_source import parsed

_MOST_TEXT = 20_000


class Evidence(IntEnum):
    """Evidence in the code that a text is a prompt; the wording of the text comes on top (`belief`)."""

    NOTHING = 0
    FILE = 1
    """It is in a file that is named for prompts."""
    NAME = 2
    """A variable, a function or a keyword is named for prompts."""
    SENT = 3
    """It goes into a call of an SDK or a framework, or is a chat message."""
    ASKED = 4
    """A call that asks a model gets it."""


class Belief(IntEnum):
    """Certainty that a text is a prompt: report nothing, report as information, or report by its cost."""

    NO = 0
    WEAK = 1
    STRONG = 2


_PROMPT = re.compile(
    r"(?:^|_)(?:prompts?|instructions?|(?:system|sys|developer|human|user|assistant)_?(?:messages?|msg|content|text|instructions?|prompts?)"
    r"|sysprompt|persona|backstory|preamble|few_?shots?|messages|chat_template)(?:$|_)"
)
_NO_TEXT = re.compile(
    r"(?:^|_)(?:tokens?|ids?|names?|paths?|files?|filename|keys?|hash|digest|counts?|len|length|versions?|type|types|cost|costs|dir|dirs|url|"
    r"class|cls|enabled|cache|cached|logger|log|sha|title|toolkit|session|style|level|width|limit|size|index|idx|time|timestamp|"
    r"error|errors|exception|warning|usage|help|event|widget|color|label|symbol|html|css|js|svg|sql|input_prompt|shell_prompt)$"
)
_SYSTEM = re.compile(
    r"(?:^|_)(?:system|sys|developer)_?(?:prompt|message|msg|instruction|content|text)s?(?:$|_)|^(?:agent_)?instructions$"
    r"|^(?:system|sysprompt)$"
)
_EXAMPLE = re.compile(
    r"(?:^|_)(?:examples?|demos?|demonstrations?|test_?cases?|fixtures?)(?:_(?:text|str|input|output|value)s?)?$"
)
_SETS_MARKS = re.compile(r"cache_?control|cache_?point|prompt_?cach|anthropic\w*cach", re.IGNORECASE)
"""What code says somewhere that has Anthropic cache anything."""
_ASKS_A_PERSON = re.compile(
    r"(?:^|_)(?:confirm|readline|input|password|shell|cli|terminal|tty)(?:_|$)|^prompt_(?:for|user|yes|and)"
)
_TEMPLATE = re.compile(r"(?:^|_)(?:templates?|tmpl|tpl)(?:_(?:text|str|string|zh|en|v?\d{1,3}))?$")
_NO_MODEL = re.compile(
    r"(?:^|_)(?:html|sql|css|js|page|mail|email|svg|xml|yaml|toml|md|latex|tex|readme|docker\w*|report|log|path|url|file\w*)(?:_|$)"
)
"""What a template is filled for that no model reads."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@lru_cache(maxsize=8192)
def snake_case(name: str) -> str:
    """Return a name as Python writes it: `similaritySearch` is `similarity_search`."""
    return _CAMEL.sub("_", name).lower()


_FILE = re.compile(r"(?:^|[/_\\.-])(?:prompts?|instructions?|system_messages?|sysprompts?)(?:[/_\\.-]|$)")


@lru_cache(maxsize=4096)
def is_prompt_name(name: str) -> bool:
    """Return whether a name (`self.system_prompt`, `BASE_INSTRUCTIONS`, `build_prompt`) is one for the text of prompts."""
    last = _CAMEL.sub("_", name.rpartition(".")[2][:100]).lower().strip("_")
    if not _PROMPT.search(last) or _NO_TEXT.search(last):
        return False
    return _ASKS_A_PERSON.search(last) is None


@lru_cache(maxsize=4096)
def is_system_name(name: str) -> bool:
    """Return whether a name is one for what is before a whole conversation: `system_prompt`, `instructions`."""
    last = _CAMEL.sub("_", name.rpartition(".")[2][:100]).lower().strip("_")
    return _SYSTEM.search(last) is not None and _NO_TEXT.search(last) is None


@lru_cache(maxsize=4096)
def is_example_name(name: str) -> bool:
    """Return whether a name is one for what a prompt shows: an `example`, a `demo_input`, not a function that makes one."""
    last = _CAMEL.sub("_", name.rpartition(".")[2][:100]).lower().strip("_")
    return _EXAMPLE.search(last) is not None


def is_example_call(name: str) -> bool:
    """Return whether a call makes an example or a test case: a class is called so."""
    last = name.rpartition(".")[2]
    return last[:1].isupper() and is_example_name(last)


_OF_MODELS = re.compile(
    r"llms?\b|llm_|openai|anthropic|langchain|litellm|llama|gpt|claude|gemini|mistral|ollama|qwen|deepseek|bedrock|vertexai"
    r"|hugging_?face|transformers|chat_?(?:model|completion|message|bot|agent)|language[ _]model|(?:system|user|base)_?prompt"
    r"|prompt_?template|generative",
    re.IGNORECASE,
)


def speaks_of_marks(text: str) -> bool:
    """Return whether code may set a cache breakpoint somewhere."""
    return _SETS_MARKS.search(text) is not None


def speaks_of_models(code: str) -> bool:
    """Return whether a module names anything that asks a model; most programs that only write sentences do not."""
    return _OF_MODELS.search(code) is not None


def is_template_name(name: str) -> bool:
    """Return whether a name is one for a text that is filled later: `DEFAULT_QUERY_TMPL`, `self.reply_template`."""
    last = _CAMEL.sub("_", name.rpartition(".")[2][:100]).lower().strip("_")
    return _TEMPLATE.search(last) is not None and _NO_MODEL.search(last) is None


def is_prompt_file(path: str) -> bool:
    """Return whether a file is named for prompts: `prompts.py`, `agent/prompts/planner.py`."""
    parts = path.replace("\\", "/").lower().split("/")[-3:]
    return _FILE.search("/".join(parts).removesuffix(".py")) is not None


# Calls

_GIVES_PROMPT = re.compile(
    r"(?:^|\.)prompt$|^ell\.(?:simple|complex)$|^(?:llm|openai|anthropic|gemini|google|groq|mistral|cohere|litellm|azure|bedrock)\.call$"
)


def is_prompt_decorator(name: str) -> bool:
    """Return whether a decorator makes a model be asked with what a function returns: `@mcp.prompt()`, `@ell.simple(…)`."""
    return _GIVES_PROMPT.search(name) is not None


_SDK = re.compile(
    r"(?:claude[-_](?:agent[-_]sdk|code(?:[-_]sdk)?)\.query|chat\.completions\.(?:create|parse|stream)|completions\.create|responses\.(?:create|parse|stream)"
    r"|messages\.(?:create|stream|parse|count_tokens)|models\.generate_content(?:_stream)?|generate_content(?:_async|_stream)?"
    r"|litellm\.a?completion|litellm\.a?text_completion|a?completion(?:_with_retries)?|chat_completion|apply_chat_template"
    r"|converse(?:_stream)?(?:_command)?|chats\.create|start_chat|invoke_model(?:_with_response_stream)?|ollama\.(?:a?chat|generate)|chat\.(?:complete|stream|parse)"
    r"|(?:llm|model|chat_model|client|chat|lm|agent|runner|chain|engine|api)\w*\.(?:a?invoke|a?stream|a?batch|a?predict|a?complete|a?chat|generate|agenerate"
    r"|a?call|ask|aask|send_message|run|arun|query|stream_chat|astream_chat|structured_predict|astructured_predict|chat_completion)"
    r"|(?:generate|stream)_(?:text|object)|(?<![A-Za-z])(?:llm|lm)|(?:_?(?:a?call|a?ask|a?query|invoke|prompt|run|get|generate)_)(?:\w+_)?(?:llm|gpt|model|openai|claude|completion)\w*|a?_?aask)$",
    re.IGNORECASE,
)
_CALLED_BACK = re.compile(r"(?:^|\.)_?(?:pre|post|before|after|on)_\w+$", re.IGNORECASE)
"""What is called beside a model, with what it gets or gave: `hooks.pre_llm`, `self.on_completion`."""
_OWN_ASKING = re.compile(
    r"(?:^|\.)_?(?:llm|lm|gpt|openai|claude|gemini)_(?:generate|complete|call|ask|chat|query|invoke|predict)"
    r"(?:_(?:async|stream|once|text|json|with_\w{1,40}))?$"
)
"""What a program calls its own function that asks a model: `self._llm_generate`."""
_MAKER = re.compile(
    r"(?:PromptTemplate|ChatPromptTemplate|RichPromptTemplate|MessagePromptTemplate|ChatPromptTemplate|PromptHelper|SystemPrompt|ChatTemplate|Prompt)"
    r"(?:\.from_(?:template|messages|strings|examples|prompt))?$"
)
_MESSAGE = re.compile(
    r"(?:^|\.)(System|Developer|Human|User|AI|Assistant|Chat|Task)(?:Chat|Text)?(?:Message\w*|PromptPart|Prompt)(?:\.from_(?:template|str|string|text|defaults)|\.(?:system|user|assistant))?$"
)
_AGENT = re.compile(
    r"(?:^|\.)\w*(?:Agent|Crew|Task|Assistant|Signature|Predict|ChainOfThought|Chain|Team|LLM|Model|Chat\w*|Client|OpenAI|Role)\w*$"
)
_ASKS_WITH = re.compile(r"(?:^|\.)_{0,2}a?(?:generate|complete|completion|chat|ask|query|predict|infer)(?:_\w{1,40})?$")
"""A call that asks a model with what it makes of a template, by its name alone."""
_SENT_WORDS = word_set(__file__, "sent_words")
_QUIET = re.compile(
    r"(?:^|\.)(?:print|pprint|rprint|secho|echo|debug|info|warning|warn|error|exception|critical|log|trace|success|fatal"
    r"|add_argument|ArgumentParser|add_parser|Option|Argument|open|write|writelines|writerow|writerows|write_text|write_bytes|rich_print|cprint|print_exc|input|prompt_user"
    r"|tool_output|tool_error|tool_warning|confirm_ask|execute|executemany|evaluate|eval|exec|compile|run_js|sub|match|search|findall"
    r"|isinstance|hasattr|getattr|setattr|len|addHandler|capture|emit|publish|add_row|add_column|fail|skip|assert\w*|raises"
    r"|subprocess\.\w+|Popen|check_output|system|sleep|HTTPException|Panel|st\.\w+|console\.\w+|capture_exception|set_attribute|record\w*)$"
)


@lru_cache(maxsize=8192)
def call_sends(name: str) -> Evidence:
    """Return the evidence that a call gives by its dotted name: one of an SDK or a framework asks a model, or makes a prompt."""
    snake = _CAMEL.sub("_", name)
    if _CALLED_BACK.search(snake) is not None:
        return Evidence.NOTHING
    if _SDK.search(snake) is not None or _OWN_ASKING.search(snake) is not None:
        return Evidence.ASKED
    return Evidence.SENT if _MAKER.search(name) is not None else Evidence.NOTHING


@lru_cache(maxsize=8192)
def message_role(name: str) -> str:
    """The role of the messages that a class makes (`SystemMessage`); empty for any other call."""
    found = _MESSAGE.search(name)
    return found[1].lower() if found else ""


@lru_cache(maxsize=8192)
def is_quiet(name: str) -> bool:
    """Return whether what a call gets is for people, files or other programs: logs, the terminal, errors, SQL."""
    if re.search(
        r"(?:^|[._])(?:logger|log|logging|console|warnings|rich|click|typer|cursor|conn|page|driver|cdp)(?:\.|$)", name
    ):
        return True
    return _QUIET.search(name) is not None or name.rpartition(".")[2].endswith(("Error", "Exception", "Warning"))


def is_prompt_keyword(call: str, keyword: str) -> Evidence:
    """Return the evidence that a keyword argument gives by its name, in a call of this name."""
    if snake_case(keyword) in _SENT_WORDS:
        return Evidence.SENT if keyword != "system" or call_sends(call) or _AGENT.search(call) else Evidence.NAME
    if keyword in ("goal", "description", "role", "expected_output", "task") and _AGENT.search(call):
        return Evidence.NAME
    if keyword in ("template", "contents") and (call_sends(call) or _ASKS_WITH.search(call)):
        return Evidence.SENT
    return Evidence.NAME if is_prompt_name(keyword) else Evidence.NOTHING


# How a text reads

_SENTENCE = re.compile(r"(?:[A-Za-z][A-Za-z'\u2019,`\"()/-]{0,30} ){5,60}[A-Za-z'\u2019`\"()-]{1,30}[.:!?;,]?")
_IS = re.compile(
    r"(?:^|[\n.:\"'>#*]|\b(?:assume|and|imagine|that|now)\b)\s*You(?:'re| are| act as| will act as| play)\s"
    r"(?:an?|the|now|in|on|working|responsible|being|going|tasked|one|my|our|not|[A-Z]|[{<$\[])",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"\b(?:you (?:must|should|will|can|have|need|may|do|are)|the (?:user|assistant)(?:'s)?|assume (?:that )?the current"
    r"|your (?:task|job|role|goal|response|answer|output|final|objective|purpose|instructions)|respond (?:with|in|only|to)"
    r"|answer (?:the|only|in|each|with)|return (?:only|your|a json|the json|valid)|do not|don't|never|always|please|make sure"
    r"|ensure that|given the|based on|use the following|summari[sz]e|analy[sz]e|step by step|think about|format your"
    r"|output (?:only|format|the|a)|in json format|follow (?:these|the)|write (?:a|an|the|in)|generate (?:a|an|the))\b",
    re.IGNORECASE,
)
_CODE_LINE = re.compile(
    r"^\s*(?:[\w.$]+\s*=\s*\S.*;|.*[;{}]"
    r"|(?:var|let|const|function|return|if|for|while|else|def|class|import|from|async|await|try|catch|export)\b[^.!?]*[({:=;]?"
    r"|</?[a-z][^>]*>.*|[.#]?[\w-]+\s*\{|[\w-]+:\s*[^ ].*;"
    r"|(?:SELECT|FROM|WHERE|INSERT|UPDATE|DELETE|CREATE|JOIN|GROUP BY|ORDER BY|VALUES|SET)\b.*"
    r"|(?:tell|end tell|set|end|activate|repeat|on)\b(?:\s\w+){0,6}|\$ .*"
    r"|(?:sudo|apt|pip|npm|echo|cd|mkdir|RUN|COPY|ENV|CMD)\b.*|[)\]}>,;(\[{'\"`]*)$"
)
_SCRIPT = re.compile(
    r"<!DOCTYPE|<html|<script|tell application|\(function\s*\(|\(\s*\(\s*\)\s*=>|document\.(?:get|query|create|body)|window\."
    r"|#!/(?:bin|usr)|\bSELECT\b[\s\S]{1,200}\bFROM\b[\s\S]{1,200}\bWHERE\b|\bCREATE TABLE\b|\bINSERT INTO\b|@media|font-family:"
    r"|stroke-width"
)
_CODE_START = re.compile(
    r"\s*(?:import [\w.{*\"]+|from [\w.]+ import |curl |const \w+|let \w+ =|var \w+ =|package [\w.]+|#!|<\?|use strict"
    r"|SELECT |WITH \w+ AS)"
)
"""How a file of code begins."""
_STATEMENT = re.compile(
    r"[\s(]{0,40}(?:SELECT\s[^;]{1,4000}?\sFROM\b|INSERT\s+INTO\s|UPDATE\s+\S{1,100}\s+SET\s|DELETE\s+FROM\s|MERGE\s+INTO\s"
    r"|(?:CREATE|ALTER|DROP)\s+(?:OR\s+REPLACE\s+)?(?:TEMP(?:ORARY)?\s+)?(?:TABLE|VIEW|INDEX|MODEL|FUNCTION|SCHEMA|DATABASE)\b"
    r"|WITH\s+\w{1,100}\s+AS\s{0,8}\()"
)
"""How a statement for a database begins, whoever gets it: `client.query(…)` asks no model then."""
_FRONT_MATTER = re.compile(r"\s{0,8}---[ \t]*\n(?:[A-Za-z][\w-]{0,40}:[^\n]{0,4000}\n){1,20}---[ \t]*\n")
"""How a text begins that becomes a file: one that is sent needs no front matter."""
_DEFINES = re.compile(r"^(?:import \w|from [\w.]+ import |(?:async )?def \w+\(|class \w*[(:]|@\w)", re.MULTILINE)
_LEAST_DEFINES = 4
"""Lines that import or define something, from which on a text without fences is the source of a module."""
_FENCED = re.compile(r"```[^`]{0,8000}```")
_MEANT = re.compile(r"[\u0400-\u04ff\u0590-\u06ff\u0900-\u0dff\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


_WRITTEN_BEFORE = (
    r"(?:previous|last|prior|earlier|preceding) (?:[a-z-]{1,20} )?"
    r"(?:response|answer|attempt|output|reply|message|result|try)s?"
)
_LATE = re.compile(
    rf"\b(?:(?:your|my|its) {_WRITTEN_BEFORE}"
    r"|previous loop|(?:failed|did not pass|fails) (?:[a-z-]{1,20} ){0,2}(?:validation|to parse|parsing)|could not be parsed"
    r"|(?:the|these) (?:above|previous|preceding|earlier) messages|messages above|recall (?:that )?we are (?:working|solving)"
    r"|as a reminder"
    r"|try again|(?:is|was|are|were) (?:not valid|invalid)|validation error|error (?:message|occurred)|rejected because)\b"
    r"|correcting the error"
    r"|(?:\b(?:please|and|then|now|must|should|need to|have to|carefully) |(?:^|[.!?:;])[ \t>*#\d.-]{0,12})"
    r"(?:fix|correct|address) (?:the|these|this|all|each) (?:[a-z-]{1,20} ){0,2}(?:errors?|issues?|problems?|point|feedback)\b",
    re.IGNORECASE | re.MULTILINE,
)
_BEGINNING = 600
_LATE_AT_ONCE = re.compile(rf"\bthe {_WRITTEN_BEFORE}\b", re.IGNORECASE)
"""The same, where a text begins with it; further on it may be that of somebody whom the text is about."""
_TOLD_TASK = re.compile(r"\b(?:your|the) (?:task|job|role|goal|mission|objective) is\b", re.IGNORECASE)
"""How a text begins that says what is to be done, which no answer to a model does."""
_ABOVE = re.compile(
    r"\b(?:passages?|documents?|messages|conversation|dialogue|discussion|text|context|code|answers?|responses?|results?|outputs?"
    r"|information|history|articles?|examples?) (?:given |provided |shown |listed )?above\b",
    re.IGNORECASE,
)
"""What a text points back to."""
_FIRST_WORDS = 160
"""Characters of constant text, within which nothing can be pointed back to that is a part of it."""


@lru_cache(maxsize=2048)
def reads_as_reply(text: str, first: int = _FIRST_WORDS) -> bool:
    """Return whether a text answers what a model wrote before: it is late in a conversation, or in the second of two tries.

    `first` is the number of its characters before the first value: after that, what is above may be the value.
    """
    if _IS.search(text[:_BEGINNING]) is not None or _TOLD_TASK.search(text[:_FIRST_WORDS]) is not None:
        return False
    if _LATE.search(text[:_BEGINNING]) is not None or _LATE_AT_ONCE.search(text[:_FIRST_WORDS]) is not None:
        return True
    return _ABOVE.search(text[: min(first, _FIRST_WORDS)]) is not None


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)


_MOST_GAPS = 8
"""Lines of a program that values put into it leave incomplete."""


def _is_program(text: str) -> bool:
    """Return whether a text is a Python program that defines or imports something; prompts that it quotes are its own.

    Values that are put in may leave gaps in a program: a line that is incomplete without its value counts as one that is complete.
    """
    if _DEFINES.search(text) is None:
        return False
    lines = textwrap.dedent(text).splitlines()
    gaps: set[int] = set()
    while len(gaps) <= _MOST_GAPS:
        body, wrong = _statements("\n".join(lines))
        if not wrong:
            return any(isinstance(each, _DEFINITIONS) for each in body)
        gaps.add(wrong)
        if wrong > len(lines) or wrong < _LEAST_DEFINES * len(gaps) or not lines[wrong - 1]:
            return False
        line = lines[wrong - 1]
        start = line[: len(line) - len(line.lstrip())]
        lines[wrong - 1] = "" if line == f"{start}pass" else f"{start}pass"  # in brackets, no statement is one
    return False


def _statements(text: str) -> tuple[list[ast.stmt], int]:
    """Return the statements of a Python program, or the number of the line up to which a text is one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in the program
            return parsed(text).body, 0
    except SyntaxError as error:
        return [], error.lineno or 1
    except (ValueError, RecursionError, MemoryError):
        return [], 1


@lru_cache(maxsize=2048)
def reads_as(text: str) -> int:
    """Rate the wording of a text: -1 code or markup, 0 unclear, 1 sentences, 2 a request, 3 it says who the reader is."""
    if _is_program(text):
        return -1
    text = text[:_MOST_TEXT]
    sentences = sum(1 for _ in _SENTENCE.finditer(text)) + len(_MEANT.findall(text)) // 12
    asks = len({found[0].lower() for found in _ASKS.finditer(text)})
    who = _IS.search(text) is not None
    if asks and "```" in text:
        text = _FENCED.sub("\n", text)  # a text that asks for something shows what is wanted
    lines = [line for line in text.splitlines() if line.strip()]
    code = sum(1 for line in lines if _CODE_LINE.match(line[:300]))
    script = _SCRIPT.search(text) is not None
    if lines and (lines[0].startswith("#!") or (_CODE_START.match(lines[0]) and not who)):
        return -1
    if not who and "```" not in text and len(_DEFINES.findall(text)) >= _LEAST_DEFINES:
        return -1
    if (script and not who and asks < 4) or (lines and code > 0.5 * len(lines) and sentences < 6 and not who):
        return -1
    if who and sentences >= 2:
        return 3
    if asks >= 2 and sentences >= 2:
        return 2
    return 1 if sentences >= 2 or asks >= 2 else 0


def belief(evidence: Evidence, text: str) -> Belief:
    """Decide whether a text is a prompt, by the evidence in the code and by its wording."""
    if _STATEMENT.match(text) or (evidence < Evidence.ASKED and _FRONT_MATTER.match(text)):
        return Belief.NO
    reads = reads_as(text)
    if evidence >= Evidence.SENT:
        return Belief.STRONG if reads > 0 else Belief.WEAK
    if evidence is Evidence.NAME:
        return Belief.NO if reads < 0 else Belief.STRONG if reads else Belief.WEAK
    if reads == 3 or (evidence is Evidence.FILE and reads == 2):
        return Belief.STRONG
    return Belief.WEAK if reads == 2 or (evidence is Evidence.FILE and reads == 1) else Belief.NO
