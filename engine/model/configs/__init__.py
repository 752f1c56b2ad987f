"""What models are made of: config.json files, presets, layers and counts of weights."""
