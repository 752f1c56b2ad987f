"""KV301 to KV335: losses of the cache, its settings, and the rules of models and engines."""
