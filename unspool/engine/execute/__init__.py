"""A call: the chunks of a plan's phases over a batch, and the loop as one operation of autograd."""
