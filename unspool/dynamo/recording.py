"""Recording for autograd inside of an operation, where torch has turned that off."""

from __future__ import annotations

from typing import Any

import torch

_C: Any = torch._C  # pyright: ignore[reportPrivateUsage]


class Recording:
    """Lets autograd record, or, if there is nothing to record, not.

    >>> with Recording(False):
    ...     torch.is_grad_enabled()
    False
    """

    def __init__(self, enabled: bool = True) -> None:
        self._enabled = enabled

    def __enter__(self) -> None:
        excluded = _C._dispatch_tls_local_exclude_set()
        for key in _AUTOGRAD:
            excluded = excluded.remove(key)
        self._keys = _C._ForceDispatchKeyGuard(_C._dispatch_tls_local_include_set(), excluded)
        self._keys.__enter__()
        self._before = torch.is_grad_enabled()
        _C._set_grad_enabled(self._enabled)

    def __exit__(self, *error: object) -> None:
        _C._set_grad_enabled(self._before)
        self._keys.__exit__(None, None, None)


_AUTOGRAD = [
    getattr(_C.DispatchKey, name)
    for name in ("AutogradFunctionality", "AutogradOther", "AutogradNestedTensor", "ADInplaceOrView")
]
