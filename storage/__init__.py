"""One DuckDB file a run: written by one agent, read by everybody else. Knows no other part."""
