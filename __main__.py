"""`accelprof` and `python -m accelprof`."""


def main() -> None:
    """Hands over to the command line."""
    from .profiler.commands import app

    app()


if __name__ == "__main__":
    main()
