"""Configuration: `kvtool.toml` or `[tool.kvtool]`, the environment, and where each value came from."""
