"""Runs side by side: what changed, what it did, and whether it is more than noise."""
