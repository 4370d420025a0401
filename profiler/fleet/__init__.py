"""Over many runs: a row a run in a lake of Parquet, and the questions asked of it."""
