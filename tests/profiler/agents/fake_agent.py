"""A coding agent in one protocol, with switches for what real agents do wrong. Standard library only."""

import json
import os
import sys
import time
import urllib.request
from pathlib import Path

PROTOCOL, PROMPT, *FAULTS = sys.argv[1:]
HISTORY = Path(os.environ["HOME"], "history.json")
RESUMED = HISTORY.exists()
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
RULES = " ".join(f"Rule {n}: name the file and keep part {n} of the answer short." for n in range(60))
BASE = {"messages": "ANTHROPIC_BASE_URL", "gemini": "GOOGLE_GEMINI_BASE_URL"}.get(PROTOCOL, "OPENAI_BASE_URL")
PATHS = {"messages": "/v1/messages", "chat": "/chat/completions", "responses": "/responses"}
PATHS["gemini"] = "/v1beta/models/gemini-2.5-pro:" + (
    "streamGenerateContent" if "stream" in FAULTS else "generateContent"
)


def send(body, retry=0):
    headers = {"content-type": "application/json", "x-stainless-retry-count": str(retry)}
    request = urllib.request.Request(os.environ[BASE] + PATHS[PROTOCOL], json.dumps(body).encode(), headers)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
        data = answer.read().decode()
    return json.loads(data) if not data.startswith(("event", "data")) else joined(data)


def joined(stream):
    events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]
    if PROTOCOL == "chat":
        return {"choices": [{"message": events[0]["choices"][0]["delta"]}]}
    if PROTOCOL == "messages":
        block, delta = events[1]["content_block"], events[2]["delta"]
        said = {"input": json.loads(delta["partial_json"])} if block["type"] == "tool_use" else {"text": delta["text"]}
        return {"content": [{**block, **said}]}
    return events[-1] if PROTOCOL == "gemini" else events[-1]["response"]


def tools(step):
    names = ["read_file", "bash"] + (["mcp_notes"] if "late tool" in FAULTS and step > 1 else [])
    text = "Model: " + ("m" if RESUMED and "model name" in FAULTS else "m (1M)")
    made = [{"name": name, "description": f"Runs {name}. {text}.", "parameters": SCHEMA} for name in names]
    if PROTOCOL == "messages":
        return [{"name": t["name"], "description": t["description"], "input_schema": SCHEMA} for t in made]
    if PROTOCOL == "gemini":
        return [{"functionDeclarations": made}]
    return [{"type": "function", **t} if PROTOCOL == "responses" else {"type": "function", "function": t} for t in made]


def body(step, said):
    system = RULES + (f" It is {time.time_ns()}." if "date" in FAULTS else "")
    stream = {"stream": True} if "stream" in FAULTS else {}
    if PROTOCOL == "messages":
        return {
            "model": "claude-sonnet-4-6",
            "max_tokens": 99,
            "system": system,
            "tools": tools(step),
            "messages": said,
            **stream,
        }
    if PROTOCOL == "chat":
        return {
            "model": "m",
            "tools": tools(step),
            "messages": [{"role": "system", "content": system}, *said],
            **stream,
        }
    if PROTOCOL == "responses":
        return {"model": "gpt-5.5", "tools": tools(step), "instructions": system, "input": said, **stream}
    return {"systemInstruction": {"parts": [{"text": system}]}, "tools": tools(step), "contents": said}


def user(text):
    return {"role": "user", "parts": [{"text": text}]} if PROTOCOL == "gemini" else {"role": "user", "content": text}


def take(answer, said):
    """Add the answer and the result of its tool; return whether it called one."""
    if PROTOCOL == "messages":
        said.append({"role": "assistant", "content": answer["content"]})
        uses = [block for block in answer["content"] if block["type"] == "tool_use"]
        said += [
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": u["id"], "content": "tide.py"}]}
            for u in uses
        ]
    elif PROTOCOL == "chat":
        message = answer["choices"][0]["message"]
        said.append(message)
        uses = message.get("tool_calls") or []
        said += [{"role": "tool", "tool_call_id": use["id"], "content": "tide.py"} for use in uses]
    elif PROTOCOL == "responses":
        said += answer["output"]
        uses = [item for item in answer["output"] if item["type"] == "function_call"]
        said += [{"type": "function_call_output", "call_id": use["call_id"], "output": "tide.py"} for use in uses]
    else:
        content = answer["candidates"][0]["content"]
        said.append(content)
        uses = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        said += [
            {"role": "user", "parts": [{"functionResponse": {"name": u["name"], "response": {"o": "tide.py"}}}]}
            for u in uses
        ]
    return bool(uses)


said = json.loads(HISTORY.read_text()) if RESUMED else []
if RESUMED and "double result" in FAULTS:
    said.insert(2, said[2])
    said.insert(1, said[1])
said.append(user(PROMPT))
if "title" in FAULTS:
    send({**body(0, [user(f"A title for: {PROMPT}")]), "tools": []})
step = 0
while True:
    sent = body(step, said)
    answer = send(sent)
    if "retry" in FAULTS:
        send(sent, retry=1)
    step += 1
    if not take(answer, said):
        break
HISTORY.write_text(json.dumps(said))
