"""JSON Schemas (draft 2020-12) of what kvtool reads and writes, from the models that read and write it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from textwrap import dedent
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from kvtool.errors import KvtoolError

DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, slots=True)
class Schema:
    """A document that has a schema. `model` in `module` is imported when the schema is asked for."""

    name: str
    what: str
    module: str
    model: str
    mode: Literal["read", "written"] = "written"

    def document(self) -> dict[str, Any]:
        """Return the JSON Schema as plain data. What kvtool writes may have more keys in a later version; what it reads may not."""
        model: type[BaseModel] = getattr(import_module(self.module), self.model)
        if self.mode == "read":
            schema = model.model_json_schema(schema_generator=_Read, mode="validation")
        else:
            schema = model.model_json_schema(schema_generator=_Described, mode="serialization")
        return {"$schema": DIALECT, **schema, "title": f"kvtool {self.name}"}


SCHEMAS = {
    each.name: each
    for each in (
        Schema("workload", "a workload file", "kvtool.workload.yaml.schema", "Workload", "read"),
        Schema("config", "kvtool.toml; tool.kvtool in pyproject.toml", "kvtool.config.file_model", "Config", "read"),
        Schema("report", "kvtool profile --json", "kvtool.results.report", "Report"),
        Schema("check", "kvtool check --json", "kvtool.results.check", "CheckResult"),
        Schema("baseline", "the file of kvtool check --update-baseline", "kvtool.gate.baseline", "Baseline"),
        Schema("compare", "kvtool compare --json", "kvtool.results.comparison", "Comparison"),
        Schema("engines", "kvtool compare-engines --json", "kvtool.results.documents.engine_table", "EngineTable"),
        Schema("lint", "kvtool lint --json", "kvtool.results.documents.lint", "LintDocument"),
        Schema("optimize", "kvtool optimize --json", "kvtool.results.documents.optimize", "OptimizeDocument"),
        Schema("diff", "kvtool diff-prompts --json", "kvtool.results.documents.diff", "DiffDocument"),
        Schema("explain", "kvtool explain --json", "kvtool.results.documents.explain", "ExplainDocument"),
        Schema("prices", "kvtool prices --json", "kvtool.results.documents.prices", "PricesDocument"),
        Schema("logs", "kvtool logs --json", "kvtool.results.documents.log_contents", "LogsDocument"),
        Schema("sessions", "kvtool sessions --json", "kvtool.results.documents.agent_sessions", "SessionsDocument"),
        Schema("agent-probe", "kvtool probe --json", "kvtool.results.documents.agent_probe", "AgentProbe"),
        Schema(
            "agent-recipes", "kvtool probe --doctor --json", "kvtool.results.documents.agent_recipes", "AgentRecipes"
        ),
        Schema("replay", "kvtool replay --json", "kvtool.results.documents.reconciliation", "ReplayDocument"),
        Schema("what-if", "kvtool what-if --json", "kvtool.results.documents.what_if", "WhatIfDocument"),
        Schema("trace", "kvtool trace --json", "kvtool.results.documents.traced_logs", "TraceDocument"),
        Schema("size", "kvtool size --json", "kvtool.results.documents.size", "SizeDocument"),
        Schema("why", "kvtool why --json", "kvtool.results.documents.why_document", "WhyDocument"),
        Schema("watch", "a line of kvtool watch --json", "kvtool.results.documents.watched", "WatchDocument"),
        Schema(
            "server-bench",
            "kvtool bench --server --json",
            "kvtool.results.documents.server_bench",
            "ServerBench",
        ),
        Schema(
            "beside-server",
            "kvtool compare of a server's counters, --json",
            "kvtool.results.documents.server_comparison",
            "BesideServer",
        ),
        Schema("settings", "kvtool config --json", "kvtool.results.documents.setting_list", "SettingsDocument"),
    )
}


def find_schema(name: str) -> Schema:
    """Return the schema of that name; KvtoolError, with the one that was perhaps meant, where there is none."""
    if name in SCHEMAS:
        return SCHEMAS[name]
    from difflib import get_close_matches

    close = get_close_matches(name.lower(), SCHEMAS, n=1)
    hint = f"did you mean `{close[0]}`?" if close else f"one of {', '.join(SCHEMAS)}"
    raise KvtoolError(f"there is no schema `{name}`", hint=hint)


class _Described(GenerateJsonSchema):
    """Fields are described by the text under them, as the models say it; titles that repeat the name of a field are left out."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        found = super().model_schema(schema)
        texts = dict(_field_texts(schema["cls"]))
        names = {field.alias or name: name for name, field in schema["cls"].model_fields.items()}
        for key, value in found.get("properties", {}).items():
            if (text := texts.get(names.get(key, key))) is not None:
                value["description"] = text
        if "schema" in found.get("properties", {}):  # it tells what a document is, so it is there, default or not
            found["required"] = sorted({*found.get("required", ()), "schema"})
        if "description" in found:
            found["description"] = " ".join(found["description"].split())
        return found

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - as pydantic calls it
        """Never."""
        return False


class _Read(_Described):
    """Of files that people write: what may be left out is left out, not null, as neither TOML nor a workload has nothing."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        found = super().default_schema(schema)
        if found.get("default", 0) is None:
            del found["default"]
        return found


def _field_texts(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Yield each field with the string that stands under it, those of bases included."""
    for cls in reversed(model.__mro__):
        if not issubclass(cls, BaseModel) or cls.__module__.startswith("pydantic"):
            continue
        try:
            tree = ast.parse(dedent(inspect.getsource(cls)))
        except (OSError, TypeError):  # no source is installed
            continue
        body = tree.body[0]
        assert isinstance(body, ast.ClassDef)
        for field, text in zip(body.body, body.body[1:], strict=False):
            if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
                continue
            if (
                isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
                and isinstance(text.value.value, str)
            ):
                yield field.target.id, " ".join(text.value.value.split())
