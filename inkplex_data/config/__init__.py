"""Recipes: pydantic models of everything that changes a store's bytes."""
