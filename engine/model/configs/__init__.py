"""Descriptions of models: config.json files, presets, layers and counts of weights."""
