"""However a value comes into a function, is put into a prompt and is sent: what is asked about is found, what is set is not."""

from __future__ import annotations

import re

from tests.lint.found import made_findings

RULES = (
    "- Answer only with facts that the text holds, and never invent names, dates or numbers.\\n"
    "- Keep every sentence short, and say which passage it is taken from in brackets.\\n"
    "- If nothing in the text helps, say so in one sentence and stop.\\n"
    "- Return the answer as JSON with the keys answer, sources and confidence.\\n"
    "- Do not repeat the question, and write no heading above the answer.\\n"
    "- Use plain words that a new colleague understands without explanation."
)
INTRO = "You are a helpful assistant at the desk of a small harbour."
HEAD = (
    "import io, json, re, string, subprocess, textwrap\n"
    "import requests\n"
    "from jinja2 import Template\n"
    "from openai import OpenAI\n"
    "client = OpenAI()\n"
    "def clean(value):\n"
    "    lines = [line for line in value.splitlines() if line]\n"
    '    return "\\n".join(lines)\n'
    "def cut(text, most=2000):\n"
    '    text = unicodedata.normalize("NFKC", text)\n'
    "    return text[:most]\n"
)
CONSTANTS = {
    "INTRO": f'INTRO = "{INTRO}"\n',
    "RULES": f'RULES = "{RULES}"\n',
    "TEMPLATE": f'TEMPLATE = "{INTRO}\\n\\nText:\\n{{body}}\\n\\nRules:\\n{RULES}"\n',
    "MARKED": f'MARKED = "{INTRO}\\n\\nText:\\n<<BODY>>\\n\\nRules:\\n{RULES}"\n',
    "DOLLAR": f'DOLLAR = "{INTRO}\\n\\nText:\\n$body\\n\\nRules:\\n{RULES}"\n',
    "JINJA": f'JINJA = "{INTRO}\\n\\nText:\\n{{{{ body }}}}\\n\\nRules:\\n{RULES}"\n',
}
ARRIVES = {
    "given": ("document: str", "", "document"),
    "an attribute": ("item", "", "item.question"),
    "a key": ("row: dict", "", "row['question']"),
    "asked for by key": ("row: dict", "", "row.get('question', '')"),
    "cut": ("document: str", "document = document[:4000]", "document"),
    "cleaned": ("text: str", "cleaned = text.strip().replace('\\t', ' ')", "cleaned"),
    "by a function that filters": ("text: str", "cleaned = clean(text)", "cleaned"),
    "by one that says how": ("requirements: str", "requirements = cut(requirements)", "requirements"),
    "by a pattern": ("text: str", "body = re.sub(r'\\s+', ' ', text)", "body"),
    "as JSON": ("record: dict", "body = json.dumps(record, indent=2)", "body"),
    "joined": ("documents: list", "context = '\\n\\n'.join(d.text for d in documents)", "context"),
    "numbered": ("passages: list", "context = '\\n'.join(f'[{i}] {p}' for i, p in enumerate(passages))", "context"),
    "grown": ("passages: list", "context = ''\n    for p in passages:\n        context += f'{p}\\n'", "context"),
    "a file's": ("path: str", "with open(path) as f:\n        code = f.read()", "code"),
    "a program's": ("", "diff = subprocess.run(['git', 'diff'], capture_output=True, text=True).stdout", "diff"),
    "a page's": ("url: str", "page = requests.get(url).text", "page"),
    "a person's": ("", "question = input('> ')", "question"),
    "found": ("question: str", "docs = retriever.search(question)", "docs"),
    "answered": ("question: str", "step = llm.generate(question)", "step"),
    "by default empty": ("document: str | None = None", "document = document or ''", "document"),
    "of a request": ("request", "body = request.json()", "body['text']"),
}
_JOIN = ('prompt = "\\n".join(parts)',)
PUT_IN = {
    "an f-string": [f'prompt = f"{INTRO}\\n\\nText:\\n{{V}}\\n\\nRules:\\n{RULES}"'],
    "a sum": [f'prompt = "{INTRO}\\n\\nText:\\n" + V + "\\n\\nRules:\\n{RULES}"'],
    "a conversion": [f'prompt = "{INTRO}\\n\\nText:\\n%s\\n\\nRules:\\n{RULES}" % V'],
    "format": [f'prompt = "{INTRO}\\n\\nText:\\n{{}}\\n\\nRules:\\n{RULES}".format(V)'],
    "a constant": ["prompt = TEMPLATE.format(body=V)"],
    "a mark": ['prompt = MARKED.replace("<<BODY>>", V)'],
    "added texts": [f'prompt = "{INTRO}\\n\\nText:\\n"', "prompt += V", f'prompt += "\\n\\nRules:\\n{RULES}"'],
    "a joined list": [f'prompt = "\\n".join(["{INTRO}", "Text:", V, "Rules:", "{RULES}"])'],
    "a list that grows": [f'parts = ["{INTRO}", "Text:"]', "parts.append(V)", f'parts.append("{RULES}")', *_JOIN],
    "short sums in it": [f'parts = ["{INTRO}"]', 'parts.append("Text:\\n" + V)', f'parts.append("{RULES}")', *_JOIN],
    "an extended list": [
        f'parts = ["{INTRO}"]',
        'parts.extend(["Text:", V, ""])',
        f'parts += ["Rules:", "{RULES}"]',
        *_JOIN,
    ],
    "a stream": [
        f'out = io.StringIO("{INTRO}\\n")',
        'out.write(f"Text: {V}\\n")',
        f'out.write("{RULES}")',
        "prompt = out.getvalue()",
    ],
    "a condition": [
        f'prompt = "{INTRO}\\n"',
        "if V:",
        '    prompt += f"Text:\\n{V}\\n"',
        f'prompt += "\\nRules:\\n{RULES}"',
    ],
    "named sections": [
        f'parts = {{"intro": "{INTRO}", "text": V, "rules": "{RULES}"}}',
        'prompt = "\\n".join(parts.values())',
    ],
    "sections with heads": [
        f'parts = {{"Intro": "{INTRO}", "Text": V, "Rules": "{RULES}"}}',
        'prompt = "\\n".join(f"## {k}\\n{v}" for k, v in parts.items())',
    ],
    "dollars": ["prompt = string.Template(DOLLAR).substitute(body=V)"],
    "jinja": ["prompt = Template(JINJA).render(body=V)"],
    "between constants": ['prompt = f"{INTRO}\\n{V}\\n{RULES}"'],
}
_ASK = "return client.chat.completions.create(model='m', messages="
SENT = {
    "a message": [_ASK + "[{'role': 'user', 'content': prompt}])"],
    "a list of them": ["messages = []", "messages.append({'role': 'user', 'content': prompt})", _ASK + "messages)"],
    "a system message": [
        "return client.messages.create(model='m', system=prompt, messages=[{'role': 'user', 'content': 'go'}])"
    ],
    "over HTTP": [
        "payload = {'model': 'm', 'prompt': prompt}",
        "return requests.post('http://x/api/generate', json=payload)",
    ],
    "by a chain": ["return llm.invoke(prompt)"],
    "returned": ["return prompt"],
}
_TAXONOMY = (
    "lines = ''\n    for key in sorted(TAXONOMY):\n        data = TAXONOMY[key]\n"
    "        for item in data.get('items', []):\n            lines += f'- {item}\\n'"
)
STAYS = {
    "a constant": ('TONE = "kind"\n', "", "TONE"),
    "of the settings": ("", "", "settings.language"),
    "a part of them": ("", "", "self.cfg.domain_context"),
    "of the environment": ('TONE = os.getenv("TONE", "kind")\n', "", "TONE"),
    "what it was made with": ("", "", "self.company"),
    "of a table": (
        'ROLES = {"a": "x"}\n',
        "lines = ''\n    for item in ROLES['a']:\n        lines += f'{item}\\n'",
        "lines",
    ),
    "of what is read once": ("TAXONOMY = {}\n", _TAXONOMY, "lines"),
    "a schema": ("", "schema = Answer.model_json_schema()", "schema"),
}


