"""Recorded task sessions of the reasoning model: lines, models, the ids of its vocabulary."""
