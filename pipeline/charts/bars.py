"""Small pictures inside a row of a table: a bar of its own length, and bars by month."""

from __future__ import annotations

from collections.abc import Sequence

LEAST_PLACES = 12
"""A bar of a sparkline is never wider than one of so many."""


def bar(count: int, most: int) -> str:
    """A bar as long as its share of the largest count; the count itself is beside it in the table."""
    width = max(1.0, 100 * count / most) if count and most else 0
    return (
        '<svg class="bar" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="{_short(width)}" height="1"/></svg>'
    )


def sparkline(counts: Sequence[int], title: str) -> str:
    """A bar for each count, the largest as high as the picture. `title` has no text of an export."""
    most, wide = max(counts, default=0), ".8" if len(counts) <= 36 else "1"
    shapes = "".join(
        f"M{place} 20v-{_short(max(1.0, 20 * count / most))}h{wide}V20z" for place, count in enumerate(counts) if count
    )
    return (
        f'<svg class="spark" viewBox="0 0 {max(LEAST_PLACES, len(counts))} 20" preserveAspectRatio="none" role="img"'
        f' aria-label="{title}"><title>{title}</title><path d="{shapes}"/></svg>'
    )


def _short(number: float) -> str:
    """A coordinate with one decimal at most."""
    return f"{number:.1f}".removesuffix(".0")
