"""What `torch.compile` does with a loop: records it as one operation, or calls it as it is."""

from unspool.dynamo.capture import as_one_operation, captures, loop_options
from unspool.dynamo.skipping import called_as_it_is

__all__ = ["as_one_operation", "called_as_it_is", "captures", "loop_options"]
