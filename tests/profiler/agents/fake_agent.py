"""A coding agent in one protocol, with switches for what real agents do wrong. Standard library only.

A fault `folder in system` is a leak: the circumstance `folder` is written into the system prompt when a session begins;
`folder anew in system` writes it again in each turn. Tests run it as a program, or step by step in their own process.
"""

import contextlib
import json
import os
import random
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
RULES = "\n".join(f"Rule {n}: name the file and keep part {n} of the answer short." for n in range(12))
BASES = {"messages": "ANTHROPIC_BASE_URL", "gemini": "GOOGLE_GEMINI_BASE_URL"}
PLACES = ("tools", "system", "user")
FACTORS = ("folder", "home", "git", "locale", "zone", "tomorrow")


@dataclass
class World:
    """What an agent sees of its surroundings, by the name of the circumstance that changes it."""

    seen: dict[str, str]
    servers: dict[str, float] = field(default_factory=dict)


@dataclass
class FakeAgent:
    protocol: str
    faults: list[str]
    history: list = field(default_factory=list)
    begun: World | None = None
    rotated: int = 0
    """Whether a session has its tools in another order, with the fault `shuffled tools`."""

    def turn(self, prompt, world, send):
        """Yield after each request; `send(body)` returns its answer, and `world` may change until the next turn."""
        resumed = self.begun is not None
        self.begun = self.begun or world
        if resumed and "double result" in self.faults:
            self.history.insert(2, self.history[2])
            self.history.insert(1, self.history[1])
        text = f"{prompt} {self.leaks('user', world)}" if not resumed else prompt
        self.history.append(self.user(text))
        if "title" in self.faults:
            send({**self.body(0, [self.user(f"A title for: {prompt}")], world, resumed), "tools": []})
        step = 0
        while True:
            body = self.body(step, self.history, world, resumed)
            answer = send(body)
            if "retry" in self.faults:
                send(body, retry=1)
            step += 1
            if not self.take(answer):
                return

    def leaks(self, place, world):
        said = []
        for name in FACTORS:
            if f"{name} in {place}" in self.faults:
                said.append(f"The {name} was {self.begun.seen[name]} at first.")
            if f"{name} anew in {place}" in self.faults:
                said.append(f"The {name} is {world.seen[name]} now.")
        return "\n".join(said)

    def tools(self, step, world, resumed):
        names = ["read_file", "bash"]
        if self.rotated and "shuffled tools" in self.faults:
            names.reverse()
        names += ["mcp_notes"] if "late tool" in self.faults and step > 1 else []
        names += [f"{name}_find" for name, delay in world.servers.items() if "servers" in self.faults and delay <= step]
        text = "Model: " + ("m" if resumed and "model name" in self.faults else "m (1M)")
        made = [{"name": name, "description": f"Runs {name}. {text}.", "parameters": SCHEMA} for name in names]
        if said := self.leaks("tools", world):
            made.insert(0, {"name": "note", "description": said, "parameters": SCHEMA})
        if self.protocol == "messages":
            return [{"name": t["name"], "description": t["description"], "input_schema": SCHEMA} for t in made]
        if self.protocol == "gemini":
            return [{"functionDeclarations": made}]
        is_flat = self.protocol == "responses"
        return [{"type": "function", **t} if is_flat else {"type": "function", "function": t} for t in made]

    def body(self, step, said, world, resumed):
        stamp = f"\nRun {random.getrandbits(64):016x} at {time.time_ns()}." if "date" in self.faults else ""
        system = f"{RULES}\n{self.leaks('system', world)}{stamp}\nEnd."
        stream = {"stream": True} if "stream" in self.faults else {}
        tools = self.tools(step, world, resumed)
        match self.protocol:
            case "messages":
                rest = {"model": "claude-sonnet-4-6", "max_tokens": 99, "system": system}
                return {**rest, "tools": tools, "messages": said, **stream}
            case "chat":
                messages = [{"role": "system", "content": system}, *said]
                return {"model": "m", "tools": tools, "messages": messages, **stream}
            case "responses":
                return {"model": "gpt-5.5", "tools": tools, "instructions": system, "input": said, **stream}
        return {"systemInstruction": {"parts": [{"text": system}]}, "tools": tools, "contents": said}

    def user(self, text):
        return {"role": "user", **({"parts": [{"text": text}]} if self.protocol == "gemini" else {"content": text})}

    def take(self, answer):
        """Add the answer and the result of its tool; return whether it called one."""
        said = self.history
        if self.protocol == "messages":
            said.append({"role": "assistant", "content": answer["content"]})
            uses = [block for block in answer["content"] if block["type"] == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": use["id"], "content": "tide.py"} for use in uses]
            said += [{"role": "user", "content": [each]} for each in results]
        elif self.protocol == "chat":
            message = answer["choices"][0]["message"]
            said.append(message)
            uses = message.get("tool_calls") or []
            said += [{"role": "tool", "tool_call_id": use["id"], "content": "tide.py"} for use in uses]
        elif self.protocol == "responses":
            said += answer["output"]
            uses = [item for item in answer["output"] if item["type"] == "function_call"]
            said += [{"type": "function_call_output", "call_id": use["call_id"], "output": "tide.py"} for use in uses]
        else:
            content = answer["candidates"][0]["content"]
            said.append(content)
            uses = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
            results = [{"functionResponse": {"name": use["name"], "response": {"o": "tide.py"}}} for use in uses]
            said += [{"role": "user", "parts": [each]} for each in results]
        return bool(uses)


def joined(protocol, stream):
    events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]
    if protocol == "chat":
        return {"choices": [{"message": events[0]["choices"][0]["delta"]}]}
    if protocol == "messages":
        block, delta = events[1]["content_block"], events[2]["delta"]
        said = {"input": json.loads(delta["partial_json"])} if block["type"] == "tool_use" else {"text": delta["text"]}
        return {"content": [{**block, **said}]}
    return events[-1] if protocol == "gemini" else events[-1]["response"]


