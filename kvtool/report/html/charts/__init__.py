"""Drawings of the page: axes, lines, bars and trees."""
