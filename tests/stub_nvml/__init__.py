"""A libnvidia-ml.so.1 in C that answers from a script file (see stub.h)."""
