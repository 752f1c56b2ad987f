"""Views of what to change and under which rules: what-if and compare-engines."""
