"""Attention: a decoder that looks at all of an encoder's outputs at every step."""
