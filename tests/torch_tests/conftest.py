import pytest
import torch


@pytest.fixture(autouse=True)
def seeded():
    """What a test draws, it draws again next time."""
    torch.manual_seed(0)
