"""When a plan still holds: what a step's code can reach, and whether any of it has changed since the trace."""
