"""A corpus in parts: which calls each part has, and one store of the parts' stores."""
