"""What states that are not zero start from."""

from __future__ import annotations

NOTHING_YET = -1e30
"""The logarithm of an empty sum: smaller than any that comes, but finite, so that differences of two are."""
