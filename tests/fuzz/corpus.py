"""What is mutated: small right inputs of every kind that kvtool reads. All of it is invented."""

from __future__ import annotations

import json
from typing import Any

SYSTEM = "You are Mina of the shop Quillmark. Answer in one or two sentences, be kind, and say what happens next to the order."

WORKLOADS = (
    """\
version: 1
name: chat
seed: 3
engine: {block_size: 16, capacity: 4000 tokens, max_model_len: 4096}
vars:
  now: {datetime: 1m, format: "%H:%M"}
  id: {uuid: "4"}
groups:
  - name: support
    requests: 5
    tenant: "t{{ id[0] }}"
    messages:
      - {role: system, text: "Now {{ now }}. You are Mina of the shop. Be short, be kind, be right.\\n"}
      - {role: user, text: "Where is {{ thing }}?"}
    vars:
      thing: {choice: [my parcel, the bill, Jo], weights: [3, 1, 1]}
    output_tokens: 8
    gate: {hit_rate: ">=1%", findings: {KV101: warn}, ttft_p90: 5s}
""",
    """\
version: 1
engine: {concurrency: 3, max_num_seqs: 2, max_num_batched_tokens: 128, enable_chunked_prefill: true}
groups:
  - name: talk
    sessions: {count: 2, turns: 2, output_tokens: 9, think: 2s}
    arrival: {process: burst, rate: 2/s, burst: 2, start: 1s}
    messages:
      - {role: system, file: rules.md, raw: true, stable: true}
      - {role: user, text: "{{ n }}. {% if n|int % 2 %}Why?{% else %}And then?{% endif %}", volatile: true}
    vars: {n: {counter: 1, step: 3, per: session}}
    tools: [{type: function, function: {name: look, description: looks, parameters: {type: object, properties: {}}}}]
  - name: made
    generate: {prefixes: 2, per_prefix: 2, prefix_tokens: 40, suffix_tokens: 8, order: sequential}
""",
    """\
version: 1
engine: {replicas: 2, routing: prefix-aware, ttl: 5m}
vars: &all
  who: {range: [1, 50], pick: {zipf: 1.1}, per: session}
groups:
  - name: parts
    requests: 4
    arrival: {process: poisson, rate: 1/s}
    segments:
      - {id: clock, text: "{{ day }} "}
      - {id: rules, text: "Answer only from the text below, in one sentence, or say that it is not there. "}
      - {id: page, glob: "*.md", pick: cycle}
      - {id: end, text: "user {{ who }}"}
    join: "\\n"
    vars: {day: {datetime: 1d, start: 2026-01-05T09:00:00Z, format: date}}
  - name: logs
    import: {jsonl: log.jsonl, on_bad_line: skip, limit: 3}
""",
)

RULES = f"# Rules\n\n{SYSTEM}\n\n- One sentence each.\n- No prices of 3,000 or more.\n- Today is 2026-01-05.\n"

CONFIG = """\
workloads = ["w.yaml", "p.txt"]
seed = 1

[engine]
model = "llama-3.1-8b"
block_size = 16
capacity = "20k tokens"
max_num_seqs = 8

[gate]
hit_rate = ">=1%"
reachable_gap = "90%"
findings = {KV101 = "warn"}

[gate.groups.g]
hit_rate = 0.01
ttft_p99 = "9s"
level = "warn"

[check]
baseline = "base.json"
max_drop = "1%"
advice = false

[lint]
select = ["KV1"]
ignore = ["KV204"]
error_on = "warning"
"""

_TABLES = CONFIG.replace("\n[", "\n[tool.kvtool.")
PYPROJECT = f'[project]\nname = "shop"\n\n[tool.kvtool]\n{_TABLES}'

SMALL_WORKLOAD = """\
version: 1
vars: {n: {counter: 1}}
groups:
  - {name: g, requests: 3, text: '{{ n }} a text that is longer than one block'}
"""


def _chat(number: int) -> list[dict[str, Any]]:
    return [
        {"role": "system", "content": f"It is 2026-01-05 09:0{number}. {SYSTEM}"},
        {"role": "user", "content": f"Where is parcel {number}?"},
    ]


