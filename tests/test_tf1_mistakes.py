"""`unspool.tf1` takes mistakes as TensorFlow takes them: the same error, with the same words in its message."""

from __future__ import annotations

import pytest

from tests.tf1_programs.mistakes import MISTAKES, complaint
from unspool import tf1


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake(mistake: str):
    assert not complaint(tf1, mistake)
