"""One call through the stages: prepared, scanned, encoded."""
