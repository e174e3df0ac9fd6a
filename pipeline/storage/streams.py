"""Objects of a store as streams: requested in ranges, read ahead, or in many places at once."""

from __future__ import annotations

import io
from abc import abstractmethod
from typing import TYPE_CHECKING

from pipeline.storage.store import pool, remote_range

if TYPE_CHECKING:
    from concurrent.futures import Future

    from _typeshed import WriteableBuffer

_FIRST_BYTES, _MOST_BYTES = 256 << 10, 8 << 20
"""Bytes of a stream's first request, since a head is often enough, and the most bytes of each later one."""
STRIDE_BYTES = 32 * 1024
_STRIDES = 32
"""Bytes read at one place, and how many places at once."""


class _Ranges(io.RawIOBase):
    """An object of a store as a stream, requested in ranges. `_fetch` returns bytes from the current position."""

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._at = 0
        self._start, self._piece = 0, b""

    @abstractmethod
    def _fetch(self, wanted: int) -> bytes: ...

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, target: WriteableBuffer) -> int:
        view = memoryview(target).cast("B")
        if self._at >= self._size or not len(view):
            return 0
        if not self._start <= self._at < self._start + len(self._piece):
            self._start, self._piece = self._at, self._fetch(len(view))
        piece = memoryview(self._piece)[self._at - self._start :][: len(view)]
        view[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)


class ObjectStream(_Ranges):
    """A stream that is read from beginning to end, in growing ranges, or in places."""

    def __init__(self, name: str, size: int, head: bytes, in_places: bool) -> None:
        super().__init__(name, size)
        self._piece = head
        self._in_places = in_places
        self._length = _FIRST_BYTES
        self._next: tuple[int, Future[bytes]] | None = None

    def _fetch(self, wanted: int) -> bytes:
        at = self._at
        if self._in_places:
            return remote_range(self._name, at, min(max(wanted, _FIRST_BYTES), self._size - at))
        if at != self._start + len(self._piece):
            self._length, self._next = _FIRST_BYTES, None
        elif at:
            self._length = min(2 * self._length, _MOST_BYTES)
        if self._next is not None and self._next[0] == at:
            piece = self._next[1].result()
        else:
            piece = remote_range(self._name, at, min(self._length, self._size - at))
        after = at + len(piece)
        self._next = None
        if self._length > _FIRST_BYTES and after < self._size:
            length = min(2 * self._length, _MOST_BYTES, self._size - after)
            self._next = after, pool().submit(remote_range, self._name, after, length)
        return piece


class StrideStream(_Ranges):
    """A stream that is read one byte before each multiple of `stride`; many places are requested at once."""

    def __init__(self, name: str, size: int, stride: int) -> None:
        super().__init__(name, size)
        self._stride = stride
        self._read: dict[int, bytes | OSError] = {}

    def _fetch(self, wanted: int) -> bytes:
        if self._at not in self._read:
            if (self._at + 1) % self._stride:  # the beginning, or the rest of a long line
                return remote_range(self._name, self._at, min(STRIDE_BYTES, self._size - self._at))
            places = [at for n in range(_STRIDES) if (at := self._at + n * self._stride) < self._size]
            self._read = dict(zip(places, pool().map(self._piece_at, places), strict=True))
        piece = self._read[self._at]
        if isinstance(piece, OSError):
            raise piece
        return piece

    def _piece_at(self, at: int) -> bytes | OSError:
        try:
            return remote_range(self._name, at, min(STRIDE_BYTES, self._size - at))
        except OSError as error:
            return error
