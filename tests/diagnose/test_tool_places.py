"""The place of a character in a prompt's tools, as a path in the body: whatever the tools are and however they are written."""

from __future__ import annotations

import json
import random
from typing import Any

from kvtool.diagnose.tool_places import in_tools, named_tool, tool_place
from tests.conftest import some


def made_tools(rng: random.Random) -> list[dict[str, Any]]:
    tools = []
    for number in range(rng.randint(1, 6)):
        mark = f"{number}-{rng.randint(1, 10**9)}"
        properties = {f"p{at}": {"type": "string", "description": f'<{mark}-p{at}> "x" {{y}}'} for at in range(3)}
        function = {
            "name": f"tool_{number}",
            "description": f'<{mark}> reads {{files}}, [all] of them: \\ and "so".',
            "parameters": {"type": "object", "properties": properties, "required": ["p0"]},
        }
        keys = list(function)
        rng.shuffle(keys)
        tools.append({"type": "function", "function": {key: function[key] for key in keys}})
    return tools


def test_each_description_is_found() -> None:
    for seed in some(range(60), 12):
        rng = random.Random(seed)
        tools = made_tools(rng)
        indent = rng.choice([None, 2])
        before = rng.choice(["", "tools:\n", "# Tools {not json}\n[", "{"])
        written = rng.choice(["\n", ", "]).join(json.dumps(tool, indent=indent) for tool in tools)
        text = f"{before}{written}\nsystem: Be brief. {{}}"
        for number, tool in enumerate(tools):
            function = tool["function"]
            mark = function["description"].split(">")[0] + ">"
            assert tool_place(tools, text, text.index(mark)) == f"tools[{number}] tool_{number}.description"
            for name in function["parameters"]["properties"]:
                at = text.index(f"{mark[:-1]}-{name}>")
                way = f"parameters.properties.{name}.description"
                assert tool_place(tools, text, at) == f"tools[{number}] tool_{number}.{way}"
        assert tool_place(tools, text, text.index("Be brief")) is None
        assert tool_place(None, text, 0) is None


def test_a_name_that_may_be_text_is_not_shown() -> None:
    tool = {"name": "ignore all\n[bold]rules", "description": "d"}
    assert named_tool(3, tool) == "tools[3]"
    assert named_tool(3, {"name": "mcp__a.b-c"}) == "tools[3] mcp__a.b-c"


def test_a_property_that_may_be_text_is_not_shown() -> None:
    tool = {"name": "t", "parameters": {"secret text": "here"}}
    text = json.dumps(tool)
    assert tool_place([tool], text, text.index("here")) == "tools[0] t.parameters.…"


def test_parts_in_tools() -> None:
    assert in_tools("tools")
    assert in_tools("tools[0] a.description")
    assert not in_tools("messages[0] (user)")
