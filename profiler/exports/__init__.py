"""Hands a run on: to charts, files and other tools. Reads through RunReader, judges nothing."""
