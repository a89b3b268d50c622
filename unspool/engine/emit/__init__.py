"""Emitters: each makes a core runnable. All take the same lowered core."""
