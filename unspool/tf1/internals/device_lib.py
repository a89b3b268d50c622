"""`tensorflow.python.client.device_lib`: the devices that there are."""

from __future__ import annotations

from typing import NamedTuple

import torch

__all__ = ["list_local_devices"]


class Device(NamedTuple):
    """A device, by TensorFlow's names."""

    name: str
    device_type: str
    memory_limit: int
    physical_device_desc: str


class DeviceAttributes(NamedTuple):
    """A device as a session lists it."""

    name: str
    device_type: str
    memory_limit_bytes: int


def list_local_devices(session_config: object = None) -> list[Device]:
    """The CPU, and the GPUs that torch sees.

    >>> list_local_devices()[0].name
    '/device:CPU:0'
    """
    gpus = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    return [
        Device("/device:CPU:0", "CPU", 0, ""),
        *(Device(f"/device:GPU:{k}", "GPU", each.total_memory, each.name) for k, each in enumerate(gpus)),
    ]


def session_devices() -> list[DeviceAttributes]:
    """The same devices, by their full names.

    >>> session_devices()[0].name
    '/job:localhost/replica:0/task:0/device:CPU:0'
    """
    task = "/job:localhost/replica:0/task:0"
    return [DeviceAttributes(task + each.name, each.device_type, each.memory_limit) for each in list_local_devices()]
