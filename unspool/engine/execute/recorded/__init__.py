"""Calls that are repeated: calls.py finds a recording, passes.py is one, lease.py says whose its memory is."""