_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "track",
        "description": "finds a parcel",
        "parameters": {"type": "object", "properties": {"id": {"type": "string"}}},
    },
}

_RECORDS: dict[str, list[Any]] = {
    "openai": [
        {
            "timestamp": 1700000000 + n,
            "body": {"model": "m", "messages": _chat(n), "tools": [_TOOL], "max_tokens": 9},
            "response": {
                "choices": [{"message": {"role": "assistant", "content": "Soon."}}],
                "usage": {"completion_tokens": 3},
            },
            "session_id": "a",
        }
        for n in range(3)
    ],
    "calls": [
        {
            "messages": [
                *_chat(n),
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": f"call_{n}",
                            "type": "function",
                            "function": {"name": "track", "arguments": '{"id": "7"}'},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": f"call_{n}", "content": '{"at": "Bern", "day": 4}'},
                {"role": "user", "content": [{"type": "text", "text": "and now?"}]},
            ],
            "tools": [_TOOL],
            "cache_salt": "s",
        }
        for n in range(2)
    ],
    "anthropic": [
        {
            "model": "c",
            "system": [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": f"parcel {n}"}]},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t1", "name": "track", "input": {"id": n}}],
                },
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "Bern"}]},
            ],
            "tools": [{"name": "track", "description": "finds", "input_schema": {"type": "object"}}],
        }
        for n in range(2)
    ],
    "sharegpt": [
        {"id": str(n), "conversations": [{"from": "human", "value": f"hello {n}"}, {"from": "gpt", "value": "hi"}]}
        for n in range(3)
    ],
    "responses": [
        {"instructions": SYSTEM, "input": [{"role": "user", "content": f"hi {n}"}], "output": "yes"} for n in range(2)
    ],
    "trajectory": [
        {
            "traj": [
                {"role": "system", "content": SYSTEM},
                {"role": "user", "content": f"do {n}"},
                {"role": "assistant", "content": "ok"},
            ]
        }
        for n in range(2)
    ],
    "bfcl": [
        {
            "id": f"b{n}",
            "question": [[{"role": "user", "content": f"q {n}"}]],
            "function": [{"name": "f", "description": "d", "parameters": {"type": "dict", "properties": {}}}],
        }
        for n in range(2)
    ],
    "turns": [{"question_id": n, "turns": ["Tell me of Bern.", f"And {n}?"]} for n in range(2)],
    "prompt": [{"prompt": f"{n} {SYSTEM} What is {n}?", "completion": "four", "arrival_time": n} for n in range(3)],
    "token-ids": [{"token_ids": [*range(40), n], "output_ids": [1, 2]} for n in range(3)],
}

_TRACES: dict[str, list[Any]] = {
    "mooncake": [
        {"timestamp": 27 * n, "input_length": 1400 + n, "output_length": 5, "hash_ids": [46, 47, 48 + n]}
        for n in range(4)
    ],
    "bailian": [
        {
            "chat_id": n,
            "parent_chat_id": n - 1,
            "timestamp": n / 2,
            "input_length": 40,
            "output_length": 3,
            "type": "text",
            "turn": 1,
            "hash_ids": [1, 2, 3 + n],
        }
        for n in range(3)
    ],
    "weka": [
        {
            "id": "t",
            "models": ["m"],
            "block_size": 64,
            "hash_id_scope": "local",
            "requests": [{"t": 0.1 * n, "type": "s", "in": 128 + n, "out": 4, "hash_ids": [1, 2]} for n in range(3)],
        }
    ],
    "lmcache": [
        {"timestamp": n, "chunk_hashes": [11, 12 + n], "chunk_size": 256, "seq_len": 512, "lookup_id": f"l{n}"}
        for n in range(3)
    ],
}


