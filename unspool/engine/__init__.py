"""How a cell runs through time. `loops` knows this room by one function, `run`."""

from unspool.engine.plain import run

__all__ = ["run"]
