"""Why an emitter does not run a core."""


class CannotEmitError(Exception):
    """The emitter cannot, or may not, run it: a reason for people to read."""
