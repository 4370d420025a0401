"""What another accelerator would do for a run."""
