"""One workload under the cache rules of every engine."""
