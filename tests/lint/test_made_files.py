"""Skeletons of new projects: what does not parse in a folder because it is a template of Python or YAML is skipped."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.files import write

Command = Callable[..., tuple[int, str, str]]
_SKELETONS = {
    "p/{{cookiecutter.slug}}/crew.py": "class {{cookiecutter.name|title}}Crew:\n    pass\n",
    "p/{{ project }}/main.py": "from crew import {{ project }}\n",
    "p/templates/graph.py": "{% for agent in agents %}\ndef {{ agent }}(): ...\n{% endfor %}\n",
    "p/templates/agents.yaml": "{%- for agent in agents %}\n{{ agent.name }}:\n  role: x\n{%- endfor %}\n",
    "p/chart/job.yaml": "{{- if .Values.on -}}\ntemplate:\n  image: {{ .Values.image }}\n{{- end }}\n",
    "p/chart/web.yaml": 'metadata:\n  name: {{ include "web.name" . }}\nspec:\n  template:\n    x: {{ $.Values.x }}\n',
    "p/templates/tasks.yaml": "find:\n  description: x\n{% if x -%}\n  expected_output: {{ x }}\n{% endif %}\n",
}


@pytest.mark.parametrize("path", list(_SKELETONS))
def test_one_that_lay_in_a_folder_is_skipped(in_folder: Command, path: str) -> None:
    write("p/other.py", "x = 1\n")
    write(path, _SKELETONS[path])
    code, out, err = in_folder("lint", "p")
    assert (code, err) == (0, "")
    assert "1 file without prompts skipped" in out
    code, _, err = in_folder("lint", path)
    assert code == 2, "one that somebody names is what they say"
    assert f"error: {path}:" in err


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("p/a.py", "def (\n"),
        ("p/b.py", 'x = f"{{a}}" +\n'),
        ("p/c.prompt.yaml", "system_prompt: {{ now }} x\nplanning: {}\n"),
        ("p/d.j2", "{% if %}"),
    ],
)
def test_other_mistakes_are_told(in_folder: Command, path: str, text: str) -> None:
    write(path, text)
    code, _, err = in_folder("lint", "p")
    assert code == 2
    assert f"error: {path}:" in err
