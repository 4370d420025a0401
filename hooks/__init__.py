"""What runs inside the job. Standard library only, Python 3.9+, imports nothing else of accelprof."""
