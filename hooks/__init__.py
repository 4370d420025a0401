"""What runs inside the job: standard library, Python 3.9+, nothing else of accelprof."""
