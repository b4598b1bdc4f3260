"""What a run writes down and tells while it works."""
