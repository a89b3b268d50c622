"""Calls that are repeated: recordings.py finds a recorded_call.py, lease.py says whose its memory is."""
