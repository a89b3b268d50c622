"""Calls that look like an earlier one: cache.py finds what is known of them, which guarded.py and fixed.py are."""