def _lines(records: list[Any]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


LOGS = {name: _lines(records) for name, records in _RECORDS.items()}
TRACES = {name: _lines(records) for name, records in _TRACES.items()}

_PLAIN = """\
{%- for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}"""
_NUMBERED = """\
{{ bos_token }}{% set ns = namespace(n=0) %}{% if tools %}{% for t in tools %}{{ t | tojson(indent=2) }}
{% endfor %}{% endif %}{% for m in messages if m.role != 'x' %}{% set ns.n = ns.n + 1 %}[{{ ns.n }}] {{ m.role|upper }}: \
{% if m.content is string %}{{ m.content | trim }}{% else %}{% for c in m.content %}{{ c.text | default('') }}{% endfor %}\
{% endif %}\
{{ eos_token if loop.last else '\\n' }}{% endfor %}{{ strftime_now('%Y-%m-%d') }}"""
_TAGGED = """\
{% macro block(role, text) %}<{{ role }}>{{ text|replace('<', '&lt;') }}</{{ role }}>{% endmacro %}
{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}
{% for m in rest %}{{ block(m['role'], m['content']) }}{% endfor %}{{ messages | length }}{{ '%s-%d' % ('a', 3) }}
{% if not rest %}{{ raise_exception('nothing to say') }}{% endif %}"""
CHAT_TEMPLATES = (_PLAIN, _NUMBERED, _TAGGED)

_CLOCKED = f"""\
Current time: 2026-01-05T09:00:07Z
request_id: req_9f8e7d6c5b4a

{SYSTEM}

Example 1:
Q: a
A: b

User: {{{{ question }}}}
"""
_MARKED = """\
# kvtool: ignore[KV101]
{"b": 2, "a": [1, 2, {"c": "x"}]}
<document index="1">
text
</document>
{% if now %}{{ now }}{% endif %}
"""
PROMPTS = (RULES, _CLOCKED, _MARKED)

FIXABLE = f"Now: {{{{ now }}}}\n{SYSTEM}\n\nUser: {{{{ question }}}}\n"
"""A template whose clock is moved behind what does not vary."""

PYTHON = (
    '''\
"""Builds prompts."""
import datetime
import json
import uuid
from string import Template

SYSTEM = "You are Mina."
RULES = """Be short.
Be kind: {name}.
"""


def build(name: str, docs: list[str], *, tools=None) -> list[dict]:
    now = datetime.datetime.now().isoformat()
    head = f"Now: {now}. {SYSTEM} {name!r:>10}"
    body = RULES.format(name=name) + json.dumps(tools) + str(uuid.uuid4())
    for i, doc in enumerate(set(docs)):
        body += "%d: %s" % (i, doc)
    return [
        {"role": "system", "content": head + body},  # kvtool: ignore[KV101]
        {"role": "user", "content": Template("$q?").substitute(q=name)},
    ]
''',
    '''\
import random, time

async def ask(client, q, *rest, **more):
    messages = [{"role": "system", "content": f"""t={time.time():.0f}
    {'a' if q else "b"} {q!s}"""}]
    messages.append(dict(role="user", content="".join(random.sample(list(rest), 2))))
    match q:
        case {"x": [1, *y]} if (n := len(y)): pass
        case _: lambda a, /, b=1, *, c: a @ b
    return await client.chat.completions.create(model="m", messages=messages, tools=sorted(more))
''',
    """\
import os, random, time, uuid
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate

HEAD = PromptTemplate.from_template("On {day}: " + "be kind, be short. " * 30 + "{question}")
TALK = ChatPromptTemplate.from_messages([("system", "Now {now}. " + "Be kind. " * 30), ("human", "{question}")])


class Desk:
    system = "Desk %s at %s" % (uuid.uuid4(), time.time())

    def run(self, q, *docs, **more):
        parts = [self.system, *(f"- {d}" for d in docs)]
        parts += [f"{q!r:>{10}} {self.now():%Y}"] if q else []
        messages = [{"role": "system", "content": "\\n".join(parts)}, {"role": "user", "content": HEAD.format(day=1, question=q)}]
        return client.messages.create(model="m", system=self.system.format(now=1), messages=messages)


async def each(rows, /, size=1, *, key: "int" = 2):  # kvtool: ignore[KV101] because
    async with rows as found, other:
        yield await found
    print(lambda q=1: {k: v for k, v in found.items() if (n := len(v)) > q})
""",
)

SWEEPS = {
    "capacity": (),
    "policy": ("--capacity", "40"),
    "ttl": (),
    "tier": ("--capacity", "40", "--host-memory", "1x", "--jobs", "1"),
    "routing": ("--replicas", "2", "--jobs", "1"),
}
"""Axes of plans, each with what else it is asked with."""
