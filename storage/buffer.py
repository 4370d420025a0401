"""What waits to be stored: bounded, and honest about what did not fit."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, TypeAlias

ROWS_MAX = 40_000  # over all tables, while the database takes no rows: about 40 MB

Values: TypeAlias = tuple[Any, ...]


@dataclass
class Lost:
    """Rows of one table that could not be stored."""

    rows: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    reason: str = ""

    def add(self, t_ns: int | None, reason: str) -> None:
        """Counts one row, of the time `t_ns` when it has one."""
        self.rows += 1
        self.reason = reason
        if t_ns is not None:
            self.first_ns = t_ns if self.first_ns is None else min(self.first_ns, t_ns)
            self.last_ns = t_ns if self.last_ns is None else max(self.last_ns, t_ns)

    def merge(self, newer: Lost) -> None:
        """Adds what another count found."""
        starts = [t for t in (self.first_ns, newer.first_ns) if t is not None]
        ends = [t for t in (self.last_ns, newer.last_ns) if t is not None]
        self.rows += newer.rows
        self.first_ns, self.last_ns = min(starts, default=None), max(ends, default=None)
        self.reason = newer.reason or self.reason


@dataclass
class Pending:
    """Everything that one flush stores, in the order in which it stores it."""

    run: dict[str, Any] = field(default_factory=dict)
    meta: dict[str, str] = field(default_factory=dict)
    all_of: dict[str, list[Values]] = field(default_factory=dict)  # table: all its rows
    keyed: dict[str, dict[Values, Values]] = field(default_factory=dict)  # table: key: row
    rows: dict[str, deque[Values]] = field(default_factory=dict)
    lost: dict[str, Lost] = field(default_factory=dict)  # not yet told in table `gap`
    count: int = 0  # of `rows`

    def __bool__(self) -> bool:
        return bool(self.run or self.meta or self.all_of or self.keyed or self.count or self.lost)

    def append(self, table: str, rows: list[Values]) -> None:
        """Adds rows at a table's end."""
        self.rows.setdefault(table, deque()).extend(rows)
        self.count += len(rows)

    def follow(self, older: Pending) -> None:
        """Puts what could not be stored before what came since; the newer value wins."""
        self.run = older.run | self.run
        self.meta = older.meta | self.meta
        self.all_of = older.all_of | self.all_of
        for table, by_key in older.keyed.items():
            if table not in self.all_of or table in older.all_of:
                self.keyed[table] = by_key | self.keyed.get(table, {})
        for table, rows in older.rows.items():
            rows.extend(self.rows.get(table, ()))
            self.rows[table] = rows
        self.count += older.count
        for table, lost in older.lost.items():
            lost.merge(self.lost.get(table, Lost()))
            self.lost[table] = lost

    def overflow(self) -> list[tuple[str, Values]]:
        """Takes out the oldest rows of the fullest tables when there are too many."""
        out: list[tuple[str, Values]] = []
        if self.count <= ROWS_MAX:
            return out
        while self.count > ROWS_MAX * 9 // 10:
            table = max(self.rows, key=lambda name: len(self.rows[name]))
            for _ in range(max(1, len(self.rows[table]) // 8)):
                out.append((table, self.rows[table].popleft()))
                self.count -= 1
        return out
