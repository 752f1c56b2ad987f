"""The chat templates that come with kvtool, by name."""

from __future__ import annotations

BUILT_IN_TEMPLATES = "kvtool/templates/"
"""How their names begin. Results and baselines hold it: a name, not a path."""
HOSTED_TEMPLATE = f"{BUILT_IN_TEMPLATES}hosted.jinja"
"""The one by which requests to hosted models are rendered."""
