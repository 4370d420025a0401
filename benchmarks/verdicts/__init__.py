"""Jobs and traces of known truth: the verdict of each beside it. See __main__.py."""
