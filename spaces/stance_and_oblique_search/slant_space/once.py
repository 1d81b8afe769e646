"""Things that take long to make and that many visitors ask for."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Once(Generic[K, V]):
    """Makes a thing for each key once: who asks for the same waits for it, who asks for another does not.

    Args:
        make: Makes the thing of a key.
        most: So many are kept, those last asked for.
    """

    def __init__(self, make: Callable[[K], V], most: int) -> None:
        self._make, self._most = make, most
        self._slots: OrderedDict[K, _Slot[V]] = OrderedDict()
        self._lock = threading.Lock()  # of the table alone: nothing is made under it

    def __call__(self, key: K) -> V:
        with self._lock:
            slot = self._slots.setdefault(key, _Slot())
            self._slots.move_to_end(key)
            if len(self._slots) > self._most:
                self._slots.popitem(last=False)
        with slot.lock:
            if not slot.made:
                slot.made.append(self._make(key))
            return slot.made[0]


class _Slot(Generic[V]):
    """Room for one thing."""

    def __init__(self) -> None:
        self.lock, self.made = threading.Lock(), list[V]()
