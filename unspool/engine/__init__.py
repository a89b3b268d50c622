"""How a cell runs through time. The loops use one function of it, `run`."""

from unspool.engine.plain import run

__all__ = ["run"]