def code(
    given: str, before: str, value: str, put_in: list[str], sent: list[str], *, name: str = "run", head: str = ""
) -> str:
    """A module with a function that asks."""
    put = "\n    ".join([*put_in, *sent])
    put = re.sub(r'(?<![A-Za-z_"])V(?![A-Za-z_])', lambda _: value, put)
    constants = "".join(text for key, text in CONSTANTS.items() if re.search(rf"\b{key}\b", put))
    before = f"    {before}\n" if before else ""
    return f"{HEAD}{head}{constants}def {name}({given}):\n{before}    {put}\n"


def test_what_is_asked_about_is_found_however_it_comes() -> None:
    for put in PUT_IN:
        missed = [
            arrives
            for arrives, (given, before, value) in ARRIVES.items()
            if not made_findings(code(given, before, value, PUT_IN[put], SENT["a message"]))
        ]
        assert not missed


def test_however_it_is_sent() -> None:
    for sent in SENT:
        name = "build_prompt" if sent == "returned" else "run"
        missed = [
            (arrives, put)
            for arrives in ("given", "a key", "by a function that filters", "joined")
            for put in ("an f-string", "a list that grows", "added texts", "a constant")
            if not made_findings(code(*ARRIVES[arrives], PUT_IN[put], SENT[sent], name=name))
        ]
        assert not missed


def test_what_is_set_is_not_told() -> None:
    for put in ["an f-string", "a sum", "a list that grows", "named sections"]:
        given = "self, question, settings"
        lines = [line.replace("Text", "Style") for line in PUT_IN[put]]
        told = [
            stays
            for stays, (head, before, value) in STAYS.items()
            if made_findings(code(given, before, value, lines, SENT["a message"], head=head))
        ]
        assert not told


def test_a_number_is_set_by_its_declaration() -> None:
    for declared, told in [
        ("int", False), ("float | None", False), ("Optional[int]", False), ('"int | None"', False),
        ("typing.Union[int, float]", False), ('Union[int, "str"]', True), ("str", True), ("list[int]", True),
    ]:  # fmt: skip
        put = [f'prompt = f"{INTRO} Think of {{prior_thoughts}} of them. {RULES}"']
        found = made_findings(code(f"prior_thoughts: {declared}", "", "", put, SENT["a message"]))
        assert bool(found) is told
