"""An immutable list whose versions share what they have in common.

A state is kept for every step of a run, and a conversation only grows a little from one to the next. Copying it each
time would cost the square of its length, so a list is kept as short chunks: an appended or edited list has a few
chunks of its own and shares the others with the list it came from. Nothing is ever changed in place, so a version
may be kept, compared and read from any thread.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, TypeVar, overload

Item = TypeVar("Item")

WIDTH: Final = 64
"""The most items a chunk holds: what an append copies at most."""


class SharedList(Sequence[Item]):
    """An immutable sequence with cheap `appended` and `edited` versions.

    Appending costs a constant, editing the number of chunks (a 64th of the length) and the new items.
    """

    __slots__ = ("_chunks", "_starts", "_tail")

    _chunks: tuple[tuple[Item, ...], ...]
    _starts: array[int]
    _tail: tuple[Item, ...]

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._fill(_pieces_of(tuple(items)))

    def _fill(self, pieces: Iterable[tuple[Item, ...]]) -> None:
        """Take pieces in order, joining neighbours that fit in one chunk; the last one is the growing tail."""
        chunks: list[tuple[Item, ...]] = []
        tail: tuple[Item, ...] = ()
        for piece in pieces:
            if len(tail) + len(piece) <= WIDTH:
                tail = tail + piece if tail else piece
            else:
                chunks.append(tail)
                tail = piece
        starts, length = array("q"), 0
        for chunk in chunks:
            starts.append(length)
            length += len(chunk)
        starts.append(length)
        self._chunks, self._starts, self._tail = tuple(chunks), starts, tail

    def appended(self, item: Item) -> SharedList[Item]:
        """This list and one more item."""
        new: SharedList[Item] = SharedList.__new__(SharedList)
        if len(self._tail) < WIDTH:
            new._chunks, new._starts, new._tail = self._chunks, self._starts, (*self._tail, item)
        else:
            new._chunks = (*self._chunks, self._tail)
            new._starts = self._starts + array("q", (len(self),))
            new._tail = (item,)
        return new

    def edited(self, start: int, stop: int, items: Iterable[Item]) -> SharedList[Item]:
        """This list with `items` in place of `self[start:stop]`; both are positions from 0 to the length."""
        new: SharedList[Item] = SharedList.__new__(SharedList)
        new._fill(chain(self._pieces(0, start), _pieces_of(tuple(items)), self._pieces(stop, len(self))))
        return new

    def _pieces(self, start: int, stop: int) -> Iterator[tuple[Item, ...]]:
        """The chunks that make up `self[start:stop]`: whole ones shared, those at the ends cut."""
        for at, chunk in zip(self._starts, (*self._chunks, self._tail), strict=True):
            if at < stop and at + len(chunk) > start:
                whole = at >= start and at + len(chunk) <= stop
                yield chunk if whole else chunk[max(start - at, 0) : stop - at]

    def __len__(self) -> int:
        return self._starts[-1] + len(self._tail)

    def __iter__(self) -> Iterator[Item]:
        return chain(chain.from_iterable(self._chunks), self._tail)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            return list(self)[index]
        length = len(self)
        position = index + length if index < 0 else index
        if not 0 <= position < length:
            raise IndexError(f"index {index} is out of range for {length} items")
        if position >= self._starts[-1]:
            return self._tail[position - self._starts[-1]]
        chunk = bisect_right(self._starts, position) - 1
        return self._chunks[chunk][position - self._starts[chunk]]

    def __eq__(self, other: object) -> bool:
        """Equal to any list, tuple or SharedList of equal items."""
        if isinstance(other, SharedList | list | tuple):
            return len(self) == len(other) and list(self) == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # items are JSON, and may be unhashable

    def __repr__(self) -> str:
        return f"SharedList({list(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return SharedList, (list(self),)


def _pieces_of(items: tuple[Item, ...]) -> Iterator[tuple[Item, ...]]:
    return (items[at : at + WIDTH] for at in range(0, len(items), WIDTH))
