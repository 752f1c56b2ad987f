"""The shape of the documents that commands print with `--json`, beside reports and checks; their JSON Schemas come from here."""
