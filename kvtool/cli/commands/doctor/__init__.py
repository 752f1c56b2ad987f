"""Versions, devices and tools on this machine."""
