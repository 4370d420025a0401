"""The errors a user may see: one line on stderr and an exit status, never a traceback."""


class UserError(Exception):
    """Wrong use or bad input. `status` is 2, or 3 when there is nothing to report on."""

    def __init__(self, message: str, *, status: int = 2) -> None:
        super().__init__(message)
        self.status = status
