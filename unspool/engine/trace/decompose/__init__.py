"""Decompositions: functions and operations of torch that a trace has in parts."""
