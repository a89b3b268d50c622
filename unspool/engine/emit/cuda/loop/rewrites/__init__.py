"""Rewrites of a row's statements before they become loops: fewer loops, and fewer times that threads have to meet."""