def main(protocol, prompt, *faults):
    paths = {"messages": "/v1/messages", "chat": "/chat/completions", "responses": "/responses"}
    paths["gemini"] = (
        f"/v1beta/models/gemini-2.5-pro:{'streamGenerateContent' if 'stream' in faults else 'generateContent'}"
    )
    url = os.environ[BASES.get(protocol, "OPENAI_BASE_URL")] + paths[protocol]
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def send(body, retry=0):
        headers = {"content-type": "application/json", "x-stainless-retry-count": str(retry)}
        with opener.open(urllib.request.Request(url, json.dumps(body).encode(), headers)) as answer:
            data = answer.read().decode()
        return json.loads(data) if not data.startswith(("event", "data")) else joined(protocol, data)

    home, folder = Path(os.environ["HOME"]), Path.cwd()
    seen = {"folder": str(folder), "home": str(home), "locale": os.environ["LANG"], "zone": os.environ["TZ"]}
    seen["git"] = (folder / ".git" / "HEAD").read_text() if (folder / ".git").exists() else ""
    seen["git"] += f"{len(list(folder.glob('note_*')))} notes"
    seen["tomorrow"] = time.strftime("%Y-%m-%d")
    servers = json.loads((home / "mcp.json").read_text())["mcpServers"]
    world = World(seen, {name: float(server["args"][-2]) for name, server in servers.items()})
    file = home / "history.json"
    agent = FakeAgent(protocol, list(faults))
    with contextlib.suppress(FileNotFoundError):
        saved = json.loads(file.read_text())
        agent.history, agent.begun = saved["history"], World(saved["seen"])
    agent.turn(prompt, world, send)
    file.write_text(json.dumps({"history": agent.history, "seen": agent.begun.seen}))


if __name__ == "__main__":
    main(*sys.argv[1:])
