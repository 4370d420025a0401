"""Measured what-if: a job run for some steps under other settings, each trial a run of its own."""
